/* tests/unit/test_pacer_goal.c -- goal and trigger: Go's own numbers, the edges, and a slow twin in 128 bits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "pacer/pacer.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define NELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

static const struct teai_knobs default_knobs = {100, TEAI_PACER_NO_LIMIT};

/* --- The slow twin: Go's formulas as they stand, with room in 128 bits for whatever would overflow. --- */

typedef __int128 wide;

static wide wide_max(wide a, wide b)
{
    return a > b ? a : b;
}

static uint64_t narrow(wide value)
{
    return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

static uint64_t slow_percent_goal(const struct teai_facts *f, int32_t gc_percent)
{
    if (gc_percent < 0)
        return UINT64_MAX;
    wide scanned = (wide)f->marked_bytes + f->stack_scan_bytes + f->globals_scan_bytes;
    wide minimum = (wide)4194304 * gc_percent / 100;
    return narrow(wide_max(f->marked_bytes + narrow(scanned) * (wide)gc_percent / 100, minimum));
}

static uint64_t slow_limit_goal(const struct teai_facts *f, int64_t limit)
{
    wide non_heap =
        wide_max((wide)f->mapped_ready_bytes - f->heap_free_bytes - f->heap_alloc_bytes, 0);
    wide overage = wide_max((wide)f->mapped_ready_bytes - limit, 0);
    if (non_heap + overage >= limit)
        return f->marked_bytes;
    wide goal = limit - (non_heap + overage);
    wide headroom = wide_max(goal / 100 * 3, 1048576);
    if (goal < headroom || goal - headroom < headroom)
        goal = headroom;
    else
        goal -= headroom;
    return narrow(wide_max(goal, f->marked_bytes));
}

static uint64_t slow_trigger(const struct teai_facts *f, wide goal, wide min_trigger)
{
    wide marked = f->marked_bytes;
    if (marked >= goal)
        return narrow(goal);
    wide lo = wide_max(min_trigger, wide_max(marked, (goal - marked) / 64 * 45 + marked));
    wide hi = (goal - marked) / 64 * 61 + marked;
    if (goal > 4194304 && goal - 4194304 > hi)
        hi = goal - 4194304;
    hi = wide_max(hi, lo);
    wide t = f->runway_bytes > goal ? lo : goal - f->runway_bytes;
    t = wide_max(t, lo);
    return narrow(t < hi ? t : hi);
}

static struct teai_goal slow_goal(const struct teai_facts *f, const struct teai_knobs *knobs)
{
    uint64_t goal = slow_percent_goal(f, knobs->gc_percent);
    uint64_t limit_goal = slow_limit_goal(f, knobs->memory_limit_bytes);
    if (limit_goal < goal)
        return (struct teai_goal){limit_goal, slow_trigger(f, limit_goal, 0),
                                  knobs->memory_limit_bytes != TEAI_PACER_NO_LIMIT};
    if (f->min_trigger_bytes > goal)
        goal = f->min_trigger_bytes;
    return (struct teai_goal){goal, slow_trigger(f, goal, f->min_trigger_bytes), false};
}

/* --- Random facts: sizes of every magnitude, so that each bound is reached often. --- */

static uint64_t random_state;

static uint64_t random_u64(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static uint64_t random_bytes(void)
{
    static const uint64_t edges[] = {0,       1,           99,        100,       4 * MIB - 1,
                                     4 * MIB, 4 * MIB + 1, INT64_MAX, UINT64_MAX};
    if (random_u64() % 8 == 0)
        return edges[random_u64() % NELEMENTS(edges)];
    return random_u64() >> random_u64() % 64;
}

static struct teai_facts random_facts(void)
{
    return (struct teai_facts){
        .marked_bytes = random_bytes(),
        .stack_scan_bytes = random_bytes(),
        .globals_scan_bytes = random_bytes(),
        .runway_bytes = random_u64() % 2 ? random_bytes() : 0,
        .min_trigger_bytes = random_u64() % 2 ? random_bytes() : 0,
        .mapped_ready_bytes = random_bytes(),
        .heap_free_bytes = random_bytes(),
        .heap_alloc_bytes = random_bytes(),
    };
}

static struct teai_knobs random_knobs(void)
{
    static const int32_t edges[] = {-1, 0, 1, 25, 100, 1500, INT32_MAX};
    struct teai_knobs knobs = {.gc_percent = edges[random_u64() % NELEMENTS(edges)]};
    if (random_u64() % 4 == 0)
        knobs.gc_percent = (int32_t)(random_u64() >> 33);
    knobs.memory_limit_bytes =
        random_u64() % 2 ? TEAI_PACER_NO_LIMIT : (int64_t)(random_bytes() >> 1);
    return knobs;
}

static uint64_t seed_from_environment(void)
{
    const char *text = getenv("TEA_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 20260807;
}

static void every_goal_and_trigger_equals_the_slow_twin(void **state)
{
    (void)state;
    random_state = seed_from_environment();
    print_message("TEA_SEED=%" PRIu64 "\n", random_state);
    for (int i = 0; i < 200000; i++) {
        struct teai_facts facts = random_facts();
        struct teai_knobs knobs = random_knobs();
        struct teai_goal expected = slow_goal(&facts, &knobs);
        struct teai_goal actual = teai_pacer_goal(&facts, &knobs);
        assert_int_equal(actual.goal_bytes, expected.goal_bytes);
        assert_int_equal(actual.trigger_bytes, expected.trigger_bytes);
        assert_int_equal(actual.from_memory_limit, expected.from_memory_limit);
        assert_int_equal(teai_pacer_limit_goal_bytes(&facts, knobs.memory_limit_bytes),
                         slow_limit_goal(&facts, knobs.memory_limit_bytes));
    }
}

static void the_trigger_lies_between_the_marked_heap_and_the_goal(void **state)
{
    (void)state;
    random_state = seed_from_environment() + 1;
    print_message("TEA_SEED=%" PRIu64 "\n", random_state - 1);
    for (int i = 0; i < 200000; i++) {
        struct teai_facts facts = random_facts();
        struct teai_knobs knobs = random_knobs();
        struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
        assert_true(goal.trigger_bytes <= goal.goal_bytes);
        assert_true(goal.trigger_bytes >= facts.marked_bytes ||
                    goal.trigger_bytes == goal.goal_bytes);
    }
}

/* --- GOGC --- */

static void the_heap_minimum_scales_with_gogc(void **state)
{
    (void)state;
    assert_int_equal(teai_pacer_heap_minimum_bytes(100), 4 * MIB);
    assert_int_equal(teai_pacer_heap_minimum_bytes(25), 1 * MIB);
    assert_int_equal(teai_pacer_heap_minimum_bytes(1500), 62914560);
    assert_int_equal(teai_pacer_heap_minimum_bytes(1), 41943);
    assert_int_equal(teai_pacer_heap_minimum_bytes(0), 0);
}

static void the_heap_minimum_at_the_largest_gogc_does_not_wrap(void **state)
{
    (void)state;
    assert_int_equal(teai_pacer_heap_minimum_bytes(INT32_MAX), UINT64_C(90071992505466));
}

static void with_gogc_off_there_is_no_percent_goal(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 5 * MIB};
    assert_int_equal(teai_pacer_percent_goal_bytes(&facts, -1), UINT64_MAX);
    assert_int_equal(teai_pacer_heap_minimum_bytes(-1), UINT64_MAX);
}

static void an_empty_heap_has_the_minimum_as_its_goal(void **state)
{
    (void)state;
    struct teai_facts facts = {0};
    assert_int_equal(teai_pacer_percent_goal_bytes(&facts, 100), 4 * MIB);
}

static void stacks_and_globals_count_like_marked_bytes_for_the_growth(void **state)
{
    (void)state;
    struct teai_facts facts = {
        .marked_bytes = 10 * MIB, .stack_scan_bytes = 2 * MIB, .globals_scan_bytes = 4 * MIB};
    assert_int_equal(teai_pacer_percent_goal_bytes(&facts, 100), 26 * MIB);
    assert_int_equal(teai_pacer_percent_goal_bytes(&facts, 50), 18 * MIB);
}

static void the_growth_is_cut_to_whole_bytes(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 5 * MIB + 3, .globals_scan_bytes = 7};
    assert_int_equal(teai_pacer_percent_goal_bytes(&facts, 99),
                     5 * MIB + 3 + (5 * MIB + 10) * 99 / 100);
}

static void a_goal_too_large_for_64_bits_is_no_goal(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = UINT64_MAX / 4};
    assert_int_equal(teai_pacer_percent_goal_bytes(&facts, INT32_MAX), UINT64_MAX);
}

