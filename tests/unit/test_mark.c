/* tests/unit/test_mark.c -- marking when its lists cannot grow, with helpers or without, and what one cycle records.
 *
 * That marks are right on graphs of every kind is tests/property/test_mark_graph.c's. Here memory for the work lists is
 * denied: what could not be listed stays grey, and repair rounds find it.
 */
#include "tests/support/heap_fixture.h"

#include "gc/thread.h"

#include <stdlib.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

enum { BLOCK_BYTES = 64 << 10 };

/* --- a graph: an array that leads to chains of objects of one size --- */

static void **array;

struct plan {
    size_t nchains, chain_length, object_bytes;
};

static void make_chains(void *argument)
{
    const struct plan *p = argument;
    tea_disable();
    void **heads = tea_alloc(p->nchains * sizeof(void *));
    TEST_REQUIRE(heads != NULL);
    for (size_t i = 0; i < p->nchains; i++)
        for (size_t k = 0; k < p->chain_length; k++) {
            void **object = tea_alloc(p->object_bytes);
            TEST_REQUIRE(object != NULL);
            object[p->object_bytes / sizeof(void *) - 1] = heads[i];
            heads[i] = object;
        }
    array = test_inner(heads);
    tea_enable();
}

static void make_garbage(void *argument)
{
    const struct plan *p = argument;
    for (int i = 0; i < 1000; i++)
        TEST_REQUIRE(tea_alloc(p->object_bytes) != NULL);
}

static uint64_t plan_objects(const struct plan *p)
{
    return p->nchains * p->chain_length + 1;
}

/* Every chain, from head to end. */
static void check_chains(void *argument)
{
    const struct plan *p = argument;
    void **heads = test_outer(array);
    for (size_t i = 0; i < p->nchains; i++) {
        size_t length = 0;
        for (void **object = heads[i]; object != NULL; length++) {
            TEST_REQUIRE(tea_base(object) == object);
            object = object[p->object_bytes / sizeof(void *) - 1];
        }
        TEST_REQUIRE(length == p->chain_length);
    }
}

static void assert_marked_exactly(struct plan *p)
{
    test_apart(make_garbage, p);
    assert_int_equal(test_objects_after_collect(), plan_objects(p));
    assert_int_equal(test_census_objects(), plan_objects(p));
    test_apart(check_chains, p);
    array = NULL;
    assert_int_equal(test_objects_after_collect(), 0);
}

/* --- lists of objects --- */

static struct plan objects_plan = {.nchains = 12000, .chain_length = 3, .object_bytes = 640};

static void marking_needs_no_repair_while_lists_can_grow(void **state)
{
    (void)state;
    test_apart(make_chains, &objects_plan);
    assert_marked_exactly(&objects_plan);
    assert_int_equal(test_stats().mark_overflows, 0);
    assert_true(test_stats().worklist_peak_bytes > BLOCK_BYTES);
}

static void objects_that_found_no_room_are_marked_by_repair(void **state)
{
    (void)state;
    assert_non_null(teai_thread_self());
    h->mark.pool.limit_bytes = BLOCK_BYTES;
    test_apart(make_chains, &objects_plan);
    assert_marked_exactly(&objects_plan);
    assert_true(h->mark.pool.bytes <= BLOCK_BYTES);
    if (h->mark.nmarkers_max > 1)
        return; /* several may take entries off as fast as they come */
    assert_true(test_stats().mark_overflows > 0);
    assert_true(h->mark.nrepair_rounds > 0 && h->mark.nrepaired_total > 0);
}

static void marking_ends_without_any_list_of_objects(void **state)
{
    (void)state;
    assert_non_null(teai_thread_self());
    h->mark.pool.limit_bytes = 0;
    test_apart(make_chains, &objects_plan);
    assert_marked_exactly(&objects_plan);
    assert_true(test_stats().mark_overflows > 0);
}

static void large_objects_are_scanned_without_any_list(void **state)
{
    (void)state;
    assert_non_null(teai_thread_self());
    h->mark.pool.limit_bytes = 0;
    struct plan p = {
        .nchains = 5, .chain_length = 4, .object_bytes = 3 * TEAI_OBLET_BYTES + TEAI_PAGE_BYTES};
    test_apart(make_chains, &p);
    test_apart(make_garbage, &(struct plan){.object_bytes = 64});
    assert_int_equal(test_objects_after_collect(), plan_objects(&p));
    test_apart(check_chains, &p);
}

/* A chain of objects that lie from high addresses down: each repair round, going up, finds the next of it only. */
static void a_chain_against_the_repair_sweep_is_marked_to_its_end(void **state)
{
    (void)state;
    assert_non_null(teai_thread_self());
    h->mark.pool.limit_bytes = 0;
    struct plan p = {.nchains = 1, .chain_length = 500, .object_bytes = 1024};
    test_apart(make_chains, &p);
    assert_marked_exactly(&p);
}

/* --- lists of spans --- */

/* 1,500 spans of 128 objects each at least, all made grey by one array. */
static struct plan spans_plan = {.nchains = 1500 * 128, .chain_length = 1, .object_bytes = 64};

static void spans_that_found_no_room_are_marked_by_repair(void **state)
{
    (void)state;
    assert_non_null(teai_thread_self()); /* the first ring, for 1,024 spans, is made at start */
    tea_collect();                       /* has listed roots once, and so has the memory for it */
    test_apart(make_chains, &spans_plan);
    h->metadata.deny_after = 0;
    assert_int_equal(test_objects_after_collect(), plan_objects(&spans_plan));
    assert_true(test_stats().mark_overflows > 0);
    assert_true(h->mark.nrepair_rounds > 0);
    h->metadata.deny_after = UINT32_MAX;
    test_apart(check_chains, &spans_plan);
}

