/* tests/unit/test_cache.c -- leased runs: counted exactly, zeroed, found again among objects, given back by threads. */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include "gc/thread.h"

#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

enum { CONSERVATIVE_64 = 6 * TEAI_NKINDS + TEAI_CONSERVATIVE, SLOT_64 = 64, SLOTS_A_SPAN_64 = 128 };

static const uint64_t every_word = 1;
static const struct tea_type word_type = {sizeof(void *), 1, &every_word};

/* An object of a span class, its contents asked to be zero. */
static void *alloc_of_class(unsigned span_class)
{
    size_t bytes = teai_sizeclass_bytes[span_class / TEAI_NKINDS];
    switch (span_class % TEAI_NKINDS) {
    case TEAI_LEAF:
        return tea_alloc_leaf(bytes);
    case TEAI_TYPED:
        return tea_alloc_typed(&word_type, bytes / sizeof(void *));
    default:
        return tea_alloc(bytes);
    }
}

/* Objects stay alive in here. */
enum { KEPT = 200000 };
static void *kept[KEPT];
static size_t nkept;

static void keep(void *object)
{
    TEST_REQUIRE(object != NULL && nkept < KEPT);
    kept[nkept++] = object;
}

static void flush_all_caches(void)
{
    struct tea_mutator *m = teai_thread_self();
    teai_runtime_enter(m);
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++)
        teai_cache_flush(h, m, (uint8_t)c);
    teai_runtime_leave(h, m);
}

/* --- counting --- */

static void handed_out_and_leased_slots_are_told_apart(void **state)
{
    (void)state;
    struct test_random random = test_random_start("test_cache");
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++) {
        uint32_t n = 1 + test_random_below(&random, 2 * teai_sizeclass_nslots[c / TEAI_NKINDS]);
        for (uint32_t i = 0; i < n; i++)
            keep(alloc_of_class(c));
        assert_int_equal(test_census_objects(), nkept);
    }
    assert_int_equal(test_stats().heap_objects, nkept);
}

static void flushing_gives_exactly_the_unused_slots_back(void **state)
{
    (void)state;
    struct test_random random = test_random_start("test_cache");
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++)
        for (uint32_t n = 1 + test_random_below(&random, 100); n > 0; n--)
            keep(alloc_of_class(c));
    flush_all_caches();
    struct teai_heap_census census = test_census();
    assert_int_equal(census.nslots_leased, 0);
    assert_int_equal(census.nslots_live, nkept);
    assert_int_equal(test_stats().heap_objects, nkept);
}

static void flushing_twice_changes_nothing(void **state)
{
    (void)state;
    keep(tea_alloc(SLOT_64));
    flush_all_caches();
    struct tea_stats before = test_stats();
    flush_all_caches();
    struct tea_stats after = test_stats();
    assert_int_equal(after.heap_live_bytes, before.heap_live_bytes);
    assert_int_equal(after.heap_inuse_bytes, before.heap_inuse_bytes);
    assert_int_equal(after.mallocs, before.mallocs);
}

static void a_flushed_span_without_objects_goes_back_to_the_page_heap(void **state)
{
    (void)state;
    keep(tea_alloc(SLOT_64));
    uint64_t nspans = test_census().nspans_small;
    struct tea_mutator *m = teai_thread_self();
    teai_runtime_enter(m);
    assert_true(teai_cache_refill(h, m, CONSERVATIVE_64 + TEAI_NKINDS));
    teai_runtime_leave(h, m);
    assert_int_equal(test_census().nspans_small, nspans + 1);
    flush_all_caches();
    assert_int_equal(test_census().nspans_small, nspans);
}

static void flushed_slots_are_allocated_before_new_spans(void **state)
{
    (void)state;
    keep(tea_alloc(SLOT_64));
    uint64_t nspans = test_census().nspans_small;
    for (int i = 1; i < SLOTS_A_SPAN_64; i++) {
        flush_all_caches();
        keep(tea_alloc(SLOT_64));
        assert_int_equal((uintptr_t)kept[i], (uintptr_t)kept[0] + (uintptr_t)i * SLOT_64);
    }
    assert_int_equal(test_census().nspans_small, nspans);
}

/* --- runs among objects --- */

static void slots_between_objects_are_leased_in_address_order(void **state)
{
    (void)state;
    for (int i = 0; i < SLOTS_A_SPAN_64; i++)
        keep(tea_alloc(SLOT_64));
    flush_all_caches();
    /* Free runs of one slot, two, three, and so on, each with one object behind it. */
    static void *freed[SLOTS_A_SPAN_64];
    int nfreed = 0;
    for (int at = 0, length = 1; at + length < SLOTS_A_SPAN_64; at += length + 1, length++)
        for (int i = 0; i < length; i++) {
            tea_free(kept[at + i]);
            freed[nfreed++] = kept[at + i];
            kept[at + i] = NULL;
        }
    assert_true(nfreed > SLOTS_A_SPAN_64 / 2);
    for (int i = 0; i < nfreed; i++)
        assert_ptr_equal(tea_alloc(SLOT_64), freed[i]);
}

static void every_other_slot_of_every_class_is_found(void **state)
{
    (void)state;
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++) {
        if (c == teai_span_class_of(2, TEAI_LEAF))
            continue; /* tea_free() leaves blocks of tiny objects to the collector */
        uint32_t nslots = teai_sizeclass_nslots[c / TEAI_NKINDS];
        void **objects = &kept[nkept];
        for (uint32_t i = 0; i < nslots; i++)
            keep(alloc_of_class(c));
        flush_all_caches();
        for (uint32_t i = 0; i < nslots; i += 2)
            tea_free(objects[i]);
        for (uint32_t i = 0; i < nslots; i += 2)
            if (nslots > 1)
                assert_ptr_equal(alloc_of_class(c), objects[i]);
    }
}

