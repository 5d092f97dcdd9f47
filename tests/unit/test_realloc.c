/* tests/unit/test_realloc.c -- resizing: contents kept, the rest zero, the kind too, in place where that is possible. */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include "gc/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;
static struct test_log messages;

/* Bytes that differ from their neighbours and are never zero. */
static uint8_t pattern(size_t at)
{
    return (uint8_t)(1 + at % 249);
}

static void fill(uint8_t *object, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++)
        object[at] = pattern(at);
}

static size_t count_kept(const uint8_t *object, size_t nbytes)
{
    size_t at = 0;
    while (at < nbytes && object[at] == pattern(at))
        at++;
    return at;
}

static enum teai_kind kind_of(const void *object)
{
    return h->tables.spans[teai_slot_find(&h->tables, (uintptr_t)object).span].kind;
}

/* --- contents --- */

/* Sizes go up and down over class borders, from small to large and back. */
static void resize_at_random(enum teai_kind kind, void *(*alloc)(size_t), bool zeroed)
{
    struct test_random random = test_random_start("test_realloc");
    size_t bytes = 32; /* never 16: a leaf of that size is taken for a block of tiny objects */
    uint8_t *object = alloc(bytes);
    fill(object, 0, bytes);
    for (int i = 0; i < 3000; i++) {
        size_t wanted = i % 3 == 0   ? 17 + test_random_below(&random, 300000)
                        : i % 3 == 1 ? 17 + test_random_below(&random, 2000)
                                     : bytes + test_random_below(&random, 64);
        uint8_t *resized = tea_realloc(object, wanted);
        assert_non_null(resized);
        size_t kept = bytes < wanted ? bytes : wanted;
        if (count_kept(resized, kept) != kept)
            fail_msg("%zu to %zu bytes: byte %zu is not kept", bytes, wanted,
                     count_kept(resized, kept));
        if (zeroed && wanted > bytes && !test_all_bytes(resized + bytes, 0, wanted - bytes))
            fail_msg("%zu to %zu bytes: what was gained is not zero", bytes, wanted);
        assert_int_equal(kind_of(resized), kind);
        assert_true(tea_usable_bytes(resized) >= wanted);
        fill(resized, 0, wanted);
        object = resized;
        bytes = wanted;
    }
    test_census();
    assert_int_equal(test_census_objects(), 1);
}

static void conservative_objects_keep_contents_and_gain_zeroes(void **state)
{
    (void)state;
    resize_at_random(TEAI_CONSERVATIVE, tea_alloc, true);
}

static void leaf_objects_keep_contents_and_stay_leaf(void **state)
{
    (void)state;
    resize_at_random(TEAI_LEAF, tea_alloc_leaf, false);
}

static void uncollectable_objects_keep_contents_and_their_pin(void **state)
{
    (void)state;
    resize_at_random(TEAI_CONSERVATIVE, tea_alloc_uncollectable, true);
    assert_int_equal(h->pins.nused, 1);
}

static void what_a_shrunk_object_lost_is_zero_when_it_grows_again(void **state)
{
    (void)state;
    static const size_t sizes[][2] = {{64, 40},       {30, 17},       {1000, 900},
                                      {32768, 20000}, {40960, 33000}, {100000, 99999},
                                      {300000, 40000}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t *object = tea_alloc(sizes[i][0]);
        fill(object, 0, sizes[i][0]);
        object = tea_realloc(object, sizes[i][1]);
        object = tea_realloc(object, sizes[i][0]);
        assert_int_equal(count_kept(object, sizes[i][0]), sizes[i][1]);
        assert_true(test_all_bytes(object + sizes[i][1], 0, sizes[i][0] - sizes[i][1]));
    }
}

/* --- special sizes --- */

static void resizing_null_allocates(void **state)
{
    (void)state;
    uint8_t *object = tea_realloc(NULL, 100);
    assert_non_null(object);
    assert_true(test_all_bytes(object, 0, 100));
    assert_int_equal(kind_of(object), TEAI_CONSERVATIVE);
    assert_non_null(tea_realloc(NULL, 0));
    assert_non_null(tea_reallocarray(NULL, 10, 10));
}

static void resizing_to_nothing_frees(void **state)
{
    (void)state;
    void *object = tea_alloc(100), *large = tea_alloc(100000);
    assert_null(tea_realloc(object, 0));
    assert_null(tea_realloc(large, 0));
    assert_null(tea_base(object));
    assert_int_equal(test_stats().heap_objects, 0);
}

