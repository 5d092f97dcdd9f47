/* tests/unit/test_arena.c -- arenas: blocks are zeroed, scanned while they count and not after a reset, given back at once. */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include "gc/arena.h"
#include "gc/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

enum {
    CHUNK_BYTES = 64 << 10,
    FREE_IN_CHUNK_BYTES = CHUNK_BYTES - sizeof(struct teai_arena_chunk)
};

/* Arenas are uncollectable, so the tests know them by hidden addresses, as they know all objects that are to die. */
static uintptr_t arena_hidden, object_hidden;
/* A compiler may leave out stores to a block that the program drops; from this one it must expect anything. */
static volatile uintptr_t block_hidden;

static struct tea_arena *the_arena(void)
{
    return test_reveal(arena_hidden);
}

static void make_arena(void *argument)
{
    (void)argument;
    struct tea_arena *arena = tea_arena_create(0);
    TEST_REQUIRE(arena != NULL);
    arena_hidden = test_hide(arena);
}

/* A block leads to an object. */
static void put_object(void *argument)
{
    const size_t *block_bytes = argument;
    void **block = tea_arena_alloc(the_arena(), *block_bytes);
    TEST_REQUIRE(block != NULL);
    void *object = block[*block_bytes / sizeof(void *) - 1] = tea_alloc(64);
    object_hidden = test_hide(object);
    block_hidden = test_hide(block);
}

static void reset_arena(void *argument)
{
    (void)argument;
    tea_arena_reset(the_arena());
}

static void destroy_arena(void *argument)
{
    (void)argument;
    tea_arena_destroy(the_arena());
}

static void fill_chunks(void *argument)
{
    const unsigned *nchunks = argument;
    for (unsigned i = 0; i < *nchunks * 64; i++)
        TEST_REQUIRE(tea_arena_alloc_uninit(the_arena(), 1000) != NULL);
}

static size_t small_block = 64, large_block = 300000;

/* --- blocks --- */

static void blocks_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct test_random random = test_random_start("test_arena");
    struct tea_arena *arena = tea_arena_create(0);
    uint8_t *blocks[500];
    size_t sizes[500];
    for (int round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 500; i++) {
            sizes[i] = test_random_below(&random, i % 50 == 0 ? 200000 : 600);
            blocks[i] = tea_arena_alloc(arena, sizes[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            assert_true(test_all_bytes(blocks[i], 0, sizes[i]));
            memset(blocks[i], (int)(i % 255 + 1), sizes[i]);
        }
        for (unsigned i = 0; i < 500; i++)
            assert_true(test_all_bytes(blocks[i], (uint8_t)(i % 255 + 1), sizes[i]));
        tea_arena_reset(arena);
    }
    tea_arena_destroy(arena);
}

static void empty_blocks_are_distinct(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(0);
    void *first = tea_arena_alloc(arena, 0), *second = tea_arena_alloc_uninit(arena, 0);
    assert_non_null(first);
    assert_ptr_not_equal(first, second);
}

static void blocks_fill_their_chunk_without_a_gap(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(0);
    uint8_t *last = tea_arena_alloc(arena, 48);
    for (size_t used = 48; used + 48 <= FREE_IN_CHUNK_BYTES; used += 48) {
        uint8_t *block = tea_arena_alloc(arena, 48);
        assert_ptr_equal(block, last + 48);
        last = block;
    }
    assert_int_equal(tea_arena_reserved_bytes(arena), CHUNK_BYTES);
    assert_non_null(tea_arena_alloc(arena, 48));
    assert_int_equal(tea_arena_reserved_bytes(arena), 2 * CHUNK_BYTES);
}

static void too_large_a_block_is_refused(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(0);
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 31, TEA_MAX_OBJECT_BYTES + 1,
                                   TEA_MAX_OBJECT_BYTES};
    assert_non_null(tea_arena_alloc(arena, 100));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        errno = 0;
        assert_null(tea_arena_alloc(arena, sizes[i]));
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(tea_arena_used_bytes(arena), 112);
    }
    assert_null(tea_arena_create(SIZE_MAX));
    assert_non_null(tea_arena_alloc(arena, 100));
}

/* --- counts --- */

static void used_bytes_are_those_handed_out_since_the_reset(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(0);
    assert_int_equal(tea_arena_used_bytes(arena), 0);
    assert_int_equal(tea_arena_reserved_bytes(arena), 0);
    size_t used = 0;
    for (int i = 0; i < 1000; i++) {
        assert_non_null(tea_arena_alloc(arena, 200));
        used += 208;
        assert_int_equal(tea_arena_used_bytes(arena), used);
    }
    assert_true(tea_arena_reserved_bytes(arena) >= used);
    tea_arena_reset(arena);
    assert_int_equal(tea_arena_used_bytes(arena), 0);
    assert_non_null(tea_arena_alloc(arena, 16));
    assert_int_equal(tea_arena_used_bytes(arena), 16);
}

