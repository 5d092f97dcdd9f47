/* platform/cpu_x86_64.h -- x86-64: callee-saved registers, spinning, vector extensions.
 * Only for platform/cpu.c. */
#ifndef TEAI_PLATFORM_CPU_X86_64_H
#define TEAI_PLATFORM_CPU_X86_64_H

#include "base/config.h"

#include <cpuid.h>

/* rbx, rbp, r12 to r15: System V ABI, "preserved across function calls". No vector register is. */
enum { CPU_NSAVED_WORDS = 6 };

TEAI_INLINE void cpu_save_registers(uintptr_t words[CPU_NSAVED_WORDS])
{
    __asm__ volatile("movq %%rbx, 0(%0)\n\t"
                     "movq %%rbp, 8(%0)\n\t"
                     "movq %%r12, 16(%0)\n\t"
                     "movq %%r13, 24(%0)\n\t"
                     "movq %%r14, 32(%0)\n\t"
                     "movq %%r15, 40(%0)"
                     :
                     : "r"(words)
                     : "memory");
}

/* The word at the thread pointer holds its address: ELF Handling For Thread-Local Storage, variant II. */
TEAI_INLINE uintptr_t cpu_thread_pointer(void)
{
    uintptr_t addr;
    __asm__("movq %%fs:0, %0" : "=r"(addr));
    return addr;
}

TEAI_INLINE void cpu_pause(void)
{
    __builtin_ia32_pause();
}

/* Which parts of the register file the kernel saves: XCR0; 0 if it cannot be asked for. */
static uint64_t cpu_saved_state(void)
{
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & bit_OSXSAVE) == 0)
        return 0;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Intel SDM volume 1, 13.1: SSE 1, AVX 2, opmask 5, upper halves of zmm0-15 6, zmm16-31 7. */
enum { CPU_STATE_AVX = 0x6, CPU_STATE_AVX512 = 0xe6 };

/* The kernels' bit tricks: every CPU with AVX2 that was ever sold has them, but a hypervisor may hide them. */
static bool cpu_has_bit_counts(unsigned leaf7_ebx)
{
    const unsigned need_ebx = bit_BMI | bit_BMI2;
    unsigned eax, ebx, ecx, edx;
    return (leaf7_ebx & need_ebx) == need_ebx && __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_POPCNT) != 0;
}

static bool cpu_has_avx2(void)
{
    unsigned eax, ebx, ecx, edx;
    return (cpu_saved_state() & CPU_STATE_AVX) == CPU_STATE_AVX &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & bit_AVX2) != 0 && cpu_has_bit_counts(ebx);
}

static bool cpu_has_avx512(void)
{
    const unsigned need_ebx = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned eax, ebx, ecx, edx;
    return (cpu_saved_state() & CPU_STATE_AVX512) == CPU_STATE_AVX512 &&
           __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & need_ebx) == need_ebx &&
           (ecx & bit_AVX512VBMI2) != 0 && cpu_has_bit_counts(ebx);
}

#endif
