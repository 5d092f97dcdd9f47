/* gc/sweep.h -- give the slots of dead objects back to their spans. */
#ifndef TEAI_SWEEP_H
#define TEAI_SWEEP_H

#include "gc/heap.h"

/* A cycle has ended (world stopped): everything in use is to be swept. */
void teai_sweep_begin_stopped(struct tea_heap *h);
/* Sweep a chunk of pages; returns spans swept, or -1 when nothing is left to claim. Never with the world stopped. */
int teai_sweep_some(struct tea_heap *h);
/* Sweep everything that is left and wait for other sweepers. */
void teai_sweep_finish(struct tea_heap *h);
bool teai_sweep_is_done(const struct tea_heap *h);
/* Claim a span for sweeping (S1). */
bool teai_sweep_try_claim(struct teai_span *s, uint32_t heap_gen);
/* Sweep a small span that the caller claimed; slots freed. Does not publish the generation. */
uint32_t teai_sweep_small_claimed(struct tea_heap *h, uint32_t span);
/* Make sure the span of an object is swept, doing it here if need be. */
void teai_sweep_ensure(struct tea_heap *h, uint32_t span);
/* Wake (or start) the background sweeper. */
void teai_sweep_wake(struct tea_heap *h);
void teai_sweep_after_fork(struct tea_heap *h);

/* WHITE -> FREE, BLACK -> WHITE for `nslots` states; returns how many are WHITE after. */
uint32_t teai_sweep_states(teai_slot_byte *states, uint32_t nslots);

#endif