static void chunks_are_used_again_after_a_reset(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(0);
    for (int i = 0; i < 1000; i++)
        assert_non_null(tea_arena_alloc(arena, 1000));
    size_t reserved = tea_arena_reserved_bytes(arena);
    for (int round = 0; round < 10; round++) {
        tea_arena_reset(arena);
        for (int i = 0; i < 1000; i++)
            assert_non_null(tea_arena_alloc(arena, 1000));
        assert_int_equal(tea_arena_reserved_bytes(arena), reserved);
    }
}

static void chunks_are_as_large_as_asked(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(1 << 20);
    assert_non_null(tea_arena_alloc(arena, 16));
    assert_int_equal(tea_arena_reserved_bytes(arena), 1 << 20);
}

static void a_block_larger_than_a_chunk_has_one_of_its_size(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(0);
    assert_non_null(tea_arena_alloc(arena, 16));
    assert_non_null(tea_arena_alloc(arena, 1000000));
    size_t reserved = tea_arena_reserved_bytes(arena);
    assert_in_range(reserved, CHUNK_BYTES + 1000000, CHUNK_BYTES + 1000000 + 2 * TEAI_PAGE_BYTES);
    /* After a reset the order of sizes is another; what is reserved serves all the same, or grows by what is lacking. */
    tea_arena_reset(arena);
    assert_non_null(tea_arena_alloc(arena, 16));
    assert_non_null(tea_arena_alloc(arena, 1000000));
    assert_int_equal(tea_arena_reserved_bytes(arena), reserved);
}

/* Its time is that of one word, whatever the arena holds: no chunk is looked at, so none is written. */
static void a_reset_touches_no_chunk_but_the_current(void **state)
{
    (void)state;
    struct tea_arena *arena = tea_arena_create(0);
    for (int i = 0; i < 1000; i++)
        assert_non_null(tea_arena_alloc(arena, 1000));
    static uint8_t before[CHUNK_BYTES];
    const struct teai_arena_chunk *first = arena->first;
    const struct teai_span *s = &h->tables.spans[teai_page_of(&h->tables, (uintptr_t)first)];
    struct teai_span span_before = *s;
    memcpy(before, first, CHUNK_BYTES);
    tea_arena_reset(arena);
    assert_memory_equal(before, first, CHUNK_BYTES);
    assert_memory_equal(&span_before, s, sizeof *s);
}

/* --- the collector --- */

static void a_block_keeps_what_it_refers_to(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    test_apart(put_object, &small_block);
    assert_int_equal(test_objects_after_collect(), 3); /* the arena, a chunk, the object */
    assert_true(test_is_alive(object_hidden));
}

static void a_large_block_keeps_what_its_last_word_refers_to(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    test_apart(put_object, &small_block);
    test_apart(put_object, &large_block);
    assert_int_equal(test_objects_after_collect(), 5);
    assert_true(test_is_alive(object_hidden));
}

static void blocks_in_every_chunk_keep_what_they_refer_to(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    unsigned nchunks = 1;
    for (int i = 0; i < 10; i++) {
        test_apart(put_object, &small_block);
        test_apart(fill_chunks, &nchunks);
    }
    assert_int_equal(test_objects_after_collect(),
                     1 + 10 + tea_arena_reserved_bytes(the_arena()) / CHUNK_BYTES);
}

static void after_a_reset_old_blocks_keep_nothing(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    for (int i = 0; i < 100; i++)
        test_apart(put_object, &small_block);
    assert_int_equal(test_objects_after_collect(), 102);
    test_apart(reset_arena, NULL);
    assert_int_equal(test_objects_after_collect(), 2);
}

static void new_blocks_in_a_used_chunk_do_not_bring_old_contents_back(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    for (int i = 0; i < 100; i++)
        test_apart(put_object, &small_block);
    test_apart(reset_arena, NULL);
    for (int i = 0; i < 10; i++)
        test_apart(put_object, &small_block);
    assert_int_equal(test_objects_after_collect(), 12);
}

static void chunks_not_yet_reached_again_keep_nothing(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    unsigned nchunks = 2;
    test_apart(fill_chunks, &nchunks);
    test_apart(put_object, &small_block);
    uintptr_t old = object_hidden;
    test_apart(reset_arena, NULL);
    test_apart(put_object, &small_block);
    test_objects_after_collect();
    assert_false(test_is_alive(old));
    assert_true(test_is_alive(object_hidden));
}

static void chunks_survive_collections_after_a_reset(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    unsigned nchunks = 5;
    test_apart(fill_chunks, &nchunks);
    uint64_t nobjects = test_objects_after_collect();
    test_apart(reset_arena, NULL);
    assert_int_equal(test_objects_after_collect(), nobjects);
    test_apart(fill_chunks, &nchunks);
    assert_int_equal(test_objects_after_collect(), nobjects);
    test_census();
}

