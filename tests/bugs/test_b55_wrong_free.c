/* tests/bugs/test_b55_wrong_free.c -- B55: tea_free() of a pointer that is no object's start says so and does nothing.
 *
 * Elsewhere such a call corrupts the heap, or is passed over in silence until an abort hours later. (Reports:
 * clasp-developers/clasp #1793, Macaulay2/M2 #714, dlang/dmd #17134.)
 */
#include "tests/support/objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct test_log messages;

/* `pointer` is what the messages name. */
static void expect_message(const char *call, const void *pointer, unsigned nbefore)
{
    char text[100];
    snprintf(text, sizeof text, "%s: %p ", call, pointer);
    test_log_expect(&messages, nbefore + 1, text);
}

/* Free what must not be freed: one message, no change. */
static void assert_free_refused(void *pointer)
{
    struct tea_stats before = test_stats();
    unsigned nlines = messages.nlines;
    errno = 4711;
    tea_free(pointer);
    expect_message("tea_free", pointer, nlines);
    assert_int_equal(errno, 4711);
    struct tea_stats after = test_stats();
    assert_int_equal(after.frees, before.frees);
    assert_int_equal(after.heap_inuse_bytes, before.heap_inuse_bytes);
    teai_verify_heap(&teai_default_heap, NULL);
}

static void assert_realloc_refused(void *pointer)
{
    unsigned nlines = messages.nlines;
    errno = 0;
    void *result = tea_realloc(pointer, 4000);
    assert_null(result);
    assert_int_equal(errno, EINVAL);
    expect_message("tea_realloc", pointer, nlines);
    teai_verify_heap(&teai_default_heap, NULL);
}

static void assert_is_no_object(void *pointer)
{
    assert_int_equal(tea_usable_bytes(pointer), 0);
    assert_free_refused(pointer);
    assert_realloc_refused(pointer);
}

static const size_t sizes[] = {16, 24, 32, 100, 512, 1000, 8192, 32768, 32769, 100000, 1 << 20};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

static void pointers_inside_objects_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++) {
        test_log_capture(&messages);
        char *object = tea_alloc(sizes[i]);
        test_object_fill(object, sizes[i]);
        assert_is_no_object(object + 1);
        assert_is_no_object(object + 8);
        assert_is_no_object(object + sizes[i] - 1);
        assert_true(test_object_is_intact(test_hide(object), sizes[i]));
        assert_ptr_equal(tea_base(object + 8), object);
    }
}

static void the_second_page_of_a_large_object_is_refused(void **state)
{
    (void)state;
    test_log_capture(&messages);
    char *object = tea_alloc(10 * TEAI_PAGE_BYTES);
    test_object_fill(object, 10 * TEAI_PAGE_BYTES);
    assert_is_no_object(object + TEAI_PAGE_BYTES);
    assert_is_no_object(object + 9 * TEAI_PAGE_BYTES);
    assert_true(test_object_is_intact(test_hide(object), 10 * TEAI_PAGE_BYTES));
}

static void a_second_free_is_refused(void **state)
{
    (void)state;
    test_log_capture(&messages);
    for (size_t i = 0; i < NSIZES; i++) {
        void *object = tea_alloc(sizes[i]);
        tea_free(object);
        assert_int_equal(messages.nlines, 2 * i);
        assert_free_refused(object);
        assert_realloc_refused(object);
    }
}

/* The slot may be handed out again in between: then the second free is one of another object, and cannot be told. */
static void a_second_free_after_an_allocation_harms_no_third_object(void **state)
{
    (void)state;
    test_log_capture(&messages);
    for (size_t i = 0; i < NSIZES; i++) {
        void *first = tea_alloc(sizes[i]);
        tea_free(first);
        void *second = tea_alloc(sizes[i]);
        test_object_fill(second, sizes[i]);
        if (second == first)
            continue;
        assert_free_refused(first);
        assert_true(test_object_is_intact(test_hide(second), sizes[i]));
    }
    assert_int_not_equal(messages.nlines, 0);
}

static void a_second_free_after_a_collection_is_refused(void **state)
{
    (void)state;
    test_log_capture(&messages);
    for (size_t i = 0; i < NSIZES; i++) {
        void *object = tea_alloc(sizes[i]);
        tea_free(object);
        tea_collect();
        assert_free_refused(object);
    }
}

static int static_object[100];

static void memory_outside_the_heap_is_refused(void **state)
{
    (void)state;
    test_log_capture(&messages);
    int local_object[100] = {0};
    void *foreign = test_malloc(100);
    assert_is_no_object(static_object);
    assert_is_no_object(local_object);
    assert_is_no_object(foreign);
    assert_is_no_object((void *)&assert_is_no_object);
    assert_is_no_object((void *)8);
    assert_is_no_object((void *)UINTPTR_MAX);
    assert_is_no_object((void *)teai_default_heap.reservation_base +
                        teai_default_heap.reservation_bytes - 8);
    assert_int_equal(local_object[0], 0);
    test_free(foreign);
}

static void slots_never_handed_out_are_refused(void **state)
{
    (void)state;
    test_log_capture(&messages);
    char *object = tea_alloc(48);
    assert_is_no_object(object + 48); /* the neighbour, leased by this thread's cache */
    assert_is_no_object(
        (char *)(teai_default_heap.tables.heap_base_addr +
                 ((uintptr_t)teai_page_heap_limit(teai_default_heap.pages) << TEAI_PAGE_SHIFT)));
}

static void null_is_freed_in_silence(void **state)
{
    (void)state;
    test_log_capture(&messages);
    tea_free(NULL);
    assert_int_equal(messages.nlines, 0);
}

/* Several may share a block, so the call cannot know: it leaves the block to the collector. */
static void tiny_objects_are_accepted_and_left_alone(void **state)
{
    (void)state;
    test_log_capture(&messages);
    char *a = tea_alloc_leaf(3), *b = tea_alloc_leaf(3);
    memcpy(a, "ab", 3);
    memcpy(b, "cd", 3);
    tea_free(a);
    tea_free(a);
    assert_string_equal(b, "cd");
    assert_int_equal(messages.nlines, 0);
    teai_verify_heap(&teai_default_heap, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(pointers_inside_objects_are_refused),
        heap_test(the_second_page_of_a_large_object_is_refused),
        heap_test(a_second_free_is_refused),
        heap_test(a_second_free_after_an_allocation_harms_no_third_object),
        heap_test(a_second_free_after_a_collection_is_refused),
        heap_test(memory_outside_the_heap_is_refused),
        heap_test(slots_never_handed_out_are_refused),
        heap_test(null_is_freed_in_silence),
        heap_test(tiny_objects_are_accepted_and_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
