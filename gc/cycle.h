/* gc/cycle.h -- the phases of a collection: off, mark, mark termination, sweep. */
#ifndef TEAI_CYCLE_H
#define TEAI_CYCLE_H

#include "gc/heap.h"

struct tea_mutator;

enum teai_cycle_reason {
    TEAI_CYCLE_HEAP,    /* heap live reached the trigger */
    TEAI_CYCLE_FORCED,  /* tea_collect() */
    TEAI_CYCLE_OOM,     /* an allocation failed */
    TEAI_CYCLE_STRESS
};

/* Run one cycle unless it is no longer needed. The caller is a mutator outside the runtime, holding no lock. */
void teai_cycle_run(struct tea_heap *h, struct tea_mutator *self, enum teai_cycle_reason reason);
/* heap live has reached the trigger and nothing forbids a cycle. */
bool teai_cycle_is_due(const struct tea_heap *h);

/* gc_pacer.c: facts for pacer/, and what follows from its decision. */
void teai_gc_pacer_init(struct tea_heap *h);
void teai_gc_pacer_commit(struct tea_heap *h);
int32_t teai_gc_pacer_set_percent(struct tea_heap *h, int32_t percent);
int64_t teai_gc_pacer_set_limit(struct tea_heap *h, int64_t limit_bytes);
/* Memory held from the OS by heap and metadata. */
uint64_t teai_gc_mapped_ready_bytes(const struct tea_heap *h);
uint64_t teai_gc_metadata_bytes(const struct tea_heap *h);

/* mark_reference.c: the slow, obvious marker; with the world stopped after marking, before sweeping. Counts objects it
 * reaches that are not BLACK, and BLACK ones it does not reach (other than leased slots). */
struct teai_reference_result {
    uint64_t nreached, nmissed, nextra;
    uintptr_t first_missed_addr;
    bool no_memory;
};
struct teai_reference_result teai_mark_reference_compare(struct tea_heap *h);

#endif
