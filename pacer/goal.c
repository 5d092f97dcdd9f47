/* pacer/goal.c -- how far the heap may grow (the goal) and when to start collecting (the trigger).
 *
 * Problem. After each collection, and whenever a knob moves, say how many live bytes the heap may hold before
 * the next collection has to be over, and how many it may hold before that collection has to begin.
 *
 * Invariants (checked by the unit tests against the same formulas in 128-bit arithmetic).
 *   G1  trigger <= goal.
 *   G2  marked <= trigger, unless the goal itself is below marked; then trigger = goal: collect at once.
 *   G3  A memory limit can lower the goal that GOGC gives, never raise it.
 *   G4  No input wraps: where Go's unsigned arithmetic would, the result stays at UINT64_MAX, "no goal".
 *
 * Left out: Go keeps the goal of a cycle that is already marking at least 64 KiB above the heap it started
 * with. The facts here describe a heap between cycles, where that rule has no effect.
 *
 * Source. Go 1.26 runtime, mgcpacer.go: commit, heapGoalInternal, memoryLimitHeapGoal, trigger, setGCPercent.
 */
#include "pacer/pacer.h"

/* The trigger lies between 45/64 and 61/64 of the way from the marked heap to the goal. The upper bound
 * leaves room for what is allocated while the collection runs, the lower one keeps a program that allocates
 * fast from being collected all the time. */
enum { RUNWAY_PARTS = 64, EARLIEST_TRIGGER_PARTS = 45, LATEST_TRIGGER_PARTS = 61 };

/* A large heap may be triggered later than 61/64: at the latest this far below its goal. Not scaled by GOGC. */
static const uint64_t latest_trigger_distance_bytes = TEAI_PACER_HEAP_MINIMUM_BYTES;

/* Room kept below a memory limit, because pacing is not exact and small heaps are paced worst. */
enum { LIMIT_HEADROOM_PERCENT = 3 };
static const uint64_t limit_headroom_min_bytes = (uint64_t)1 << 20;

static uint64_t goal_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t goal_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t saturating_sub(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static uint64_t saturating_mul(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* bytes * percent / 100, rounded down. Hundreds and remainder apart: the product of the whole would wrap
 * for a heap of 8 GiB already at the largest GOGC. */
static uint64_t percent_of(uint64_t bytes, uint32_t percent)
{
    return saturating_add(saturating_mul(bytes / 100, percent), bytes % 100 * percent / 100);
}

/* marked plus `parts` 64ths of the way to goal; divided first, as in Go, so that it cannot wrap. */
static uint64_t part_of_the_way(uint64_t marked_bytes, uint64_t goal_bytes, unsigned parts)
{
    return (goal_bytes - marked_bytes) / RUNWAY_PARTS * parts + marked_bytes;
}

static uint64_t earliest_trigger(uint64_t marked_bytes, uint64_t goal_bytes,
                                 uint64_t min_trigger_bytes)
{
    uint64_t earliest = part_of_the_way(marked_bytes, goal_bytes, EARLIEST_TRIGGER_PARTS);
    return goal_max(earliest, min_trigger_bytes);
}

static uint64_t latest_trigger(uint64_t marked_bytes, uint64_t goal_bytes)
{
    uint64_t latest = part_of_the_way(marked_bytes, goal_bytes, LATEST_TRIGGER_PARTS);
    return goal_max(latest, saturating_sub(goal_bytes, latest_trigger_distance_bytes));
}

/* The live size at which to begin, so that the collection is over when the heap reaches the goal (G1, G2). */
static uint64_t trigger_for_goal(const struct teai_facts *facts, uint64_t goal_bytes,
                                 uint64_t min_trigger_bytes)
{
    if (facts->marked_bytes >= goal_bytes)
        return goal_bytes;
    uint64_t earliest = earliest_trigger(facts->marked_bytes, goal_bytes, min_trigger_bytes);
    uint64_t latest = goal_max(latest_trigger(facts->marked_bytes, goal_bytes), earliest);
    uint64_t wanted = saturating_sub(goal_bytes, facts->runway_bytes);
    return goal_min(goal_max(wanted, earliest), latest);
}

/* Memory that the limit has to pay for and that can never hold objects. The three counters are read one
 * after the other while others move them, so their difference may come out below zero: that is none. */
static uint64_t non_heap_bytes(const struct teai_facts *facts)
{
    uint64_t without_free = saturating_sub(facts->mapped_ready_bytes, facts->heap_free_bytes);
    return saturating_sub(without_free, facts->heap_alloc_bytes);
}

static uint64_t below_headroom(uint64_t room_bytes)
{
    uint64_t headroom =
        goal_max(room_bytes / 100 * LIMIT_HEADROOM_PERCENT, limit_headroom_min_bytes);
    return goal_max(saturating_sub(room_bytes, headroom), headroom);
}

uint64_t teai_pacer_heap_minimum_bytes(int32_t gc_percent)
{
    if (gc_percent < 0)
        return UINT64_MAX;
    return percent_of(TEAI_PACER_HEAP_MINIMUM_BYTES, (uint32_t)gc_percent);
}

uint64_t teai_pacer_percent_goal_bytes(const struct teai_facts *facts, int32_t gc_percent)
{
    if (gc_percent < 0)
        return UINT64_MAX;
    uint64_t scanned = saturating_add(facts->marked_bytes, facts->stack_scan_bytes);
    scanned = saturating_add(scanned, facts->globals_scan_bytes);
    uint64_t goal = saturating_add(facts->marked_bytes, percent_of(scanned, (uint32_t)gc_percent));
    return goal_max(goal, teai_pacer_heap_minimum_bytes(gc_percent));
}

uint64_t teai_pacer_limit_goal_bytes(const struct teai_facts *facts, int64_t memory_limit_bytes)
{
    uint64_t limit = (uint64_t)memory_limit_bytes;
    /* What we are over by is taken off once more, so that a heap that overshot comes back below. */
    uint64_t overage = saturating_sub(facts->mapped_ready_bytes, limit);
    uint64_t taken = saturating_add(non_heap_bytes(facts), overage);
    if (taken >= limit)
        return facts->marked_bytes;
    return goal_max(below_headroom(limit - taken), facts->marked_bytes);
}

struct teai_goal teai_pacer_goal(const struct teai_facts *facts, const struct teai_knobs *knobs)
{
    uint64_t percent_goal = teai_pacer_percent_goal_bytes(facts, knobs->gc_percent);
    uint64_t limit_goal = teai_pacer_limit_goal_bytes(facts, knobs->memory_limit_bytes);
    struct teai_goal result;
    if (limit_goal < percent_goal) {
        /* Go reaches this branch with both knobs off too: its goal is then 97 % of the largest limit. */
        result.from_memory_limit = knobs->memory_limit_bytes != TEAI_PACER_NO_LIMIT;
        result.goal_bytes = limit_goal;
        result.trigger_bytes = trigger_for_goal(facts, limit_goal, 0);
    } else {
        result.from_memory_limit = false;
        result.goal_bytes = goal_max(percent_goal, facts->min_trigger_bytes);
        result.trigger_bytes = trigger_for_goal(facts, result.goal_bytes, facts->min_trigger_bytes);
    }
    return result;
}
