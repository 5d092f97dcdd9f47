/* tests/unit/test_central.c -- spans that no thread holds: freed slots are found again, empty spans are given back. */
#include "tests/support/heap_fixture.h"

#include "gc/thread.h"

static struct tea_heap *const h = &teai_default_heap;

/* Classes with many slots a span, with few, and with one. */
static const size_t sizes[] = {16, 24, 48, 128, 1024, 1408, 8192, 27264, 32768};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

enum { MANY = 20000 };
static void *objects[MANY];

static uint32_t slots_a_span(size_t bytes)
{
    return teai_sizeclass_nslots[teai_sizeclass_of(bytes)];
}

/* The class's spans are full and in nobody's cache: `nspans` of them. */
static void fill_spans(size_t bytes, uint32_t nspans)
{
    uint32_t n = nspans * slots_a_span(bytes);
    assert_true(n <= MANY);
    for (uint32_t i = 0; i < n; i++)
        objects[i] = tea_alloc(bytes);
    struct tea_mutator *m = teai_thread_self();
    teai_runtime_enter(m);
    teai_cache_flush(h, m, teai_span_class_of(teai_sizeclass_of(bytes), TEAI_CONSERVATIVE));
    teai_runtime_leave(h, m);
}

static void a_slot_freed_in_a_full_span_is_used_before_new_pages(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++) {
        if (slots_a_span(sizes[i]) == 1)
            continue;
        fill_spans(sizes[i], 5);
        uint64_t nspans = test_census().nspans_small;
        void *freed = objects[3 * slots_a_span(sizes[i])];
        tea_free(freed);
        assert_ptr_equal(tea_alloc(sizes[i]), freed);
        assert_int_equal(test_census().nspans_small, nspans);
    }
}

static void slots_freed_in_many_spans_are_all_used_before_new_pages(void **state)
{
    (void)state;
    enum { NSPANS = 50 };
    fill_spans(64, NSPANS);
    uint64_t nspans = test_census().nspans_small;
    uint32_t nslots = slots_a_span(64);
    for (uint32_t i = 0; i < NSPANS; i++)
        for (uint32_t k = 0; k < i % 4; k++)
            tea_free(objects[i * nslots + k * 7]);
    for (uint32_t i = 0; i < NSPANS; i++)
        for (uint32_t k = 0; k < i % 4; k++)
            objects[i * nslots + k * 7] = tea_alloc(64);
    assert_int_equal(test_census().nspans_small, nspans);
    assert_int_equal(test_census_objects(), NSPANS * nslots);
}

static void freeing_the_last_object_of_a_span_gives_its_pages_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++) {
        uint64_t inuse = test_stats().heap_inuse_bytes;
        uint64_t nspans = test_census().nspans_small;
        fill_spans(sizes[i], 3);
        for (uint32_t k = 0; k < 3 * slots_a_span(sizes[i]); k++)
            tea_free(objects[k]);
        assert_int_equal(test_census().nspans_small, nspans);
        assert_true(test_stats().heap_inuse_bytes <=
                    inuse + 64 * TEAI_PAGE_BYTES); /* the page cache counts as in use */
    }
    assert_int_equal(test_stats().heap_objects, 0);
}

static void pages_of_an_empty_span_serve_another_class(void **state)
{
    (void)state;
    fill_spans(1024, 200);
    uint64_t heap_sys = test_stats().heap_sys_bytes;
    for (uint32_t i = 0; i < 200 * slots_a_span(1024); i++)
        tea_free(objects[i]);
    fill_spans(128, 200);
    assert_int_equal(test_stats().heap_sys_bytes, heap_sys);
}

static void spans_emptied_by_a_collection_go_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++)
        fill_spans(sizes[i], 3);
    for (int i = 0; i < MANY; i++)
        objects[i] = NULL;
    test_scrub_stack();
    tea_collect();
    /* The caches' spans were given up at the stop, and nothing is leased. A stale word may keep one object. */
    assert_in_range(test_census().nspans_small, 0, 1);
}

static void spans_with_survivors_are_allocated_from_after_a_collection(void **state)
{
    (void)state;
    enum { NSPANS = 40 };
    uint32_t nslots = slots_a_span(128);
    fill_spans(128, NSPANS);
    for (uint32_t i = 0; i < NSPANS * nslots; i++)
        if (i % nslots != 5)
            objects[i] = NULL;
    test_scrub_stack();
    tea_collect();
    uint64_t nspans = test_census().nspans_small;
    assert_int_equal(nspans, NSPANS);
    for (uint32_t i = 0; i < NSPANS * nslots; i++)
        if (i % nslots != 5)
            objects[i] = tea_alloc(128);
    assert_in_range(test_census().nspans_small, NSPANS,
                    NSPANS + 1); /* one slot may be kept by a stale word */
}

/* --- frees by another thread --- */

static void free_odd_objects(void *argument)
{
    uint32_t n = *(uint32_t *)argument;
    for (uint32_t i = 1; i < n; i += 2)
        tea_free(objects[i]);
}

static void free_all_objects(void *argument)
{
    uint32_t n = *(uint32_t *)argument;
    for (uint32_t i = 0; i < n; i++)
        tea_free(objects[i]);
}

static void objects_may_be_freed_by_another_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++) {
        uint32_t nslots = slots_a_span(sizes[i]), n = 4 * nslots;
        if (nslots < 2)
            continue;
        fill_spans(sizes[i], 4);
        uint64_t nobjects = test_census_objects();
        uint64_t nspans = test_census().nspans_small;
        test_apart(free_odd_objects, &n);
        assert_int_equal(test_census_objects(), nobjects - n / 2);
        for (uint32_t k = 1; k < n; k += 2)
            objects[k] = tea_alloc(sizes[i]);
        assert_int_equal(test_census().nspans_small, nspans);
    }
}

static void objects_may_be_freed_by_another_thread_while_their_span_is_cached(void **state)
{
    (void)state;
    uint32_t n = 50;
    for (uint32_t i = 0; i < n; i++)
        objects[i] = tea_alloc(64);
    test_apart(free_all_objects, &n);
    struct teai_heap_census census = test_census();
    assert_int_equal(census.nslots_live, census.nslots_leased);
    assert_int_equal(census.nslots_leased, slots_a_span(64) - n);
    /* The run goes on first; then the freed slots, which lie before the cursor, are found by way of the central list. */
    for (uint32_t i = 0; i < slots_a_span(64); i++)
        assert_non_null(objects[i] = tea_alloc(64));
    assert_int_equal(test_census().nspans_small, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(a_slot_freed_in_a_full_span_is_used_before_new_pages),
        heap_test(slots_freed_in_many_spans_are_all_used_before_new_pages),
        heap_test(freeing_the_last_object_of_a_span_gives_its_pages_back),
        heap_test(pages_of_an_empty_span_serve_another_class),
        heap_test(spans_emptied_by_a_collection_go_back),
        heap_test(spans_with_survivors_are_allocated_from_after_a_collection),
        heap_test(objects_may_be_freed_by_another_thread),
        heap_test(objects_may_be_freed_by_another_thread_while_their_span_is_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
