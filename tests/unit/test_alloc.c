/* tests/unit/test_alloc.c -- allocation by size, kind and alignment; tiny objects; what happens when memory is out. */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include "gc/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

/* Sizes at and around every class border, and large ones around page borders. */
static size_t border_size(size_t i)
{
    if (i < 3 * TEAI_NSIZE_CLASSES)
        return teai_sizeclass_bytes[i / 3] + i % 3; /* exact, and the next two */
    i -= 3 * TEAI_NSIZE_CLASSES;
    return (i / 3 + 4) * TEAI_PAGE_BYTES + i % 3 - 1;
}
enum { NBORDER_SIZES = 3 * TEAI_NSIZE_CLASSES + 60 };

static const uint64_t every_word = 1;
static const struct tea_type word_type = {sizeof(void *), 1, &every_word};

/* --- what every object promises --- */

static void assert_object(const char *call, void *object, size_t bytes)
{
    size_t align = bytes == 24 ? 8 : 16;
    if (object == NULL || (uintptr_t)object % align != 0 || tea_usable_bytes(object) < bytes)
        fail_msg("%s(%zu): %p, %zu usable", call, bytes, object,
                 object != NULL ? tea_usable_bytes(object) : 0);
    if (!test_all_bytes(object, 0, bytes))
        fail_msg("%s(%zu): not zero", call, bytes);
    memset(object, 0xa5, bytes);
}

static void objects_of_every_size_are_zeroed_aligned_and_large_enough(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < NBORDER_SIZES; i++) {
            size_t bytes = border_size(i);
            assert_object("tea_alloc", tea_alloc(bytes), bytes);
            assert_object("tea_calloc", tea_calloc(1, bytes), bytes);
            assert_object("tea_alloc_uncollectable", tea_alloc_uncollectable(bytes), bytes);
            if (bytes >= TEAI_TINY_BYTES)
                assert_object("tea_alloc_leaf", tea_alloc_leaf(bytes), bytes);
            size_t words = bytes / sizeof(void *);
            assert_object("tea_alloc_typed", tea_alloc_typed(&word_type, words),
                          words * sizeof(void *));
        }
        tea_collect(); /* and again, in used memory */
    }
}

static void uninitialised_leaves_are_usable_to_their_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < NBORDER_SIZES; i++) {
        size_t bytes = border_size(i);
        uint8_t *object = tea_alloc_leaf_uninit(bytes);
        assert_non_null(object);
        assert_true(tea_usable_bytes(object) >= bytes);
        memset(object, 0x5a, bytes);
    }
    test_census();
}

static void objects_do_not_overlap(void **state)
{
    (void)state;
    enum { N = 3000 };
    static uint8_t *objects[N];
    static size_t sizes[N];
    struct test_random random = test_random_start("test_alloc");
    for (unsigned i = 0; i < N; i++) {
        sizes[i] = test_random_skewed(&random, 100000);
        objects[i] = i % 2 == 0 ? tea_alloc(sizes[i]) : tea_alloc_leaf(sizes[i]);
        memset(objects[i], (int)(i % 251), sizes[i]);
    }
    tea_collect();
    for (unsigned i = 0; i < N; i++)
        if (!test_all_bytes(objects[i], i % 251, sizes[i]))
            fail_msg("object %u of %zu bytes was overwritten", i, sizes[i]);
}

static void empty_objects_are_distinct(void **state)
{
    (void)state;
    void *(*const calls[])(size_t) = {tea_alloc, tea_alloc_leaf, tea_alloc_leaf_uninit,
                                      tea_alloc_uncollectable};
    void *objects[4 * 50];
    for (unsigned i = 0; i < 4 * 50; i++) {
        objects[i] = calls[i / 50](0);
        assert_non_null(objects[i]);
        assert_true(tea_usable_bytes(objects[i]) > 0);
        for (unsigned k = 0; k < i; k++)
            assert_ptr_not_equal(objects[i], objects[k]);
    }
}