static void the_ring_grows_with_the_heap(void **state)
{
    (void)state;
    test_apart(make_chains, &spans_plan);
    assert_marked_exactly(&spans_plan);
    assert_int_equal(test_stats().mark_overflows, 0);
}

/* --- lists of roots --- */

/* More 64 KiB blocks than a page has entries for. */
enum { ROOT_BYTES = 16 << 20, ROOT_WORDS = ROOT_BYTES / sizeof(void *) };

static void fill_roots(void *argument)
{
    void **roots = argument;
    for (size_t i = 0; i < ROOT_WORDS; i += 4096)
        roots[i] = test_inner(tea_alloc(64));
}

static void roots_that_cannot_be_listed_are_scanned_at_once(void **state)
{
    (void)state;
    void **roots = calloc(ROOT_WORDS, sizeof(void *));
    assert_int_equal(tea_root_add(roots, roots + ROOT_WORDS), TEA_OK);
    tea_collect(); /* the list of static data has what it needs */
    test_apart(fill_roots, roots);
    size_t bytes = h->mark.root_blocks_bytes;
    assert_true(bytes > 4096);
    /* As if it had never grown. */
    h->mark.root_blocks_capacity = 100;
    h->metadata.deny_after = 0;
    assert_int_equal(test_objects_after_collect(), ROOT_WORDS / 4096);
    assert_true(h->mark.roots_incomplete);
}

/* --- helpers --- */

static void a_marker_without_memory_is_done_without(void **state)
{
    (void)state;
    tea_collect();
    test_apart(make_chains, &objects_plan);
    h->metadata.deny_after = 1; /* one of three more markers, and no ring for it */
    test_objects_after_collect();
    assert_in_range(h->mark.nmarkers, 1, 2);
    h->metadata.deny_after = UINT32_MAX;
    assert_marked_exactly(&objects_plan);
    assert_int_equal(h->mark.nmarkers, 4);
}

static void an_empty_heap_is_marked_without_helpers(void **state)
{
    (void)state;
    tea_collect();
    assert_int_equal(h->mark.nmarkers, 1);
}

static void helpers_take_part(void **state)
{
    (void)state;
    test_apart(make_chains, &spans_plan);
    uint64_t nhelped = 0;
    for (int i = 0; i < 50 && nhelped == 0; i++) {
        tea_collect();
        assert_int_equal(h->mark.nmarkers, 4);
        for (uint32_t k = 1; k < 4; k++)
            nhelped += h->mark.markers[k]->nspans;
    }
    assert_true(nhelped > 0);
    assert_marked_exactly(&spans_plan);
}

static void every_marker_and_list_starved_still_marks_all(void **state)
{
    (void)state;
    assert_non_null(teai_thread_self());
    h->mark.pool.limit_bytes = 0;
    test_apart(make_chains, &objects_plan);
    test_objects_after_collect(); /* starts the helpers */
    h->metadata.deny_after = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(test_objects_after_collect(), plan_objects(&objects_plan));
    h->metadata.deny_after = UINT32_MAX;
    assert_marked_exactly(&objects_plan);
}

/* --- what is counted --- */

static void marked_bytes_are_the_slots_of_what_is_alive(void **state)
{
    (void)state;
    struct plan p = {.nchains = 1000, .chain_length = 2, .object_bytes = 100};
    test_apart(make_chains, &p);
    assert_int_equal(test_objects_after_collect(), plan_objects(&p));
    uint64_t want = 2000 * 112 + 8192; /* 8,000 bytes of array have a class of 8,192 */
    assert_int_equal(test_stats().heap_marked_bytes, want);
    assert_int_equal(test_stats().heap_live_bytes, want);
}

#define CHECKED "GODEBUG=gccheckmark=1"
#define with_each_number_of_markers(function)                                                      \
    heap_test_with(function, CHECKED, "TEASPAN=markers=1"),                                        \
        heap_test_with(function, CHECKED, "TEASPAN=markers=2"),                                    \
        heap_test_with(function, CHECKED, "TEASPAN=markers=4")

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_each_number_of_markers(marking_needs_no_repair_while_lists_can_grow),
        with_each_number_of_markers(objects_that_found_no_room_are_marked_by_repair),
        with_each_number_of_markers(marking_ends_without_any_list_of_objects),
        with_each_number_of_markers(large_objects_are_scanned_without_any_list),
        with_each_number_of_markers(a_chain_against_the_repair_sweep_is_marked_to_its_end),
        heap_test_with(spans_that_found_no_room_are_marked_by_repair, "TEASPAN=markers=1"),
        heap_test_with(the_ring_grows_with_the_heap, CHECKED, "TEASPAN=markers=1"),
        heap_test_with(roots_that_cannot_be_listed_are_scanned_at_once, "TEASPAN=markers=1"),
        heap_test_with(roots_that_cannot_be_listed_are_scanned_at_once, "TEASPAN=markers=2"),
        heap_test_with(a_marker_without_memory_is_done_without, "TEASPAN=markers=4"),
        heap_test_with(an_empty_heap_is_marked_without_helpers, "TEASPAN=markers=4"),
        heap_test_with(helpers_take_part, CHECKED, "TEASPAN=markers=4"),
        heap_test_with(every_marker_and_list_starved_still_marks_all, "TEASPAN=markers=4"),
        heap_test_with(objects_that_found_no_room_are_marked_by_repair, CHECKED,
                       "TEASPAN=markers=2,marker=object"),
        heap_test_with(marking_ends_without_any_list_of_objects, CHECKED,
                       "TEASPAN=markers=1,marker=object"),
        heap_test_with(marked_bytes_are_the_slots_of_what_is_alive, "TEASPAN=markers=1"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
