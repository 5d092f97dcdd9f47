/* tests/bugs/test_b31_alternate_stack.c -- B31: handlers that run on an alternate signal stack, ours included.
 *
 * A plug-in has all handlers run on the alternate stack; the stop handler then records that stack's pointer, and sizes
 * underflow. (Report: Unity-Technologies/bdwgc PR 26.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OBJECT_BYTES = 64, ALTERNATE_BYTES = 64 << 10, NCOLLECTIONS = 20 };

static _Atomic uint32_t holding, may_end;
static uintptr_t own_hidden, alternate_hidden;

static void use_alternate_stack(void)
{
    stack_t stack = {.ss_size = ALTERNATE_BYTES};
    stack.ss_sp = mmap(NULL, ALTERNATE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TEST_REQUIRE(stack.ss_sp != MAP_FAILED && sigaltstack(&stack, NULL) == 0);
}

/* What such a plug-in does, by system call so that we do not see it. */
static void move_all_handlers(void)
{
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action;
    TEST_REQUIRE(syscall(SYS_rt_sigaction, SIGURG, NULL, &action, sizeof action.mask) == 0);
    action.flags |= SA_ONSTACK;
    TEST_REQUIRE(syscall(SYS_rt_sigaction, SIGURG, &action, NULL, sizeof action.mask) == 0);
}

static TEAI_NOINLINE void spin_until_released(void)
{
    atomic_store(&holding, 1);
    while (atomic_load(&may_end) == 0)
        sched_yield();
}

static void *hold_on_own_stack(void *argument)
{
    use_alternate_stack();
    void *volatile object = test_reveal(test_object_new(OBJECT_BYTES));
    own_hidden = test_hide(object);
    test_scrub();
    spin_until_released();
    TEST_REQUIRE(object == test_reveal(own_hidden));
    return argument;
}

static void hold_on_alternate_stack(int number)
{
    (void)number;
    void *volatile object = test_reveal(alternate_hidden);
    alternate_hidden = test_hide(object);
    spin_until_released();
    TEST_REQUIRE(object == test_reveal(alternate_hidden));
}

/* The handler's own object comes from outside it: a handler may not allocate. */
static void make_object(void *hidden)
{
    *(uintptr_t *)hidden = test_object_new(OBJECT_BYTES);
}

static void *hold_on_both(void *argument)
{
    struct sigaction action = {.sa_handler = hold_on_alternate_stack, .sa_flags = SA_ONSTACK};
    use_alternate_stack();
    TEST_REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
    void *volatile object = test_reveal(test_object_new(OBJECT_BYTES));
    own_hidden = test_hide(object);
    test_apart(make_object, &alternate_hidden);
    test_scrub();
    raise(SIGUSR1);
    TEST_REQUIRE(object == test_reveal(own_hidden));
    return argument;
}

static void collect_while_held(void)
{
    while (atomic_load(&holding) == 0)
        sched_yield();
    for (int i = 0; i < NCOLLECTIONS; i++) {
        test_churn(OBJECT_BYTES, 200);
        test_collect();
    }
}

static void our_handler_on_an_alternate_stack(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer's handler is the one that is installed");
    pthread_t thread;
    tea_thread_attach();
    move_all_handlers();
    assert_int_equal(pthread_create(&thread, NULL, hold_on_own_stack, NULL), 0);
    collect_while_held();
    assert_true(test_object_is_intact(own_hidden, OBJECT_BYTES));
    atomic_store(&may_end, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_long_handler_on_an_alternate_stack(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer holds a signal back while a handler runs");
    pthread_t thread;
    tea_thread_attach();
    assert_int_equal(pthread_create(&thread, NULL, hold_on_both, NULL), 0);
    collect_while_held();
    assert_true(test_object_is_intact(own_hidden, OBJECT_BYTES));
    assert_true(test_object_is_intact(alternate_hidden, OBJECT_BYTES));
    atomic_store(&may_end, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *collect_main(void *argument)
{
    collect_while_held();
    TEST_REQUIRE(test_object_is_intact(own_hidden, OBJECT_BYTES));
    TEST_REQUIRE(test_object_is_intact(alternate_hidden, OBJECT_BYTES));
    atomic_store(&may_end, 1);
    return argument;
}

/* The initial thread's stack is mapped only as far as it has grown. */
static void a_long_handler_of_the_initial_thread(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer holds a signal back while a handler runs");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, collect_main, NULL), 0);
    hold_on_both(NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static uint32_t cycles_of_churn(void)
{
    uint32_t before = tea_gc_count();
    test_churn(1024, 100000);
    return tea_gc_count() - before;
}

static void *idle(void *argument)
{
    use_alternate_stack();
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    spin_until_released();
    return argument;
}

static void pacing_is_the_same(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, idle, NULL), 0);
    while (atomic_load(&holding) == 0)
        sched_yield();
    uint32_t plain = cycles_of_churn();
    if (!TEAI_TSAN)
        move_all_handlers();
    uint32_t moved = cycles_of_churn();
    assert_true(plain > 2);
    assert_in_range(moved, plain - 1, plain + 1);
    atomic_store(&may_end, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(our_handler_on_an_alternate_stack),
        heap_test(a_long_handler_on_an_alternate_stack),
        heap_test(a_long_handler_of_the_initial_thread),
        heap_test(pacing_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
