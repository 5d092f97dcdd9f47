/* tests/bugs/test_b01_thread_locals.c -- B01: thread-local variables are roots, those of the initial thread too.
 *
 * Collectors that know stacks only free what a thread-local variable refers to while the thread still uses it. (Reports:
 * nim-lang/Nim #14364, bdwgc/bdwgc #191.)
 */
#include "tests/support/objects.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { OBJECT_BYTES = 64, NLOCALS = 4, NWORKERS = 4, NCOLLECTIONS = 20 };

/* Never read but by the collector: hence volatile. */
static _Thread_local void *volatile initialised_local = (void *)1; /* in .tdata */
static _Thread_local void *volatile zeroed_locals[NLOCALS - 1];            /* in .tbss */

static TEAI_NOINLINE void fill_locals(uintptr_t hidden[NLOCALS])
{
    for (size_t i = 0; i < NLOCALS; i++)
        hidden[i] = test_object_new(OBJECT_BYTES);
    initialised_local = test_reveal(hidden[0]);
    for (size_t i = 1; i < NLOCALS; i++)
        zeroed_locals[i - 1] = test_reveal(hidden[i]);
}

static void clear_locals(void)
{
    initialised_local = NULL;
    for (size_t i = 1; i < NLOCALS; i++)
        zeroed_locals[i - 1] = NULL;
}

static unsigned count_intact(const uintptr_t hidden[NLOCALS])
{
    unsigned n = 0;
    for (size_t i = 0; i < NLOCALS; i++)
        n += test_object_is_intact(hidden[i], OBJECT_BYTES);
    return n;
}

static void churn_and_collect(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < NCOLLECTIONS; i++) {
        test_churn(OBJECT_BYTES, 1000);
        test_collect();
    }
}

static void thread_locals_of_main_are_roots_when_main_collects(void **state)
{
    (void)state;
    uintptr_t hidden[NLOCALS];
    fill_locals(hidden);
    churn_and_collect(NULL);
    assert_int_equal(count_intact(hidden), NLOCALS);
    clear_locals();
    test_collect();
    assert_int_equal(count_intact(hidden), 0);
}

/* Main has run no collection of its own before. */
static void thread_locals_of_main_are_roots_when_another_thread_collects(void **state)
{
    (void)state;
    uintptr_t hidden[NLOCALS];
    fill_locals(hidden);
    test_scrub();
    test_apart(churn_and_collect, NULL);
    assert_int_equal(count_intact(hidden), NLOCALS);
    clear_locals();
    test_apart(churn_and_collect, NULL);
    assert_int_equal(count_intact(hidden), 0);
}

/* --- workers --- */

struct worker {
    pthread_t thread;
    uintptr_t hidden[NLOCALS];
};

static _Atomic uint32_t nready, may_end;

static void *worker_main(void *argument)
{
    struct worker *worker = argument;
    fill_locals(worker->hidden);
    test_scrub();
    atomic_fetch_add(&nready, 1);
    while (atomic_load(&may_end) == 0)
        sched_yield();
    return NULL;
}

static unsigned count_intact_of_workers(const struct worker *workers)
{
    unsigned n = 0;
    for (size_t i = 0; i < NWORKERS; i++)
        n += count_intact(workers[i].hidden);
    return n;
}

static void thread_locals_of_workers_are_roots_until_they_end(void **state)
{
    (void)state;
    struct worker workers[NWORKERS];
    for (size_t i = 0; i < NWORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]), 0);
    while (atomic_load(&nready) != NWORKERS)
        sched_yield();
    churn_and_collect(NULL);
    assert_int_equal(count_intact_of_workers(workers), NWORKERS * NLOCALS);
    atomic_store(&may_end, 1);
    for (size_t i = 0; i < NWORKERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    churn_and_collect(NULL);
    assert_int_equal(count_intact_of_workers(workers), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(thread_locals_of_main_are_roots_when_main_collects),
        heap_test(thread_locals_of_main_are_roots_when_another_thread_collects),
        heap_test(thread_locals_of_workers_are_roots_until_they_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
