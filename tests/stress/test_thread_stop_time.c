/* tests/stress/test_thread_stop_time.c -- stopping the world takes about as long as a signal's round trip.
 *
 * Both are measured in turn, in one run, under the same load: threads that compute, allocate, or wait in a system call. The
 * round trip is to every one of the threads, by pthread_kill() and a flag, as a stop must reach every one.
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include "gc/histogram.h"
#include "platform/platform.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { NTHREADS = 4, NROUNDS = TEAI_TSAN ? 200 : 2000, MOST_RATIO = 3 };

static _Atomic bool time_is_up;
static _Atomic uint32_t nready, nanswers;
static sem_t never;

static void answer(int number)
{
    (void)number;
    atomic_fetch_add(&nanswers, 1);
    teai_platform_futex_wake(&nanswers, 1);
}

static void *compute(void *argument)
{
    atomic_fetch_add(&nready, 1);
    for (uint64_t x = 1; !atomic_load_explicit(&time_is_up, memory_order_relaxed); x = x * 3 + 1)
        __asm__ volatile("" : : "r"(x));
    return argument;
}

static void *allocate(void *argument)
{
    atomic_fetch_add(&nready, 1);
    while (!atomic_load_explicit(&time_is_up, memory_order_relaxed))
        TEST_REQUIRE(tea_alloc(64) != NULL);
    return argument;
}

static void *wait_long(void *argument)
{
    atomic_fetch_add(&nready, 1);
    while (sem_wait(&never) != 0)
        ;
    return argument;
}

static void *(*const kinds[NTHREADS])(void *) = {compute, allocate, wait_long, wait_long};

static uint64_t round_trip_ns(const pthread_t *threads)
{
    uint64_t begin_ns = teai_platform_now_ns();
    uint32_t seen;
    atomic_store(&nanswers, 0);
    for (int i = 0; i < NTHREADS; i++)
        TEST_REQUIRE(pthread_kill(threads[i], SIGUSR1) == 0);
    while ((seen = atomic_load(&nanswers)) < NTHREADS)
        teai_platform_futex_wait(&nanswers, seen);
    return teai_platform_now_ns() - begin_ns;
}

static void a_stop_takes_no_longer_than_some_signals(void **state)
{
    (void)state;
    static struct teai_histogram plain;
    struct tea_stats stats;
    pthread_t threads[NTHREADS];
    struct sigaction action = {.sa_handler = answer, .sa_flags = SA_RESTART};
    sem_init(&never, 0, 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    tea_thread_attach();
    tea_disable(); /* the only stops are ours */
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, kinds[i], NULL), 0);
    while (atomic_load(&nready) < NTHREADS)
        sched_yield();
    for (int i = 0; i < NROUNDS; i++) {
        teai_histogram_add(&plain, round_trip_ns(threads));
        stats = test_stats(); /* stops the world for a short time */
    }
    atomic_store(&time_is_up, true);
    for (int i = 0; i < NTHREADS; i++)
        sem_post(&never);
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    uint64_t plain_p99_ns = teai_histogram_quantile(&plain, 990);
    printf("us, p50/p99/max: signals %.1f/%.1f/%.1f, time to stop %.1f/%.1f/%.1f, stopped %.1f/%.1f/%.1f\n",
           teai_histogram_quantile(&plain, 500) / 1e3, plain_p99_ns / 1e3, plain.max / 1e3,
           stats.time_to_stop_p50_ns / 1e3, stats.time_to_stop_p99_ns / 1e3, stats.time_to_stop_max_ns / 1e3,
           stats.stopped_p50_ns / 1e3, stats.stopped_p99_ns / 1e3, stats.stopped_max_ns / 1e3);
    fflush(stdout);
    assert_true(stats.num_stops >= NROUNDS - 1);
    if (stats.time_to_stop_p99_ns > MOST_RATIO * plain_p99_ns)
        fail_msg("time to stop p99 is %llu ns, a plain signal's round trip %llu ns",
                 (unsigned long long)stats.time_to_stop_p99_ns, (unsigned long long)plain_p99_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(a_stop_takes_no_longer_than_some_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
