/* tests/bugs/test_b49_size_overflow.c -- B49: a size that wraps when it is rounded up is refused, not served small.
 *
 * Every allocation entry is asked for SIZE_MAX - k and for sizes around PTRDIFF_MAX and around the largest object; each
 * must return NULL with ENOMEM and leave no trace in the statistics. (Reports: bdwgc/bdwgc #135, PR 15.)
 */
#include "tests/support/objects.h"

#include <errno.h>
#include <string.h>

/* All tests use one heap of this process: refused requests must not change it. */

static const uint64_t every_word[1] = {1};
static const struct tea_type one_word_type = {sizeof(void *), 1, every_word};
static const struct tea_type wide_type = {4096, 1, every_word};

static struct tea_arena *arena;
static void *old_object;
static void *old_large_object;

enum { OLD_BYTES = 100, OLD_LARGE_BYTES = 100000 };

static void *call_alloc(size_t n)
{
    return tea_alloc(n);
}
static void *call_alloc_leaf(size_t n)
{
    return tea_alloc_leaf(n);
}
static void *call_alloc_leaf_uninit(size_t n)
{
    return tea_alloc_leaf_uninit(n);
}
static void *call_alloc_uncollectable(size_t n)
{
    return tea_alloc_uncollectable(n);
}
static void *call_alloc_aligned_16(size_t n)
{
    return tea_alloc_aligned(16, n);
}
static void *call_alloc_aligned_mib(size_t n)
{
    return tea_alloc_aligned((size_t)1 << 20, n);
}
static void *call_calloc_one(size_t n)
{
    return tea_calloc(1, n);
}
static void *call_calloc_count(size_t n)
{
    return tea_calloc(n, 1);
}
static void *call_calloc_wraps(size_t n)
{
    return tea_calloc(n / 2 + 1, 4);
}
static void *call_calloc_wraps_square(size_t n)
{
    return tea_calloc(n, n);
}
static void *call_typed(size_t n)
{
    return tea_alloc_typed(&one_word_type, n);
}
static void *call_typed_wide(size_t n)
{
    return tea_alloc_typed(&wide_type, n / 4096 + 1);
}
static void *call_memdup(size_t n)
{
    return tea_memdup(old_object, n);
}
static void *call_realloc_new(size_t n)
{
    return tea_realloc(NULL, n);
}
static void *call_realloc_small(size_t n)
{
    return tea_realloc(old_object, n);
}
static void *call_realloc_large(size_t n)
{
    return tea_realloc(old_large_object, n);
}
static void *call_reallocarray_one(size_t n)
{
    return tea_reallocarray(old_object, 1, n);
}
static void *call_reallocarray_wraps(size_t n)
{
    return tea_reallocarray(old_large_object, n / 2 + 1, 4);
}
static void *call_arena(size_t n)
{
    return tea_arena_alloc(arena, n);
}
static void *call_arena_uninit(size_t n)
{
    return tea_arena_alloc_uninit(arena, n);
}

static const struct entry {
    const char *name;
    void *(*call)(size_t n);
} entries[] = {
    {"tea_alloc(n)", call_alloc},
    {"tea_alloc_leaf(n)", call_alloc_leaf},
    {"tea_alloc_leaf_uninit(n)", call_alloc_leaf_uninit},
    {"tea_alloc_uncollectable(n)", call_alloc_uncollectable},
    {"tea_alloc_aligned(16, n)", call_alloc_aligned_16},
    {"tea_alloc_aligned(1 MiB, n)", call_alloc_aligned_mib},
    {"tea_calloc(1, n)", call_calloc_one},
    {"tea_calloc(n, 1)", call_calloc_count},
    {"tea_calloc(n / 2 + 1, 4)", call_calloc_wraps},
    {"tea_calloc(n, n)", call_calloc_wraps_square},
    {"tea_alloc_typed(word, n)", call_typed},
    {"tea_alloc_typed(page, n / 4096 + 1)", call_typed_wide},
    {"tea_memdup(object, n)", call_memdup},
    {"tea_realloc(NULL, n)", call_realloc_new},
    {"tea_realloc(small, n)", call_realloc_small},
    {"tea_realloc(large, n)", call_realloc_large},
    {"tea_reallocarray(small, 1, n)", call_reallocarray_one},
    {"tea_reallocarray(large, n / 2 + 1, 4)", call_reallocarray_wraps},
    {"tea_arena_alloc(n)", call_arena},
    {"tea_arena_alloc_uninit(n)", call_arena_uninit},
};