/* --- contents --- */

static void reused_slots_read_zero_whatever_was_in_them(void **state)
{
    (void)state;
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++) {
        size_t bytes = teai_sizeclass_bytes[c / TEAI_NKINDS];
        void **objects = &kept[nkept];
        for (int i = 0; i < 20; i++) {
            keep(alloc_of_class(c));
            memset(objects[i], 0xa5, bytes);
        }
        for (int i = 0; i < 20; i += 1 + i % 3)
            tea_free(objects[i]);
        flush_all_caches();
        for (int i = 0; i < 20; i++) {
            void *again = alloc_of_class(c);
            if (!test_all_bytes(again, 0, bytes))
                fail_msg("span class %u: old contents", c);
            memset(again, 0x5a, bytes);
            keep(again);
        }
    }
}

static void dead_slots_read_zero_when_allocated_again(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2000; i++) {
            void *object = tea_alloc(SLOT_64);
            assert_true(test_all_bytes(object, 0, SLOT_64));
            memset(object, 0xa5, SLOT_64);
            if (i % 5 == 0)
                keep(object);
        }
        tea_collect();
    }
}

/* --- collections --- */

static void a_cursor_stays_where_it_is_over_a_collection(void **state)
{
    (void)state;
    for (int i = 0; i < SLOTS_A_SPAN_64; i++) {
        keep(tea_alloc(SLOT_64));
        assert_int_equal((uintptr_t)kept[i], (uintptr_t)kept[0] + (uintptr_t)i * SLOT_64);
        if (i % 10 == 0)
            tea_collect();
    }
}

static void leased_slots_survive_a_collection_without_becoming_objects(void **state)
{
    (void)state;
    keep(tea_alloc(SLOT_64));
    tea_collect();
    struct teai_heap_census census = test_census();
    assert_int_equal(census.nslots_leased, SLOTS_A_SPAN_64 - 1);
    assert_int_equal(test_stats().heap_objects, 1);
    assert_null(tea_base((char *)kept[0] + SLOT_64));
}

/* A run outlives its span's stay in the cache (C3), so it may be given back to a span that is elsewhere. */
static void a_run_can_be_flushed_after_a_collection(void **state)
{
    (void)state;
    keep(tea_alloc(SLOT_64));
    tea_collect();
    flush_all_caches();
    struct teai_heap_census census = test_census();
    assert_int_equal(census.nslots_leased, 0);
    assert_int_equal(census.nslots_live, 1);
    keep(tea_alloc(SLOT_64));
    assert_int_equal((uintptr_t)kept[1], (uintptr_t)kept[0] + SLOT_64);
}

/* --- threads --- */

static void allocate_some_of_every_class(void *argument)
{
    (void)argument;
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++)
        for (int i = 0; i < 3; i++)
            keep(alloc_of_class(c));
}

static void a_thread_that_ends_gives_its_leased_slots_back(void **state)
{
    (void)state;
    test_apart(allocate_some_of_every_class, NULL);
    struct teai_heap_census census = test_census();
    assert_int_equal(census.nslots_leased, 0);
    assert_int_equal(census.nslots_live, nkept);
    assert_int_equal(test_stats().heap_objects, nkept);
}

static void spans_of_a_thread_that_ended_are_allocated_from_again(void **state)
{
    (void)state;
    test_apart(allocate_some_of_every_class, NULL);
    uint64_t nspans = test_census().nspans_small;
    for (int i = 0; i < 10; i++)
        test_apart(allocate_some_of_every_class, NULL);
    /* Eleven threads with three objects of each class: only classes with few slots a span need more of them. */
    uint64_t want = 0;
    for (unsigned c = TEAI_CLASS_FIRST_SMALL; c < TEAI_NSPAN_CLASSES; c++) {
        uint32_t nslots = teai_sizeclass_nslots[c / TEAI_NKINDS];
        want += (33 + nslots - 1) / nslots;
    }
    assert_true(nspans < want);
    assert_int_equal(test_census().nspans_small, want);
}

static void garbage_of_a_thread_that_ended_is_collected(void **state)
{
    (void)state;
    test_apart(allocate_some_of_every_class, NULL);
    memset(kept, 0, sizeof kept);
    assert_int_equal(test_objects_after_collect(), 0);
    struct teai_heap_census census = test_census();
    assert_int_equal(census.nspans_small, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(handed_out_and_leased_slots_are_told_apart),
        heap_test(flushing_gives_exactly_the_unused_slots_back),
        heap_test(flushing_twice_changes_nothing),
        heap_test(a_flushed_span_without_objects_goes_back_to_the_page_heap),
        heap_test(flushed_slots_are_allocated_before_new_spans),
        heap_test(slots_between_objects_are_leased_in_address_order),
        heap_test(every_other_slot_of_every_class_is_found),
        heap_test(reused_slots_read_zero_whatever_was_in_them),
        heap_test(dead_slots_read_zero_when_allocated_again),
        heap_test(a_cursor_stays_where_it_is_over_a_collection),
        heap_test(leased_slots_survive_a_collection_without_becoming_objects),
        heap_test(a_run_can_be_flushed_after_a_collection),
        heap_test(a_thread_that_ends_gives_its_leased_slots_back),
        heap_test(spans_of_a_thread_that_ended_are_allocated_from_again),
        heap_test(garbage_of_a_thread_that_ended_is_collected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
