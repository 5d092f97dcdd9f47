/* tests/unit/test_weak.c -- weak pointers and ephemerons: they do not keep, and read NULL once their object is dead. */
#include "tests/support/objects.h"

#include "gc/special.h"

#include <errno.h>

static struct tea_heap *const h = &teai_default_heap;
static struct test_log messages;

static void *volatile keeper;
static struct tea_weak *volatile weak;
static struct tea_ephemeron *volatile ephemeron;
static uintptr_t hidden[8];

/* --- weak pointers --- */

static void make_kept(void *size_bytes)
{
    keeper = tea_alloc(*(size_t *)size_bytes);
    weak = tea_weak_create(keeper);
    TEST_REQUIRE(weak != NULL && tea_weak_get(weak) == keeper);
}

static void check_reads_kept(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_weak_get(weak) == keeper && keeper != NULL);
}

static void a_weak_pointer_reads_its_object_until_that_dies(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 24, 64, 1000, 40000, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_apart(make_kept, (void *)&sizes[i]);
        test_collect();
        test_apart(check_reads_kept, NULL);
        keeper = NULL;
        test_collect();
        assert_null(tea_weak_get(weak));
        test_census();
    }
}

/* What is read is a strong pointer: while it is held the object stays. */
static void read_into_keeper(void *argument)
{
    (void)argument;
    keeper = tea_weak_get(weak);
}

static void what_was_read_keeps_the_object(void **state)
{
    (void)state;
    size_t size_bytes = 64;
    test_apart(make_kept, &size_bytes);
    hidden[0] = test_hide(keeper);
    keeper = NULL;
    test_apart(read_into_keeper, NULL);
    test_collect();
    assert_true(test_is_alive(hidden[0]));
    keeper = NULL;
    test_collect();
    assert_null(tea_weak_get(weak));
}

static void one_address_has_one_weak_pointer(void **state)
{
    (void)state;
    char *object = tea_alloc(64);
    struct tea_weak *start = tea_weak_create(object), *inner = tea_weak_create(object + 8);
    assert_ptr_not_equal(start, inner);
    tea_collect();
    assert_ptr_equal(start, tea_weak_create(object));
    assert_ptr_equal(inner, tea_weak_create(object + 8));
    assert_ptr_equal(tea_weak_get(start), object);
    assert_ptr_equal(tea_weak_get(inner), object + 8);
    assert_int_equal(h->specials.tables[TEAI_SPECIAL_WEAK].nrecords, 2);
}

static void make_unreferenced(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100; i++)
        TEST_REQUIRE(tea_weak_create((char *)keeper + i) != NULL);
}

static void weak_pointers_that_nothing_refers_to_are_collected(void **state)
{
    (void)state;
    size_t size_bytes = 1000;
    test_apart(make_kept, &size_bytes);
    test_apart(make_unreferenced, NULL);
    test_collect();
    assert_int_equal(h->specials.tables[TEAI_SPECIAL_WEAK].nrecords, 1);
    assert_int_equal(test_stats().heap_objects, 2);
}

static bool finalizer_saw_null;

static void look_and_keep(void *object, void *context)
{
    (void)context;
    finalizer_saw_null = tea_weak_get(weak) == NULL;
    keeper = object;
}

static void make_finalizable(void *argument)
{
    (void)argument;
    void *object = tea_alloc(64);
    weak = tea_weak_create(object);
    TEST_REQUIRE(tea_set_finalizer(object, look_and_keep, NULL) == TEA_OK);
}

static void weak_pointers_are_cleared_before_the_finalizer_and_stay_so(void **state)
{
    (void)state;
    test_apart(make_finalizable, NULL);
    assert_non_null(tea_weak_get(weak));
    test_collect();
    assert_null(tea_weak_get(weak));
    assert_int_equal(tea_run_finalizers(), 1);
    assert_true(finalizer_saw_null);
    assert_null(tea_weak_get(weak));
    struct tea_weak *again = tea_weak_create(keeper);
    assert_ptr_not_equal(again, weak);
    assert_ptr_equal(tea_weak_get(again), keeper);
}

static void free_kept(void *argument)
{
    (void)argument;
    tea_free(keeper);
    keeper = NULL;
}

static void a_freed_object_reads_null_at_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {64, 100000};
    for (size_t i = 0; i < 2; i++) {
        test_apart(make_kept, (void *)&sizes[i]);
        test_apart(free_kept, NULL);
        assert_null(tea_weak_get(weak));
        test_census();
    }
}

static void grow_kept(void *argument)
{
    (void)argument;
    keeper = tea_realloc(keeper, 5000);
    TEST_REQUIRE(keeper != NULL && tea_weak_get(weak) == keeper);
    TEST_REQUIRE(tea_weak_create(keeper) == weak);
}