static void eight_gib_at_the_largest_gogc_is_exact(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = UINT64_C(8) << 30};
    assert_int_equal(teai_pacer_percent_goal_bytes(&facts, INT32_MAX),
                     UINT64_C(184467449241130762));
}

/* Rows that Go's own pacer gives in its simulation (mgcpacer_test.go: TestGcPacer), where the trigger is a bound and does
 * not depend on the runway. */
static void goals_and_triggers_are_those_of_gos_simulation(void **state)
{
    (void)state;
    static const struct {
        uint64_t marked;
        int32_t gc_percent;
        int64_t limit;
        uint64_t goal, trigger;
    } rows[] = {
        {0, 100, TEAI_PACER_NO_LIMIT, 4194304, 3997696},
        {0, 1500, TEAI_PACER_NO_LIMIT, 62914560, 59965440},
        {3405451943, 100, TEAI_PACER_NO_LIMIT, 6810944846, 6806750542},
        {0, -1, 512 << 20, 520764785, 516570481},
        {20886447, -1, 512 << 20, 520764785, 516570481},
        {1194234457, 100, 512 << 20, 1194234457, 1194234457},
    };
    for (size_t i = 0; i < NELEMENTS(rows); i++) {
        struct teai_facts facts = {
            .marked_bytes = rows[i].marked,
            .stack_scan_bytes = rows[i].marked ? 8192 : 0,
            .globals_scan_bytes = rows[i].marked ? 32768 : 0,
            .mapped_ready_bytes = rows[i].marked,
            .heap_alloc_bytes = rows[i].marked,
        };
        struct teai_knobs knobs = {rows[i].gc_percent, rows[i].limit};
        struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
        assert_int_equal(goal.goal_bytes, rows[i].goal);
        assert_int_equal(goal.trigger_bytes, rows[i].trigger);
    }
}

