/* gc/fiber.h -- stacks that the program makes and switches itself. */
#ifndef TEAI_FIBER_H
#define TEAI_FIBER_H

#include "platform/platform.h"

struct tea_heap;
struct tea_mutator;
struct tea_fiber;
struct teai_fiber_block;

/* All fibers of a heap. */
struct teai_fibers {
    struct teai_lock lock;             /* the two lists */
    struct teai_fiber_block *blocks;
    struct tea_fiber *free;
    _Atomic uint64_t nfibers;          /* created and not ended; a thread's own stack is none */
    uint64_t nscanned_whole;           /* in the last cycle, for want of a stack pointer */
};

/* A mutator's part: where it is. All NULL until it first switches. */
struct teai_fiber_state {
    struct tea_fiber *current;         /* NULL: the thread's own stack */
    struct tea_fiber *own;             /* stands for the thread's own stack */
    struct tea_fiber *from, *to;       /* of a switch that has begun and not ended */
};

void teai_fibers_init(struct teai_fibers *fibers);
/* With the world stopped: add the stacks of parked fibers to the roots; their bytes. */
uint64_t teai_fibers_list_roots(struct tea_heap *h);
/* The thread ends, inside the runtime; in a child made by fork, the thread does not exist. */
void teai_fibers_thread_ends(struct tea_heap *h, struct tea_mutator *m);
void teai_fibers_thread_lost(struct tea_heap *h, struct tea_mutator *m);

#endif