static int make_old_objects(void **state)
{
    (void)state;
    arena = tea_arena_create(0);
    old_object = tea_alloc(OLD_BYTES);
    old_large_object = tea_alloc(OLD_LARGE_BYTES);
    if (arena == NULL || old_object == NULL || old_large_object == NULL)
        return -1;
    test_object_fill(old_object, OLD_BYTES);
    test_object_fill(old_large_object, OLD_LARGE_BYTES);
    return 0;
}

/* What a refused request must leave alone; times and collections are not among it. */
static void assert_same_counts(const struct tea_stats *a, const struct tea_stats *b)
{
    assert_int_equal(a->mallocs, b->mallocs);
    assert_int_equal(a->frees, b->frees);
    assert_int_equal(a->alloc_bytes, b->alloc_bytes);
    assert_int_equal(a->total_alloc_bytes, b->total_alloc_bytes);
    assert_int_equal(a->heap_inuse_bytes, b->heap_inuse_bytes);
    assert_int_equal(a->heap_sys_bytes, b->heap_sys_bytes);
    assert_int_equal(a->heap_live_bytes, b->heap_live_bytes);
    assert_int_equal(a->sys_bytes, b->sys_bytes);
    assert_int_equal(a->num_gc, b->num_gc);
    assert_memory_equal(a->by_size, b->by_size, sizeof a->by_size);
}

static void assert_refused(const struct entry *entry, size_t n)
{
    errno = 0;
    const void *result = entry->call(n);
    if (result != NULL || errno != ENOMEM)
        fail_msg("%s with n = %#zx: result %p, errno %d", entry->name, n, result, errno);
}

static void assert_all_refused(size_t center, size_t below, size_t above, size_t step)
{
    struct tea_stats before = test_stats();
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        for (size_t n = center - below; n - (center - below) <= below + above; n += step)
            assert_refused(&entries[i], n);
    struct tea_stats after = test_stats();
    assert_same_counts(&before, &after);
    assert_true(test_object_is_intact(test_hide(old_object), OLD_BYTES));
    assert_true(test_object_is_intact(test_hide(old_large_object), OLD_LARGE_BYTES));
    teai_verify_heap(&teai_default_heap, NULL);
}

static void sizes_just_below_the_largest_number_are_refused(void **state)
{
    (void)state;
    assert_all_refused(SIZE_MAX, 300, 0, 1);
    assert_all_refused(SIZE_MAX, 65536, 0, 97);
}

static void sizes_around_the_largest_difference_are_refused(void **state)
{
    (void)state;
    assert_all_refused(PTRDIFF_MAX, 300, 300, 1);
    assert_all_refused(PTRDIFF_MAX, 65536, 65536, 97);
}

static void sizes_around_the_largest_object_are_refused(void **state)
{
    (void)state;
    assert_all_refused(TEA_MAX_OBJECT_BYTES, 65536, 65536, 97);
}

static void every_power_of_two_above_the_largest_object_is_refused(void **state)
{
    (void)state;
    for (size_t n = TEA_MAX_OBJECT_BYTES * 2; n != 0; n *= 2)
        assert_all_refused(n, 1, 1, 1);
}

static void arenas_with_chunks_of_absurd_size_allocate_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < 65536; k += 97) {
        errno = 0;
        struct tea_arena *absurd = tea_arena_create(SIZE_MAX - k);
        void *block = absurd != NULL ? tea_arena_alloc(absurd, 16) : NULL;
        assert_null(block);
        assert_int_equal(errno, ENOMEM);
        tea_arena_destroy(absurd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_just_below_the_largest_number_are_refused),
        cmocka_unit_test(sizes_around_the_largest_difference_are_refused),
        cmocka_unit_test(sizes_around_the_largest_object_are_refused),
        cmocka_unit_test(every_power_of_two_above_the_largest_object_is_refused),
        cmocka_unit_test(arenas_with_chunks_of_absurd_size_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, make_old_objects, NULL);
}
