/* tests/unit/test_root.c -- registered ranges: scanned while registered and not after; wrong calls are explained. */
#include "tests/support/heap_fixture.h"

#include "gc/thread.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct test_log messages;

enum { NWORDS = 1000 };
static void **range; /* from malloc(): no root of its own */
static uintptr_t hidden;

static void new_range(void)
{
    range = calloc(NWORDS, sizeof *range);
    assert_non_null(range);
}

/* An object that only word `i` of the range refers to. */
static void put_object(void *argument)
{
    size_t i = *(size_t *)argument;
    void *object = tea_alloc(64);
    range[i] = test_inner(object);
    hidden = test_hide(object);
}

static uint64_t objects_with_word(size_t i)
{
    test_apart(put_object, &i);
    uint64_t n = test_objects_after_collect();
    range[i] = NULL;
    return n;
}

static void a_range_is_scanned_from_its_first_word_to_its_last(void **state)
{
    (void)state;
    new_range();
    assert_int_equal(tea_root_add(range, range + NWORDS), TEA_OK);
    static const size_t words[] = {0, 1, 500, NWORDS - 1};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(objects_with_word(words[i]), 1);
}

static void words_beside_a_range_are_not_scanned(void **state)
{
    (void)state;
    new_range();
    assert_int_equal(tea_root_add(range + 10, range + 20), TEA_OK);
    assert_int_equal(objects_with_word(9), 0);
    assert_int_equal(objects_with_word(10), 1);
    assert_int_equal(objects_with_word(19), 1);
    assert_int_equal(objects_with_word(20), 0);
}

static void memory_that_is_not_registered_is_not_scanned(void **state)
{
    (void)state;
    new_range();
    assert_int_equal(objects_with_word(0), 0);
}

static void objects_die_when_their_range_is_removed(void **state)
{
    (void)state;
    new_range();
    size_t word = 7;
    assert_int_equal(tea_root_add(range, range + NWORDS), TEA_OK);
    test_apart(put_object, &word);
    for (int i = 0; i < 3; i++)
        assert_int_equal(test_objects_after_collect(), 1);
    assert_true(test_is_alive(hidden));
    assert_int_equal(tea_root_remove(range, range + NWORDS), TEA_OK);
    assert_int_equal(test_objects_after_collect(), 0);
    assert_int_equal(tea_root_add(range, range + NWORDS),
                     TEA_OK); /* a stale word brings nothing back */
    assert_int_equal(test_objects_after_collect(), 0);
}

static void ends_are_rounded_inwards_to_whole_words(void **state)
{
    (void)state;
    new_range();
    assert_int_equal(tea_root_add((char *)range + 1, (char *)(range + 3) + 7), TEA_OK);
    assert_int_equal(objects_with_word(0), 0);
    assert_int_equal(objects_with_word(1), 1);
    assert_int_equal(objects_with_word(2), 1);
    assert_int_equal(objects_with_word(3), 0);
}

static void ranges_without_a_whole_word_hold_nothing(void **state)
{
    (void)state;
    new_range();
    assert_int_equal(tea_root_add(range, range), TEA_OK);
    assert_int_equal(tea_root_add((char *)range + 1, (char *)range + 15), TEA_OK);
    assert_int_equal(tea_root_add((char *)range + 3, (char *)range + 5), TEA_OK);
    assert_int_equal(objects_with_word(0), 0);
    assert_int_equal(objects_with_word(1), 0);
}

static void a_range_twice_is_refused_with_a_message(void **state)
{
    (void)state;
    new_range();
    test_log_capture(&messages);
    assert_int_equal(tea_root_add(range, range + 10), TEA_OK);
    assert_int_equal(tea_root_add(range, range + 10), TEA_ERR_STATE);
    test_log_expect(&messages, 1, "is registered already");
    assert_int_equal(tea_root_add(range, range + 11), TEA_OK); /* overlapping is not the same */
    assert_int_equal(messages.nlines, 1);
    assert_int_equal(tea_root_remove(range, range + 10), TEA_OK);
    assert_int_equal(objects_with_word(5), 1);
}

static void a_range_that_is_not_registered_cannot_be_removed(void **state)
{
    (void)state;
    new_range();
    test_log_capture(&messages);
    assert_int_equal(tea_root_remove(range, range + 10), TEA_ERR_NOT_FOUND);
    test_log_expect(&messages, 1, "is not registered");
    assert_int_equal(tea_root_add(range, range + 10), TEA_OK);
    assert_int_equal(tea_root_remove(range, range + 9), TEA_ERR_NOT_FOUND);
    assert_int_equal(tea_root_remove(range + 1, range + 10), TEA_ERR_NOT_FOUND);
    test_log_expect(&messages, 3, "tea_root_remove");
    assert_int_equal(tea_root_remove(range, range + 10), TEA_OK);
    assert_int_equal(tea_root_remove(range, range + 10), TEA_ERR_NOT_FOUND);
}

static void what_is_no_range_is_refused_with_a_message(void **state)
{
    (void)state;
    new_range();
    test_log_capture(&messages);
    assert_int_equal(tea_root_add(NULL, range), TEA_ERR_INVALID);
    test_log_expect(&messages, 1, "is not a range");
    assert_int_equal(tea_root_add(range + 1, range), TEA_ERR_INVALID);
    test_log_expect(&messages, 2, "is not a range");
    assert_int_equal(tea_root_add(range, NULL), TEA_ERR_INVALID);
    assert_int_equal(messages.nlines, 3);
}