/* --- GOMEMLIMIT --- */

static void an_empty_heap_may_fill_the_limit_but_for_its_headroom(void **state)
{
    (void)state;
    struct teai_facts facts = {0};
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 512 << 20), 520764785);
}

static void memory_that_can_hold_no_objects_is_taken_off_the_limit(void **state)
{
    (void)state;
    struct teai_facts facts = {
        .mapped_ready_bytes = 60 * MIB, .heap_free_bytes = 20 * MIB, .heap_alloc_bytes = 30 * MIB};
    uint64_t room = 54 * MIB;
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 64 << 20), room - room / 100 * 3);
}

static void memory_over_the_limit_lowers_the_goal_by_as_much_again(void **state)
{
    (void)state;
    struct teai_facts facts = {
        .mapped_ready_bytes = 70 * MIB, .heap_free_bytes = 40 * MIB, .heap_alloc_bytes = 30 * MIB};
    uint64_t room = 58 * MIB;
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 64 << 20), room - room / 100 * 3);
}

static void a_small_limit_keeps_one_mib_of_headroom(void **state)
{
    (void)state;
    struct teai_facts facts = {0};
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 8 << 20), 7 * MIB);
}

static void below_two_mib_the_goal_is_the_headroom(void **state)
{
    (void)state;
    struct teai_facts facts = {0};
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 3 << 19), MIB);
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 1), MIB);
}

static void a_limit_that_other_memory_uses_up_means_collecting_at_once(void **state)
{
    (void)state;
    struct teai_facts facts = {
        .marked_bytes = 3 * MIB, .mapped_ready_bytes = 16 * MIB, .heap_alloc_bytes = 4 * MIB};
    struct teai_knobs knobs = {-1, 8 << 20};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes, 3 * MIB);
    assert_int_equal(goal.trigger_bytes, 3 * MIB);
    assert_true(goal.from_memory_limit);
}

static void a_limit_of_zero_is_legal_and_means_collecting_at_once(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 5};
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 0), 5);
}

