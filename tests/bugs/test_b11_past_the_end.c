/* tests/bugs/test_b11_past_the_end.c -- B11: a pointer to one byte past the end of an object keeps it alive.
 *
 * Code that walks to the end of an array may hold nothing but the end. The object and whatever follows it may both be
 * kept; losing the object is the fault. (Report: mmtk/mmtk-core PR 1410.)
 */
#include "tests/support/objects.h"

enum { SMALL_MAX_BYTES = 4096, LARGE_MAX_PAGES = 64, NLARGE = LARGE_MAX_PAGES - 4 };
/* Small sizes are tested together, one collection for all: where an end is kept is what differs. */
enum { NENDS = SMALL_MAX_BYTES + NLARGE };

static uintptr_t static_ends[NENDS];
static _Thread_local uintptr_t thread_ends[NENDS];

static size_t size_of_case(size_t i)
{
    return i < SMALL_MAX_BYTES ? i + 1 : (i - SMALL_MAX_BYTES + 5) * TEAI_PAGE_BYTES;
}

/* A neighbour behind each object is dropped, so that no object is kept by the end of the one before it. */
static TEAI_NOINLINE void make_objects(uintptr_t *hidden, volatile uintptr_t *ends)
{
    for (size_t i = 0; i < NENDS; i++) {
        hidden[i] = test_object_new(size_of_case(i));
        ends[i] = (uintptr_t)test_reveal(hidden[i]) + size_of_case(i);
        test_object_new(size_of_case(i));
    }
}

static size_t count_dead(const uintptr_t *hidden)
{
    size_t ndead = 0;
    for (size_t i = 0; i < NENDS; i++)
        ndead += !test_object_is_intact(hidden[i], size_of_case(i));
    return ndead;
}

/* Only `ends` refers to the objects. */
static void assert_ends_keep(volatile uintptr_t *ends)
{
    static uintptr_t hidden[NENDS];
    make_objects(hidden, ends);
    for (size_t size = 16; size <= SMALL_MAX_BYTES; size *= 2)
        test_churn(size, 200);
    test_collect();
    assert_int_equal(count_dead(hidden), 0);
    for (size_t i = 0; i < NENDS; i++)
        ends[i] = 0;
    test_collect();
    /* Not all: stale words may keep some. That most are dead shows that the ends kept them alive before. */
    assert_in_range(count_dead(hidden), NENDS * 9 / 10, NENDS);
}

static void ends_in_static_data_keep_their_objects(void **state)
{
    (void)state;
    assert_ends_keep(static_ends);
}

static void ends_on_the_stack_keep_their_objects(void **state)
{
    (void)state;
    volatile uintptr_t ends[NENDS];
    assert_ends_keep(ends);
}

static void ends_in_thread_locals_keep_their_objects(void **state)
{
    (void)state;
    assert_ends_keep(thread_ends);
}

static void ends_in_registered_roots_keep_their_objects(void **state)
{
    (void)state;
    uintptr_t *ends = test_malloc(NENDS * sizeof *ends);
    assert_int_equal(tea_root_add(ends, ends + NENDS), TEA_OK);
    assert_ends_keep(ends);
    assert_int_equal(tea_root_remove(ends, ends + NENDS), TEA_OK);
    test_free(ends);
}

/* --- the very end of the heap --- */

static void *filling;
static volatile uintptr_t last_end; /* never read but by the collector */

enum { FILL_BYTES = 5 * TEAI_PAGE_BYTES, SMALL_HEAP_BYTES = 40 << 20 };

/* A linked list of large objects that fills the heap up; returns the last one, which lies highest. */
static TEAI_NOINLINE uintptr_t fill_heap(void)
{
    uintptr_t last_addr = 0;
    void *object;
    while ((object = tea_alloc(FILL_BYTES)) != NULL) {
        *(void **)object = filling;
        filling = object;
        last_addr = (uintptr_t)object;
    }
    return last_addr;
}

/* The only object whose end is the end of the heap: the last of the filling, made longer by what was left behind it. */
static TEAI_NOINLINE uintptr_t place_last_object(size_t *size_bytes_out)
{
    const struct tea_heap *h = &teai_default_heap;
    uintptr_t limit_addr = h->tables.heap_base_addr + ((uintptr_t)h->max_pages << TEAI_PAGE_SHIFT);
    uintptr_t last_addr = fill_heap();
    filling = *(void **)last_addr;
    tea_free((void *)last_addr);
    *size_bytes_out = limit_addr - last_addr;
    void *last = tea_alloc(*size_bytes_out);
    TEST_REQUIRE((uintptr_t)last == last_addr);
    test_object_fill(last, *size_bytes_out);
    filling = NULL;
    return test_hide(last);
}

static void the_end_of_the_whole_heap_keeps_its_last_object(void **state)
{
    (void)state;
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = SMALL_HEAP_BYTES;
    assert_int_equal(tea_init(&options), TEA_OK);
    size_t size_bytes;
    uintptr_t last = place_last_object(&size_bytes);
    last_end = (uintptr_t)test_reveal(last) + size_bytes;
    test_collect();
    assert_true(test_object_is_intact(last, size_bytes));
    last_end = 0;
    test_collect();
    if (!TEAI_TSAN) /* whose own data hold addresses of accesses */
        assert_false(test_is_alive(last));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(the_end_of_the_whole_heap_keeps_its_last_object),
        heap_test(ends_in_static_data_keep_their_objects),
        heap_test(ends_on_the_stack_keep_their_objects),
        heap_test(ends_in_thread_locals_keep_their_objects),
        heap_test(ends_in_registered_roots_keep_their_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