static void the_old_block_is_freed_at_once(void **state)
{
    (void)state;
    uint8_t *object = tea_alloc(100);
    uint8_t *moved = tea_realloc(object, 1000);
    assert_ptr_not_equal(moved, object);
    assert_null(tea_base(object));
    assert_int_equal(test_stats().heap_objects, 1);
}

static void a_refused_size_leaves_the_object_alone(void **state)
{
    (void)state;
    uint8_t *object = tea_alloc(100);
    fill(object, 0, 100);
    errno = 0;
    volatile size_t too_many = TEA_MAX_OBJECT_BYTES + 1;
    assert_null(tea_realloc(object, too_many));
    assert_int_equal(errno, ENOMEM);
    assert_null(tea_reallocarray(object, too_many, too_many));
    assert_null(tea_realloc(object, TEA_MAX_OBJECT_BYTES)); /* more than the heap */
    assert_ptr_equal(tea_base(object), object);
    assert_int_equal(count_kept(object, 100), 100);
}

static void what_is_no_object_is_refused_with_a_message(void **state)
{
    (void)state;
    test_log_capture(&messages);
    uint8_t *object = tea_alloc(100);
    int local;
    void *const wrong[] = {object + 8, &local, (void *)16};
    for (unsigned i = 0; i < 3; i++) {
        errno = 0;
        assert_null(tea_realloc(wrong[i], 200));
        assert_int_equal(errno, EINVAL);
        test_log_expect(&messages, i + 1, "tea_realloc");
    }
    assert_int_equal(test_census_objects(), 1);
}

/* --- tiny objects --- */

static void a_tiny_object_never_grows_over_its_neighbour(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 8; bytes++)
        for (size_t wanted = bytes; wanted <= 40; wanted++) {
            uint8_t *object = tea_alloc_leaf(bytes), *neighbour = tea_alloc_leaf(bytes);
            memset(object, 0x11, bytes);
            memset(neighbour, 0x22, bytes);
            uint8_t *grown = tea_realloc(object, wanted);
            assert_true(test_all_bytes(grown, 0x11, bytes));
            memset(grown, 0x33, wanted);
            assert_true(test_all_bytes(neighbour, 0x22, bytes));
        }
}

static void a_tiny_object_may_shrink(void **state)
{
    (void)state;
    uint8_t *object = tea_alloc_leaf(9);
    memset(object, 0x11, 9);
    uint8_t *shrunk = tea_realloc(object, 4);
    assert_true(test_all_bytes(shrunk, 0x11, 4));
}

/* --- large objects --- */

enum { LARGE_BYTES = 40 * TEAI_PAGE_BYTES };

static void a_large_object_grows_where_it_is_while_pages_are_free(void **state)
{
    (void)state;
    tea_free(tea_alloc_leaf(1000 * TEAI_PAGE_BYTES)); /* a heap with room */
    uint8_t *object = tea_alloc(LARGE_BYTES);
    fill(object, 0, LARGE_BYTES);
    for (size_t bytes = LARGE_BYTES; bytes < 4 * LARGE_BYTES; bytes += 3 * TEAI_PAGE_BYTES)
        assert_ptr_equal(tea_realloc(object, bytes), object);
    assert_int_equal(count_kept(object, LARGE_BYTES), LARGE_BYTES);
    assert_true(test_all_bytes(object + LARGE_BYTES, 0, 3 * LARGE_BYTES - 3 * TEAI_PAGE_BYTES));
    test_census();
}

static void a_large_object_grows_over_used_pages_and_reads_zero_there(void **state)
{
    (void)state;
    uint8_t *object = tea_alloc(LARGE_BYTES), *behind = tea_alloc(LARGE_BYTES);
    assert_ptr_equal(behind, object + LARGE_BYTES);
    memset(behind, 0xee, LARGE_BYTES);
    tea_free(behind);
    assert_ptr_equal(tea_realloc(object, 2 * LARGE_BYTES), object);
    assert_true(test_all_bytes(object + LARGE_BYTES, 0, LARGE_BYTES));
}

static void a_large_object_moves_when_pages_behind_it_are_taken(void **state)
{
    (void)state;
    uint8_t *object = tea_alloc(LARGE_BYTES), *behind = tea_alloc(LARGE_BYTES);
    fill(object, 0, LARGE_BYTES);
    memset(behind, 0x22, LARGE_BYTES);
    uint8_t *moved = tea_realloc(object, LARGE_BYTES + TEAI_PAGE_BYTES);
    assert_ptr_not_equal(moved, object);
    assert_int_equal(count_kept(moved, LARGE_BYTES), LARGE_BYTES);
    assert_true(test_all_bytes(behind, 0x22, LARGE_BYTES));
    assert_null(tea_base(object));
}

