/* gc/fork.c -- go on after fork(), from any thread and at any time.
 *
 * Problem. The child has a copy of all memory and one thread. A lock that another thread held is never released there,
 * what it was changing stays half changed, and helper threads do not exist.
 *
 * So a fork happens while no thread is inside the runtime. The world cannot be kept stopped for it: fork() takes locks
 * of the C library (malloc's, stdio's) after its handlers have run, and a thread stopped by a signal may hold
 * one. Instead the world is stopped for a moment, to find all mutators outside the runtime, with the gate closed: when they
 * run again, whoever wants to enter the runtime waits until the fork is over (handshake.c). Allocating from a leased run
 * goes on, since that changes one word.
 *
 * Invariants.
 *   F1  At the moment of fork the forking thread holds the world lock, the threads lock, the start lock, the log's and the
 *       trace's; all other locks of the collector are free, and nothing they guard is half changed: mutators take them inside the
 *       runtime only, the background sweeper only while sweeping is not done, markers only during a cycle.
 *   F2  In the child only the forking thread is a mutator. What the others had leased is free again, and their stacks and
 *       thread-locals are no roots.
 *   F3  Helper threads are started anew when they are next wanted.
 *
 * Order. Handlers that run before a fork do so in reverse order of registration. Ours are registered by the earliest
 * constructor, so that they run last: a handler that waits for a lock whose holder allocates does so while the gate
 * is open. Handlers that run while the gate is closed may allocate, on the forking thread; no cycle starts then.
 *
 * _Fork() and raw clone() call no handlers. The child is noticed by a page that the kernel clears in children, when it is next
 * about to stop the world or attach a thread; it is then put in order as far as can be. (A process id
 * would also change for a vfork() child, which shares our memory and must not touch it; such a page is not cleared there.)
 * A lock of the page heap or of a central list that another thread held at that moment stays held: as POSIX says, such a
 * child of a threaded process may call async-signal-safe functions only.
 *
 * A fork() from a signal handler that interrupted the runtime is treated like _Fork().
 */
#define _GNU_SOURCE
#include "gc/fork.h"

#include "gc/init.h"
#include "gc/interpose.h"
#include "gc/sweep.h"
#include "gc/thread.h"

#include <pthread.h>

static pthread_once_t fork_once TEAI_STATE = PTHREAD_ONCE_INIT;
/* In a page of its own: 1 in the process that wrote it, 0 in a child that has not. NULL: the kernel cannot do that. */
static _Atomic uint32_t *fork_mark TEAI_STATE;

/* --- the child --- */

static void child_keep_only(struct tea_heap *h, struct tea_mutator *self)
{
    struct tea_mutator *next;
    for (struct tea_mutator *m = h->world.mutators; m != NULL; m = next) {
        next = m->next;
        if (m != self)
            teai_thread_abandon(h, m);
    }
    h->world.mutators = self;
    h->world.nmutators = self != NULL;
    if (self != NULL) {
        self->tid = teai_platform_thread_id();
        self->next = self->prev = NULL;
    }
}

static void child_put_in_order(struct tea_heap *h, struct tea_mutator *self)
{
    if (fork_mark != NULL)
        atomic_store_explicit(fork_mark, 1, memory_order_relaxed);
    teai_sweep_after_fork(h);
    teai_mark_after_fork(h);
    teai_signal_after_fork();
    teai_finalizers_after_fork(h);
    teai_trace_after_fork(&h->trace, self);
    child_keep_only(h, self);
}

void teai_fork_check(struct tea_heap *h, struct tea_mutator *self)
{
    /* relaxed: changed only by the kernel, or by the one thread of a child. */
    if (TEAI_LIKELY(fork_mark == NULL || atomic_load_explicit(fork_mark, memory_order_relaxed) != 0))
        return;
    teai_world_reset_in_child(h);
    child_put_in_order(h, self);
}

/* --- the handlers --- */

static bool fork_interrupts_runtime(void)
{
    return teai_self != NULL && teai_self->in_runtime;
}

static void fork_close_gate(struct tea_heap *h)
{
    struct tea_mutator *self = teai_thread_self();
    teai_world_acquire(h, self);
    teai_sweep_finish(h);
    teai_world_close_gate(h, self);
    teai_lock_acquire(&h->trace.lock);
    teai_lock_acquire(&h->log.lock);
    teai_lock_acquire(&h->world.threads_lock);
}

static void fork_open_gate(struct tea_heap *h)
{
    teai_lock_release(&h->world.threads_lock);
    teai_lock_release(&h->log.lock);
    teai_lock_release(&h->trace.lock);
    teai_world_open_gate(h);
    teai_world_release(h);
}

static void fork_prepare(void)
{
    if (fork_interrupts_runtime())
        return;
    bool started = teai_init_is_done();
    if (started)
        fork_close_gate(&teai_default_heap);
    teai_init_lock();
    if (!started && teai_init_is_done()) {
        teai_init_unlock(); /* another thread started the heap just now */
        fork_prepare();
    }
}

static void fork_in_parent(void)
{
    if (fork_interrupts_runtime())
        return;
    bool started = teai_init_is_done(); /* while we hold its lock, so it was so before the fork */
    teai_init_unlock();
    if (started)
        fork_open_gate(&teai_default_heap);
}

static void fork_in_child(void)
{
    struct tea_heap *h = &teai_default_heap;
    if (fork_interrupts_runtime())
        return; /* noticed when the runtime has been left */
    teai_init_unlock();
    if (!teai_init_is_done())
        return;
    fork_open_gate(h);
    child_put_in_order(h, teai_self);
}

static void fork_register(void)
{
    /* Without memory for it forks go unnoticed at first; the mark tells later. */
    (void)pthread_atfork(fork_prepare, fork_in_parent, fork_in_child);
}

void teai_fork_watch(void)
{
    pthread_once(&fork_once, fork_register);
}

/* As early as the loader lets us (see Order). */
__attribute__((constructor(101))) static void fork_watch_early(void)
{
    teai_fork_watch();
}

void teai_fork_init(struct tea_heap *h)
{
    size_t bytes = teai_platform_os_page_bytes();
    _Atomic uint32_t *mark = teai_metadata_alloc(&h->metadata, &bytes);
    if (mark == NULL)
        return;
    if (teai_platform_wipe_on_fork((void *)mark, bytes) != 0) {
        teai_metadata_free(&h->metadata, (void *)mark, bytes);
        return;
    }
    atomic_store_explicit(mark, 1, memory_order_relaxed);
    fork_mark = mark;
}
