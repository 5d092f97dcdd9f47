/* tests/unit/test_pin.c -- uncollectable objects: there until freed, their contents scanned, any number of them. */
#include "tests/support/heap_fixture.h"

#include "gc/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

static uintptr_t hidden[2];

static void make_pinned_leading_to_another(void *argument)
{
    (void)argument;
    void **pinned = tea_alloc_uncollectable(64), *other = tea_alloc(64);
    TEST_REQUIRE(pinned != NULL && other != NULL);
    TEST_REQUIRE(test_all_bytes(pinned, 0, 64));
    pinned[7] = other;
    hidden[0] = test_hide(pinned);
    hidden[1] = test_hide(other);
}

static void free_hidden(void *argument)
{
    tea_free(test_reveal(*(uintptr_t *)argument));
}

static void a_pinned_object_stays_without_any_reference(void **state)
{
    (void)state;
    test_apart(make_pinned_leading_to_another, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(test_objects_after_collect(), 2);
    assert_true(test_is_alive(hidden[0]));
}

static void contents_of_a_pinned_object_are_scanned(void **state)
{
    (void)state;
    test_apart(make_pinned_leading_to_another, NULL);
    tea_collect();
    assert_true(test_is_alive(hidden[1]));
}

static void freeing_a_pinned_object_ends_its_pin(void **state)
{
    (void)state;
    test_apart(make_pinned_leading_to_another, NULL);
    test_apart(free_hidden, &hidden[0]);
    assert_int_equal(h->pins.nused, 0);
    assert_int_equal(test_objects_after_collect(), 0);
}

static void clear_pinned(void *argument)
{
    (void)argument;
    memset(test_reveal(hidden[0]), 0, 64);
}

static void what_a_pinned_object_no_longer_refers_to_dies(void **state)
{
    (void)state;
    test_apart(make_pinned_leading_to_another, NULL);
    test_apart(clear_pinned, NULL);
    assert_int_equal(test_objects_after_collect(), 1);
    assert_true(test_is_alive(hidden[0]));
}

static void make_reused(void *argument)
{
    uintptr_t before = *(uintptr_t *)argument;
    void *again = tea_alloc(64);
    TEST_REQUIRE(again != NULL && again != test_reveal(before)); /* the run is used up first */
}

static void the_slot_of_a_freed_pin_is_an_ordinary_one(void **state)
{
    (void)state;
    test_apart(make_pinned_leading_to_another, NULL);
    test_apart(free_hidden, &hidden[0]);
    tea_collect();
    for (int i = 0; i < 1000; i++)
        assert_non_null(tea_alloc(64)); /* the same slot among others */
    assert_in_range(test_objects_after_collect(), 0, 2);
}

static void only_the_pinned_object_itself_is_kept_not_its_neighbour(void **state)
{
    (void)state;
    test_apart(make_pinned_leading_to_another, NULL);
    test_apart(clear_pinned, NULL);
    test_apart(make_reused, &hidden[0]);
    assert_int_equal(test_objects_after_collect(), 1);
}

static void make_large_pin(void *argument)
{
    (void)argument;
    void **pinned = tea_alloc_uncollectable(1000000);
    TEST_REQUIRE(pinned != NULL);
    void *other = pinned[100000] = tea_alloc(64);
    hidden[0] = test_hide(pinned);
    hidden[1] = test_hide(other);
}

static void large_objects_can_be_pinned(void **state)
{
    (void)state;
    test_apart(make_large_pin, NULL);
    assert_int_equal(test_objects_after_collect(), 2);
    test_apart(free_hidden, &hidden[0]);
    assert_int_equal(test_objects_after_collect(), 0);
}

static void grow_hidden(void *argument)
{
    (void)argument;
    void *grown = tea_realloc(test_reveal(hidden[0]), 5000);
    TEST_REQUIRE(grown != NULL && grown != test_reveal(hidden[0]));
    hidden[0] = test_hide(grown);
}

static void a_pin_follows_its_object_when_that_is_resized(void **state)
{
    (void)state;
    test_apart(make_pinned_leading_to_another, NULL);
    test_apart(grow_hidden, NULL);
    assert_int_equal(test_objects_after_collect(), 2);
    assert_true(test_is_alive(hidden[0]) && test_is_alive(hidden[1]));
    test_apart(free_hidden, &hidden[0]);
    assert_int_equal(test_objects_after_collect(), 0);
}

/* --- many --- */

enum { NPINS = 100000 };
static uintptr_t pins[NPINS];

static void make_many_pins(void *argument)
{
    (void)argument;
    for (uintptr_t i = 0; i < NPINS; i++) {
        uintptr_t *object = tea_alloc_uncollectable(16 + i % 100);
        TEST_REQUIRE(object != NULL);
        object[0] = i;
        pins[i] = test_hide(object);
    }
}

static void free_odd_pins(void *argument)
{
    (void)argument;
    for (size_t i = 1; i < NPINS; i += 2)
        tea_free(test_reveal(pins[i]));
}

static void check_even_pins(void *argument)
{
    (void)argument;
    for (uintptr_t i = 0; i < NPINS; i += 2) {
        uintptr_t *object = test_reveal(pins[i]);
        TEST_REQUIRE(tea_base(object) == object && object[0] == i);
    }
}

static void free_even_pins(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < NPINS; i += 2)
        tea_free(test_reveal(pins[i]));
}