static void the_limit_never_sets_a_goal_below_the_marked_heap(void **state)
{
    (void)state;
    struct teai_facts facts = {
        .marked_bytes = 63 * MIB, .mapped_ready_bytes = 64 * MIB, .heap_alloc_bytes = 64 * MIB};
    assert_int_equal(teai_pacer_limit_goal_bytes(&facts, 64 << 20), 63 * MIB);
}

static void counters_caught_between_two_updates_count_as_no_other_memory(void **state)
{
    (void)state;
    struct teai_facts torn = {
        .mapped_ready_bytes = 4 * MIB, .heap_free_bytes = 3 * MIB, .heap_alloc_bytes = 3 * MIB};
    struct teai_facts whole = {
        .mapped_ready_bytes = 6 * MIB, .heap_free_bytes = 3 * MIB, .heap_alloc_bytes = 3 * MIB};
    assert_int_equal(teai_pacer_limit_goal_bytes(&torn, 64 << 20),
                     teai_pacer_limit_goal_bytes(&whole, 64 << 20));
}

static void a_limit_lowers_the_goal_of_gogc(void **state)
{
    (void)state;
    struct teai_facts facts = {
        .marked_bytes = 50 * MIB, .mapped_ready_bytes = 50 * MIB, .heap_alloc_bytes = 50 * MIB};
    struct teai_knobs knobs = {100, 64 << 20};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes, 64 * MIB - 64 * MIB / 100 * 3);
    assert_true(goal.from_memory_limit);
}

static void a_limit_never_raises_the_goal_of_gogc(void **state)
{
    (void)state;
    struct teai_facts facts = {
        .marked_bytes = 10 * MIB, .mapped_ready_bytes = 10 * MIB, .heap_alloc_bytes = 10 * MIB};
    struct teai_knobs knobs = {100, 64 << 20};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes, 20 * MIB);
    assert_false(goal.from_memory_limit);
}

/* 8532210231537 MB is what Go's trace shows with GOGC=off and no limit, in a process with 4 MiB outside the heap. */
static void with_both_knobs_off_the_goal_is_gos_huge_number(void **state)
{
    (void)state;
    struct teai_facts facts = {.mapped_ready_bytes = 4 * MIB};
    struct teai_knobs knobs = {-1, TEAI_PACER_NO_LIMIT};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes / MIB, UINT64_C(8532210231537));
    assert_false(goal.from_memory_limit);
}

/* --- Trigger --- */

static void without_a_runway_the_trigger_is_61_64ths_of_the_way(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 8 * MIB};
    struct teai_goal goal = teai_pacer_goal(&facts, &default_knobs);
    assert_int_equal(goal.goal_bytes, 16 * MIB);
    assert_int_equal(goal.trigger_bytes, 8 * MIB + 8 * MIB / 64 * 61);
}

static void a_large_heap_is_triggered_four_mib_below_its_goal(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 100 * MIB};
    struct teai_goal goal = teai_pacer_goal(&facts, &default_knobs);
    assert_int_equal(goal.goal_bytes, 200 * MIB);
    assert_int_equal(goal.trigger_bytes, 205520896);
}

static void a_long_runway_is_cut_at_45_64ths_of_the_way(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 100 * MIB, .runway_bytes = 90 * MIB};
    assert_int_equal(teai_pacer_goal(&facts, &default_knobs).trigger_bytes, 178585600);
}

static void a_runway_longer_than_the_goal_triggers_as_early_as_allowed(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 100 * MIB, .runway_bytes = UINT64_MAX};
    assert_int_equal(teai_pacer_goal(&facts, &default_knobs).trigger_bytes, 178585600);
}

static void a_runway_between_the_bounds_is_taken_as_it_is(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 100 * MIB, .runway_bytes = 10 * MIB};
    assert_int_equal(teai_pacer_goal(&facts, &default_knobs).trigger_bytes, 190 * MIB);
}

static void the_distance_of_four_mib_does_not_scale_with_gogc(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 400 * MIB};
    struct teai_knobs knobs = {25, TEAI_PACER_NO_LIMIT};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes, 500 * MIB);
    assert_int_equal(goal.trigger_bytes, 496 * MIB);
}

