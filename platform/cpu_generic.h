/* platform/cpu_generic.h -- any other CPU: callee-saved registers by way of the compiler.
 * Only for platform/cpu.c. */
#ifndef TEAI_PLATFORM_CPU_GENERIC_H
#define TEAI_PLATFORM_CPU_GENERIC_H

#include "base/config.h"

enum { CPU_NSAVED_WORDS = 1 };

/* Makes the function this is inlined into save every call-saved register in its frame. */
TEAI_INLINE void cpu_save_registers(uintptr_t words[CPU_NSAVED_WORDS])
{
    words[0] = 0;
    __builtin_unwind_init();
}

TEAI_INLINE uintptr_t cpu_thread_pointer(void)
{
    return (uintptr_t)__builtin_thread_pointer();
}

TEAI_INLINE void cpu_pause(void)
{
    __asm__ volatile("" ::: "memory");
}

static bool cpu_has_avx2(void)
{
    return false;
}

static bool cpu_has_avx512(void)
{
    return false;
}

#endif
