/* gc/handshake.h -- bring all mutators to a known point and let them go again. */
#ifndef TEAI_HANDSHAKE_H
#define TEAI_HANDSHAKE_H

#include "platform/platform.h"

struct tea_heap;
struct tea_mutator;

struct teai_world {
    struct teai_lock threads_lock;      /* the list below; held throughout a stop */
    struct tea_mutator *mutators;
    uint32_t nmutators;
    _Atomic uint32_t stop_epoch;        /* odd: a stop is wanted or in force; futex of the stopped */
    _Atomic uint32_t ack;               /* futex of the stopping thread: grows as mutators stop */
    _Atomic uint32_t holder;            /* world lock: 0 free, 1 held, 2 held and waited for */
    _Atomic uint32_t gate;              /* tid of a thread that forks: others stay out of the runtime; futex */
    int signal;
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

/* fork.c: let no other mutator into the runtime, and return when none is inside; let them in again. Between the two, mutators
 * run. The caller holds the world. */
void teai_world_close_gate(struct tea_heap *h, struct tea_mutator *self);
void teai_world_open_gate(struct tea_heap *h);
bool teai_world_gate_is_mine(const struct tea_heap *h, const struct tea_mutator *self);
/* In a child whose parent made no preparations: nobody holds the world, nobody waits. */
void teai_world_reset_in_child(struct tea_heap *h);

/* Run fn(argument) while the caller counts as stopped: it must not touch the heap. */
void teai_world_call_blocking(struct tea_heap *h, struct tea_mutator *self, void (*fn)(void *), void *argument);

#endif