/* --- refusals --- */

static void expect_enomem(void *object)
{
    assert_null(object);
    assert_int_equal(errno, ENOMEM);
    errno = 0;
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {TEA_MAX_OBJECT_BYTES + 1, SIZE_MAX, SIZE_MAX - 4096,
                                   PTRDIFF_MAX};
    errno = 0;
    for (volatile size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        expect_enomem(tea_alloc(sizes[i]));
        expect_enomem(tea_alloc_leaf(sizes[i]));
        expect_enomem(tea_alloc_leaf_uninit(sizes[i]));
        expect_enomem(tea_alloc_uncollectable(sizes[i]));
        expect_enomem(tea_alloc_aligned(4096, sizes[i]));
        expect_enomem(tea_alloc_typed(&word_type, sizes[i]));
        expect_enomem(tea_realloc(tea_alloc(10), sizes[i]));
        expect_enomem(tea_calloc(1, sizes[i]));
    }
}

static void products_that_overflow_are_refused(void **state)
{
    (void)state;
    volatile size_t half = (size_t)1 << 32, most = SIZE_MAX;
    errno = 0;
    expect_enomem(tea_calloc(half, half));
    expect_enomem(tea_calloc(most, half));
    expect_enomem(tea_reallocarray(tea_alloc(10), half, half));
    expect_enomem(tea_alloc_typed(&word_type, most / 4));
    assert_non_null(tea_calloc(0, half));
    assert_non_null(tea_calloc(half, 0));
}

static void more_than_the_heap_holds_is_refused(void **state)
{
    (void)state;
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = (size_t)64 << 20;
    assert_int_equal(tea_init(&options), TEA_OK);
    errno = 0;
    expect_enomem(tea_alloc((size_t)65 << 20));
    expect_enomem(tea_alloc(TEA_MAX_OBJECT_BYTES));
    assert_non_null(tea_alloc_leaf((size_t)40 << 20));
}

static void wrong_types_and_alignments_are_refused(void **state)
{
    (void)state;
    static const uint64_t bits[] = {1};
    const struct tea_type empty = {0, 0, bits}, odd = {12, 1, bits}, too_many_words = {16, 3, bits},
                          no_bits = {16, 1, NULL};
    const struct tea_type *const types[] = {NULL, &empty, &odd, &too_many_words, &no_bits};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        errno = 0;
        assert_null(tea_alloc_typed(types[i], 1));
        assert_int_equal(errno, EINVAL);
    }
    static const size_t alignments[] = {0, 3, 24, 48, (1 << 20) + 1, 1 << 21, SIZE_MAX};
    for (volatile size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        errno = 0;
        assert_null(tea_alloc_aligned(alignments[i], 100));
        assert_int_equal(errno, EINVAL);
    }
}

/* --- alignment --- */

static void every_power_of_two_up_to_a_mebibyte_is_met(void **state)
{
    (void)state;
    struct test_random random = test_random_start("test_alloc");
    for (size_t align = 1; align <= (size_t)1 << 20; align *= 2)
        for (int i = 0; i < 24; i++) {
            size_t bytes = i == 0   ? 0
                           : i == 1 ? 1
                           : i == 2 ? align
                           : i == 3 ? align + 1
                           : i == 4 ? 24
                                    : test_random_skewed(&random, i % 2 == 0 ? 1000 : 100000);
            uint8_t *object = tea_alloc_aligned(align, bytes);
            assert_non_null(object);
            assert_int_equal((uintptr_t)object % align, 0);
            assert_true(tea_usable_bytes(object) >= bytes);
            assert_true(test_all_bytes(object, 0, bytes));
            memset(object, 0xa5, bytes);
        }
    test_census();
}

