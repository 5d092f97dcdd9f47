/* gc/scan_kernel.c -- choose the scan kernel this machine runs best. */
#include "gc/mark.h"

/* Under ThreadSanitizer vector accesses to shared states would be reported; the portable kernel uses atomics. */
static bool kernel_is_usable(const struct teai_scan_kernel *kernel)
{
    if (kernel == &teai_scan_kernel_portable)
        return true;
    if (!TEAI_X86_64 || TEAI_TSAN)
        return false;
    return kernel == &teai_scan_kernel_avx512 ? teai_platform_has_avx512() : teai_platform_has_avx2();
}

const struct teai_scan_kernel *teai_scan_kernel_choose(enum teai_kernel_choice choice)
{
    static const struct teai_scan_kernel *const best_first[] = {
        &teai_scan_kernel_avx512, &teai_scan_kernel_avx2, &teai_scan_kernel_portable
    };
    /* A kernel that was asked for and cannot run here gives way to the next best. */
    unsigned first = choice == TEAI_KERNEL_PORTABLE ? 2 : choice == TEAI_KERNEL_AVX2 ? 1 : 0;
    while (!kernel_is_usable(best_first[first]))
        first++;
    return best_first[first];
}
