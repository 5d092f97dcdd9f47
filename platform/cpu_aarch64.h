/* platform/cpu_aarch64.h -- aarch64: callee-saved registers, spinning. Only for platform/cpu.c. */
#ifndef TEAI_PLATFORM_CPU_AARCH64_H
#define TEAI_PLATFORM_CPU_AARCH64_H

#include "base/config.h"

/* x19 to x29 and the low halves of v8 to v15 (AAPCS64 6.1.1 and 6.1.2): compilers do park pointers
 * in the latter. */
enum { CPU_NSAVED_WORDS = 11 + 8 };

TEAI_INLINE void cpu_save_registers(uintptr_t words[CPU_NSAVED_WORDS])
{
    __asm__ volatile("stp x19, x20, [%0]\n\t"
                     "stp x21, x22, [%0, #16]\n\t"
                     "stp x23, x24, [%0, #32]\n\t"
                     "stp x25, x26, [%0, #48]\n\t"
                     "stp x27, x28, [%0, #64]\n\t"
                     "str x29, [%0, #80]\n\t"
                     "stp d8, d9, [%0, #88]\n\t"
                     "stp d10, d11, [%0, #104]\n\t"
                     "stp d12, d13, [%0, #120]\n\t"
                     "stp d14, d15, [%0, #136]"
                     :
                     : "r"(words)
                     : "memory");
}

TEAI_INLINE uintptr_t cpu_thread_pointer(void)
{
    uintptr_t addr;
    __asm__("mrs %0, tpidr_el0" : "=r"(addr));
    return addr;
}

TEAI_INLINE void cpu_pause(void)
{
    __asm__ volatile("isb" ::: "memory"); /* `yield` does nothing on most cores */
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