static void destroying_an_arena_gives_all_of_it_back(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    unsigned nchunks = 5;
    test_apart(fill_chunks, &nchunks);
    test_apart(put_object, &large_block);
    test_apart(destroy_arena, NULL);
    assert_int_equal(test_objects_after_collect(), 0);
    assert_int_equal(h->pins.nused, 0);
    assert_int_equal(test_stats().alloc_bytes, 0);
    tea_arena_destroy(NULL);
}

/* A chunk ends where the next object begins: the arena must not take that address for a reference to it. */
static void put_arena_before_object(void *argument)
{
    const size_t *last_block_bytes = argument;
    /* Room for a chunk and the object, in this order. */
    tea_free(tea_alloc_leaf(50 * TEAI_PAGE_BYTES));
    make_arena(NULL);
    uint8_t *block = tea_arena_alloc(the_arena(), 16);
    void *object = tea_alloc_leaf(5 * TEAI_PAGE_BYTES);
    TEST_REQUIRE((uint8_t *)object == block - sizeof(struct teai_arena_chunk) + CHUNK_BYTES);
    if (*last_block_bytes != 0)
        TEST_REQUIRE(tea_arena_alloc(the_arena(), *last_block_bytes) != NULL);
    object_hidden = test_hide(object);
}

static void an_arena_does_not_keep_the_object_behind_its_chunk(void **state)
{
    (void)state;
    size_t last_block_bytes = 0;
    test_apart(put_arena_before_object, &last_block_bytes);
    assert_int_equal(test_objects_after_collect(), 2);
    assert_false(test_is_alive(object_hidden));
}

static void a_full_arena_does_not_keep_the_object_behind_its_chunk(void **state)
{
    (void)state;
    size_t last_block_bytes = FREE_IN_CHUNK_BYTES - 16;
    test_apart(put_arena_before_object, &last_block_bytes);
    assert_int_equal(test_objects_after_collect(), 2);
    assert_false(test_is_alive(object_hidden));
}

/* --- two arenas --- */

static uintptr_t arenas[2];

static void use_two_arenas(void *argument)
{
    (void)argument;
    struct test_random random = {1};
    struct tea_arena *a = tea_arena_create(0), *b = tea_arena_create(128 << 10);
    for (int i = 0; i < 2000; i++) {
        struct tea_arena *one = test_random_below(&random, 2) == 0 ? a : b;
        void **block = tea_arena_alloc(one, 32 + test_random_below(&random, 400));
        TEST_REQUIRE(block != NULL);
        block[0] = tea_alloc(48);
        block_hidden = test_hide(block);
    }
    arenas[0] = test_hide(a);
    arenas[1] = test_hide(b);
}

static void reset_first(void *argument)
{
    (void)argument;
    tea_arena_reset(test_reveal(arenas[0]));
}

static void resetting_one_arena_leaves_the_other_alone(void **state)
{
    (void)state;
    test_apart(use_two_arenas, NULL);
    uint64_t before = test_objects_after_collect();
    size_t used = tea_arena_used_bytes(test_reveal(arenas[1]));
    test_apart(reset_first, NULL);
    uint64_t after = test_objects_after_collect();
    assert_int_equal(tea_arena_used_bytes(test_reveal(arenas[1])), used);
    assert_int_equal(tea_arena_used_bytes(test_reveal(arenas[0])), 0);
    /* About half of 2,000 objects were the first arena's. */
    assert_in_range(before - after, 800, 1200);
}

static void an_arena_may_be_used_by_one_thread_after_another(void **state)
{
    (void)state;
    test_apart(make_arena, NULL);
    for (int i = 0; i < 20; i++) {
        test_apart(put_object, &small_block);
        assert_int_equal(test_objects_after_collect(), 3 + (unsigned)i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(blocks_are_zeroed_aligned_and_apart),
        heap_test(empty_blocks_are_distinct),
        heap_test(blocks_fill_their_chunk_without_a_gap),
        heap_test(too_large_a_block_is_refused),
        heap_test(used_bytes_are_those_handed_out_since_the_reset),
        heap_test(chunks_are_used_again_after_a_reset),
        heap_test(chunks_are_as_large_as_asked),
        heap_test(a_block_larger_than_a_chunk_has_one_of_its_size),
        heap_test(a_reset_touches_no_chunk_but_the_current),
        heap_test(a_block_keeps_what_it_refers_to),
        heap_test(a_large_block_keeps_what_its_last_word_refers_to),
        heap_test(blocks_in_every_chunk_keep_what_they_refer_to),
        heap_test(after_a_reset_old_blocks_keep_nothing),
        heap_test(new_blocks_in_a_used_chunk_do_not_bring_old_contents_back),
        heap_test(chunks_not_yet_reached_again_keep_nothing),
        heap_test(chunks_survive_collections_after_a_reset),
        heap_test(destroying_an_arena_gives_all_of_it_back),
        heap_test(an_arena_does_not_keep_the_object_behind_its_chunk),
        heap_test(a_full_arena_does_not_keep_the_object_behind_its_chunk),
        heap_test(resetting_one_arena_leaves_the_other_alone),
        heap_test(an_arena_may_be_used_by_one_thread_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
