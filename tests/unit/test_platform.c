/* tests/unit/test_platform.c -- the platform keeps what platform.h promises. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ERRNO_CANARY = 4711, MEMORY_PAGES = 16 };

/* --- memory --- */

/* MEMORY_PAGES OS pages, reserved and ready. */
static uint8_t *ready_memory(size_t *bytes_out)
{
    *bytes_out = MEMORY_PAGES * teai_platform_os_page_bytes();
    uint8_t *base = teai_platform_reserve(*bytes_out, 1);
    assert_non_null(base);
    assert_int_equal(teai_platform_commit(base, *bytes_out), 0);
    return base;
}

static bool all_zero(const uint8_t *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static bool is_readable(const void *address)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    bool readable = write(fds[1], address, 1) == 1; /* EFAULT where we may not read */
    close(fds[0]);
    close(fds[1]);
    return readable;
}

static void reserved_memory_is_aligned_and_inaccessible(void **state)
{
    (void)state;
    for (size_t align = 1; align <= (size_t)64 << 20; align *= 4) {
        size_t bytes = 3 * teai_platform_os_page_bytes();
        uint8_t *base = teai_platform_reserve(bytes, align);
        assert_non_null(base);
        assert_int_equal((uintptr_t)base % align, 0);
        assert_false(is_readable(base));
        assert_false(is_readable(base + bytes - 1));
        teai_platform_unreserve(base, bytes);
    }
}

static void reserving_keeps_nothing_beside_the_aligned_part(void **state)
{
    (void)state;
    const size_t align = (size_t)1 << 30;
    size_t bytes = teai_platform_os_page_bytes();
    uint8_t *base = teai_platform_reserve(bytes, align);
    assert_non_null(base);
    assert_int_equal(msync(base, bytes, MS_ASYNC), 0);
    assert_int_equal(msync(base + bytes, bytes, MS_ASYNC), -1); /* ENOMEM: not mapped */
    teai_platform_unreserve(base, bytes);
    assert_int_equal(msync(base, bytes, MS_ASYNC), -1);
}

static void reserving_too_much_gives_null_and_keeps_errno(void **state)
{
    (void)state;
    errno = ERRNO_CANARY;
    assert_null(teai_platform_reserve((size_t)1 << 62, 1));
    assert_null(
        teai_platform_reserve(SIZE_MAX - teai_platform_os_page_bytes() + 1, (size_t)1 << 21));
    assert_int_equal(errno, ERRNO_CANARY);
}

static void committed_memory_reads_zero_and_takes_writes(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *base = ready_memory(&bytes);
    assert_true(all_zero(base, bytes));
    memset(base, 0xa5, bytes);
    assert_int_equal(base[bytes - 1], 0xa5);
    teai_platform_unreserve(base, bytes);
}

static void committing_again_keeps_contents(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *base = ready_memory(&bytes);
    base[0] = 1;
    assert_int_equal(teai_platform_commit(base, bytes), 0);
    assert_int_equal(base[0], 1);
    teai_platform_unreserve(base, bytes);
}

static void released_memory_reads_zero(void **state)
{
    (void)state;
    size_t os_page = teai_platform_os_page_bytes(), bytes;
    uint8_t *base = ready_memory(&bytes);
    memset(base, 0xa5, bytes);
    assert_int_equal(teai_platform_release(base + os_page, os_page), 0);
    assert_int_equal(base[os_page - 1], 0xa5);
    assert_true(all_zero(base + os_page, os_page));
    assert_int_equal(base[2 * os_page], 0xa5);
    teai_platform_unreserve(base, bytes);
}

static void releasing_locked_memory_fails_and_keeps_errno(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *base = ready_memory(&bytes);
    if (syscall(SYS_mlock, base, bytes) != 0) /* sanitizers make mlock() do nothing */
        skip();
    base[0] = 1;
    errno = ERRNO_CANARY;
    assert_int_equal(teai_platform_release(base, bytes), EINVAL);
    assert_int_equal(errno, ERRNO_CANARY);
    assert_int_equal(base[0], 1);
    teai_platform_unreserve(base, bytes);
}

