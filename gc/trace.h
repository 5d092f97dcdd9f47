/* gc/trace.h -- GODEBUG=gctrace=1: Go's line for each cycle. */
#ifndef TEAI_TRACE_H
#define TEAI_TRACE_H

#include "platform/platform.h"

struct tea_heap;
struct tea_mutator;
struct teai_cycle_record;

enum { TEAI_TRACE_LINES = 16, TEAI_TRACE_BYTES = 512 };

/* Lines that wait to be said, in the order of their cycles. */
struct teai_trace {
    struct teai_lock lock;
    const struct tea_mutator *sayer;    /* the thread that says them; NULL: nobody does */
    uint32_t first, nlines;             /* in the ring */
    uint32_t nlost;                     /* for want of room, since one was said last */
    uint16_t nbytes[TEAI_TRACE_LINES];
    char lines[TEAI_TRACE_LINES][TEAI_TRACE_BYTES];
};

void teai_trace_init(struct teai_trace *trace);
/* Under the world lock, the world running: the line of the cycle that has just ended. */
void teai_trace_add(struct tea_heap *h, const struct teai_cycle_record *record);
/* With no lock held, not even the world: say what waits, unless another thread is about it. */
void teai_trace_say(struct tea_heap *h, const struct tea_mutator *self);
/* In a child made by fork, whose thread has the lock. */
void teai_trace_after_fork(struct teai_trace *trace, const struct tea_mutator *self);

#endif
