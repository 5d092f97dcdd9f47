/* tests/bugs/test_b53_fixed_caps.c -- B53: no table of fixed size fills up, and silly sizes are met as well as they can be.
 *
 * Elsewhere a table of heap sections or of roots fills up, or a size in the settings is misjudged, and the process aborts
 * with plenty of memory free. (Reports: bdwgc/bdwgc #604, #608, NixOS/nix #2159, crystal-lang/crystal #6188.)
 */
#include "tests/support/objects.h"

#include <errno.h>

/* --- sparse survivors --- */

#define ALLOCATED_BYTES                                                                            \
    ((TEAI_ASAN || TEAI_TSAN || TEAI_DEBUG) ? UINT64_C(1) << 28 : UINT64_C(1) << 32)
enum { KEPT_EVERY_BYTES = 1024, KEPT_BYTES = 8 };

static void eight_bytes_of_each_kib_survive_while_4_gib_are_allocated(void **state)
{
    (void)state;
    const uint64_t nkept = ALLOCATED_BYTES / KEPT_EVERY_BYTES;
    uint64_t **kept = tea_alloc(nkept * sizeof *kept);
    TEST_REQUIRE(kept != NULL);
    for (uint64_t i = 0; i < nkept; i++) {
        kept[i] = tea_alloc(KEPT_BYTES);
        TEST_REQUIRE(kept[i] != NULL &&
                     tea_alloc_leaf_uninit(KEPT_EVERY_BYTES - KEPT_BYTES) != NULL);
        *kept[i] = i;
    }
    for (uint64_t i = 0; i < nkept; i++)
        TEST_REQUIRE(*kept[i] == i);
    teai_verify_heap(&teai_default_heap, NULL);
}

/* --- growth in small steps --- */

/* Each takes pages of its own that nothing touches, so the heap's address space grows step by step. */
static void the_heap_grows_in_many_small_steps(void **state)
{
    (void)state;
    enum {
        NSTEPS = (TEAI_ASAN || TEAI_TSAN || TEAI_DEBUG) ? 20000 : 200000,
        STEP_BYTES = TEAI_MAX_SMALL_BYTES + 1
    };
    void **table = tea_alloc(NSTEPS * sizeof *table);
    tea_disable();
    for (size_t i = 0; i < NSTEPS; i++) {
        table[i] = tea_alloc_leaf_uninit(STEP_BYTES);
        TEST_REQUIRE(table[i] != NULL);
    }
    tea_enable();
    tea_collect();
    assert_int_equal(test_stats().heap_objects, NSTEPS + 1);
    for (size_t i = 0; i < NSTEPS; i++)
        TEST_REQUIRE(tea_usable_bytes(table[i]) >= STEP_BYTES);
}

/* --- many roots, many pinned objects --- */

static void any_number_of_ranges_may_be_roots(void **state)
{
    (void)state;
    enum { NRANGES = 5000 };
    static uintptr_t hidden[NRANGES];
    void **ranges =
        test_calloc(NRANGES * 2, sizeof *ranges); /* every second word is a range: none adjoin */
    for (size_t i = 0; i < NRANGES; i++) {
        assert_int_equal(tea_root_add(&ranges[2 * i], &ranges[2 * i + 1]), TEA_OK);
        hidden[i] = test_object_new(64);
        ranges[2 * i] = test_reveal(hidden[i]);
    }
    test_collect();
    for (size_t i = 0; i < NRANGES; i++)
        TEST_REQUIRE(test_object_is_intact(hidden[i], 64));
    for (size_t i = 0; i < NRANGES; i++)
        assert_int_equal(tea_root_remove(&ranges[2 * i], &ranges[2 * i + 1]), TEA_OK);
    test_free(ranges);
}

static void any_number_of_objects_may_be_uncollectable(void **state)
{
    (void)state;
    enum { NOBJECTS = TEAI_TSAN ? 30000 : 300000 };
    uintptr_t *hidden = test_calloc(NOBJECTS, sizeof *hidden);
    for (size_t i = 0; i < NOBJECTS; i++) {
        void *object = tea_alloc_uncollectable(32);
        TEST_REQUIRE(object != NULL);
        test_object_fill(object, 32);
        hidden[i] = test_hide(object);
    }
    test_collect();
    assert_in_range(test_stats().heap_objects, NOBJECTS, NOBJECTS + 10);
    for (size_t i = 0; i < NOBJECTS; i++) {
        TEST_REQUIRE(test_object_is_intact(hidden[i], 32));
        tea_free(test_reveal(hidden[i]));
    }
    test_free(hidden);
    test_collect();
    assert_in_range(test_stats().heap_objects, 0, 10);
}

/* --- silly settings --- */

static struct test_log messages;

struct node {
    struct node *next;
    uint64_t number;
};

/* Fits the smallest heap that there is. */
enum { LIVE_BYTES = TEAI_TSAN ? 1 << 20 : 8 << 20 };

static void assert_works_with(size_t max_heap_bytes)
{
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = max_heap_bytes;
    options.log = test_log_sink;
    options.log_context = &messages;
    assert_int_equal(tea_init(&options), TEA_OK);
    assert_in_range(messages.nlines, 0, 1);
    struct node *head = NULL;
    for (size_t i = 0; i < LIVE_BYTES / sizeof *head; i++) {
        struct node *object = tea_alloc(sizeof *object);
        assert_non_null(object);
        *object = (struct node){head, i};
        head = object;
    }
    for (size_t i = LIVE_BYTES / sizeof *head; i-- > 0; head = head->next)
        assert_int_equal(head->number, i);
    teai_verify_heap(&teai_default_heap, NULL);
    assert_in_range(messages.nlines, 0, 1);
}

static void a_heap_of_one_byte_is_made_usable(void **state)
{
    (void)state;
    assert_works_with(1);
}

static void a_heap_of_100_kb_is_made_usable(void **state)
{
    (void)state;
    assert_works_with(100 * 1000);
}

static void a_heap_of_100_gb_costs_nothing_until_used(void **state)
{
    (void)state;
    assert_works_with((size_t)100 * 1000 * 1000 * 1000);
    assert_in_range(test_stats().sys_bytes, 0, (size_t)128 << 20);
}

static void a_heap_of_all_address_space_is_cut_to_what_there_is(void **state)
{
    (void)state;
    assert_works_with(SIZE_MAX);
    assert_in_range(test_stats().sys_bytes, 0, (size_t)128 << 20);
}

static void a_small_heap_ends_where_it_was_told(void **state)
{
    (void)state;
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = (size_t)64 << 20;
    assert_int_equal(tea_init(&options), TEA_OK);
    void *fits = tea_alloc((size_t)48 << 20);
    assert_non_null(fits);
    errno = 0;
    const void *does_not_fit = tea_alloc((size_t)48 << 20);
    assert_null(does_not_fit);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(tea_usable_bytes(fits), (size_t)48 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test_with(eight_bytes_of_each_kib_survive_while_4_gib_are_allocated, "GOGC=400"),
        heap_test(the_heap_grows_in_many_small_steps),
        heap_test(any_number_of_ranges_may_be_roots),
        heap_test(any_number_of_objects_may_be_uncollectable),
        heap_test(a_heap_of_one_byte_is_made_usable),
        heap_test(a_heap_of_100_kb_is_made_usable),
        heap_test(a_heap_of_100_gb_costs_nothing_until_used),
        heap_test(a_heap_of_all_address_space_is_cut_to_what_there_is),
        heap_test(a_small_heap_ends_where_it_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