static void populated_memory_is_present(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *base = ready_memory(&bytes);
    errno = ERRNO_CANARY;
    int error = teai_platform_populate(base, bytes);
    assert_int_equal(errno, ERRNO_CANARY);
    if (error != 0)
        skip(); /* a kernel without MADV_POPULATE_WRITE */
    unsigned char present[MEMORY_PAGES];
    assert_int_equal(mincore(base, bytes, present), 0);
    for (int i = 0; i < MEMORY_PAGES; i++)
        assert_int_equal(present[i] & 1, 1);
    assert_true(all_zero(base, bytes));
    teai_platform_unreserve(base, bytes);
}

/* --- the machine --- */

static void machine_facts_agree_with_the_c_library(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(teai_platform_ncpus(), CPU_COUNT(&set));
    assert_int_equal(teai_platform_os_page_bytes(), sysconf(_SC_PAGESIZE));
    uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    assert_true(teai_platform_ram_bytes() >= ram / 2 && teai_platform_ram_bytes() <= ram * 2);
    assert_int_equal(teai_platform_thread_id(), getpid());
}

#if TEAI_X86_64
static void vector_extensions_agree_with_the_compilers_answer(void **state)
{
    (void)state;
    __builtin_cpu_init();
    assert_int_equal(teai_platform_has_avx2(), __builtin_cpu_supports("avx2") != 0);
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vbmi2");
    assert_int_equal(teai_platform_has_avx512(), avx512);
}
#else
static void vector_extensions_agree_with_the_compilers_answer(void **state)
{
    (void)state;
    assert_false(teai_platform_has_avx2());
    assert_false(teai_platform_has_avx512());
}
#endif

static void clocks_advance_in_nanoseconds(void **state)
{
    (void)state;
    const uint64_t least_ns = 20 * 1000 * 1000;
    uint64_t wall_ns = teai_platform_now_ns(), unix_ns = teai_platform_unix_ns();
    uint64_t thread_ns = teai_platform_thread_cpu_ns(), process_ns = teai_platform_process_cpu_ns();
    while (teai_platform_thread_cpu_ns() - thread_ns < least_ns)
        teai_platform_pause();
    assert_true(teai_platform_now_ns() - wall_ns >= least_ns / 2);
    assert_true(teai_platform_process_cpu_ns() - process_ns >= least_ns / 2);
    assert_true(teai_platform_unix_ns() >= unix_ns);
    assert_true(unix_ns / 1000000000 > 1600000000); /* September 2020 */
}

/* --- locks --- */

enum { LOCK_THREADS = 4, LOCK_ROUNDS = 20000 };

struct lock_race {
    struct teai_lock lock;
    uint64_t counter; /* not atomic: the lock must do */
};

static void *lock_race_run(void *argument)
{
    struct lock_race *race = argument;
    for (int i = 0; i < LOCK_ROUNDS; i++) {
        if (i % 4 != 0 || !teai_lock_try(&race->lock))
            teai_lock_acquire(&race->lock);
        race->counter++;
        if (i % 64 == 0)
            teai_platform_yield(); /* lets others pile up, to sleep and be woken */
        teai_lock_release(&race->lock);
    }
    return NULL;
}

static void lock_admits_one_thread_at_a_time(void **state)
{
    (void)state;
    static struct lock_race race = {TEAI_LOCK_INIT(TEAI_RANK_PAGE_HEAP), 0};
    pthread_t threads[LOCK_THREADS];
    for (int i = 0; i < LOCK_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, lock_race_run, &race), 0);
    for (int i = 0; i < LOCK_THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(race.counter, LOCK_THREADS * LOCK_ROUNDS);
    assert_int_equal(race.lock.state, 0);
}

static void try_fails_while_the_lock_is_held(void **state)
{
    (void)state;
    struct teai_lock lock = TEAI_LOCK_INIT(TEAI_RANK_ROOTS);
    assert_true(teai_lock_try(&lock));
    assert_false(teai_lock_try(&lock));
    teai_lock_assert_held(&lock);
    teai_lock_release(&lock);
    assert_true(teai_lock_try(&lock));
    teai_lock_release(&lock);
}

