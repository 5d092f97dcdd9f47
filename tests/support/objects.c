/* tests/support/objects.c -- objects that tell whether they have survived, and that nothing but a hidden address knows. */
#include "tests/support/objects.h"

#include <string.h>

/* Arguments, results and scratch registers; vector registers may hold copies made by memcpy(). */
static TEAI_NOINLINE void scrub_registers(void)
{
#if defined(__x86_64__)
    __asm__ volatile("xorl %%eax, %%eax\n\txorl %%ecx, %%ecx\n\txorl %%edx, %%edx\n\t"
                     "xorl %%esi, %%esi\n\txorl %%edi, %%edi\n\txorl %%r8d, %%r8d\n\t"
                     "xorl %%r9d, %%r9d\n\txorl %%r10d, %%r10d\n\txorl %%r11d, %%r11d\n\t"
                     "pxor %%xmm0, %%xmm0\n\tpxor %%xmm1, %%xmm1\n\tpxor %%xmm2, %%xmm2\n\t"
                     "pxor %%xmm3, %%xmm3\n\tpxor %%xmm4, %%xmm4\n\tpxor %%xmm5, %%xmm5\n\t"
                     "pxor %%xmm6, %%xmm6\n\tpxor %%xmm7, %%xmm7"
                     :
                     :
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc");
#elif defined(__aarch64__)
    __asm__ volatile(
        "mov x0, xzr\n\tmov x1, xzr\n\tmov x2, xzr\n\tmov x3, xzr\n\tmov x4, xzr\n\t"
        "mov x5, xzr\n\tmov x6, xzr\n\tmov x7, xzr\n\tmov x8, xzr\n\tmov x9, xzr\n\t"
        "mov x10, xzr\n\tmov x11, xzr\n\tmov x12, xzr\n\tmov x13, xzr\n\tmov x14, xzr\n\t"
        "mov x15, xzr\n\tmov x16, xzr\n\tmov x17, xzr"
        :
        :
        : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
          "x14", "x15", "x16", "x17");
#endif
}

TEAI_NOINLINE void test_scrub(void)
{
    test_scrub_stack();
    scrub_registers();
}

TEAI_NOINLINE void test_collect(void)
{
    test_scrub();
    tea_collect();
    test_scrub();
}

/* Words that are no addresses, and differ from object to object. */
static uintptr_t pattern_word(const void *object, size_t i)
{
    return test_hide(object) - i * 8;
}

void test_object_fill(void *object, size_t size_bytes)
{
    uintptr_t *words = object;
    for (size_t i = 0; i < size_bytes / sizeof *words; i++)
        words[i] = pattern_word(object, i);
}

TEAI_NOINLINE uintptr_t test_object_new(size_t size_bytes)
{
    void *object = tea_alloc(size_bytes);
    TEST_REQUIRE(object != NULL);
    test_object_fill(object, size_bytes);
    return test_hide(object);
}

static TEAI_NOINLINE bool object_is_intact(uintptr_t hidden, size_t size_bytes)
{
    const uintptr_t *words = test_reveal(hidden);
    if (tea_base(words) != words)
        return false;
    for (size_t i = 0; i < size_bytes / sizeof *words; i++)
        if (words[i] != pattern_word(words, i))
            return false;
    return true;
}

bool test_object_is_intact(uintptr_t hidden, size_t size_bytes)
{
    bool intact = object_is_intact(hidden, size_bytes);
    test_scrub();
    return intact;
}

TEAI_NOINLINE void test_churn(size_t size_bytes, unsigned nobjects)
{
    for (unsigned i = 0; i < nobjects; i++) {
        void *object = tea_alloc(size_bytes);
        TEST_REQUIRE(object != NULL);
        memset(object, 0xff, size_bytes);
    }
}