static void aligned_objects_are_collected_and_freed_like_others(void **state)
{
    (void)state;
    for (size_t align = 16; align <= (size_t)1 << 20; align *= 2) {
        void *object = tea_alloc_aligned(align, 100);
        assert_ptr_equal(tea_base((char *)object + 99), object);
        tea_free(object);
    }
    assert_int_equal(test_stats().heap_objects, 0);
}

/* --- tiny objects --- */

static void tiny_objects_share_a_block_by_their_alignment(void **state)
{
    (void)state;
    uint8_t *one = tea_alloc_leaf(1), *two = tea_alloc_leaf(2), *four = tea_alloc_leaf(4),
            *eight = tea_alloc_leaf(8);
    assert_int_equal((uintptr_t)one % TEAI_TINY_BYTES, 0);
    assert_ptr_equal(two, one + 2);
    assert_ptr_equal(four, one + 4);
    assert_ptr_equal(eight, one + 8);
    uint8_t *next = tea_alloc_leaf(3);
    assert_ptr_not_equal((void *)((uintptr_t)next & ~15ul), one);
    assert_int_equal(test_stats().heap_objects, 2); /* blocks */
}

static void objects_of_sixteen_bytes_share_with_none(void **state)
{
    (void)state;
    uint8_t *tiny = tea_alloc_leaf(1), *whole = tea_alloc_leaf(16), *other = tea_alloc_leaf(1);
    assert_ptr_equal(other, tiny + 1);
    assert_int_equal((uintptr_t)whole % 16, 0);
    assert_ptr_not_equal(whole, tiny);
}

static void tiny_objects_read_zero(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 5000; i++) {
            size_t bytes = 1 + i % 15;
            uint8_t *tiny = tea_alloc_leaf(bytes);
            assert_true(test_all_bytes(tiny, 0, bytes));
            memset(tiny, 0xff, bytes);
        }
        tea_collect();
    }
}

static void tiny_objects_keep_their_contents(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint8_t *tiny[N];
    for (size_t i = 0; i < N; i++) {
        tiny[i] = tea_alloc_leaf(1 + i % 15);
        memset(tiny[i], (int)(i % 251), 1 + i % 15);
        if (i % 1000 == 0)
            tea_collect();
    }
    for (size_t i = 0; i < N; i++)
        assert_true(test_all_bytes(tiny[i], i % 251, 1 + i % 15));
}

static void freeing_a_tiny_object_is_accepted_and_harmless(void **state)
{
    (void)state;
    static struct test_log log;
    test_log_capture(&log);
    uint8_t *one = tea_alloc_leaf(4), *two = tea_alloc_leaf(4);
    memset(two, 7, 4);
    tea_free(one);
    tea_free(one);
    assert_int_equal(log.nlines, 0);
    assert_true(test_all_bytes(two, 7, 4));
    assert_ptr_equal(tea_alloc_leaf(4), two + 4);
}

static void usable_bytes_of_a_tiny_object_end_with_its_block(void **state)
{
    (void)state;
    uint8_t *one = tea_alloc_leaf(2), *two = tea_alloc_leaf(5);
    assert_int_equal(tea_usable_bytes(one), 16);
    assert_int_equal(tea_usable_bytes(two), 16 - (size_t)(two - one));
}

/* Three to a block, and then enough others that the thread's current block is none of them. */
static uintptr_t tiny_hidden[3];
static void *volatile tiny_kept;

static void make_three_in_a_block(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_alloc_leaf(15) != NULL);
    for (int i = 0; i < 3; i++)
        tiny_hidden[i] = test_hide(tea_alloc_leaf(5));
    tiny_kept = (char *)test_reveal(tiny_hidden[1]) + 1;
    TEST_REQUIRE(tea_alloc_leaf(15) != NULL && tea_alloc_leaf(15) != NULL);
}

static bool tiny_is_alive(int i)
{
    bool alive = tea_is_heap_pointer(test_reveal(tiny_hidden[i]));
    test_scrub_stack();
    return alive;
}

