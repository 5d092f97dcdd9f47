/* tests/bugs/test_b78_finalizer_order.c -- B78: which finalizers run, in which order, and what of cycles.
 *
 * Elsewhere a finalizable object that points at itself is silently never finalized. Here that is the documented rule, as in
 * Go: of a chain the head first, one a collection; cycles never. Cleanups, which do not see the object, know no such limits.
 * (Reports: bdwgc/bdwgc #403, #581; softdevteam/libgc PR 32.)
 */
#include "tests/support/objects.h"

enum { COLLECTIONS = 5, MOST = 8 };

/* Numbers of the objects whose finalizer or cleanup ran, in order. */
static uintptr_t ran[64];
static unsigned nran;

static void note_cleanup(void *number)
{
    ran[nran++] = (uintptr_t)number;
}

static void note_finalizer(void *object, void *number)
{
    (void)object;
    note_cleanup(number);
}

/* A graph: object i refers to object edges[i][k], and has a finalizer or a cleanup if its bit is set. */
struct graph {
    unsigned nobjects;
    int edges[MOST][2]; /* -1: none */
    unsigned watched;
    bool by_cleanup;
};

static void watch(void *object, uintptr_t number, bool by_cleanup)
{
    enum tea_status status = by_cleanup ? tea_add_cleanup(object, note_cleanup, (void *)number, NULL)
                                        : tea_set_finalizer(object, note_finalizer, (void *)number);
    TEST_REQUIRE(status == TEA_OK);
}

static void make_graph(void *argument)
{
    const struct graph *g = argument;
    void **objects[MOST];
    for (unsigned i = 0; i < g->nobjects; i++)
        objects[i] = tea_alloc(64);
    for (unsigned i = 0; i < g->nobjects; i++) {
        for (unsigned k = 0; k < 2; k++)
            objects[i][k + 1] = g->edges[i][k] >= 0 ? objects[g->edges[i][k]] : NULL;
        if (g->watched >> i & 1)
            watch(objects[i], i, g->by_cleanup);
    }
}

/* expected[c]: what runs after collection c, as a set of object numbers. */
static void assert_runs(struct graph g, const unsigned expected[COLLECTIONS], unsigned nleft)
{
    test_apart(make_graph, &g);
    for (unsigned c = 0; c < COLLECTIONS; c++) {
        unsigned first = nran, set = 0;
        test_collect();
        size_t n = tea_run_finalizers();
        assert_int_equal(nran - first, n);
        for (unsigned i = first; i < nran; i++)
            set |= 1u << ran[i];
        assert_int_equal(set, expected[c]);
    }
    test_collect();
    assert_int_equal(test_stats().heap_objects, nleft);
    test_census();
}

#define NEVER {0, 0, 0, 0, 0}
#define AT_ONCE(set) {set, 0, 0, 0, 0}

static void a_chain_is_finalized_from_its_head_one_a_collection(void **state)
{
    (void)state;
    struct graph chain = {3, {{1, -1}, {2, -1}, {-1, -1}}, 7, false};
    assert_runs(chain, (const unsigned[]){1, 2, 4, 0, 0}, 0);
}

/* Also through plain objects in between, and with links that lead back from those behind to none. */
static void order_holds_through_plain_objects(void **state)
{
    (void)state;
    struct graph chain = {5, {{1, -1}, {2, -1}, {3, -1}, {4, -1}, {-1, -1}}, 1 | 4 | 16, false};
    assert_runs(chain, (const unsigned[]){1, 4, 16, 0, 0}, 0);
}

static void siblings_are_finalized_together_before_what_they_share(void **state)
{
    (void)state;
    struct graph diamond = {4, {{1, 2}, {3, -1}, {3, -1}, {-1, -1}}, 2 | 4 | 8, false};
    assert_runs(diamond, (const unsigned[]){2 | 4, 8, 0, 0, 0}, 0);
}

static void a_self_loop_is_never_finalized_and_stays(void **state)
{
    (void)state;
    struct graph loop = {1, {{0, -1}}, 1, false};
    assert_runs(loop, (const unsigned[])NEVER, 1);
}

static void a_cycle_of_two_is_never_finalized_and_stays(void **state)
{
    (void)state;
    struct graph cycle = {2, {{1, -1}, {0, -1}}, 3, false};
    assert_runs(cycle, (const unsigned[])NEVER, 2);
}

static void a_cycle_with_one_plain_object_is_never_finalized_and_stays(void **state)
{
    (void)state;
    struct graph cycle = {2, {{1, -1}, {0, -1}}, 1, false};
    assert_runs(cycle, (const unsigned[])NEVER, 2);
}

static void what_leads_to_a_cycle_is_finalized_the_cycle_is_not(void **state)
{
    (void)state;
    struct graph cycle = {3, {{1, -1}, {2, -1}, {1, -1}}, 7, false};
    assert_runs(cycle, (const unsigned[])AT_ONCE(1), 2);
}

/* The object is no longer there when a cleanup runs, so cycles do no harm. */
static void cleanups_of_chains_and_cycles_run_at_once(void **state)
{
    (void)state;
    assert_runs((struct graph){3, {{1, -1}, {2, -1}, {-1, -1}}, 7, true}, (const unsigned[])AT_ONCE(7), 0);
    assert_runs((struct graph){1, {{0, -1}}, 1, true}, (const unsigned[])AT_ONCE(1), 0);
    assert_runs((struct graph){2, {{1, -1}, {0, -1}}, 3, true}, (const unsigned[])AT_ONCE(3), 0);
    assert_runs((struct graph){2, {{1, -1}, {0, -1}}, 1, true}, (const unsigned[])AT_ONCE(1), 0);
}

#define order_test(function) heap_test_with(function, "TEASPAN=finalizers=demand", "GODEBUG=gccheckmark=1")

int main(void)
{
    const struct CMUnitTest tests[] = {
        order_test(a_chain_is_finalized_from_its_head_one_a_collection),
        order_test(order_holds_through_plain_objects),
        order_test(siblings_are_finalized_together_before_what_they_share),
        order_test(a_self_loop_is_never_finalized_and_stays),
        order_test(a_cycle_of_two_is_never_finalized_and_stays),
        order_test(a_cycle_with_one_plain_object_is_never_finalized_and_stays),
        order_test(what_leads_to_a_cycle_is_finalized_the_cycle_is_not),
        order_test(cleanups_of_chains_and_cycles_run_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
