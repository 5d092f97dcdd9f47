/* tests/unit/test_sweep.c -- sweeping: states against a slow twin, every dead slot returned once, lazily or at once. */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include "gc/sweep.h"
#include "gc/thread.h"

#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

/* --- states --- */

static const uint8_t mark_ends_with[] = {TEAI_SLOT_FREE, TEAI_SLOT_WHITE, TEAI_SLOT_BLACK};

/* One by one. */
static uint32_t slow_sweep(uint8_t *states, uint32_t nslots)
{
    uint32_t nlive = 0;
    for (uint32_t i = 0; i < nslots; i++) {
        states[i] = states[i] == TEAI_SLOT_BLACK ? TEAI_SLOT_WHITE : TEAI_SLOT_FREE;
        nlive += states[i] == TEAI_SLOT_WHITE;
    }
    return nlive;
}

/* `nslots` states, FREE ones behind them as in a span. */
static void assert_swept_like_the_twin(const uint8_t *states, uint32_t nslots)
{
    _Alignas(64) teai_slot_byte fast[TEAI_SLOTS_A_PAGE] = {0};
    uint8_t slow[TEAI_SLOTS_A_PAGE] = {0};
    for (uint32_t i = 0; i < nslots; i++)
        fast[i] = slow[i] = states[i];
    uint32_t want = slow_sweep(slow, nslots);
    assert_int_equal(teai_sweep_states(fast, nslots), want);
    for (uint32_t i = 0; i < TEAI_SLOTS_A_PAGE; i++)
        if (fast[i] != slow[i])
            fail_msg("%u slots: slot %u is %u, expected %u", nslots, i, fast[i], slow[i]);
}

static void every_mix_of_eight_states_is_swept_like_the_twin(void **state)
{
    (void)state;
    enum { MIXES = 6561 }; /* 3^8 */
    for (uint32_t mix = 0; mix < MIXES; mix++) {
        uint8_t states[8];
        for (uint32_t i = 0, rest = mix; i < 8; i++, rest /= 3)
            states[i] = mark_ends_with[rest % 3];
        assert_swept_like_the_twin(states, 8);
    }
}

static void random_states_of_every_span_size_are_swept_like_the_twin(void **state)
{
    (void)state;
    struct test_random random = test_random_start("test_sweep");
    for (uint32_t nslots = 1; nslots <= TEAI_SLOTS_A_PAGE; nslots++) {
        uint8_t states[TEAI_SLOTS_A_PAGE];
        for (uint32_t i = 0; i < nslots; i++)
            states[i] = mark_ends_with[test_random_below(&random, 3)];
        assert_swept_like_the_twin(states, nslots);
    }
}

static void spans_all_of_one_state_are_swept_like_the_twin(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof mark_ends_with; s++)
        for (uint32_t nslots = 1; nslots <= TEAI_SLOTS_A_PAGE; nslots++) {
            uint8_t states[TEAI_SLOTS_A_PAGE];
            memset(states, mark_ends_with[s], nslots);
            assert_swept_like_the_twin(states, nslots);
        }
}

/* --- counts --- */

enum { SURVIVORS = 1000 };
static void *survivors[SURVIVORS]; /* inner references */

/* `nobjects` of many sizes, of which every eighth or so lives; and no word of them stays on our stack. */
struct litter {
    uint32_t nobjects, nsurvivors, max_bytes;
    struct test_random random;
};

static void make_litter(void *argument)
{
    struct litter *l = argument;
    for (uint32_t i = 0; i < l->nobjects; i++) {
        uint32_t bytes =
            16 +
            test_random_below(&l->random, l->max_bytes); /* no tiny objects: they die by blocks */
        void *object = i % 3 == 0 ? tea_alloc_leaf(bytes) : tea_alloc(bytes);
        TEST_REQUIRE(object != NULL);
        if (i % 8 == 0 && l->nsurvivors < SURVIVORS)
            survivors[l->nsurvivors++] = test_inner(object);
    }
}

static void each_dead_slot_is_returned_once(void **state)
{
    (void)state;
    struct litter l = {
        .nobjects = 4000, .max_bytes = 3000, .random = test_random_start("test_sweep")};
    test_apart(make_litter, &l);
    tea_collect();
    struct tea_stats stats = test_stats();
    assert_int_equal(stats.mallocs, l.nobjects);
    assert_int_equal(stats.frees, l.nobjects - l.nsurvivors);
    assert_int_equal(stats.heap_objects, l.nsurvivors);
    assert_int_equal(test_census_objects(), l.nsurvivors);
    tea_collect();
    assert_int_equal(test_stats().frees, l.nobjects - l.nsurvivors);
}