static void a_message_names_the_range(void **state)
{
    (void)state;
    new_range();
    test_log_capture(&messages);
    char text[64];
    teai_format(text, sizeof text, "[%p, %p)", (void *)range, (void *)(range + 3));
    assert_int_equal(tea_root_remove(range, range + 3), TEA_ERR_NOT_FOUND);
    test_log_expect(&messages, 1, text);
}

static void without_memory_a_range_is_refused(void **state)
{
    (void)state;
    new_range();
    test_log_capture(&messages);
    assert_non_null(tea_alloc(1)); /* the thread itself has its record */
    teai_default_heap.metadata.deny_after = 0;
    assert_int_equal(tea_root_add(range, range + 3), TEA_ERR_NOMEM);
    teai_default_heap.metadata.deny_after = UINT32_MAX;
    test_log_expect(&messages, 1, "no memory");
    assert_int_equal(tea_root_remove(range, range + 3), TEA_ERR_NOT_FOUND);
    assert_int_equal(tea_root_add(range, range + 3), TEA_OK);
}

/* --- many --- */

enum { NRANGES = 5000 };

static void fill_ranges(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < NRANGES; i++)
        range[2 * i] = test_inner(tea_alloc(32));
}

static void thousands_of_ranges_come_and_go(void **state)
{
    (void)state;
    range = calloc(2 * NRANGES, sizeof *range);
    for (size_t i = 0; i < NRANGES; i++)
        assert_int_equal(tea_root_add(&range[2 * i], &range[2 * i + 1]), TEA_OK);
    test_apart(fill_ranges, NULL);
    assert_int_equal(test_objects_after_collect(), NRANGES);
    for (size_t i = 0; i < NRANGES; i += 2)
        assert_int_equal(tea_root_remove(&range[2 * i], &range[2 * i + 1]), TEA_OK);
    assert_int_equal(test_objects_after_collect(), NRANGES / 2);
    for (size_t i = 1; i < NRANGES; i += 2)
        assert_int_equal(tea_root_remove(&range[2 * i], &range[2 * i + 1]), TEA_OK);
    assert_int_equal(test_objects_after_collect(), 0);
}

static void a_range_of_many_blocks_is_scanned_whole(void **state)
{
    (void)state;
    enum { WORDS = 3 * TEAI_ROOT_BLOCK_BYTES / sizeof(void *) + 5 };
    range = mmap(NULL, WORDS * sizeof *range, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    assert_true(range != MAP_FAILED);
    assert_int_equal(tea_root_add(range, range + WORDS), TEA_OK);
    static const size_t block = TEAI_ROOT_BLOCK_BYTES / sizeof(void *);
    const size_t words[] = {0, block - 1, block, 2 * block - 1, 3 * block, WORDS - 1};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_int_equal(objects_with_word(words[i]), 1);
}

/* --- roots that need no help --- */

static void *volatile in_bss;
static void *volatile in_data = &messages;
static _Thread_local void *volatile in_tls;

static void put_in_static_data(void *argument)
{
    (void)argument;
    in_bss = test_inner(tea_alloc(64));
    in_data = test_inner(tea_alloc(64));
}

static void static_data_is_scanned(void **state)
{
    (void)state;
    test_apart(put_in_static_data, NULL);
    assert_int_equal(test_objects_after_collect(), 2);
    in_bss = NULL;
    assert_int_equal(test_objects_after_collect(), 1);
    in_data = NULL;
    assert_int_equal(test_objects_after_collect(), 0);
}

static TEAI_NOINLINE void put_in_thread_local(void)
{
    in_tls = test_inner(tea_alloc(64));
}

static void thread_locals_of_the_main_thread_are_scanned(void **state)
{
    (void)state;
    put_in_thread_local();
    assert_int_equal(test_objects_after_collect(), 1);
    in_tls = NULL;
    assert_int_equal(test_objects_after_collect(), 0);
}

static void collect_with_a_thread_local(void *argument)
{
    put_in_thread_local();
    *(uint64_t *)argument = test_objects_after_collect();
    TEST_REQUIRE(in_tls != NULL);
}

static void thread_locals_of_a_thread_are_scanned_while_it_lives(void **state)
{
    (void)state;
    uint64_t nobjects;
    test_apart(collect_with_a_thread_local, &nobjects);
    assert_int_equal(nobjects, 1);
    assert_int_equal(test_objects_after_collect(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(a_range_is_scanned_from_its_first_word_to_its_last),
        heap_test(words_beside_a_range_are_not_scanned),
        heap_test(memory_that_is_not_registered_is_not_scanned),
        heap_test(objects_die_when_their_range_is_removed),
        heap_test(ends_are_rounded_inwards_to_whole_words),
        heap_test(ranges_without_a_whole_word_hold_nothing),
        heap_test(a_range_twice_is_refused_with_a_message),
        heap_test(a_range_that_is_not_registered_cannot_be_removed),
        heap_test(what_is_no_range_is_refused_with_a_message),
        heap_test(a_message_names_the_range),
        heap_test(without_memory_a_range_is_refused),
        heap_test(thousands_of_ranges_come_and_go),
        heap_test(a_range_of_many_blocks_is_scanned_whole),
        heap_test(static_data_is_scanned),
        heap_test(thread_locals_of_the_main_thread_are_scanned),
        heap_test(thread_locals_of_a_thread_are_scanned_while_it_lives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