static void a_weak_pointer_follows_a_resized_object(void **state)
{
    (void)state;
    size_t size_bytes = 64;
    test_apart(make_kept, &size_bytes);
    test_apart(grow_kept, NULL);
    test_collect();
    test_apart(check_reads_kept, NULL);
    keeper = NULL;
    test_collect();
    assert_null(tea_weak_get(weak));
}

/* The collector leaves blocks of this size to itself. */
static void a_weak_pointer_cannot_be_freed_by_hand(void **state)
{
    (void)state;
    size_t size_bytes = 64;
    test_apart(make_kept, &size_bytes);
    tea_free((void *)weak);
    test_apart(check_reads_kept, NULL);
    test_census();
}

static void what_is_no_object_is_refused_with_a_message(void **state)
{
    (void)state;
    test_log_capture(&messages);
    int local = 0;
    errno = 0;
    assert_null(tea_weak_create(&local));
    assert_int_equal(errno, EINVAL);
    test_log_expect(&messages, 1, "tea_weak_create: ");
    assert_null(tea_weak_create(NULL));
    assert_null(tea_ephemeron_create(&local, NULL));
    test_log_expect(&messages, 3, "is not an allocated object of this heap");
    assert_null(tea_weak_get(NULL));
    assert_null(tea_ephemeron_key(NULL));
    assert_null(tea_ephemeron_value(NULL));
}

static void without_memory_there_is_no_weak_pointer(void **state)
{
    (void)state;
    void *object = tea_alloc(64);
    assert_non_null(tea_alloc_leaf(16));
    h->metadata.deny_after = 0;
    errno = 0;
    assert_null(tea_weak_create(object));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(tea_ephemeron_create(object, NULL));
    assert_int_equal(errno, ENOMEM);
    h->metadata.deny_after = UINT32_MAX;
    assert_ptr_equal(tea_weak_get(tea_weak_create(object)), object);
}

/* --- ephemerons --- */

/* On another thread's stack, so that no object of it stays. */
static void churn(void *argument)
{
    (void)argument;
    test_churn(64, 1000);
}

static void make_ephemeron(void *argument)
{
    (void)argument;
    keeper = tea_alloc(64); /* before the value: a root that leads to an object's start keeps the slot before it */
    void **value = tea_alloc(64);
    value[0] = keeper; /* which does not keep it */
    test_object_fill(value + 1, 56);
    hidden[0] = test_hide(value);
    ephemeron = tea_ephemeron_create(keeper, value);
    TEST_REQUIRE(ephemeron != NULL);
}

static void check_ephemeron(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_ephemeron_key(ephemeron) == keeper);
    TEST_REQUIRE(tea_ephemeron_value(ephemeron) == test_reveal(hidden[0]));
    TEST_REQUIRE(*(void **)test_reveal(hidden[0]) == keeper);
}

static void the_value_lives_as_long_as_the_key(void **state)
{
    (void)state;
    test_apart(make_ephemeron, NULL);
    for (int i = 0; i < 3; i++) {
        test_collect();
        test_apart(churn, NULL);
        assert_true(test_is_alive(hidden[0]));
        test_apart(check_ephemeron, NULL);
    }
    keeper = NULL;
    test_collect();
    assert_null(tea_ephemeron_key(ephemeron));
    assert_null(tea_ephemeron_value(ephemeron));
    assert_false(test_is_alive(hidden[0]));
    assert_in_range(test_stats().heap_objects, 1, 2); /* the ephemeron, and the slot before it */
}

static void without_the_ephemeron_the_value_dies(void **state)
{
    (void)state;
    test_apart(make_ephemeron, NULL);
    ephemeron = NULL;
    test_collect();
    assert_false(test_is_alive(hidden[0]));
    assert_int_equal(test_stats().heap_objects, 1);
}

static void freeing_the_key_clears_the_ephemeron(void **state)
{
    (void)state;
    test_apart(make_ephemeron, NULL);
    test_apart(free_kept, NULL);
    assert_null(tea_ephemeron_key(ephemeron));
    assert_null(tea_ephemeron_value(ephemeron));
    test_census();
}

static void make_with_finalizable_key(void *argument)
{
    (void)argument;
    void *key = tea_alloc(64), *value = tea_alloc(64);
    hidden[0] = test_hide(value);
    ephemeron = tea_ephemeron_create(key, value);
    TEST_REQUIRE(tea_set_finalizer(key, look_and_keep, NULL) == TEA_OK);
}

