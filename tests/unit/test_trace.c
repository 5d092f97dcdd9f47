/* tests/unit/test_trace.c -- the trace's lines reach a sink that may do anything: in order, without a lock held. */
#include "tests/support/heap_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MOST_LINES = 1000 };
static unsigned cycles[MOST_LINES];
static _Atomic unsigned nlines;

static void note_line(const char *text)
{
    unsigned cycle;
    if (sscanf(text, "gc %u @", &cycle) == 1 && nlines < MOST_LINES)
        cycles[nlines++] = cycle;
}

static void assert_lines_are_in_order(void)
{
    for (unsigned i = 1; i < nlines; i++)
        assert_true(cycles[i] > cycles[i - 1]);
}

/* Each line but the last few brings a collection of its own. */
static void collecting_sink(const char *text, void *context)
{
    const unsigned *most = context;
    note_line(text);
    TEST_REQUIRE(tea_alloc(100) != NULL);
    if (nlines < *most)
        tea_collect();
}

static void a_sink_may_collect(void **state)
{
    (void)state;
    unsigned most = 50;
    tea_set_log_sink(collecting_sink, &most);
    tea_collect();
    assert_int_equal(nlines, most);
    tea_collect();
    assert_int_equal(nlines, most + 1);
    assert_lines_are_in_order();
}

static pthread_mutex_t log_mutex;

/* Not pthread_mutex_lock(): ThreadSanitizer would hold the stop signal back until it returns. */
static void log_lock(void)
{
    while (pthread_mutex_trylock(&log_mutex) != 0)
        sched_yield();
}

static void locking_sink(const char *text, void *context)
{
    (void)context;
    log_lock();
    note_line(text);
    pthread_mutex_unlock(&log_mutex);
}

static void *collect_with_the_log_locked(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100; i++) {
        log_lock();
        tea_collect();
        pthread_mutex_unlock(&log_mutex);
    }
    return NULL;
}

/* One thread holds the program's lock and waits for a collection; the sink, on another, waits for that lock. */
static void a_sink_may_wait_for_a_thread_that_waits_for_a_collection(void **state)
{
    (void)state;
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&log_mutex, &recursive);
    tea_set_log_sink(locking_sink, NULL);
    pthread_t thread;
    TEST_REQUIRE(pthread_create(&thread, NULL, collect_with_the_log_locked, NULL) == 0);
    for (int i = 0; i < 100; i++)
        tea_collect();
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
    assert_in_range(nlines, 1, 200); /* some are left out when the lock is hard to get */
    assert_lines_are_in_order();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test_with(a_sink_may_collect, "GODEBUG=gctrace=1"),
        heap_test_with(a_sink_may_wait_for_a_thread_that_waits_for_a_collection, "GODEBUG=gctrace=1"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
