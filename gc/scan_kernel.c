/* gc/scan_kernel.c -- choose the scan kernel this machine runs best. */
#include "gc/mark.h"

/* Under ThreadSanitizer vector accesses to shared states would be reported; the portable kernel uses atomics. */
static bool kernel_avx512_is_usable(void)
{
    return TEAI_X86_64 && !TEAI_TSAN && teai_platform_has_avx512();
}

const struct teai_scan_kernel *teai_scan_kernel_choose(enum teai_kernel_choice choice)
{
    if (choice != TEAI_KERNEL_PORTABLE && kernel_avx512_is_usable())
        return &teai_scan_kernel_avx512;
    return &teai_scan_kernel_portable;
}