static void a_key_kept_for_its_finalizer_counts_as_dead(void **state)
{
    (void)state;
    test_apart(make_with_finalizable_key, NULL);
    test_collect();
    assert_null(tea_ephemeron_key(ephemeron));
    assert_false(test_is_alive(hidden[0]));
    assert_int_equal(tea_run_finalizers(), 1);
}

/* A chain: the value of one is the key of the next. They are made in the order that the argument says. */
enum { CHAIN = 20000, FORWARDS = 0, BACKWARDS = 1, SHUFFLED = 2 };
static struct tea_ephemeron **volatile chain;

static size_t chain_place(size_t i, int order)
{
    return order == FORWARDS ? i : order == BACKWARDS ? CHAIN - 1 - i : i * 3 % CHAIN;
}

static void make_chain(void *order)
{
    struct tea_ephemeron **made = tea_calloc(CHAIN, sizeof *made); /* first, see make_ephemeron() */
    void **links = tea_calloc(CHAIN + 1, sizeof *links);
    for (size_t i = 0; i <= CHAIN; i++)
        links[i] = tea_alloc(32);
    for (size_t i = 0; i < CHAIN; i++) {
        size_t place = chain_place(i, *(int *)order);
        made[place] = tea_ephemeron_create(links[place], links[place + 1]);
    }
    chain = made;
    keeper = links[0];
}

static size_t chain_alive(void)
{
    size_t n = 0;
    for (size_t i = 0; i < CHAIN; i++)
        n += tea_ephemeron_value(chain[i]) != NULL;
    test_scrub();
    return n;
}

static void chains_are_followed_to_their_end(void **state)
{
    (void)state;
    for (int order = FORWARDS; order <= SHUFFLED; order++) {
        test_apart(make_chain, &order);
        test_collect();
        assert_int_equal(chain_alive(), CHAIN);
        keeper = NULL;
        test_collect();
        assert_int_equal(chain_alive(), 0);
        chain = NULL;
        assert_int_equal(test_objects_after_collect(), 0);
        assert_int_equal(h->specials.tables[TEAI_SPECIAL_EPHEMERON].nrecords, 0);
    }
}

/* The second ephemeron is reachable only through the first one's value. */
static void make_nested(void *argument)
{
    (void)argument;
    void *value = tea_alloc(64);
    keeper = tea_alloc(64);
    void **holder = tea_alloc(64);
    holder[3] = tea_ephemeron_create(keeper, value);
    hidden[0] = test_hide(value);
    ephemeron = tea_ephemeron_create(keeper, holder);
}

static void an_ephemeron_found_through_another_counts(void **state)
{
    (void)state;
    test_apart(make_nested, NULL);
    test_collect();
    assert_true(test_is_alive(hidden[0]));
    keeper = NULL;
    test_collect();
    assert_false(test_is_alive(hidden[0]));
}

#define CHECKED "GODEBUG=gccheckmark=1,clobberfree=1"
#define ONE "TEASPAN=finalizers=demand,markers=1"
#define TWO "TEASPAN=finalizers=demand,markers=2"

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test_with(a_weak_pointer_reads_its_object_until_that_dies, ONE, CHECKED),
        heap_test_with(what_was_read_keeps_the_object, ONE, CHECKED),
        heap_test_with(one_address_has_one_weak_pointer, ONE, CHECKED),
        heap_test_with(weak_pointers_that_nothing_refers_to_are_collected, ONE, CHECKED),
        heap_test_with(weak_pointers_are_cleared_before_the_finalizer_and_stay_so, ONE, CHECKED),
        heap_test_with(a_freed_object_reads_null_at_once, ONE, CHECKED),
        heap_test_with(a_weak_pointer_follows_a_resized_object, ONE, CHECKED),
        heap_test_with(a_weak_pointer_cannot_be_freed_by_hand, ONE, CHECKED),
        heap_test_with(what_is_no_object_is_refused_with_a_message, ONE),
        heap_test_with(without_memory_there_is_no_weak_pointer, ONE),
        heap_test_with(the_value_lives_as_long_as_the_key, ONE, CHECKED),
        heap_test_with(the_value_lives_as_long_as_the_key, TWO, CHECKED),
        heap_test_with(without_the_ephemeron_the_value_dies, ONE, CHECKED),
        heap_test_with(freeing_the_key_clears_the_ephemeron, ONE, CHECKED),
        heap_test_with(a_key_kept_for_its_finalizer_counts_as_dead, ONE, CHECKED),
        heap_test_with(chains_are_followed_to_their_end, ONE),
        heap_test_with(chains_are_followed_to_their_end, TWO),
        heap_test_with(an_ephemeron_found_through_another_counts, ONE, CHECKED),
        heap_test_with(an_ephemeron_found_through_another_counts, TWO, CHECKED),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
