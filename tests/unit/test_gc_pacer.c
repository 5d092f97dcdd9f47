/* tests/unit/test_gc_pacer.c -- the collector keeps the goals that pacer/ gives it: when cycles start, what they aim for. */
#include "tests/support/heap_fixture.h"

#include "gc/cycle.h"
#include "gc/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

/* --- a live heap of a given size, and garbage --- */

static void *volatile live;
enum { GARBAGE_BYTES = 2048 }; /* an object */

static void make_live(void *argument)
{
    const size_t *nbytes = argument;
    void **head = NULL;
    for (size_t made = 0; made < *nbytes; made += 1024) {
        void **object = tea_alloc(1024);
        TEST_REQUIRE(object != NULL);
        object[1] = head;
        head = object;
    }
    live = head;
}

static void allocate_until_next_cycle(void *argument)
{
    (void)argument;
    uint32_t before = tea_gc_count();
    while (tea_gc_count() == before)
        TEST_REQUIRE(tea_alloc_leaf(GARBAGE_BYTES) != NULL);
}

static void allocate_garbage(void *argument)
{
    const size_t *nbytes = argument;
    for (size_t made = 0; made < *nbytes; made += GARBAGE_BYTES)
        TEST_REQUIRE(tea_alloc_leaf(GARBAGE_BYTES) != NULL);
}

/* What pacer/ says of the last cycle. */
static struct teai_goal expected_goal(int32_t gc_percent, int64_t limit_bytes)
{
    struct teai_facts facts = {
        .marked_bytes = h->cycle.marked_bytes,
        .stack_scan_bytes = h->cycle.stack_bytes,
        .globals_scan_bytes = h->cycle.globals_bytes,
        .mapped_ready_bytes = h->facts.mapped_ready_bytes,
        .heap_free_bytes = h->facts.heap_free_bytes,
        .heap_alloc_bytes = h->facts.heap_alloc_bytes,
    };
    struct teai_knobs knobs = {gc_percent, limit_bytes};
    return teai_pacer_goal(&facts, &knobs);
}

static void assert_goal_is(struct teai_goal want)
{
    struct tea_stats stats = test_stats();
    assert_int_equal(stats.next_gc_bytes, want.goal_bytes);
    assert_int_equal(stats.trigger_bytes, want.trigger_bytes);
    assert_true(stats.trigger_bytes <= stats.next_gc_bytes);
}

/* --- GOGC --- */

static void the_first_goal_is_gos_minimum(void **state)
{
    (void)state;
    assert_non_null(tea_alloc(1));
    assert_int_equal(test_stats().next_gc_bytes,
                     teai_pacer_heap_minimum_bytes(h->settings.gc_percent));
}

/* One run may be leased, at most a span's worth, between the look at the trigger and the stop. */
enum { TRIGGER_SLACK_BYTES = 128 << 10 };

static void each_cycle_starts_at_its_trigger_and_sets_the_next_goal(void **state)
{
    (void)state;
    size_t live_bytes = 3 << 20;
    test_apart(make_live, &live_bytes);
    int32_t percent = h->settings.gc_percent;
    for (int i = 0; i < 4; i++) {
        uint64_t trigger = test_stats().trigger_bytes;
        test_apart(allocate_until_next_cycle, NULL);
        assert_false(h->cycle.forced);
        assert_in_range(h->cycle.heap_start_bytes, trigger, trigger + TRIGGER_SLACK_BYTES);
        assert_true(h->cycle.marked_bytes >= live_bytes);
        assert_goal_is(expected_goal(percent, TEAI_PACER_NO_LIMIT));
        /* And in plain words, with the little there is of stacks and static data. */
        uint64_t scanned = h->cycle.marked_bytes + h->cycle.stack_bytes + h->cycle.globals_bytes;
        uint64_t goal = h->cycle.marked_bytes + scanned * (uint64_t)percent / 100;
        uint64_t least = ((uint64_t)4 << 20) * (uint64_t)percent / 100;
        assert_in_range(test_stats().next_gc_bytes, (goal > least ? goal : least) - 1,
                        (goal > least ? goal : least));
    }
}