static void locks_may_be_taken_in_rank_order(void **state)
{
    (void)state;
    struct teai_lock world = TEAI_LOCK_INIT(TEAI_RANK_WORLD),
                     pages = TEAI_LOCK_INIT(TEAI_RANK_PAGE_HEAP);
    teai_lock_acquire(&world);
    teai_lock_acquire(&pages);
    teai_lock_release(&world);
    teai_lock_release(&pages);
    teai_lock_acquire(&world);
    teai_lock_release(&world);
}

/* Run fn in a child process with its message caught; the signal that ended it, 0 if it returned. */
static int signal_of(void (*fn)(void), char *message, size_t message_bytes)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        fn();
        _exit(0);
    }
    close(fds[1]);
    size_t length = 0;
    ssize_t n;
    while ((n = read(fds[0], message + length, message_bytes - 1 - length)) > 0)
        length += (size_t)n;
    message[length] = '\0';
    close(fds[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void take_locks_in_wrong_order(void)
{
    struct teai_lock world = TEAI_LOCK_INIT(TEAI_RANK_WORLD),
                     pages = TEAI_LOCK_INIT(TEAI_RANK_PAGE_HEAP);
    teai_lock_acquire(&pages);
    teai_lock_acquire(&world);
}

static void assert_free_lock_held(void)
{
    struct teai_lock lock = TEAI_LOCK_INIT(TEAI_RANK_WORLD);
    teai_lock_assert_held(&lock);
}

static void *hold_lock(void *lock)
{
    teai_lock_acquire(lock);
    return NULL;
}

static void assert_lock_of_another_thread_held(void)
{
    static struct teai_lock lock = TEAI_LOCK_INIT(TEAI_RANK_WORLD);
    pthread_t thread;
    pthread_create(&thread, NULL, hold_lock, &lock);
    pthread_join(thread, NULL);
    teai_lock_assert_held(&lock);
}

static void misuse_of_locks_aborts_debug_builds(void **state)
{
    (void)state;
    char message[600];
    const int debug_abort = TEAI_DEBUG ? SIGABRT : 0;
    assert_int_equal(signal_of(take_locks_in_wrong_order, message, sizeof message), debug_abort);
    assert_int_equal(signal_of(assert_lock_of_another_thread_held, message, sizeof message),
                     debug_abort);
}

static void asserting_a_free_lock_held_aborts(void **state)
{
    (void)state;
    char message[600];
    assert_int_equal(signal_of(assert_free_lock_held, message, sizeof message), SIGABRT);
    assert_non_null(strstr(message, "teaspan: fatal: "));
    assert_non_null(strstr(message, "platform/lock.c:"));
}

static void die_with_a_long_text(void)
{
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    teai_fatal("file.c", 4294967, text);
}

static void fatal_message_is_one_line_however_long_its_text(void **state)
{
    (void)state;
    char message[3000];
    assert_int_equal(signal_of(die_with_a_long_text, message, sizeof message), SIGABRT);
    static const char head[] = "teaspan: fatal: file.c:4294967: xxx";
    assert_memory_equal(message, head, sizeof head - 1);
    char *newline = strchr(message, '\n');
    assert_non_null(newline);
    assert_int_equal(newline - message, 511);
}

/* --- futex --- */

static void waiting_for_a_value_long_gone_returns_and_keeps_errno(void **state)
{
    (void)state;
    _Atomic uint32_t word = 1;
    errno = ERRNO_CANARY;
    teai_platform_futex_wait(&word, 0);
    teai_platform_futex_wake(&word, UINT32_MAX);
    assert_int_equal(errno, ERRNO_CANARY);
}

/* --- threads --- */

struct helper_report {
    char name[16];
    sigset_t mask;
    int tid;
    uintptr_t stack_bytes;
    _Atomic uint32_t done;
};

static void helper_reports(void *argument)
{
    struct helper_report *report = argument;
    uintptr_t base = 0, limit = 0;
    prctl(PR_GET_NAME, report->name, 0, 0, 0);
    pthread_sigmask(SIG_SETMASK, NULL, &report->mask);
    report->tid = teai_platform_thread_id();
    if (teai_platform_stack_bounds(&base, &limit) == 0)
        report->stack_bytes = limit - base;
    atomic_store(&report->done, 1);
    teai_platform_futex_wake(&report->done, 1);
}

static void helper_has_its_name_and_blocks_every_signal(void **state)
{
    (void)state;
    struct helper_report report = {.done = 0};
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    errno = ERRNO_CANARY;
    assert_int_equal(teai_platform_helper_start("teaspan-test", helper_reports, &report), 0);
    assert_int_equal(errno, ERRNO_CANARY);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    while (atomic_load(&report.done) == 0)
        teai_platform_futex_wait(&report.done, 0);

    assert_string_equal(report.name, "teaspan-test");
    assert_int_not_equal(report.tid, teai_platform_thread_id());
    assert_in_range(report.stack_bytes, 256 * 1024, 8 * 1024 * 1024);
    for (int signal_number = 1; signal_number < 32; signal_number++) {
        if (signal_number != SIGKILL && signal_number != SIGSTOP)
            assert_true(sigismember(&report.mask, signal_number));
        assert_int_equal(sigismember(&before, signal_number), sigismember(&after, signal_number));
    }
}

static void *own_stack_contains_a_local(void *unused)
{
    (void)unused;
    int local = 0;
    uintptr_t base = 1, limit = 0, here = (uintptr_t)&local;
    bool good = teai_platform_stack_bounds(&base, &limit) == 0 && base < here && here < limit;
    return good ? (void *)1 : NULL;
}

static void stack_bounds_contain_the_frame_of_any_thread(void **state)
{
    (void)state;
    errno = ERRNO_CANARY;
    assert_non_null(own_stack_contains_a_local(NULL));
    assert_int_equal(errno, ERRNO_CANARY);
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, own_stack_contains_a_local, NULL), 0);
    pthread_join(thread, &result);
    assert_non_null(result);
}

