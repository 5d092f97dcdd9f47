/* tests/bugs/test_b17_queue.c -- B17: a queue whose popped nodes still point on does not leak.
 *
 * One stale pointer to a popped node keeps every node that was pushed after it: the classic way in which a collector that
 * scans its own variables, or leaves old words in its frames, runs out of memory. (Report: bdwgc/bdwgc #21.)
 */
#include "tests/support/objects.h"

#include <pthread.h>

/* A chain that leaks shows after a fraction of the steps, which is enough where the loop is slow or run again. */
#define FEW_STEPS UINT64_C(10000000)
#define MANY_STEPS ((TEAI_ASAN || TEAI_DEBUG) ? FEW_STEPS : UINT64_C(200000000))
/* Two spans a class that are being allocated from, page caches, the stack's slack. */
#define OVER_GOAL_BYTES ((uint64_t)3 << 20)
/* One node is live. Frames in code with AddressSanitizer have gaps in which a stale word outlives a cycle or two; the
 * sanitizer's static data count as roots: megabytes, which raise the goal. All nodes together have 160 MB. */
#define MOST_MARKED_BYTES (TEAI_ASAN ? UINT64_C(40) << 20 : UINT64_C(256) << 10)
#define MOST_GOAL_BYTES ((TEAI_ASAN ? UINT64_C(80) : UINT64_C(5)) << 20)

struct node {
    struct node *next;
    uint64_t number;
};

static struct node *node_new(uint64_t number)
{
    struct node *node = tea_alloc(sizeof *node);
    TEST_REQUIRE(node != NULL);
    node->number = number;
    return node;
}

/* Push one, pop one; `next` of the popped node is left as it is. */
static TEAI_NOINLINE void queue_run(struct node **head, struct node **tail, uint64_t from,
                                    uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        (*tail)->next = node_new(i);
        *tail = (*tail)->next;
        TEST_REQUIRE((*head)->number == i - 1);
        *head = (*head)->next;
    }
}

struct peak {
    uint64_t inuse_bytes, marked_bytes, goal_bytes;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void peak_update(struct peak *peak)
{
    struct tea_stats stats = test_stats();
    peak->inuse_bytes = larger(peak->inuse_bytes, stats.heap_inuse_bytes);
    peak->marked_bytes = larger(peak->marked_bytes, stats.heap_marked_bytes);
    peak->goal_bytes = larger(peak->goal_bytes, stats.next_gc_bytes);
}

enum { SAMPLES = 200 };

/* ThreadSanitizer keeps addresses of past accesses in data that count as roots. */
static void skip_where_stale_words_abound(void)
{
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer's own data refer to nodes that were popped");
}

static struct peak run_sampled(struct node **head, struct node **tail, uint64_t nsteps)
{
    struct peak peak = {0};
    const uint64_t piece = nsteps / SAMPLES;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        queue_run(head, tail, i * piece + 1, (i + 1) * piece + 1);
        peak_update(&peak);
    }
    return peak;
}

static void assert_stays_small(struct peak peak)
{
    print_message("peak of pages in use %zu KiB, marked %zu KiB, goal %zu KiB\n",
                  (size_t)peak.inuse_bytes >> 10, (size_t)peak.marked_bytes >> 10,
                  (size_t)peak.goal_bytes >> 10);
    assert_in_range(peak.marked_bytes, 0, MOST_MARKED_BYTES);
    assert_in_range(peak.inuse_bytes, 1, peak.goal_bytes + OVER_GOAL_BYTES);
    assert_in_range(peak.goal_bytes, 1, MOST_GOAL_BYTES);
}

static void a_queue_in_local_variables_stays_near_the_goal(void **state)
{
    (void)state;
    skip_where_stale_words_abound();
    struct node *head = node_new(0), *tail = head;
    assert_stays_small(run_sampled(&head, &tail, MANY_STEPS));
}

static struct node *static_head, *static_tail;

static TEAI_NOINLINE void start_static_queue(void)
{
    static_head = static_tail = node_new(0);
}

static void *run_on_thread(void *argument)
{
    start_static_queue();
    test_scrub(); /* a word left over from the first node would keep the whole queue */
    *(struct peak *)argument = run_sampled(&static_head, &static_tail, FEW_STEPS);
    return NULL;
}

static void a_queue_in_static_variables_run_by_a_thread_stays_near_the_goal(void **state)
{
    (void)state;
    skip_where_stale_words_abound();
    struct peak peak;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_on_thread, &peak), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_stays_small(peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(a_queue_in_local_variables_stays_near_the_goal),
        heap_test(a_queue_in_static_variables_run_by_a_thread_stays_near_the_goal),
        heap_test_with(a_queue_in_static_variables_run_by_a_thread_stays_near_the_goal,
                       "TEASPAN=markers=1"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