static void a_hundred_thousand_pins_come_and_go(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        test_apart(make_many_pins, NULL);
        assert_int_equal(h->pins.nused, NPINS);
        assert_int_equal(test_objects_after_collect(), NPINS);
        test_apart(free_odd_pins, NULL);
        assert_int_equal(test_objects_after_collect(), NPINS / 2);
        test_apart(check_even_pins, NULL);
        test_apart(free_even_pins, NULL);
        assert_int_equal(test_objects_after_collect(), 0);
        assert_int_equal(h->pins.nused, 0);
    }
    /* Deleted entries do not make the table grow for ever. */
    assert_true(h->pins.table_bytes <= 8 * NPINS * sizeof(uintptr_t));
}

static void without_memory_for_its_pin_an_object_is_not_made(void **state)
{
    (void)state;
    assert_non_null(teai_thread_self());
    h->metadata.deny_after = 0;
    errno = 0;
    assert_null(tea_alloc_uncollectable(64));
    assert_int_equal(errno, ENOMEM);
    h->metadata.deny_after = UINT32_MAX;
    assert_int_equal(test_stats().heap_objects, 0);
    assert_non_null(tea_alloc_uncollectable(64));
}

static void ordinary_objects_are_freed_among_pins(void **state)
{
    (void)state;
    void *ordinary = tea_alloc(64);
    test_apart(make_pinned_leading_to_another, NULL);
    tea_free(ordinary);
    assert_int_equal(h->pins.nused, 1);
    assert_int_equal(test_objects_after_collect(), 2);
}

/* More often than its table has slots: a mark left by each move would use up the empty slots that end a search. */
static void a_pin_may_follow_its_object_any_number_of_times(void **state)
{
    (void)state;
    enum { MOVES = 5000 };
    void *pinned = tea_alloc_uncollectable(64);
    for (int i = 0; i < MOVES; i++) {
        pinned = tea_realloc(pinned, i % 2 == 0 ? 1024 : 64);
        assert_non_null(pinned);
    }
    assert_int_equal(h->pins.nused, 1);
    tea_free(pinned);
    assert_int_equal(h->pins.nused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(a_pinned_object_stays_without_any_reference),
        heap_test(contents_of_a_pinned_object_are_scanned),
        heap_test(freeing_a_pinned_object_ends_its_pin),
        heap_test(what_a_pinned_object_no_longer_refers_to_dies),
        heap_test(the_slot_of_a_freed_pin_is_an_ordinary_one),
        heap_test(only_the_pinned_object_itself_is_kept_not_its_neighbour),
        heap_test(large_objects_can_be_pinned),
        heap_test(a_pin_follows_its_object_when_that_is_resized),
        heap_test(a_pin_may_follow_its_object_any_number_of_times),
        heap_test(a_hundred_thousand_pins_come_and_go),
        heap_test(without_memory_for_its_pin_an_object_is_not_made),
        heap_test(ordinary_objects_are_freed_among_pins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
