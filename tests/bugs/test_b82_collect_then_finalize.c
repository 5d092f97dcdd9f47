/* tests/bugs/test_b82_collect_then_finalize.c -- B82: after tea_collect() one call runs every finalizer that is due.
 *
 * Elsewhere only some have run, or none, since they wait for allocations to come. (Report: xgo-dev/llgo PR 2283.)
 */
#include "tests/support/objects.h"

#include <stdatomic.h>

enum { OBJECTS = 32, REPEATS = TEAI_TSAN ? 100 : 1000 };

static _Atomic unsigned nran;

static void count_finalizer(void *object, void *context)
{
    (void)object, (void)context;
    atomic_fetch_add(&nran, 1);
}

static void count_cleanup(void *argument)
{
    (void)argument;
    atomic_fetch_add(&nran, 1);
}

static void make_dead(void *argument)
{
    (void)argument;
    for (int i = 0; i < OBJECTS / 2; i++) {
        TEST_REQUIRE(tea_set_finalizer(tea_alloc(48), count_finalizer, NULL) == TEA_OK);
        TEST_REQUIRE(tea_add_cleanup(tea_alloc(48), count_cleanup, NULL, NULL) == TEA_OK);
    }
}

static void on_demand_the_call_runs_them_all_and_says_so(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= REPEATS; i++) {
        test_apart(make_dead, NULL);
        test_collect();
        assert_int_equal(nran, (i - 1) * OBJECTS);
        assert_int_equal(tea_run_finalizers(), OBJECTS);
        assert_int_equal(nran, i * OBJECTS);
    }
    assert_int_equal(tea_run_finalizers(), 0);
}

/* The collector's thread runs some of them; all have returned when the call does. */
static void beside_the_thread_all_have_run_when_the_call_returns(void **state)
{
    (void)state;
    for (unsigned i = 1; i <= REPEATS; i++) {
        test_apart(make_dead, NULL);
        test_collect();
        size_t nrun = tea_run_finalizers();
        assert_in_range(nrun, 0, OBJECTS);
        assert_int_equal(nran, i * OBJECTS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test_with(on_demand_the_call_runs_them_all_and_says_so, "TEASPAN=finalizers=demand"),
        heap_test(beside_the_thread_all_have_run_when_the_call_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
