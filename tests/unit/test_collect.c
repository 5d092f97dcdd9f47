/* tests/unit/test_collect.c -- the public calls that collect, and the knobs: what they do and what they return. */
#include "tests/support/heap_fixture.h"

#include "gc/cycle.h"
#include "gc/thread.h"

#include <errno.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;
static struct test_log messages;

enum { MIB = 1 << 20 };

static void allocate(size_t nbytes)
{
    for (size_t made = 0; made < nbytes; made += 1000)
        assert_non_null(tea_alloc(1000));
}

/* --- collecting --- */

static void a_collection_is_counted_and_marked_as_forced(void **state)
{
    (void)state;
    assert_int_equal(tea_gc_count(), 0);
    for (uint32_t n = 1; n <= 5; n++) {
        tea_collect();
        assert_int_equal(tea_gc_count(), n);
        assert_int_equal(test_stats().num_forced_gc, n);
    }
    tea_set_gc_percent(10);
    allocate(20 * MIB);
    struct tea_stats stats = test_stats();
    assert_true(stats.num_gc > 5);
    assert_int_equal(stats.num_forced_gc, 5);
}

static void collecting_keeps_errno(void **state)
{
    (void)state;
    errno = 4711;
    tea_collect();
    assert_int_equal(errno, 4711);
    tea_collect_and_release();
    assert_int_equal(errno, 4711);
}

static void collecting_an_empty_heap_works(void **state)
{
    (void)state;
    tea_collect();
    assert_int_equal(test_stats().heap_objects, 0);
    test_census();
}

static void releasing_gives_free_pages_back_to_the_system(void **state)
{
    (void)state;
    void *kept = tea_alloc(1000);
    memset(kept, 7, 1000);
    tea_free(tea_alloc(30 * MIB));
    allocate(30 * MIB);
    struct tea_stats before = test_stats();
    assert_true(before.heap_idle_bytes - before.heap_released_bytes > 10 * MIB ||
                before.heap_inuse_bytes > 10 * MIB);
    tea_collect_and_release();
    struct tea_stats after = test_stats();
    assert_int_equal(after.num_forced_gc, before.num_forced_gc + 1);
    assert_int_equal(after.heap_idle_bytes, after.heap_released_bytes);
    assert_true(after.heap_inuse_bytes < 2 * MIB);
    assert_true(test_all_bytes(kept, 7, 1000));
    allocate(10 * MIB); /* released pages come back zeroed */
    test_census();
}

/* --- holding collections off --- */

static void while_disabled_allocation_starts_no_cycle(void **state)
{
    (void)state;
    tea_disable();
    assert_false(test_stats().enable_gc);
    allocate(20 * MIB);
    assert_int_equal(tea_gc_count(), 0);
    assert_int_equal(tea_enable(), TEA_OK);
    assert_true(test_stats().enable_gc);
    allocate(MIB);
    assert_true(tea_gc_count() > 0);
}

static void disabling_nests(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        tea_disable();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tea_enable(), TEA_OK);
        allocate(10 * MIB);
        assert_int_equal(tea_gc_count(), 0);
    }
    assert_int_equal(tea_enable(), TEA_OK);
    allocate(MIB);
    assert_true(tea_gc_count() > 0);
}

static void enabling_what_is_not_disabled_is_an_error(void **state)
{
    (void)state;
    test_log_capture(&messages);
    assert_int_equal(tea_enable(), TEA_ERR_STATE);
    test_log_expect(&messages, 1, "tea_enable");
    tea_disable();
    assert_int_equal(tea_enable(), TEA_OK);
    assert_int_equal(tea_enable(), TEA_ERR_STATE);
    test_log_expect(&messages, 2, "tea_enable");
    allocate(10 * MIB);
    assert_true(tea_gc_count() > 0);
}

static void a_collection_asked_for_runs_though_disabled(void **state)
{
    (void)state;
    tea_disable();
    tea_collect();
    tea_collect_and_release();
    assert_int_equal(tea_gc_count(), 2);
    tea_set_gc_percent(-1);
    tea_collect();
    assert_int_equal(tea_gc_count(), 3);
}

static void enable_in_apart(void *argument)
{
    *(enum tea_status *)argument = tea_enable();
}

static void the_count_is_one_for_all_threads(void **state)
{
    (void)state;
    enum tea_status status;
    tea_disable();
    test_apart(enable_in_apart, &status);
    assert_int_equal(status, TEA_OK);
    assert_int_equal(h->disable_count, 0);
}

/* --- the knobs --- */

static void setting_the_percent_returns_the_old_one(void **state)
{
    (void)state;
    assert_int_equal(tea_set_gc_percent(50), 100);
    assert_int_equal(tea_set_gc_percent(-7), 50);
    assert_int_equal(tea_set_gc_percent(0), -1);
    assert_int_equal(tea_set_gc_percent(2147483647), 0);
    assert_int_equal(tea_set_gc_percent(100), 2147483647);
}

static void the_percent_of_the_environment_is_the_first(void **state)
{
    (void)state;
    assert_int_equal(tea_set_gc_percent(50), 30);
}

static void setting_the_limit_returns_the_old_one(void **state)
{
    (void)state;
    assert_true(tea_set_memory_limit(-1) == INT64_MAX);
    assert_true(tea_set_memory_limit(100 * MIB) == INT64_MAX);
    assert_int_equal(tea_set_memory_limit(-1), 100 * MIB);
    assert_int_equal(tea_set_memory_limit(-5), 100 * MIB);
    assert_int_equal(tea_set_memory_limit(0), 100 * MIB);
    assert_int_equal(tea_set_memory_limit(INT64_MAX), 0);
    assert_true(tea_set_memory_limit(-1) == INT64_MAX);
}

static void the_limit_of_the_environment_is_the_first(void **state)
{
    (void)state;
    assert_int_equal(tea_set_memory_limit(-1), 200 * MIB);
}

static void a_percent_of_zero_collects_all_the_time_and_works(void **state)
{
    (void)state;
    tea_set_gc_percent(0);
    allocate(MIB);
    assert_true(tea_gc_count() > 10);
    test_census();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(a_collection_is_counted_and_marked_as_forced),
        heap_test(collecting_keeps_errno),
        heap_test(collecting_an_empty_heap_works),
        heap_test(releasing_gives_free_pages_back_to_the_system),
        heap_test(while_disabled_allocation_starts_no_cycle),
        heap_test(disabling_nests),
        heap_test(enabling_what_is_not_disabled_is_an_error),
        heap_test(a_collection_asked_for_runs_though_disabled),
        heap_test(the_count_is_one_for_all_threads),
        heap_test(setting_the_percent_returns_the_old_one),
        heap_test_with(the_percent_of_the_environment_is_the_first, "GOGC=30"),
        heap_test(setting_the_limit_returns_the_old_one),
        heap_test_with(the_limit_of_the_environment_is_the_first, "GOMEMLIMIT=200MiB"),
        heap_test(a_percent_of_zero_collects_all_the_time_and_works),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