static void stack_limit_of_the_main_thread_is_above_the_environment(void **state)
{
    (void)state;
    extern char **environ;
    uintptr_t base, limit;
    assert_int_equal(teai_platform_stack_bounds(&base, &limit), 0);
    if ((uintptr_t)environ > base && (uintptr_t)environ < limit + ((uintptr_t)1 << 20))
        assert_true((uintptr_t)environ < limit);
}

/* --- registers --- */

typedef void (*spill_fn)(void (*fn)(uintptr_t, void *), void *argument);
/* Calls spill(fn, argument) while one callee-saved register, and nothing else, holds ~*hidden. */
typedef void (*with_value_fn)(const uintptr_t *hidden, spill_fn spill,
                              void (*fn)(uintptr_t, void *), void *argument);

/* clang-format off: assembly, an instruction or two a line. */
#if TEAI_X86_64
#define CALL_WITH_VALUE_IN(reg)                                                                    \
    void call_with_##reg(const uintptr_t *, spill_fn, void (*)(uintptr_t, void *), void *);        \
    __asm__(".text\n.globl call_with_" #reg "\ncall_with_" #reg ":\n\t"                            \
            "push %" #reg "\n\t"                                                                   \
            "mov (%rdi), %" #reg "\n\tnot %" #reg "\n\t"                                           \
            "mov %rsi, %rax\n\tmov %rdx, %rdi\n\tmov %rcx, %rsi\n\tcall *%rax\n\t"                 \
            "pop %" #reg "\n\tret\n");
#define EACH_SAVED_REGISTER(X) X(rbx) X(rbp) X(r12) X(r13) X(r14) X(r15)
#elif TEAI_AARCH64
#define CALL_WITH_VALUE_IN(reg)                                                                    \
    void call_with_##reg(const uintptr_t *, spill_fn, void (*)(uintptr_t, void *), void *);        \
    __asm__(".text\n.globl call_with_" #reg "\ncall_with_" #reg ":\n\t"                            \
            "stp x29, x30, [sp, #-32]!\n\tstr " #reg ", [sp, #16]\n\t"                             \
            "ldr x9, [x0]\n\tmvn x9, x9\n\tstr x9, [sp, #24]\n\tldr " #reg ", [sp, #24]\n\t"       \
            "mov x9, #0\n\tstr x9, [sp, #24]\n\t"                                                  \
            "mov x4, x1\n\tmov x0, x2\n\tmov x1, x3\n\tblr x4\n\t"                                 \
            "ldr " #reg ", [sp, #16]\n\tldp x29, x30, [sp], #32\n\tret\n");
#define EACH_SAVED_REGISTER(X)                                                                     \
    X(x19)                                                                                         \
    X(x20) X(x21) X(x22) X(x23) X(x24) X(x25) X(x26) X(x27) X(x28) X(x29) X(d8) X(d9) X(d10)       \
        X(d11) X(d12) X(d13) X(d14) X(d15)
#else
#define CALL_WITH_VALUE_IN(reg)
#define EACH_SAVED_REGISTER(X)
#endif
/* clang-format on */

EACH_SAVED_REGISTER(CALL_WITH_VALUE_IN)

struct saved_register {
    const char *name;
    with_value_fn call_with_value;
};

#define REGISTER_ROW(reg) {#reg, call_with_##reg},
static const struct saved_register saved_registers[] = {
    EACH_SAVED_REGISTER(REGISTER_ROW){NULL, NULL}};

struct register_search {
    uintptr_t hidden;
    uintptr_t limit_addr;
    bool found;
};

static TEAI_NO_SANITIZE void search_stack(uintptr_t sp_addr, void *argument)
{
    struct register_search *search = argument;
    /* volatile: so that the compiler does not keep the bare value anywhere. */
    const volatile uintptr_t *hidden = &search->hidden;
    for (const uintptr_t *word = (const uintptr_t *)sp_addr; (uintptr_t)word < search->limit_addr;
         word++)
        if (~*word == *hidden)
            search->found = true;
}

static void every_saved_register_is_found_on_the_stack(void **state)
{
    (void)state;
    struct register_search search = {UINT64_C(0x5eed000000000000), 0, false};
    uintptr_t base;
    assert_int_equal(teai_platform_stack_bounds(&base, &search.limit_addr), 0);
    for (const struct saved_register *r = saved_registers; r->name != NULL; r++) {
        search.hidden++;
        teai_platform_with_registers(search_stack, &search);
        assert_false(
            search.found); /* else the value lay around already and the test means nothing */
        r->call_with_value(&search.hidden, teai_platform_with_registers, search_stack, &search);
        if (!search.found)
            fail_msg("%s was not saved", r->name);
        search.found = false;
    }
}

static void compare_with_own_frame(uintptr_t sp_addr, void *caller_frame)
{
    assert_true(sp_addr < (uintptr_t)caller_frame);
    assert_true(sp_addr > (uintptr_t)__builtin_frame_address(0));
    assert_int_equal(sp_addr % sizeof(uintptr_t), 0);
}

static void scan_starts_between_caller_and_callee(void **state)
{
    (void)state;
    teai_platform_with_registers(compare_with_own_frame, __builtin_frame_address(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserved_memory_is_aligned_and_inaccessible),
        cmocka_unit_test(reserving_keeps_nothing_beside_the_aligned_part),
        cmocka_unit_test(reserving_too_much_gives_null_and_keeps_errno),
        cmocka_unit_test(committed_memory_reads_zero_and_takes_writes),
        cmocka_unit_test(committing_again_keeps_contents),
        cmocka_unit_test(released_memory_reads_zero),
        cmocka_unit_test(releasing_locked_memory_fails_and_keeps_errno),
        cmocka_unit_test(populated_memory_is_present),
        cmocka_unit_test(machine_facts_agree_with_the_c_library),
        cmocka_unit_test(vector_extensions_agree_with_the_compilers_answer),
        cmocka_unit_test(clocks_advance_in_nanoseconds),
        cmocka_unit_test(lock_admits_one_thread_at_a_time),
        cmocka_unit_test(try_fails_while_the_lock_is_held),
        cmocka_unit_test(locks_may_be_taken_in_rank_order),
        cmocka_unit_test(misuse_of_locks_aborts_debug_builds),
        cmocka_unit_test(asserting_a_free_lock_held_aborts),
        cmocka_unit_test(fatal_message_is_one_line_however_long_its_text),
        cmocka_unit_test(waiting_for_a_value_long_gone_returns_and_keeps_errno),
        cmocka_unit_test(helper_has_its_name_and_blocks_every_signal),
        cmocka_unit_test(stack_bounds_contain_the_frame_of_any_thread),
        cmocka_unit_test(stack_limit_of_the_main_thread_is_above_the_environment),
        cmocka_unit_test(every_saved_register_is_found_on_the_stack),
        cmocka_unit_test(scan_starts_between_caller_and_callee),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
