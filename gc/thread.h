/* gc/thread.h -- mutators: the threads that use the heap, with what each of them caches. */
#ifndef TEAI_THREAD_H
#define TEAI_THREAD_H

#include "gc/cache.h"
#include "gc/fiber.h"
#include "gc/heap.h"

#include <pthread.h>

enum teai_mutator_state {
    TEAI_MUTATOR_RUNNING = 0,
    TEAI_MUTATOR_STOPPED,  /* in the stop handler or parked; sp_addr is valid */
    TEAI_MUTATOR_BLOCKED,  /* does not touch the heap for now; sp_addr is valid */
    TEAI_MUTATOR_VANISHED  /* the kernel knows no such thread any more; dropped when the world has stopped */
};

/* What a thread in a blocking region held below its caller's frame: saved registers, mostly. */
enum { TEAI_BLOCKED_WORDS = 256 };

struct tea_mutator {
    struct teai_cache cache[TEAI_NSPAN_CLASSES];
    struct teai_tiny tiny;
    struct teai_page_cache pages;
    uint64_t freed_bytes;        /* by tea_free(), not yet taken off heap live */
    uint32_t refills;            /* for stress mode */

    struct tea_heap *heap;
    volatile int in_runtime;     /* read by this thread's own stop handler */
    _Atomic uint32_t state;      /* enum teai_mutator_state */
    uintptr_t sp_addr;           /* scan from here to stack_limit_addr */
    uintptr_t stack_base_addr, stack_limit_addr;
    uintptr_t alt_base_addr, alt_limit_addr; /* a second stack to scan (stopped on an alternate stack); 0: none */
    uintptr_t thread_pointer_addr; /* 0: the thread has not begun */
    uint32_t blocking_depth;
    uint32_t nblocked_words;
    uintptr_t blocked_words[TEAI_BLOCKED_WORDS];

    /* Of a thread that we started. */
    void *(*start)(void *);
    void *start_argument;        /* a root until the thread runs */
    void *result;                /* a root until the thread is joined */
    bool joinable;               /* keep the result when the thread ends; under threads_lock */
    bool is_ending;              /* its destructors of specific data are running */
    _Atomic uint32_t may_begin;  /* futex: `pthread` is set */
    uint64_t serial;             /* never used twice */

    struct teai_fiber_state fiber;
    void *fake_stack;            /* AddressSanitizer's; NULL: none */
    int tid;
    pthread_t pthread;
    struct tea_mutator *next, *prev;
};

/* The calling thread's record, NULL before it is attached. */
extern _Thread_local struct tea_mutator *teai_self __attribute__((tls_model("initial-exec")));

/* The calling thread's record; attaches it (and starts the collector) if need be. NULL with errno set: no memory. */
struct tea_mutator *teai_thread_self(void);
struct tea_mutator *teai_thread_attach(struct tea_heap *h);
/* pthread_create(), with a record made beforehand: the argument is a root until `start` runs, in an attached thread. */
int teai_thread_create(pthread_t *thread_out, const pthread_attr_t *attributes, void *(*start)(void *), void *argument);
/* The calling thread's return value, a root until it is joined. */
void teai_thread_set_result(void *result);
/* Which record is this thread's, 0 if none; to forget the result of that thread, and no later one's, when it was joined. */
uint64_t teai_thread_serial(pthread_t thread);
void teai_thread_joined(uint64_t serial);
void teai_thread_detached(pthread_t thread);
/* With the world stopped: forget a mutator whose thread is gone. */
void teai_thread_drop_stopped(struct tea_heap *h, struct tea_mutator *m);
/* fork.c, in a child: give back what a thread cached that does not exist here, and its record. It need not be listed. */
void teai_thread_abandon(struct tea_heap *h, struct tea_mutator *m);
/* Give back what the thread caches and forget it. */
void teai_thread_detach(struct tea_heap *h, struct tea_mutator *m);

/* Inside the runtime: take what the thread freed off heap live. */
TEAI_INLINE void teai_thread_settle_freed(struct tea_heap *h, struct tea_mutator *m)
{
    teai_live_sub(h, m->freed_bytes);
    m->freed_bytes = 0;
}

#endif
