/* tests/bugs/test_b80_weak_links.c -- B80: weak pointers made by the hundred thousand and dropped leave nothing behind.
 *
 * Elsewhere weak links inside short-lived arrays make the heap grow without end. (Report: bdwgc/bdwgc #182.)
 */
#include "tests/support/objects.h"

#include "gc/special.h"

static struct tea_heap *const h = &teai_default_heap;

enum { SLOTS = 100000, ROUNDS = TEAI_TSAN || TEAI_ASAN ? 25 : 60, SETTLED = 10 };

static bool by_ephemeron;
static uint64_t settled_bytes; /* the most in the first SETTLED rounds */

static void *weak_link(void *object)
{
    return by_ephemeron ? (void *)tea_ephemeron_create(object, object) : (void *)tea_weak_create(object);
}

/* An array whose slots lead weakly to objects that nothing else refers to. */
static void fill_one_array(void)
{
    void **slots = tea_calloc(SLOTS, sizeof *slots);
    for (size_t i = 0; i < SLOTS; i++) {
        slots[i] = weak_link(tea_alloc(32));
        TEST_REQUIRE(slots[i] != NULL);
    }
}

/* Rounds end anywhere between two collections, and a table may just have doubled. What all rounds left behind would be more. */
static void require_settled(uint64_t bytes)
{
    if (bytes <= 3 * settled_bytes)
        return;
    print_message("%llu bytes, %llu at most in the first rounds\n", (unsigned long long)bytes,
                  (unsigned long long)settled_bytes);
    TEST_REQUIRE(!"memory grows");
}

static void fill_arrays(void *argument)
{
    (void)argument;
    for (int round = 0; round < ROUNDS; round++) {
        fill_one_array();
        test_scrub_stack();
        struct tea_stats stats = test_stats();
        uint64_t bytes = stats.sys_bytes - stats.heap_released_bytes;
        if (round < SETTLED)
            settled_bytes = bytes > settled_bytes ? bytes : settled_bytes;
        else
            require_settled(bytes);
    }
}

static void assert_tables_are_small(void)
{
    test_collect();
    test_collect();
    for (int kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++) {
        assert_int_equal(h->specials.tables[kind].nrecords, 0);
        assert_in_range(h->specials.tables[kind].capacity, 0, 64);
        assert_in_range(h->specials.tables[kind].mapping_bytes, 0, 4096);
    }
    test_census();
}

static void memory_stays_flat_and_tables_shrink(void **state)
{
    (void)state;
    test_apart(fill_arrays, NULL);
    assert_tables_are_small();
}

static void so_with_ephemerons(void **state)
{
    (void)state;
    by_ephemeron = true;
    test_apart(fill_arrays, NULL);
    assert_tables_are_small();
}

/* The object lives, its weak pointers do not. */
static void drop_links_to_one(void *argument)
{
    (void)argument;
    char *object = tea_alloc(SLOTS);
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < SLOTS; i++)
            TEST_REQUIRE(tea_weak_create(object + i) != NULL);
        test_scrub();
        tea_collect();
        TEST_REQUIRE(h->specials.tables[TEAI_SPECIAL_WEAK].nrecords < 100);
    }
    tea_keep_alive(object);
}

static void weak_pointers_dropped_before_their_object_leave_nothing(void **state)
{
    (void)state;
    test_apart(drop_links_to_one, NULL);
    assert_tables_are_small();
}

/* Resized, so that the records move, or freed. */
static void move_and_free(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < SLOTS; i++) {
        void *object = tea_alloc(32);
        struct tea_weak *weak = tea_weak_create(object);
        object = tea_realloc(object, 200);
        TEST_REQUIRE(tea_weak_get(weak) == object);
        if (i % 2 == 0) {
            tea_free(object);
            TEST_REQUIRE(tea_weak_get(weak) == NULL);
        }
    }
}

static void moved_and_freed_objects_leave_nothing(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++)
        test_apart(move_and_free, NULL);
    assert_tables_are_small();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(memory_stays_flat_and_tables_shrink),
        heap_test(so_with_ephemerons),
        heap_test(weak_pointers_dropped_before_their_object_leave_nothing),
        heap_test(moved_and_freed_objects_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
