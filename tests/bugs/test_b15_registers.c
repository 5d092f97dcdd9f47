/* tests/bugs/test_b15_registers.c -- B15: a pointer that is in one register and nowhere else keeps its object alive.
 *
 * Collectors that spill registers with setjmp() miss the frame pointer, which the C library scrambles, or a register
 * that the helper itself has overwritten. (Reports: nim-lang/Nim #10625, Ravenbrook/mps #183, HaxeFoundation/hashlink
 * #359.)
 *
 * Routines in assembly take the masked address, unmask it in the register under test, clear the other general registers
 * and then either call the collector or spin until another thread has collected. With a mask of 0 the register holds no
 * pointer: the object must then be dead, which shows that nothing else kept it.
 */
#include "tests/support/objects.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { OBJECT_BYTES = 64 };

#if TEAI_X86_64

/* --- registers that a call must preserve, while the thread itself collects --- */

/* fn(masked address, mask, function to call). 8 bytes more on the stack keep it aligned to 16 at the call. */
#define HOLD_WHILE_CALLING(reg)                                                                    \
    void hold_##reg(uintptr_t masked_addr, uintptr_t mask, void (*fn)(void));                      \
    __asm__(".text\n.p2align 4\n.type hold_" #reg ", @function\nhold_" #reg ":\n\t"                \
            "pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t" \
            "subq $8, %rsp\n\t"                                                                    \
            "xorl %ebx, %ebx\n\txorl %ebp, %ebp\n\txorl %r12d, %r12d\n\t"                          \
            "xorl %r13d, %r13d\n\txorl %r14d, %r14d\n\txorl %r15d, %r15d\n\t"                      \
            "movq %rdi, %" #reg "\n\txorq %rsi, %" #reg "\n\t"                                     \
            "xorl %edi, %edi\n\txorl %esi, %esi\n\t"                                               \
            "callq *%rdx\n\t"                                                                      \
            "addq $8, %rsp\n\t"                                                                    \
            "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\t"       \
            "retq\n.size hold_" #reg ", . - hold_" #reg "\n")

HOLD_WHILE_CALLING(rbx);
HOLD_WHILE_CALLING(rbp);
HOLD_WHILE_CALLING(r12);
HOLD_WHILE_CALLING(r13);
HOLD_WHILE_CALLING(r14);
HOLD_WHILE_CALLING(r15);

/* --- any register, while another thread collects --- */

_Atomic uint32_t spin_holds; /* the register holds the pointer */
_Atomic uint32_t spin_may_end;

#define SPIN_BEGIN(name)                                                                           \
    void spin_##name(uintptr_t masked_addr, uintptr_t mask);                                       \
    __asm__(".text\n.p2align 4\n.type spin_" #name ", @function\nspin_" #name ":\n\t"              \
            "pushq %rbx\n\tpushq %rbp\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"

/* Register moves that leave the pointer where it is to be. Only memory operands from here on. */
#define SPIN_END(name)                                                                             \
    "movl $1, spin_holds(%rip)\n\t"                                                                \
    "1: pause\n\tcmpl $0, spin_may_end(%rip)\n\tje 1b\n\t"                                         \
    "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbp\n\tpopq %rbx\n\t"               \
    "retq\n.size spin_" #name ", . - spin_" #name "\n")

#define CLEAR_ALL                                                                                  \
    "xorl %eax, %eax\n\txorl %ebx, %ebx\n\txorl %ecx, %ecx\n\txorl %edx, %edx\n\t"                 \
    "xorl %ebp, %ebp\n\txorl %r8d, %r8d\n\txorl %r9d, %r9d\n\txorl %r10d, %r10d\n\t"               \
    "xorl %r11d, %r11d\n\txorl %r12d, %r12d\n\txorl %r13d, %r13d\n\txorl %r14d, %r14d\n\t"         \
    "xorl %r15d, %r15d\n\t"
#define CLEAR_ARGUMENTS "xorl %edi, %edi\n\txorl %esi, %esi\n\t"

#define SPIN_WITH(reg)                                                                             \
    SPIN_BEGIN(reg)                                                                                \
    CLEAR_ALL "movq %rdi, %" #reg "\n\txorq %rsi, %" #reg "\n\t" CLEAR_ARGUMENTS SPIN_END(reg)

SPIN_WITH(rax);
SPIN_WITH(rbx);
SPIN_WITH(rcx);
SPIN_WITH(rdx);
SPIN_WITH(rbp);
SPIN_WITH(r8);
SPIN_WITH(r9);
SPIN_WITH(r10);
SPIN_WITH(r11);
SPIN_WITH(r12);
SPIN_WITH(r13);
SPIN_WITH(r14);
SPIN_WITH(r15);
SPIN_BEGIN(rdi) CLEAR_ALL "xorq %rsi, %rdi\n\txorl %esi, %esi\n\t" SPIN_END(rdi);
SPIN_BEGIN(rsi) CLEAR_ALL "xorq %rdi, %rsi\n\txorl %edi, %edi\n\t" SPIN_END(rsi);

#define UNMASK_RAX CLEAR_ALL "movq %rdi, %rax\n\txorq %rsi, %rax\n\t" CLEAR_ARGUMENTS

SPIN_BEGIN(xmm7) UNMASK_RAX "movq %rax, %xmm7\n\txorl %eax, %eax\n\t" SPIN_END(xmm7);
/* The upper half of a 256-bit register. */
SPIN_BEGIN(ymm9)
UNMASK_RAX "vmovq %rax, %xmm9\n\txorl %eax, %eax\n\t"
           "vperm2f128 $0x08, %ymm9, %ymm9, %ymm9\n\t" SPIN_END(ymm9);
/* The upper half of a 512-bit register that AVX2 has, and one that only AVX-512 has. */
SPIN_BEGIN(zmm10)
UNMASK_RAX "vmovq %rax, %xmm10\n\txorl %eax, %eax\n\t"
           "valignq $2, %zmm10, %zmm10, %zmm10\n\tvpxor %xmm11, %xmm11, %xmm11\n\t" SPIN_END(zmm10);
SPIN_BEGIN(zmm20) UNMASK_RAX "vmovq %rax, %xmm20\n\txorl %eax, %eax\n\t" SPIN_END(zmm20);

static bool cpu_has_avx(void)
{
    return __builtin_cpu_supports("avx");
}

static bool cpu_has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

static const struct held_register {
    const char *name;
    void (*hold)(uintptr_t masked_addr, uintptr_t mask,
                 void (*fn)(void)); /* NULL: a call need not preserve it */
    void (*spin)(uintptr_t masked_addr, uintptr_t mask);
    bool (*exists)(void); /* NULL: always */
} held_registers[] = {
    {"rax", NULL, spin_rax, NULL},
    {"rbx", hold_rbx, spin_rbx, NULL},
    {"rcx", NULL, spin_rcx, NULL},
    {"rdx", NULL, spin_rdx, NULL},
    {"rsi", NULL, spin_rsi, NULL},
    {"rdi", NULL, spin_rdi, NULL},
    {"rbp", hold_rbp, spin_rbp, NULL},
    {"r8", NULL, spin_r8, NULL},
    {"r9", NULL, spin_r9, NULL},
    {"r10", NULL, spin_r10, NULL},
    {"r11", NULL, spin_r11, NULL},
    {"r12", hold_r12, spin_r12, NULL},
    {"r13", hold_r13, spin_r13, NULL},
    {"r14", hold_r14, spin_r14, NULL},
    {"r15", hold_r15, spin_r15, NULL},
    {"xmm7", NULL, spin_xmm7, NULL},
    {"ymm9, upper half", NULL, spin_ymm9, cpu_has_avx},
    {"zmm10, upper half", NULL, spin_zmm10, cpu_has_avx512},
    {"zmm20", NULL, spin_zmm20, cpu_has_avx512},
};
enum { NREGISTERS = sizeof held_registers / sizeof held_registers[0] };

enum { MASK_NOTHING = 0 };
static const uintptr_t unmask =
    ~(uintptr_t)0; /* what test_hide() does, undone by an exclusive or */

/* The object that only one register holds, or nothing does if `mask` is 0: whether it survives the thread's own call. */
static TEAI_NOINLINE bool survives_own_collection(const struct held_register *reg, uintptr_t mask)
{
    uintptr_t hidden = test_object_new(OBJECT_BYTES);
    test_scrub();
    reg->hold(hidden, mask, tea_collect);
    test_scrub();
    return test_object_is_intact(hidden, OBJECT_BYTES);
}

static void callee_saved_registers_are_roots_of_the_collecting_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < NREGISTERS; i++) {
        const struct held_register *reg = &held_registers[i];
        if (reg->hold == NULL)
            continue;
        if (!survives_own_collection(reg, unmask))
            fail_msg("the object held by %s was freed", reg->name);
        if (survives_own_collection(reg, MASK_NOTHING))
            fail_msg("the object that %s no longer held was kept", reg->name);
    }
}