static void cycles_come_as_often_as_the_trigger_says(void **state)
{
    (void)state;
    static const int percents[] = {25, 50, 100, 200, 400};
    size_t live_bytes = 4 << 20, garbage_bytes = 100 << 20;
    test_apart(make_live, &live_bytes);
    for (int i = 0; i < 5; i++) {
        tea_set_gc_percent(percents[i]);
        tea_collect();
        struct tea_stats before = test_stats();
        test_apart(allocate_garbage, &garbage_bytes);
        /* As often as the way to the trigger goes into the garbage. */
        uint64_t want = garbage_bytes / (before.trigger_bytes - before.heap_live_bytes);
        assert_in_range(tea_gc_count() - before.num_gc, want * 8 / 10, want * 11 / 10 + 1);
    }
}

/* Without limit as well; a number all the same, as in Go. */
#define OUT_OF_REACH_BYTES ((uint64_t)1 << 60)

static void gogc_off_starts_no_cycle(void **state)
{
    (void)state;
    size_t garbage_bytes = 50 << 20;
    test_apart(allocate_garbage, &garbage_bytes);
    assert_int_equal(tea_gc_count(), 0);
    assert_true(test_stats().next_gc_bytes >= OUT_OF_REACH_BYTES);
    tea_collect();
    assert_int_equal(tea_gc_count(), 1);
}

static void a_new_gogc_moves_the_goal_at_once(void **state)
{
    (void)state;
    size_t live_bytes = 10 << 20;
    test_apart(make_live, &live_bytes);
    tea_collect();
    for (int percent = 10; percent <= 1000; percent *= 10) {
        tea_set_gc_percent(percent);
        assert_goal_is(expected_goal(percent, TEAI_PACER_NO_LIMIT));
    }
    tea_set_gc_percent(-1);
    assert_true(test_stats().next_gc_bytes >= OUT_OF_REACH_BYTES);
}

static void a_goal_below_the_heap_starts_a_cycle_at_the_next_chance(void **state)
{
    (void)state;
    tea_set_gc_percent(1000);
    size_t garbage_bytes = 20 << 20;
    test_apart(allocate_garbage, &garbage_bytes);
    assert_int_equal(tea_gc_count(), 0);
    tea_set_gc_percent(100);
    garbage_bytes = 64 << 10;
    test_apart(allocate_garbage, &garbage_bytes);
    assert_int_equal(tea_gc_count(), 1);
}

/* --- GOMEMLIMIT --- */

enum { LIMIT_BYTES = 64 << 20 };

static uint64_t held_bytes(void)
{
    struct tea_stats stats = test_stats();
    return stats.sys_bytes - stats.heap_released_bytes;
}

static void a_memory_limit_alone_paces_the_heap(void **state)
{
    (void)state;
    size_t live_bytes = 10 << 20, garbage_bytes = 8 << 20;
    test_apart(make_live, &live_bytes);
    for (int i = 0; i < 60; i++) {
        test_apart(allocate_garbage, &garbage_bytes);
        assert_true(held_bytes() <= LIMIT_BYTES);
    }
    /* Nearly 500 MiB through what is left beside 10 MiB: a dozen cycles, and not a hundred. */
    assert_in_range(tea_gc_count(), 8, 40);
    assert_true(h->goal.from_memory_limit);
}

static void a_memory_limit_lowers_the_goal_and_never_raises_it(void **state)
{
    (void)state;
    size_t live_bytes = 20 << 20;
    test_apart(make_live, &live_bytes);
    tea_collect();
    uint64_t goal = test_stats().next_gc_bytes;
    tea_set_memory_limit((int64_t)1 << 40);
    assert_int_equal(test_stats().next_gc_bytes, goal);
    tea_set_memory_limit(32 << 20);
    assert_true(test_stats().next_gc_bytes < goal);
    assert_true(h->goal.from_memory_limit);
    tea_set_memory_limit(INT64_MAX);
    assert_int_equal(test_stats().next_gc_bytes, goal);
}

static void a_limit_that_is_too_small_does_not_stop_the_program(void **state)
{
    (void)state;
    size_t live_bytes = 4 << 20, garbage_bytes = 1 << 20;
    test_apart(make_live, &live_bytes);
    tea_set_memory_limit(1 << 20);
    test_apart(allocate_garbage, &garbage_bytes);
    assert_true(tea_gc_count() > 0);
    tea_collect();
    test_census();
}

/* --- heap live --- */

static void heap_live_after_a_cycle_is_what_was_marked(void **state)
{
    (void)state;
    size_t live_bytes = 1 << 20;
    test_apart(make_live, &live_bytes);
    tea_collect();
    struct tea_stats stats = test_stats();
    assert_int_equal(stats.heap_live_bytes, stats.heap_marked_bytes);
    assert_in_range(stats.heap_marked_bytes, live_bytes, live_bytes + 4096);
}