static void a_large_object_shrinks_where_it_is_and_gives_pages_back(void **state)
{
    (void)state;
    uint8_t *object = tea_alloc(LARGE_BYTES);
    fill(object, 0, LARGE_BYTES);
    struct tea_stats before = test_stats();
    assert_ptr_equal(tea_realloc(object, 10 * TEAI_PAGE_BYTES), object);
    struct tea_stats after = test_stats();
    assert_int_equal(before.heap_inuse_bytes - after.heap_inuse_bytes, 30 * TEAI_PAGE_BYTES);
    assert_int_equal(before.alloc_bytes - after.alloc_bytes, 30 * TEAI_PAGE_BYTES);
    assert_int_equal(count_kept(object, 10 * TEAI_PAGE_BYTES), 10 * TEAI_PAGE_BYTES);
    assert_int_equal(after.heap_objects, 1);
    test_census();
}

/* --- the collector --- */

static uintptr_t grown_hidden, target_hidden;
static void *volatile root;

struct growth {
    void *(*alloc)(size_t);
    size_t from_bytes, to_bytes;
};

/* The reference is written into what was gained. */
static void grow_and_refer(void *argument)
{
    const struct growth *g = argument;
    void **object = tea_realloc(g->alloc(g->from_bytes), g->to_bytes);
    void *target = tea_alloc(64);
    object[g->to_bytes / sizeof(void *) - 1] = target;
    root = test_inner(object);
    grown_hidden = test_hide(object);
    target_hidden = test_hide(target);
}

static const struct growth growths[] = {
    {tea_alloc, 16, 100},        {tea_alloc, 100, 3000},      {tea_alloc, 3000, 50000},
    {tea_alloc, 50000, 1000000}, {tea_alloc, 1000000, 40000}, {tea_alloc, 40000, 64},
};

static void references_in_what_was_gained_are_followed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof growths / sizeof growths[0]; i++) {
        struct growth g = growths[i];
        test_apart(grow_and_refer, &g);
        assert_int_equal(test_objects_after_collect(), 2);
        assert_true(test_is_alive(grown_hidden) && test_is_alive(target_hidden));
        root = NULL;
        assert_int_equal(test_objects_after_collect(), 0);
    }
}

static void a_grown_leaf_is_not_scanned(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof growths / sizeof growths[0]; i++) {
        struct growth g = growths[i];
        g.alloc = tea_alloc_leaf;
        test_apart(grow_and_refer, &g);
        assert_int_equal(test_objects_after_collect(), 1);
        assert_false(test_is_alive(target_hidden));
    }
}

static void shrink_over_a_reference(void *argument)
{
    const size_t *sizes = argument;
    void **object = tea_alloc(sizes[0]);
    void *target = tea_alloc(64);
    object[sizes[0] / sizeof(void *) - 1] = target;
    root = test_inner(tea_realloc(object, sizes[1]));
    target_hidden = test_hide(target);
}

static void references_in_what_was_lost_are_not_followed(void **state)
{
    (void)state;
    static size_t sizes[][2] = {{64, 40},    {64, 24},       {1000, 900},
                                {3000, 200}, {40960, 33000}, {1000000, 50000}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_apart(shrink_over_a_reference, sizes[i]);
        if (test_objects_after_collect() != 1 || test_is_alive(target_hidden))
            fail_msg("%zu to %zu bytes", sizes[i][0], sizes[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(conservative_objects_keep_contents_and_gain_zeroes),
        heap_test(leaf_objects_keep_contents_and_stay_leaf),
        heap_test(uncollectable_objects_keep_contents_and_their_pin),
        heap_test(what_a_shrunk_object_lost_is_zero_when_it_grows_again),
        heap_test(resizing_null_allocates),
        heap_test(resizing_to_nothing_frees),
        heap_test(the_old_block_is_freed_at_once),
        heap_test(a_refused_size_leaves_the_object_alone),
        heap_test(what_is_no_object_is_refused_with_a_message),
        heap_test(a_tiny_object_never_grows_over_its_neighbour),
        heap_test(a_tiny_object_may_shrink),
        heap_test(a_large_object_grows_where_it_is_while_pages_are_free),
        heap_test(a_large_object_grows_over_used_pages_and_reads_zero_there),
        heap_test(a_large_object_moves_when_pages_behind_it_are_taken),
        heap_test(a_large_object_shrinks_where_it_is_and_gives_pages_back),
        heap_test(references_in_what_was_gained_are_followed),
        heap_test(a_grown_leaf_is_not_scanned),
        heap_test(references_in_what_was_lost_are_not_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