static void a_block_lives_while_one_of_its_objects_does(void **state)
{
    (void)state;
    test_apart(make_three_in_a_block, NULL);
    assert_int_equal(test_objects_after_collect(), 1);
    for (int i = 0; i < 3; i++)
        assert_true(tiny_is_alive(i));
    tiny_kept = NULL;
    assert_int_equal(test_objects_after_collect(), 0);
    for (int i = 0; i < 3; i++)
        assert_false(tiny_is_alive(i));
}

static void the_current_block_survives_a_collection(void **state)
{
    (void)state;
    uint8_t *one = tea_alloc_leaf(4);
    uintptr_t next = test_hide(one + 4);
    one = NULL;
    test_scrub_stack();
    tea_collect();
    assert_true(tea_alloc_leaf(4) == test_reveal(next));
}

/* --- copies --- */

static void strings_are_copied(void **state)
{
    (void)state;
    assert_string_equal(tea_strdup(""), "");
    assert_string_equal(tea_strdup("spans"), "spans");
    assert_string_equal(tea_strndup("spans", 3), "spa");
    assert_string_equal(tea_strndup("spans", 9), "spans");
    assert_string_equal(tea_strndup("spans", 0), "");
    static const char unterminated[3] = {'a', 'b', 'c'};
    assert_string_equal(tea_strndup(unterminated, 3), "abc");
    char long_text[100000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    assert_string_equal(tea_strdup(long_text), long_text);
}

static void bytes_are_copied(void **state)
{
    (void)state;
    char bytes[1000];
    memset(bytes, 7, sizeof bytes);
    assert_memory_equal(tea_memdup(bytes, sizeof bytes), bytes, sizeof bytes);
    assert_non_null(tea_memdup(bytes, 0));
}

static uintptr_t copied_hidden;

static void copy_a_reference(void *argument)
{
    void **keeper = argument;
    void *object = tea_alloc(64);
    *keeper = test_inner(tea_memdup(&object, sizeof object));
    copied_hidden = test_hide(object);
}

static void a_copy_of_bytes_is_scanned(void **state)
{
    (void)state;
    static void *keeper;
    test_apart(copy_a_reference, &keeper);
    assert_int_equal(test_objects_after_collect(), 2);
    assert_true(test_is_alive(copied_hidden));
}

/* --- out of memory --- */

enum { SMALL_HEAP_BYTES = 64 << 20, PIECE_BYTES = 1 << 20 };

static void start_small_heap(tea_oom_fn oom, void *context)
{
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = SMALL_HEAP_BYTES;
    options.gc_percent = -1;
    options.oom = oom;
    options.oom_context = context;
    assert_int_equal(tea_init(&options), TEA_OK);
}

enum { MAX_PIECES = 1 << 20 };
static void *pieces[MAX_PIECES];
static unsigned npieces;

static TEAI_NOINLINE bool add_piece(size_t bytes)
{
    void *piece = tea_alloc(bytes);
    if (piece != NULL)
        pieces[npieces++] = piece;
    return piece != NULL;
}

static void drop_pieces(void)
{
    memset(pieces, 0, npieces * sizeof *pieces);
    npieces = 0;
}

/* Until a request is refused; how many were granted. */
static unsigned fill_heap(size_t bytes)
{
    unsigned before = npieces;
    errno = 0;
    while (add_piece(bytes))
        ;
    return npieces - before;
}

static void a_full_heap_refuses_and_goes_on(void **state)
{
    (void)state;
    start_small_heap(NULL, NULL);
    assert_in_range(fill_heap(PIECE_BYTES), 40, 64);
    assert_int_equal(errno, ENOMEM);
    assert_true(test_stats().num_gc > 0);
    fill_heap(64);
    assert_int_equal(errno, ENOMEM);
    test_census();
    drop_pieces();
    /* Found by the collection that the request itself runs. */
    assert_non_null(tea_alloc((size_t)20 << 20));
}

static void garbage_is_collected_before_a_request_is_refused(void **state)
{
    (void)state;
    start_small_heap(NULL, NULL);
    for (int i = 0; i < 500; i++)
        assert_non_null(tea_alloc_leaf(PIECE_BYTES));
    assert_true(test_stats().num_gc >= 7);
}

struct oom_calls {
    unsigned ncalls, nreleases;
    size_t size_bytes;
};

static bool release_pieces(size_t size_bytes, void *context)
{
    struct oom_calls *calls = context;
    calls->ncalls++;
    calls->size_bytes = size_bytes;
    drop_pieces();
    return calls->nreleases-- > 0;
}

static void the_callback_makes_room(void **state)
{
    (void)state;
    static struct oom_calls calls = {.nreleases = 1};
    start_small_heap(release_pieces, &calls);
    for (unsigned n = 0; calls.ncalls == 0 && n < 200; n++)
        assert_true(add_piece(PIECE_BYTES + 1));
    assert_int_equal(calls.ncalls, 1);
    assert_int_equal(calls.size_bytes, PIECE_BYTES + 1);
}

static void the_callback_may_decline(void **state)
{
    (void)state;
    static struct oom_calls calls = {.nreleases = 0};
    start_small_heap(release_pieces, &calls);
    fill_heap(PIECE_BYTES);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(calls.ncalls, 1);
}

static void a_callback_set_before_the_start_is_asked(void **state)
{
    (void)state;
    static struct oom_calls calls = {.nreleases = 0};
    tea_set_oom_callback(release_pieces, &calls);
    start_small_heap(NULL, NULL);
    fill_heap(PIECE_BYTES);
    assert_int_equal(calls.ncalls, 1);
    tea_set_oom_callback(NULL, NULL);
    fill_heap(PIECE_BYTES);
    assert_int_equal(calls.ncalls, 1);
}

/* --- stress mode --- */

static void stress_mode_collects_at_every_nth_refill(void **state)
{
    (void)state;
    uint32_t before = tea_gc_count();
    for (int i = 0; i < 128 * 20; i++)
        assert_non_null(tea_alloc(64)); /* 20 refills at least */
    assert_true(tea_gc_count() - before >= 5);
    assert_int_equal(h->settings.stress, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(objects_of_every_size_are_zeroed_aligned_and_large_enough),
        heap_test(uninitialised_leaves_are_usable_to_their_end),
        heap_test(objects_do_not_overlap),
        heap_test(empty_objects_are_distinct),
        heap_test(impossible_sizes_are_refused),
        heap_test(products_that_overflow_are_refused),
        heap_test(more_than_the_heap_holds_is_refused),
        heap_test(wrong_types_and_alignments_are_refused),
        heap_test(every_power_of_two_up_to_a_mebibyte_is_met),
        heap_test(aligned_objects_are_collected_and_freed_like_others),
        heap_test(tiny_objects_share_a_block_by_their_alignment),
        heap_test(objects_of_sixteen_bytes_share_with_none),
        heap_test(tiny_objects_read_zero),
        heap_test(tiny_objects_keep_their_contents),
        heap_test(freeing_a_tiny_object_is_accepted_and_harmless),
        heap_test(usable_bytes_of_a_tiny_object_end_with_its_block),
        heap_test(a_block_lives_while_one_of_its_objects_does),
        heap_test(the_current_block_survives_a_collection),
        heap_test(strings_are_copied),
        heap_test(bytes_are_copied),
        heap_test(a_copy_of_bytes_is_scanned),
        heap_test(a_full_heap_refuses_and_goes_on),
        heap_test(garbage_is_collected_before_a_request_is_refused),
        heap_test(the_callback_makes_room),
        heap_test(the_callback_may_decline),
        heap_test(a_callback_set_before_the_start_is_asked),
        heap_test_with(stress_mode_collects_at_every_nth_refill, "TEASPAN=stress=3"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