static void dead_large_objects_are_returned_once(void **state)
{
    (void)state;
    struct litter l = {
        .nobjects = 40, .max_bytes = 500000, .random = test_random_start("test_sweep")};
    test_apart(make_litter, &l);
    tea_collect();
    assert_int_equal(test_stats().heap_objects, l.nsurvivors);
    assert_int_equal(test_census_objects(), l.nsurvivors);
    memset(survivors, 0, sizeof survivors);
    tea_collect();
    struct tea_stats stats = test_stats();
    assert_int_equal(stats.frees, l.nobjects);
    assert_int_equal(stats.alloc_bytes, 0);
}

static void counts_stay_exact_over_many_cycles(void **state)
{
    (void)state;
    struct litter l = {
        .nobjects = 500, .max_bytes = 2000, .random = test_random_start("test_sweep")};
    uint64_t nallocated = 0;
    for (int cycle = 0; cycle < 20; cycle++) {
        l.nsurvivors = 0;
        test_apart(make_litter, &l);
        nallocated += l.nobjects;
        tea_collect();
        struct tea_stats stats = test_stats();
        assert_int_equal(stats.mallocs, nallocated);
        assert_int_equal(stats.heap_objects, l.nsurvivors);
    }
}

static void free_every_other_survivor(void *argument)
{
    const struct litter *l = argument;
    for (uint32_t i = 0; i < l->nsurvivors; i += 2) {
        tea_free(test_outer(survivors[i]));
        survivors[i] = NULL;
    }
}

static void freeing_by_hand_and_sweeping_never_count_an_object_twice(void **state)
{
    (void)state;
    struct litter l = {
        .nobjects = 3000, .max_bytes = 40000, .random = test_random_start("test_sweep")};
    test_apart(make_litter, &l);
    test_apart(free_every_other_survivor, &l);
    assert_int_equal(test_objects_after_collect(), l.nsurvivors / 2);
    assert_int_equal(test_census_objects(), l.nsurvivors / 2);
}

/* --- when --- */

static uint32_t count_unswept(void)
{
    const struct teai_tables *t = &h->tables;
    uint32_t n = 0, limit = teai_page_heap_limit(h->pages);
    for (uint32_t page = 0; page < limit; page++)
        if (teai_slot_find(t, teai_page_addr(t, page)).span == page)
            n += !teai_span_is_swept(&t->spans[page], teai_heap_gen(h));
    return n;
}

/* Fill until allocation itself has run a cycle. Dead objects of 4 KiB, survivors of 128 bytes. */
static void allocate_until_a_cycle(void *argument)
{
    uint32_t nsmall = *(uint32_t *)argument, before = tea_gc_count();
    for (uint32_t i = 0; i < nsmall; i++) {
        void *object = tea_alloc(128);
        if (i < SURVIVORS)
            survivors[i] = test_inner(object);
    }
    while (tea_gc_count() == before)
        TEST_REQUIRE(tea_alloc_leaf(4096) != NULL);
}

/* A heap below 8 MiB, whose sweep no thread is woken for. */
static uint32_t leave_a_small_heap_unswept(void)
{
    uint32_t nsmall = 6400;
    test_apart(allocate_until_a_cycle, &nsmall);
    assert_true(teai_page_heap_limit(h->pages) < 1024);
    assert_false(teai_sweep_is_done(h));
    return count_unswept();
}

static void a_cycle_that_allocation_starts_leaves_sweeping_to_allocation(void **state)
{
    (void)state;
    uint32_t nunswept = leave_a_small_heap_unswept();
    assert_true(nunswept > 100);
    uint64_t inuse = test_stats().heap_inuse_bytes;
    for (int i = 0; i < 2000; i++)
        assert_non_null(tea_alloc(128));
    assert_true(count_unswept() < nunswept);
    assert_true(test_stats().heap_inuse_bytes <= inuse);
    assert_false(teai_sweep_is_done(h));
}

static void a_forced_collection_finishes_both_sweeps(void **state)
{
    (void)state;
    leave_a_small_heap_unswept();
    tea_collect();
    assert_true(teai_sweep_is_done(h));
    assert_int_equal(count_unswept(), 0);
}

