/* tests/stress/test_thread_churn.c -- a thousand threads come and go while others allocate, collect and take signals. */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include "gc/heap.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    NTHREADS = TEAI_TSAN ? 200 : 1000,
    WAVE_THREADS = 20,
    NWAVES = NTHREADS / WAVE_THREADS,
    NBUSY = 2,
    NODE_BYTES = 48,
    LIST_NODES = 50
};

static _Atomic bool time_is_up;
static _Atomic unsigned nended, nsignals;

static void count_signal(int number)
{
    (void)number;
    nsignals++;
}

struct node {
    struct node *next;
    uintptr_t check;
};

static struct node *list_new(unsigned nnodes)
{
    struct node *head = NULL;
    for (unsigned i = 0; i < nnodes; i++) {
        struct node *node = tea_alloc(i % 3 == 0 ? NODE_BYTES : i % 3 == 1 ? 16 : 2048);
        TEST_REQUIRE(node != NULL);
        node->next = head;
        node->check = test_hide(node);
        head = node;
    }
    return head;
}

static unsigned list_count(const struct node *node)
{
    unsigned n = 0;
    for (; node != NULL; node = node->next, n++)
        TEST_REQUIRE(node->check == test_hide(node));
    return n;
}

/* Gets a list, makes one of its own, a leaf or two, and returns the longer list. */
static void *come_and_go(void *argument)
{
    struct node *given = argument, *own = list_new(LIST_NODES);
    TEST_REQUIRE(list_count(given) == LIST_NODES);
    TEST_REQUIRE(tea_alloc_leaf(5) != NULL && tea_alloc_leaf(40000) != NULL);
    struct node *last = own;
    while (last->next != NULL)
        last = last->next;
    last->next = given;
    nended++;
    return own;
}

static void *keep_busy(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    struct node *kept = NULL;
    while (!atomic_load(&time_is_up)) {
        kept = list_new(LIST_NODES);
        if (rand_r(&seed) % 16 == 0)
            tea_collect();
        TEST_REQUIRE(list_count(kept) == LIST_NODES);
        kill(getpid(), SIGUSR2);
    }
    return NULL;
}

static TEAI_NOINLINE void run_wave(void)
{
    pthread_t threads[WAVE_THREADS];
    for (int i = 0; i < WAVE_THREADS; i++)
        TEST_REQUIRE(pthread_create(&threads[i], NULL, come_and_go, list_new(LIST_NODES)) == 0);
    for (int i = 0; i < WAVE_THREADS; i++) {
        void *result;
        if (i % 5 == 4) {
            TEST_REQUIRE(pthread_detach(threads[i]) == 0);
            continue;
        }
        TEST_REQUIRE(pthread_join(threads[i], &result) == 0);
        TEST_REQUIRE(list_count(result) == 2 * LIST_NODES);
    }
}

static unsigned count_mutators(void)
{
    struct teai_world *w = &teai_default_heap.world;
    teai_lock_acquire(&w->threads_lock);
    unsigned n = w->nmutators + (w->ended != NULL);
    teai_lock_release(&w->threads_lock);
    return n;
}

static void nothing_is_lost_or_stranded(void **state)
{
    (void)state;
    pthread_t busy[NBUSY];
    signal(SIGUSR2, count_signal);
    tea_thread_attach();
    for (uintptr_t i = 0; i < NBUSY; i++)
        assert_int_equal(pthread_create(&busy[i], NULL, keep_busy, (void *)i), 0);
    for (int i = 0; i < NWAVES; i++)
        run_wave();
    atomic_store(&time_is_up, true);
    for (int i = 0; i < NBUSY; i++)
        assert_int_equal(pthread_join(busy[i], NULL), 0);
    while (count_mutators() > 1)
        sched_yield();
    assert_int_equal(nended, NTHREADS);
    assert_true(nsignals > 0);

    /* What the threads' caches held is free again: only this thread's leased slots are left. */
    assert_int_equal(test_objects_after_collect(), 0);
    tea_collect_and_release();
    assert_int_equal(test_census_objects(), 0);
    struct tea_stats stats = test_stats();
    assert_true(stats.heap_inuse_bytes < 1 << 20);
    assert_true(stats.other_sys_bytes < 16 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(nothing_is_lost_or_stranded),
        heap_test_with(nothing_is_lost_or_stranded, "TEASPAN=stress=50"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
