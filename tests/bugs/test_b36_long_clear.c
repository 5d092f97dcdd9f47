/* tests/bugs/test_b36_long_clear.c -- B36: clearing a very large block does not delay a stop.
 *
 * A runtime that clears 512 MiB in one unstoppable piece makes everybody wait for the pause to begin. (Reports: golang/go
 * #31222, #35825, #69327.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { NSTOPS = 200 };
#define BLOCK_BYTES (TEAI_ASAN || TEAI_TSAN ? (size_t)64 << 20 : (size_t)512 << 20)

static _Atomic bool time_is_up;
static _Atomic unsigned nblocks;
static _Atomic uint64_t longest_ns; /* that allocating and clearing a block took */

static void *allocate_large(void *argument)
{
    while (!atomic_load(&time_is_up)) {
        uint64_t begin_ns = teai_platform_now_ns();
        char *block = tea_alloc(BLOCK_BYTES);
        uint64_t took_ns = teai_platform_now_ns() - begin_ns;
        TEST_REQUIRE(block != NULL && block[BLOCK_BYTES - 1] == 0);
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
        block[0] = block[BLOCK_BYTES - 1] = 1;
        nblocks++;
    }
    return argument;
}

static void stops_beside_large_allocations_are_prompt(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer holds a signal back until its own memset() is done");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate_large, NULL), 0);
    while (nblocks < 3)
        tea_collect();
    for (int i = 0; i < NSTOPS; i++)
        tea_collect();
    atomic_store(&time_is_up, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    struct tea_stats stats = test_stats();
    printf("%u blocks of %.0f us; time to stop, us: p50 %.0f p99 %.0f max %.0f\n", nblocks, longest_ns / 1e3, stats.time_to_stop_p50_ns / 1e3,
           stats.time_to_stop_p99_ns / 1e3, stats.time_to_stop_max_ns / 1e3);
    fflush(stdout);
    assert_true(stats.num_stops >= NSTOPS);
    /* No absolute time: a stop that waited for a clear would take as long as a block. The median leaves out what the
     * machine's other work does. */
    assert_true(stats.time_to_stop_p50_ns < longest_ns / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(stops_beside_large_allocations_are_prompt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