static void an_unswept_heap_raises_goal_and_trigger_to_the_sweep_distance(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 20 * MIB, .min_trigger_bytes = 21 * MIB};
    struct teai_knobs knobs = {1, TEAI_PACER_NO_LIMIT};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes, 21 * MIB);
    assert_int_equal(goal.trigger_bytes, 21 * MIB);
}

static void a_memory_limit_ignores_the_sweep_distance(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 20 * MIB,
                               .min_trigger_bytes = 40 * MIB,
                               .mapped_ready_bytes = 20 * MIB,
                               .heap_alloc_bytes = 20 * MIB};
    struct teai_knobs knobs = {100, 32 << 20};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes, 32 * MIB - MIB);
    assert_true(goal.trigger_bytes < goal.goal_bytes);
}

static void with_gogc_zero_the_heap_is_collected_as_soon_as_it_grows(void **state)
{
    (void)state;
    struct teai_facts facts = {.marked_bytes = 20 * MIB, .globals_scan_bytes = 32 * KIB};
    struct teai_knobs knobs = {0, TEAI_PACER_NO_LIMIT};
    struct teai_goal goal = teai_pacer_goal(&facts, &knobs);
    assert_int_equal(goal.goal_bytes, 20 * MIB);
    assert_int_equal(goal.trigger_bytes, 20 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_goal_and_trigger_equals_the_slow_twin),
        cmocka_unit_test(the_trigger_lies_between_the_marked_heap_and_the_goal),
        cmocka_unit_test(the_heap_minimum_scales_with_gogc),
        cmocka_unit_test(the_heap_minimum_at_the_largest_gogc_does_not_wrap),
        cmocka_unit_test(with_gogc_off_there_is_no_percent_goal),
        cmocka_unit_test(an_empty_heap_has_the_minimum_as_its_goal),
        cmocka_unit_test(stacks_and_globals_count_like_marked_bytes_for_the_growth),
        cmocka_unit_test(the_growth_is_cut_to_whole_bytes),
        cmocka_unit_test(a_goal_too_large_for_64_bits_is_no_goal),
        cmocka_unit_test(eight_gib_at_the_largest_gogc_is_exact),
        cmocka_unit_test(goals_and_triggers_are_those_of_gos_simulation),
        cmocka_unit_test(an_empty_heap_may_fill_the_limit_but_for_its_headroom),
        cmocka_unit_test(memory_that_can_hold_no_objects_is_taken_off_the_limit),
        cmocka_unit_test(memory_over_the_limit_lowers_the_goal_by_as_much_again),
        cmocka_unit_test(a_small_limit_keeps_one_mib_of_headroom),
        cmocka_unit_test(below_two_mib_the_goal_is_the_headroom),
        cmocka_unit_test(a_limit_that_other_memory_uses_up_means_collecting_at_once),
        cmocka_unit_test(a_limit_of_zero_is_legal_and_means_collecting_at_once),
        cmocka_unit_test(the_limit_never_sets_a_goal_below_the_marked_heap),
        cmocka_unit_test(counters_caught_between_two_updates_count_as_no_other_memory),
        cmocka_unit_test(a_limit_lowers_the_goal_of_gogc),
        cmocka_unit_test(a_limit_never_raises_the_goal_of_gogc),
        cmocka_unit_test(with_both_knobs_off_the_goal_is_gos_huge_number),
        cmocka_unit_test(without_a_runway_the_trigger_is_61_64ths_of_the_way),
        cmocka_unit_test(a_large_heap_is_triggered_four_mib_below_its_goal),
        cmocka_unit_test(a_long_runway_is_cut_at_45_64ths_of_the_way),
        cmocka_unit_test(a_runway_longer_than_the_goal_triggers_as_early_as_allowed),
        cmocka_unit_test(a_runway_between_the_bounds_is_taken_as_it_is),
        cmocka_unit_test(the_distance_of_four_mib_does_not_scale_with_gogc),
        cmocka_unit_test(an_unswept_heap_raises_goal_and_trigger_to_the_sweep_distance),
        cmocka_unit_test(a_memory_limit_ignores_the_sweep_distance),
        cmocka_unit_test(with_gogc_zero_the_heap_is_collected_as_soon_as_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
