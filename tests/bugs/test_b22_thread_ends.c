/* tests/bugs/test_b22_thread_ends.c -- B22: a thread that ends without a word is forgotten.
 *
 * A runtime registers threads and never unregisters them; seconds later the stop signal goes to a dead thread and the
 * process aborts. (Reports: lumen-lang-org/lumen #18, bdwgc/bdwgc #542.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include "gc/heap.h"
#include "gc/thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { OBJECT_BYTES = 64, NTHREADS = 100, NCOLLECTIONS = 100 };

/* No waiting for the dead, though a sanitizer makes the rest slow. */
#define COLLECTIONS_LIMIT_NS (UINT64_C(20000000000) * (TEAI_ASAN || TEAI_TSAN ? 10 : 1))

static void skip_with_tsan(const char *reason)
{
    if (TEAI_TSAN)
        heap_test_skip(reason);
}

static unsigned count_mutators(void)
{
    struct teai_world *w = &teai_default_heap.world;
    teai_lock_acquire(&w->threads_lock);
    unsigned n = w->nmutators;
    teai_lock_release(&w->threads_lock);
    return n;
}

static void collect_often(void)
{
    uint64_t begin_ns = teai_platform_now_ns();
    for (int i = 0; i < NCOLLECTIONS; i++)
        tea_collect();
    assert_true(teai_platform_now_ns() - begin_ns < COLLECTIONS_LIMIT_NS);
    assert_int_equal(count_mutators(), 1);
}

static void run_joined(void *(*start)(void *), void *argument)
{
    pthread_t thread;
    TEST_REQUIRE(pthread_create(&thread, NULL, start, argument) == 0);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
}

static int attach_and_return(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    void *volatile object = tea_alloc(OBJECT_BYTES);
    TEST_REQUIRE(object != NULL);
    return 0;
}

static void foreign_threads_that_attached_and_returned(void **state)
{
    (void)state;
    skip_with_tsan("ThreadSanitizer does not know C11 threads");
    tea_thread_attach();
    for (int i = 0; i < NTHREADS; i++) {
        thrd_t thread;
        assert_int_equal(thrd_create(&thread, attach_and_return, NULL), thrd_success);
        assert_int_equal(thrd_join(thread, NULL), thrd_success);
    }
    collect_often();
    assert_int_equal(test_objects_after_collect(), 0);
}

static TEAI_NOINLINE void exit_in_inner(void (*exit_now)(void *))
{
    void *volatile object = tea_alloc(OBJECT_BYTES);
    TEST_REQUIRE(object != NULL);
    exit_now(object);
    TEST_REQUIRE(object == NULL); /* not reached */
}

static TEAI_NOINLINE void exit_in_outer(void (*exit_now)(void *))
{
    void *volatile object = tea_alloc(OBJECT_BYTES);
    exit_in_inner(exit_now);
    TEST_REQUIRE(object == NULL);
}

static void *exit_main(void *argument)
{
    exit_in_outer(pthread_exit);
    return argument;
}

static void threads_that_exit_in_a_nested_call(void **state)
{
    (void)state;
    for (int i = 0; i < NTHREADS; i++)
        run_joined(exit_main, NULL);
    collect_often();
    assert_int_equal(test_objects_after_collect(), 0);
}

static sem_t ready;

static void *wait_for_cancellation(void *argument)
{
    TEST_REQUIRE(tea_alloc(OBJECT_BYTES) != NULL);
    if (argument != NULL)
        TEST_REQUIRE(tea_blocking_enter() == TEA_OK);
    sem_post(&ready);
    for (;;)
        pause();
}

static void threads_that_are_cancelled(void **state)
{
    (void)state;
    skip_with_tsan("ThreadSanitizer loses track of a thread that is cancelled in one of its interceptors");
    sem_init(&ready, 0, 0);
    for (uintptr_t i = 0; i < NTHREADS; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, wait_for_cancellation, (void *)(i % 2)), 0);
        sem_wait(&ready);
        assert_int_equal(pthread_cancel(thread), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_true(result == PTHREAD_CANCELED);
    }
    collect_often();
    assert_int_equal(test_objects_after_collect(), 0);
}

/* --- destructors that allocate after ours has run --- */

static pthread_key_t late_key;
static unsigned late_rounds;

static void allocate_late(void *rounds_left)
{
    TEST_REQUIRE(tea_alloc(OBJECT_BYTES) != NULL);
    if ((uintptr_t)rounds_left > 1)
        pthread_setspecific(late_key, (char *)rounds_left - 1);
    __atomic_fetch_add(&late_rounds, 1, __ATOMIC_RELAXED);
}

static void *set_late_key(void *rounds)
{
    TEST_REQUIRE(tea_alloc(OBJECT_BYTES) != NULL);
    pthread_setspecific(late_key, rounds);
    return NULL;
}

static void destructors_that_allocate(void **state)
{
    (void)state;
    skip_with_tsan("ThreadSanitizer forgets a thread before the last round of destructors");
    tea_thread_attach();
    assert_int_equal(pthread_key_create(&late_key, allocate_late), 0);
    for (uintptr_t i = 0; i < NTHREADS; i++)
        run_joined(set_late_key, (void *)(1 + i % 4)); /* up to the C library's last round, after which nobody detaches */
    assert_true(late_rounds >= NTHREADS);
    tea_collect();
    collect_often();
    assert_int_equal(test_objects_after_collect(), 0);
}

/* --- threads that vanish --- */

static void *vanish(void *blocking)
{
    TEST_REQUIRE(tea_alloc(OBJECT_BYTES) != NULL);
    if (blocking != NULL)
        TEST_REQUIRE(tea_blocking_enter() == TEA_OK);
    sem_post(&ready);
    syscall(SYS_exit, 0); /* of this thread only; no destructor runs */
    return NULL;
}

static void threads_that_vanish(void **state)
{
    (void)state;
    skip_with_tsan("ThreadSanitizer wants to be told of every thread's end");
    sem_init(&ready, 0, 0);
    for (uintptr_t i = 0; i < 10; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, vanish, (void *)(i % 2)), 0);
        sem_wait(&ready);
    }
    nanosleep(&(struct timespec){0, 50000000}, NULL);
    tea_collect();
    collect_often();
    assert_int_equal(test_objects_after_collect(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(foreign_threads_that_attached_and_returned),
        heap_test(threads_that_exit_in_a_nested_call),
        heap_test(threads_that_are_cancelled),
        heap_test(destructors_that_allocate),
        heap_test(threads_that_vanish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
