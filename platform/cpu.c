/* platform/cpu.c -- what depends on the CPU alone: registers, spinning, vector extensions.
 *
 * Saving registers. A callee-saved register may hold the only reference to an object, so a thread
 * that is about to have its stack scanned first stores them there. setjmp() does not do: C
 * libraries mangle what they store. Values that the compiler moved out of the way in
 * teai_platform_with_registers() itself lie in its frame; cpu_call_below() takes the address of a
 * frame below that one, so both are covered.
 */
#include "platform/platform.h"

#if TEAI_X86_64
#include "platform/cpu_x86_64.h"
#elif TEAI_AARCH64
#include "platform/cpu_aarch64.h"
#else
#include "platform/cpu_generic.h"
#endif

/* Anything after a call keeps it from becoming a jump that gives up the caller's frame first. */
TEAI_INLINE void cpu_keep_frame(const uintptr_t *words)
{
    __asm__ volatile("" : : "r"(words) : "memory");
}

static TEAI_NOINLINE TEAI_NO_SANITIZE void cpu_call_below(void (*fn)(uintptr_t, void *),
                                                          void *argument)
{
    fn((uintptr_t)__builtin_frame_address(0), argument);
    cpu_keep_frame(NULL);
}

/* Not sanitized: ASan may move arrays to a stack of its own, where no scan finds them. */
TEAI_NOINLINE TEAI_NO_SANITIZE void
teai_platform_with_registers(void (*fn)(uintptr_t sp_addr, void *argument), void *argument)
{
    uintptr_t words[CPU_NSAVED_WORDS];
    cpu_save_registers(words);
    cpu_call_below(fn, argument);
    cpu_keep_frame(words);
}

bool teai_platform_has_avx2(void)
{
    return cpu_has_avx2();
}

bool teai_platform_has_avx512(void)
{
    return cpu_has_avx512();
}

uintptr_t teai_platform_thread_pointer(void)
{
    return cpu_thread_pointer();
}

void teai_platform_pause(void)
{
    cpu_pause();
}
