/* tests/unit/test_object.c -- freeing by hand, and questions about pointers: right answers, and wrong pointers survived. */
#include "tests/support/heap_fixture.h"

#include "gc/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;
static struct test_log messages;

static const size_t sizes[] = {16, 24, 100, 512, 1000, 5000, 32768, 32769, 100000, 1000000};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

static int a_static_variable;

/* --- questions --- */

static void every_byte_of_an_object_leads_to_its_start(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++) {
        char *object = tea_alloc(sizes[i]);
        size_t usable = tea_usable_bytes(object);
        for (size_t at = 0; at < usable; at += usable < 2000 ? 1 : usable / 1000) {
            assert_ptr_equal(tea_base(object + at), object);
            assert_true(tea_is_heap_pointer(object + at));
        }
        assert_ptr_equal(tea_base(object + usable - 1), object);
        assert_ptr_not_equal(tea_base(object + usable), object);
    }
}

static void only_the_start_of_an_object_has_usable_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++) {
        char *object = tea_alloc(sizes[i]);
        assert_true(tea_usable_bytes(object) >= sizes[i]);
        assert_int_equal(tea_usable_bytes(object + 1), 0);
        assert_int_equal(tea_usable_bytes(object + 8), 0);
    }
}

static void what_is_not_of_the_heap_is_no_heap_pointer(void **state)
{
    (void)state;
    assert_non_null(tea_alloc(100));
    int local = 0;
    void *foreign = malloc(100);
    const struct teai_tables *t = &h->tables;
    const void *const pointers[] = {
        NULL,
        &local,
        &a_static_variable,
        foreign,
        (void *)1,
        (void *)-1,
        (void *)(t->heap_base_addr - 1),
        (void *)(t->heap_base_addr + ((uintptr_t)h->max_pages << TEAI_PAGE_SHIFT)),
        (void *)(t->heap_base_addr +
                 ((uintptr_t)teai_page_heap_limit(h->pages) << TEAI_PAGE_SHIFT)),
        (void *)what_is_not_of_the_heap_is_no_heap_pointer,
    };
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        assert_null(tea_base(pointers[i]));
        assert_false(tea_is_heap_pointer(pointers[i]));
        assert_int_equal(tea_usable_bytes(pointers[i]), 0);
    }
    free(foreign);
}

static void a_freed_object_is_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < NSIZES; i++) {
        char *object = tea_alloc(sizes[i]);
        tea_free(object);
        assert_null(tea_base(object));
        assert_null(tea_base(object + sizes[i] / 2));
        assert_int_equal(tea_usable_bytes(object), 0);
    }
}

static void a_slot_that_was_not_handed_out_is_no_object(void **state)
{
    (void)state;
    char *object = tea_alloc(64);
    assert_null(tea_base(object + 64)); /* leased, and next in line */
    assert_ptr_equal(tea_alloc(64), object + 64);
    assert_ptr_equal(tea_base(object + 64), object + 64);
}

/* --- freeing --- */

static void freed_memory_is_used_again(void **state)
{
    (void)state;
    uint64_t heap_sys = 0;
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < NSIZES; i++)
            for (int k = 0; k < 10; k++)
                tea_free(tea_alloc(sizes[i]));
        if (round == 2)
            heap_sys = test_stats().heap_sys_bytes;
    }
    assert_int_equal(test_stats().heap_sys_bytes, heap_sys);
    assert_int_equal(test_stats().num_gc, 0);
    assert_int_equal(test_stats().heap_objects, 0);
}

static void freeing_null_does_nothing(void **state)
{
    (void)state;
    test_log_capture(&messages);
    tea_free(NULL);
    assert_int_equal(messages.nlines, 0);
}

static void freeing_keeps_errno(void **state)
{
    (void)state;
    void *object = tea_alloc(100);
    errno = 4711;
    tea_free(object);
    assert_int_equal(errno, 4711);
    tea_free(&a_static_variable);
    assert_int_equal(errno, 4711);
}