static void freeing_by_hand_puts_the_next_cycle_off(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < 1000; k++)
            tea_free(tea_alloc(512));
    for (int i = 0; i < 200; i++)
        tea_free(tea_alloc(1 << 20));
    assert_int_equal(tea_gc_count(), 0);
    assert_true(test_stats().heap_live_bytes < 4 << 20);
}

static _Atomic uint32_t leases_made;

static void *lease_of_every_class(void *unused)
{
    (void)unused;
    for (size_t nbytes = 16; nbytes <= 32 << 10; nbytes += nbytes / 8 + 8)
        TEST_REQUIRE(tea_alloc(nbytes) != NULL);
    atomic_store(&leases_made, 1);
    while (atomic_load(&leases_made) == 1)
        sched_yield();
    return NULL;
}

/* What a thread has leased before a cycle and gives back after it: the cycle has left it out of heap live. */
static void what_is_given_back_after_a_cycle_is_not_taken_off_twice(void **state)
{
    (void)state;
    TEST_REQUIRE(tea_alloc(16) != NULL);
    pthread_t thread;
    TEST_REQUIRE(pthread_create(&thread, NULL, lease_of_every_class, NULL) == 0);
    while (atomic_load(&leases_made) == 0)
        sched_yield();
    tea_collect();
    uint64_t live_bytes = test_stats().heap_live_bytes;
    atomic_store(&leases_made, 2);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
    assert_int_equal(test_stats().heap_live_bytes, live_bytes);
    assert_int_equal(tea_gc_count(), 1);
}

static void freed_before_a_cycle_and_settled_after_it(void *argument)
{
    (void)argument;
    enum { NOBJECTS = 100 };
    void *objects[NOBJECTS];
    for (int i = 0; i < NOBJECTS; i++)
        objects[i] = tea_alloc(512);
    for (int i = 0; i < NOBJECTS; i++)
        tea_free(objects[i]); /* 50 KB: less than is settled at once */
    tea_collect();
    uint64_t live_bytes = test_stats().heap_live_bytes;
    TEST_REQUIRE(tea_alloc(300) != NULL); /* a refill of 8000 bytes, which settles */
    TEST_REQUIRE(test_stats().heap_live_bytes >= live_bytes &&
                 test_stats().heap_live_bytes < 1 << 20);
}

static void what_was_freed_before_a_cycle_is_not_taken_off_after_it(void **state)
{
    (void)state;
    test_apart(freed_before_a_cycle_and_settled_after_it, NULL);
    assert_int_equal(tea_gc_count(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(the_first_goal_is_gos_minimum),
        heap_test_with(the_first_goal_is_gos_minimum, "GOGC=400"),
        heap_test_with(each_cycle_starts_at_its_trigger_and_sets_the_next_goal, "GOGC=25"),
        heap_test_with(each_cycle_starts_at_its_trigger_and_sets_the_next_goal, "GOGC=50"),
        heap_test(each_cycle_starts_at_its_trigger_and_sets_the_next_goal),
        heap_test_with(each_cycle_starts_at_its_trigger_and_sets_the_next_goal, "GOGC=300"),
        heap_test_with(each_cycle_starts_at_its_trigger_and_sets_the_next_goal, "GOGC=1000",
                       "TEASPAN=gogc=80"),
        heap_test(cycles_come_as_often_as_the_trigger_says),
        heap_test_with(gogc_off_starts_no_cycle, "GOGC=off"),
        heap_test(a_new_gogc_moves_the_goal_at_once),
        heap_test(a_goal_below_the_heap_starts_a_cycle_at_the_next_chance),
        heap_test_with(a_memory_limit_alone_paces_the_heap, "GOGC=off", "GOMEMLIMIT=64MiB"),
        heap_test(a_memory_limit_lowers_the_goal_and_never_raises_it),
        heap_test(a_limit_that_is_too_small_does_not_stop_the_program),
        heap_test(heap_live_after_a_cycle_is_what_was_marked),
        heap_test(freeing_by_hand_puts_the_next_cycle_off),
        heap_test(what_is_given_back_after_a_cycle_is_not_taken_off_twice),
        heap_test(what_was_freed_before_a_cycle_is_not_taken_off_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
