/* gc/handshake.h -- bring all mutators to a known point and let them go again. */
#ifndef TEAI_HANDSHAKE_H
#define TEAI_HANDSHAKE_H

#include "gc/histogram.h"
#include "platform/platform.h"

struct tea_heap;
struct tea_mutator;

struct teai_world {
    struct teai_lock threads_lock;      /* the lists below; held throughout a stop */
    struct tea_mutator *mutators;
    struct tea_mutator *ended;          /* threads that ended and may still be joined: their results are roots */
    uint32_t nmutators;
    uint64_t nattached;                 /* ever; numbers the records */
    _Atomic uint32_t stop_epoch;        /* odd: a stop is wanted or in force; futex of the stopped */
    _Atomic uint32_t ack;               /* futex of the stopping thread: grows as mutators stop */
    _Atomic uint32_t stray_tid;         /* a thread that got a stop signal and is no mutator; 0: none */
    _Atomic uintptr_t stopper_addr;     /* the mutator that stops the others, if it is one */
    _Atomic uint32_t holder;            /* world lock: 0 free, 1 held, 2 held and waited for */
    _Atomic uint32_t gate;              /* tid of the thread that forks, 0: open; futex of those who wait outside the runtime */
    _Atomic int signal;                 /* 0: the collector has not started */
    uint64_t patience_ns;               /* a stop that takes longer is reported, once */

    /* Of all stops; written by the stopping thread. */
    uint64_t stopped_since_ns;
    struct teai_histogram time_to_stop_ns, stopped_ns;
};

void teai_world_init(struct teai_world *w, int signal);

/* Be the one thread that stops the world or runs a cycle. While it waits the caller counts as stopped, so it
 * must hold no lock; its registers and stack are scanned by whoever is ahead of it. */
void teai_world_acquire(struct tea_heap *h, struct tea_mutator *self);
void teai_world_release(struct tea_heap *h);

/* Stop every other mutator; restart them. Between the two nothing that takes a C library or loader lock is called.
 * The caller holds the world; returns ns until all stood. */
uint64_t teai_world_stop(struct tea_heap *h, struct tea_mutator *self);
void teai_world_restart(struct tea_heap *h);

/* Where a thread may be stopped late: between enter and leave it holds locks or half-made state. Not nested. */
void teai_runtime_enter(struct tea_mutator *m);
void teai_runtime_leave(struct tea_heap *h, struct tea_mutator *m);

/* Keep all other mutators out of the runtime (they run on, and wait when they need it) until the gate is opened. The caller
 * holds the world; self may be NULL. */
void teai_world_close_gate(struct tea_heap *h, struct tea_mutator *self);
void teai_world_open_gate(struct tea_heap *h);
bool teai_world_gate_is_mine(const struct tea_heap *h, const struct tea_mutator *self);
/* In a forked child: nobody holds the world, no stop is in force, the gate is open, the list of threads is free. */
void teai_world_reset_in_child(struct tea_heap *h);

/* Run fn(argument) while the caller counts as stopped: it must not touch the heap. */
void teai_world_call_blocking(struct tea_heap *h, struct tea_mutator *self, void (*fn)(void *), void *argument);

/* Blocking regions (teaspan/thread.h). The stack from `frame_addr` on is the thread's own; what lies below it during the
 * call, saved registers included, is copied into the record. */
void teai_blocking_enter(struct tea_mutator *m, uintptr_t frame_addr);
void teai_blocking_leave(struct tea_mutator *m);

/* With in_runtime set: no longer count as running, holding no references (end), or begin to run (begin). */
void teai_world_end_mutator(struct tea_mutator *m);
void teai_world_begin_mutator(struct tea_mutator *m);

#endif