static void expect_refused(void *pointer, const char *text)
{
    char address[32];
    teai_format(address, sizeof address, "%p", pointer);
    unsigned before = messages.nlines;
    uint64_t nobjects = test_census_objects();
    tea_free(pointer);
    test_log_expect(&messages, before + 1, address);
    test_log_expect(&messages, before + 1, text);
    assert_int_equal(test_census_objects(), nobjects);
}

static void wrong_pointers_are_reported_and_the_heap_is_untouched(void **state)
{
    (void)state;
    test_log_capture(&messages);
    char *small = tea_alloc(100), *large = tea_alloc(100000), *twice = tea_alloc(100),
         *large_twice = tea_alloc(100000);
    int local = 0;
    void *foreign = malloc(100);
    expect_refused(small + 1, "inside an object");
    expect_refused(small + 16, "inside an object");
    expect_refused(large + 1, "inside an object");
    expect_refused(large + TEAI_PAGE_BYTES, "inside an object");
    expect_refused(&local, "not an allocated object");
    expect_refused(&a_static_variable, "not an allocated object");
    expect_refused(foreign, "not an allocated object");
    expect_refused((void *)8, "not an allocated object");
    expect_refused((void *)(h->tables.heap_base_addr - 16), "not an allocated object");
    tea_free(twice);
    expect_refused(twice, "not an allocated object");
    tea_free(large_twice);
    expect_refused(large_twice, "not an allocated object");
    expect_refused(large_twice + TEAI_PAGE_BYTES, "not an allocated object");
    free(foreign);
}

static void freeing_a_slot_that_is_next_in_line_is_refused(void **state)
{
    (void)state;
    test_log_capture(&messages);
    char *object = tea_alloc(64);
    expect_refused(object + 64, "not an allocated object");
    assert_ptr_equal(tea_alloc(64), object + 64);
    assert_ptr_not_equal(tea_alloc(64), object + 64);
}

/* The message is for a sink that allocates itself. */
static unsigned nsunk;

static void allocating_sink(const char *text, void *context)
{
    (void)context;
    assert_non_null(tea_strdup(text));
    assert_non_null(tea_alloc(100));
    tea_collect();
    nsunk++;
}

static void a_message_may_be_received_by_code_that_allocates(void **state)
{
    (void)state;
    tea_set_log_sink(allocating_sink, NULL);
    tea_free(&a_static_variable);
    assert_null(tea_realloc(&a_static_variable, 10));
    assert_int_equal(nsunk, 2);
    test_census();
}

/* --- after a free, the bytes --- */

static void make_and_free_beside_another(void *argument)
{
    uintptr_t *hidden = argument;
    void *object = tea_alloc(64), *other = tea_alloc(64);
    memset(object, 0x33, 64);
    memset(other, 0x44, 64);
    tea_free(object);
    hidden[0] = test_hide(object);
    hidden[1] = test_hide(other);
}

static void clobberfree_overwrites_what_is_freed_by_hand(void **state)
{
    (void)state;
    uintptr_t hidden[2];
    test_apart(make_and_free_beside_another, hidden);
    assert_true(test_all_bytes(test_reveal(hidden[0]), TEAI_POISON_BYTE, 64));
    assert_true(test_all_bytes(test_reveal(hidden[1]), 0x44, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(every_byte_of_an_object_leads_to_its_start),
        heap_test(only_the_start_of_an_object_has_usable_bytes),
        heap_test(what_is_not_of_the_heap_is_no_heap_pointer),
        heap_test(a_freed_object_is_none),
        heap_test(a_slot_that_was_not_handed_out_is_no_object),
        heap_test(freed_memory_is_used_again),
        heap_test(freeing_null_does_nothing),
        heap_test(freeing_keeps_errno),
        heap_test(wrong_pointers_are_reported_and_the_heap_is_untouched),
        heap_test(freeing_a_slot_that_is_next_in_line_is_refused),
        heap_test(a_message_may_be_received_by_code_that_allocates),
        heap_test_with(clobberfree_overwrites_what_is_freed_by_hand, "GODEBUG=clobberfree=1"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