static void every_span_is_swept_once_a_cycle(void **state)
{
    (void)state;
    uint32_t nunswept = leave_a_small_heap_unswept();
    uint32_t nswept = 0;
    for (int n; (n = teai_sweep_some(h)) >= 0;)
        nswept += (uint32_t)n;
    assert_int_equal(nswept, nunswept);
    assert_true(teai_sweep_is_done(h));
    assert_int_equal(teai_sweep_some(h), -1);
}

static void asking_for_an_object_sweeps_its_span_alone(void **state)
{
    (void)state;
    uint32_t nunswept = leave_a_small_heap_unswept();
    assert_non_null(survivors[0]);
    assert_ptr_equal(tea_base(survivors[0]), test_outer(survivors[0]));
    assert_int_equal(count_unswept(), nunswept - 1);
    assert_ptr_equal(tea_base(survivors[0]), test_outer(survivors[0]));
    assert_int_equal(count_unswept(), nunswept - 1);
}

static void an_object_may_be_freed_in_a_span_that_is_not_swept_yet(void **state)
{
    (void)state;
    leave_a_small_heap_unswept();
    uintptr_t freed = test_hide(test_outer(survivors[7]));
    tea_free(test_outer(survivors[7]));
    survivors[7] = NULL;
    assert_false(test_is_alive(freed));
    test_census();
}

static void make_the_heap_large(void)
{
    tea_free(tea_alloc_leaf((size_t)16 << 20));
    assert_true(teai_page_heap_limit(h->pages) >= 1024);
}

static void a_large_heap_is_swept_in_the_background(void **state)
{
    (void)state;
    make_the_heap_large();
    uint32_t nsmall = 20000;
    test_apart(allocate_until_a_cycle, &nsmall);
    uint64_t deadline_ns = teai_platform_now_ns() + UINT64_C(20000000000);
    while (!teai_sweep_is_done(h) && teai_platform_now_ns() < deadline_ns)
        teai_platform_yield();
    assert_true(teai_sweep_is_done(h));
    assert_int_equal(count_unswept(), 0);
    test_census();
}

static void allocation_and_background_share_the_sweep(void **state)
{
    (void)state;
    make_the_heap_large();
    uint32_t nsmall = 20000;
    for (int cycle = 0; cycle < 10; cycle++) {
        memset(survivors, 0, sizeof survivors);
        test_apart(allocate_until_a_cycle, &nsmall);
        for (int i = 0; i < SURVIVORS; i++)
            assert_ptr_equal(tea_base(survivors[i]), test_outer(survivors[i]));
        struct tea_stats stats = test_stats();
        assert_true(stats.frees <= stats.mallocs);
    }
    assert_int_equal(test_objects_after_collect(), SURVIVORS);
    assert_int_equal(test_census_objects(), test_stats().heap_objects);
}

/* --- contents --- */

static void make_one_of_two_neighbours_survive(void *argument)
{
    uintptr_t *hidden = argument;
    void *live = tea_alloc(64), *dead = tea_alloc(64);
    survivors[0] = test_inner(live);
    memset(live, 0x11, 64);
    memset(dead, 0x22, 64);
    *hidden = test_hide(dead);
}

static void clobberfree_overwrites_the_dead_and_only_them(void **state)
{
    (void)state;
    uintptr_t dead;
    test_apart(make_one_of_two_neighbours_survive, &dead);
    tea_collect();
    assert_true(test_all_bytes(test_reveal(dead), TEAI_POISON_BYTE, 64));
    assert_true(test_all_bytes(test_outer(survivors[0]), 0x11, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mix_of_eight_states_is_swept_like_the_twin),
        cmocka_unit_test(random_states_of_every_span_size_are_swept_like_the_twin),
        cmocka_unit_test(spans_all_of_one_state_are_swept_like_the_twin),
        heap_test(each_dead_slot_is_returned_once),
        heap_test(dead_large_objects_are_returned_once),
        heap_test(counts_stay_exact_over_many_cycles),
        heap_test(freeing_by_hand_and_sweeping_never_count_an_object_twice),
        heap_test(a_cycle_that_allocation_starts_leaves_sweeping_to_allocation),
        heap_test(a_forced_collection_finishes_both_sweeps),
        heap_test(every_span_is_swept_once_a_cycle),
        heap_test(asking_for_an_object_sweeps_its_span_alone),
        heap_test(an_object_may_be_freed_in_a_span_that_is_not_swept_yet),
        heap_test(a_large_heap_is_swept_in_the_background),
        heap_test(allocation_and_background_share_the_sweep),
        heap_test_with(clobberfree_overwrites_the_dead_and_only_them, "GODEBUG=clobberfree=1"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
