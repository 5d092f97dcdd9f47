/* tests/stress/test_fork.c -- fork() at awkward moments: by several threads at once, while the collector starts, with handlers
 * that allocate, without handlers.
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"
#include "tests/support/tsan_fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OBJECT_BYTES = 48,
    CHILD_WATCHDOG_S = 60,
    NTHREADS = 4,
    FORKS_A_THREAD = TEAI_TSAN ? 5 : 50,
    NSTARTS = TEAI_TSAN ? 5 : 50
};

static void wait_for(pid_t pid)
{
    int status;
    TEST_REQUIRE(pid > 0);
    TEST_REQUIRE(waitpid(pid, &status, 0) == pid);
    TEST_REQUIRE(status == 0);
}

static void allocate(unsigned nobjects)
{
    for (unsigned i = 0; i < nobjects; i++)
        TEST_REQUIRE(tea_alloc(OBJECT_BYTES) != NULL);
}

static TEAI_NORETURN void child_allocate_and_exit(void)
{
    alarm(CHILD_WATCHDOG_S);
    allocate(10000);
    tea_collect();
    tea_collect();
    test_census();
    _exit(0);
}

/* --- several threads fork at once --- */

static void *fork_often(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < FORKS_A_THREAD; i++) {
        allocate(100);
        pid_t pid = fork();
        if (pid == 0)
            child_allocate_and_exit();
        if (i % 10 == 0)
            tea_collect();
        wait_for(pid);
    }
    return NULL;
}

static void run_threads(void *(*run)(void *), void *argument)
{
    pthread_t threads[NTHREADS];
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, argument), 0);
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void threads_fork_at_once(void **state)
{
    (void)state;
    run_threads(fork_often, NULL);
    test_census();
}

/* --- the child's heap --- */

static _Atomic int nwaiting, may_go_on;

static void *hold_a_lease(void *unused)
{
    (void)unused;
    allocate(10);
    atomic_fetch_add(&nwaiting, 1);
    while (!atomic_load(&may_go_on))
        sched_yield();
    return NULL;
}

static void check_child_heap(uintptr_t hidden)
{
    struct teai_heap_census census = test_census();
    TEST_REQUIRE(teai_default_heap.world.nmutators == 1);
    TEST_REQUIRE(test_object_is_intact(hidden, OBJECT_BYTES));
    test_collect();
    struct teai_heap_census after = test_census();
    TEST_REQUIRE(after.nslots_leased <= census.nslots_leased);
    /* What other threads had leased and allocated is free: little more than the one object is left. */
    TEST_REQUIRE(test_census_objects() < 100);
    TEST_REQUIRE(test_object_is_intact(hidden, OBJECT_BYTES));
}

static void a_child_has_one_mutator_and_the_others_slots_back(void **state)
{
    (void)state;
    void *volatile object = test_reveal(test_object_new(OBJECT_BYTES));
    pthread_t threads[NTHREADS];
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_a_lease, NULL), 0);
    while (atomic_load(&nwaiting) != NTHREADS)
        sched_yield();
    pid_t pid = fork();
    if (pid == 0) {
        check_child_heap(test_hide(object));
        _exit(0);
    }
    wait_for(pid);
    atomic_store(&may_go_on, 1);
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void children_have_children(void **state)
{
    (void)state;
    for (unsigned depth = 0; depth < 5; depth++) {
        allocate(10000);
        tea_collect();
        pid_t pid = fork();
        if (pid != 0) {
            wait_for(pid);
            if (depth != 0)
                _exit(0);
            return;
        }
    }
    child_allocate_and_exit();
}

static void *fork_without_having_allocated(void *unused)
{
    (void)unused;
    pid_t pid = fork();
    if (pid == 0)
        child_allocate_and_exit();
    wait_for(pid);
    return NULL;
}

static void a_thread_that_never_allocated_forks(void **state)
{
    (void)state;
    allocate(1000);
    run_threads(fork_without_having_allocated, NULL);
}

/* --- handlers of the program --- */

static pthread_mutex_t program_lock = PTHREAD_MUTEX_INITIALIZER;

static void prepare(void)
{
    allocate(1000);
    tea_collect();
    pthread_mutex_lock(&program_lock);
}

static void after(void)
{
    pthread_mutex_unlock(&program_lock);
    allocate(1000);
    tea_collect();
}

static void *allocate_with_lock(void *unused)
{
    (void)unused;
    while (!atomic_load(&may_go_on)) {
        pthread_mutex_lock(&program_lock);
        allocate(200);
        pthread_mutex_unlock(&program_lock);
        sched_yield();
    }
    return NULL;
}

static void handlers_may_allocate_and_wait_for_threads_that_do(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer holds a signal back while a thread waits for a mutex");
    pthread_t threads[NTHREADS];
    allocate(1);
    assert_int_equal(pthread_atfork(prepare, after, after), 0);
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_with_lock, NULL), 0);
    fork_often(NULL);
    atomic_store(&may_go_on, 1);
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* --- no handlers at all --- */

static void a_child_of_a_raw_clone_is_noticed(void **state)
{
    (void)state;
    if (TEAI_TSAN || TEAI_ASAN)
        heap_test_skip("sanitizers have to be told of a new process");
    pthread_t threads[NTHREADS];
    allocate(100000);
    tea_collect(); /* helpers exist */
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_a_lease, NULL), 0);
    while (atomic_load(&nwaiting) != NTHREADS)
        sched_yield();
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        child_allocate_and_exit();
    wait_for(pid);
    atomic_store(&may_go_on, 1);
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* --- while the collector starts --- */

static void *start_the_collector(void *unused)
{
    (void)unused;
    allocate(1000);
    return NULL;
}

static int fork_while_starting(void *delay)
{
    pthread_t thread;
    TEST_REQUIRE(pthread_create(&thread, NULL, start_the_collector, NULL) == 0);
    for (volatile unsigned i = 0; i < *(unsigned *)delay; i++)
        ;
    pid_t pid = fork();
    if (pid == 0)
        child_allocate_and_exit();
    wait_for(pid);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
    return 0;
}

static void forks_while_the_collector_starts(void **state)
{
    (void)state;
    static struct test_child child;
    for (unsigned i = 0; i < NSTARTS; i++) {
        unsigned delay = i * 2000;
        test_child_run(&child, fork_while_starting, &delay, NULL, 2 * CHILD_WATCHDOG_S);
        if (child.exit_status != 0)
            fail_msg("start %u: status %d: %s", i, child.exit_status, child.errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(threads_fork_at_once),
        heap_test_with(threads_fork_at_once, "TEASPAN=markers=2,stress=20"),
        heap_test(a_child_has_one_mutator_and_the_others_slots_back),
        heap_test(children_have_children),
        heap_test(a_thread_that_never_allocated_forks),
        heap_test(handlers_may_allocate_and_wait_for_threads_that_do),
        heap_test_with(a_child_of_a_raw_clone_is_noticed, "TEASPAN=markers=2"),
        cmocka_unit_test(forks_while_the_collector_starts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