/* --- the spinning thread --- */

struct spinner {
    const struct held_register *reg;
    uintptr_t hidden, mask;
};

static void *spinner_main(void *argument)
{
    struct spinner *spinner = argument;
    spinner->hidden = test_object_new(OBJECT_BYTES); /* and a mutator from here on */
    test_scrub();
    spinner->reg->spin(spinner->hidden, spinner->mask);
    return NULL;
}

static bool survives_others_collection(const struct held_register *reg, uintptr_t mask)
{
    struct spinner spinner = {.reg = reg, .mask = mask};
    atomic_store(&spin_holds, 0);
    atomic_store(&spin_may_end, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, spinner_main, &spinner), 0);
    while (atomic_load(&spin_holds) == 0)
        sched_yield();
    test_collect();
    bool intact = test_object_is_intact(spinner.hidden, OBJECT_BYTES);
    atomic_store(&spin_may_end, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return intact;
}

static void all_registers_are_roots_of_a_thread_stopped_by_another(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer holds a signal back while a thread runs its own code only");
    for (size_t i = 0; i < NREGISTERS; i++) {
        const struct held_register *reg = &held_registers[i];
        if (reg->exists != NULL && !reg->exists())
            continue;
        if (!survives_others_collection(reg, unmask))
            fail_msg("the object held by %s was freed", reg->name);
        if (survives_others_collection(reg, MASK_NOTHING))
            fail_msg("the object that %s no longer held was kept", reg->name);
    }
}

#else

static void callee_saved_registers_are_roots_of_the_collecting_thread(void **state)
{
    (void)state;
    heap_test_skip("the routines are written for x86-64 only");
}

static void all_registers_are_roots_of_a_thread_stopped_by_another(void **state)
{
    (void)state;
    heap_test_skip("the routines are written for x86-64 only");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(callee_saved_registers_are_roots_of_the_collecting_thread),
        heap_test(all_registers_are_roots_of_a_thread_stopped_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
