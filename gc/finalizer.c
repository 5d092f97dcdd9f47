/* gc/finalizer.c -- register finalizers and cleanups; run those that are due.
 *
 * Whoever runs calls first gets the turn, so that calls never run beside each other, and a thread that has just got it knows
 * that all calls taken from the queue before have returned. A finalizer that runs others has the turn already.
 *
 * Invariants.
 *   F4  A call taken from the queue is held in the frame of the thread that makes it, a root, until it has returned.
 *   F5  Calls are made outside the runtime, with no lock of the collector held but the turn, which no stop waits for: who
 *       waits for it counts as stopped.
 *
 * The thread is a mutator: unlike other helpers it lets the stop signal through. It waits in a blocking region.
 *
 * Locks. specials.lock for the tables and the queue.
 * Source. Go runtime, mfinal.go and mcleanup.go, for what is promised.
 */
#define _GNU_SOURCE
#include "gc/finalizer.h"

#include "gc/init.h"
#include "gc/object.h"
#include "gc/thread.h"
#include "teaspan/finalizer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

enum { TURN_FREE = 0, TURN_TAKEN = 1, TURN_WAITED_FOR = 2 };

void teai_finalizers_init(struct tea_heap *h)
{
    uint32_t mode = h->settings.finalize_on_demand ? TEA_FINALIZE_ON_DEMAND : TEA_FINALIZE_BY_THREAD;
    atomic_store_explicit(&h->finalizers.mode, mode, memory_order_relaxed);
}

/* --- registering --- */

/* An object that a client's call names. */
struct registration {
    struct tea_heap *heap;
    struct tea_mutator *mutator;
    const char *call;
    uintptr_t pointer, argument;
    bool at_start;          /* only the start of an object will do */
    uintptr_t object;       /* out: its slot's start */
    bool inside;            /* out: it points into an object */
    bool refers_to_itself;  /* out: so does the argument */
};

static bool registration_begin(struct registration *r)
{
    r->mutator = teai_thread_self();
    if (r->mutator == NULL)
        return false;
    r->heap = r->mutator->heap;
    return true;
}

/* Inside the runtime. */
static bool registration_find(struct registration *r)
{
    struct tea_heap *h = r->heap;
    struct teai_slot_ref ref = teai_object_find(h, r->mutator, r->pointer);
    r->inside = ref.span != TEAI_NO_PAGE;
    if (!r->inside || (r->at_start && !teai_object_starts_at(h, ref, r->pointer)))
        return false;
    r->object = teai_slot_addr(&h->tables, ref);
    r->refers_to_itself = r->argument - r->object < teai_slot_bytes(&h->tables, ref);
    return !r->refers_to_itself;
}

static enum tea_status registration_report(const struct registration *r, enum tea_status status)
{
    struct teai_log *log = &r->heap->log;
    if (status == TEA_ERR_INVALID && r->refers_to_itself)
        teai_log_line(log, "teaspan: %s: the argument %p points into the object %p, which would live for ever; ignored",
                      r->call, (void *)r->argument, (void *)r->pointer);
    else if (status == TEA_ERR_INVALID)
        teai_report_bad_pointer(r->heap, r->call, (void *)r->pointer, r->inside);
    else if (status == TEA_ERR_STATE)
        teai_log_line(log, "teaspan: %s: %p has a finalizer already; ignored", r->call, (void *)r->pointer);
    else if (status == TEA_ERR_NOMEM)
        teai_log_line(log, "teaspan: %s: %p: no memory for a record; ignored", r->call, (void *)r->pointer);
    return status;
}

/* Inside the runtime, under specials.lock. */
static enum tea_status finalizer_set_locked(const struct registration *r, tea_finalizer_fn fn)
{
    uint32_t i = teai_special_find(&r->heap->specials.tables[TEAI_SPECIAL_FINALIZER], r->pointer);
    if (fn == NULL) {
        if (i == TEAI_NO_SPECIAL)
            return TEA_ERR_NOT_FOUND;
        teai_special_remove(r->heap, TEAI_SPECIAL_FINALIZER, i);
        return TEA_OK;
    }
    if (i != TEAI_NO_SPECIAL)
        return TEA_ERR_STATE;
    struct teai_special record = { .object = r->object, .pointer = r->pointer, .finalizer = fn };
    bool added = teai_special_add(r->heap, TEAI_SPECIAL_FINALIZER, &record, (void *)r->argument);
    return added ? TEA_OK : TEA_ERR_NOMEM;
}

enum tea_status tea_set_finalizer(void *object, tea_finalizer_fn fn, void *context)
{
    struct registration r = { .call = "tea_set_finalizer", .pointer = (uintptr_t)object, .at_start = true,
                              .argument = fn != NULL ? (uintptr_t)context : 0 };
    if (!registration_begin(&r))
        return TEA_ERR_NOMEM;
    enum tea_status status = TEA_ERR_INVALID;
    teai_runtime_enter(r.mutator);
    if (registration_find(&r)) {
        teai_lock_acquire(&r.heap->specials.lock);
        status = finalizer_set_locked(&r, fn);
        teai_lock_release(&r.heap->specials.lock);
    }
    teai_runtime_leave(r.heap, r.mutator);
    return registration_report(&r, status);
}

/* Inside the runtime, under specials.lock. */
static enum tea_status cleanup_add_locked(const struct registration *r, tea_cleanup_fn fn, struct tea_cleanup *cleanup_out)
{
    struct teai_special record = { .object = r->object, .pointer = r->pointer, .cleanup = fn,
                                   .id = r->heap->specials.last_cleanup_id + 1 };
    if (!teai_special_add(r->heap, TEAI_SPECIAL_CLEANUP, &record, (void *)r->argument))
        return TEA_ERR_NOMEM;
    r->heap->specials.last_cleanup_id = record.id;
    *cleanup_out = (struct tea_cleanup){ .id = record.id };
    return TEA_OK;
}

enum tea_status tea_add_cleanup(const void *pointer, tea_cleanup_fn fn, void *argument, struct tea_cleanup *cleanup_out)
{
    struct registration r = { .call = "tea_add_cleanup", .pointer = (uintptr_t)pointer, .argument = (uintptr_t)argument };
    if (!registration_begin(&r))
        return TEA_ERR_NOMEM;
    if (fn == NULL) {
        teai_log_line(&r.heap->log, "teaspan: tea_add_cleanup: the function for %p is NULL; ignored", pointer);
        return TEA_ERR_INVALID;
    }
    struct tea_cleanup cleanup = { 0 };
    enum tea_status status = TEA_ERR_INVALID;
    teai_runtime_enter(r.mutator);
    if (registration_find(&r)) {
        teai_lock_acquire(&r.heap->specials.lock);
        status = cleanup_add_locked(&r, fn, &cleanup);
        teai_lock_release(&r.heap->specials.lock);
    }
    teai_runtime_leave(r.heap, r.mutator);
    if (status == TEA_OK && cleanup_out != NULL)
        *cleanup_out = cleanup;
    return registration_report(&r, status);
}

enum tea_status tea_cleanup_stop(struct tea_cleanup cleanup)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    struct tea_heap *h = m->heap;
    teai_runtime_enter(m);
    teai_lock_acquire(&h->specials.lock);
    uint32_t i = teai_special_find(&h->specials.tables[TEAI_SPECIAL_CLEANUP], (uintptr_t)cleanup.id);
    if (i != TEAI_NO_SPECIAL)
        teai_special_remove(h, TEAI_SPECIAL_CLEANUP, i);
    teai_lock_release(&h->specials.lock);
    teai_runtime_leave(h, m);
    return i != TEAI_NO_SPECIAL ? TEA_OK : TEA_ERR_NOT_FOUND;
}

/* --- the turn --- */

static void turn_wait(void *argument)
{
    struct teai_finalizers *f = argument;
    /* acquire: pairs with turn_end(): what the calls before wrote is seen. */
    while (atomic_exchange_explicit(&f->turn, TURN_WAITED_FOR, memory_order_acquire) != TURN_FREE)
        teai_platform_futex_wait(&f->turn, TURN_WAITED_FOR);
}

static bool turn_is_mine(const struct teai_finalizers *f, const struct tea_mutator *m)
{
    /* relaxed: only this thread writes its own address. */
    return atomic_load_explicit(&f->runner_addr, memory_order_relaxed) == (uintptr_t)m;
}

static void turn_begin(struct tea_heap *h, struct tea_mutator *m)
{
    struct teai_finalizers *f = &h->finalizers;
    uint32_t expected = TURN_FREE;
    /* acquire: pairs with turn_end(). */
    if (!atomic_compare_exchange_strong_explicit(&f->turn, &expected, TURN_TAKEN, memory_order_acquire,
                                                 memory_order_relaxed))
        teai_world_call_blocking(h, m, turn_wait, f);
    atomic_store_explicit(&f->runner_addr, (uintptr_t)m, memory_order_relaxed);
}

static void turn_end(struct tea_heap *h)
{
    struct teai_finalizers *f = &h->finalizers;
    atomic_store_explicit(&f->runner_addr, 0, memory_order_relaxed);
    /* release: pairs with turn_begin() and turn_wait(). */
    if (atomic_exchange_explicit(&f->turn, TURN_FREE, memory_order_release) == TURN_WAITED_FOR)
        teai_platform_futex_wake(&f->turn, 1);
}

/* --- running --- */

static bool due_take(struct tea_heap *h, struct tea_mutator *m, struct teai_due *due_out)
{
    teai_runtime_enter(m);
    teai_lock_acquire(&h->specials.lock);
    bool taken = teai_due_take(&h->specials.due, due_out);
    teai_lock_release(&h->specials.lock);
    teai_runtime_leave(h, m);
    return taken;
}

/* A reference left behind in a dead frame would keep the object while its thread sleeps in a deeper one. */
static void due_forget(struct teai_due *due)
{
    memset(due, 0, sizeof *due);
    __asm__ volatile("" : : "r"(due) : "memory"); /* or the compiler leaves it out */
}

static bool run_one(struct tea_heap *h, struct tea_mutator *m)
{
    struct teai_due due;
    if (!due_take(h, m, &due))
        return false;
    if (due.object != NULL)
        due.finalizer(due.object, due.argument);
    else
        due.cleanup(due.argument);
    tea_keep_alive(due.object); /* F4 */
    tea_keep_alive(due.argument);
    _Atomic uint64_t *counter = due.object != NULL ? &h->finalizers.nfinalizers_run : &h->finalizers.ncleanups_run;
    due_forget(&due);
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); /* a count for statistics */
    return true;
}

static size_t run_some(struct tea_heap *h, struct tea_mutator *m, size_t most)
{
    size_t nrun = 0;
    while (nrun < most && run_one(h, m))
        nrun++;
    return nrun;
}

size_t tea_run_finalizers(void)
{
    int saved_errno = errno;
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return 0;
    struct tea_heap *h = m->heap;
    bool nested = turn_is_mine(&h->finalizers, m);
    if (!nested)
        turn_begin(h, m);
    /* First in, first out: these are all that are due now. What they make due in their turn may have no end. */
    size_t nrun = run_some(h, m, teai_due_count(&h->specials.due));
    if (!nested)
        turn_end(h);
    errno = saved_errno;
    return nrun;
}

/* --- the thread --- */

static bool mode_is_by_thread(const struct tea_heap *h)
{
    /* relaxed: who changes the mode wakes the thread after. */
    return atomic_load_explicit(&h->finalizers.mode, memory_order_relaxed) == TEA_FINALIZE_BY_THREAD;
}

static void thread_run_due(struct tea_heap *h, struct tea_mutator *m)
{
    turn_begin(h, m);
    while (mode_is_by_thread(h) && run_one(h, m))
        ;
    turn_end(h);
}

/* What the client's code has left below: see due_forget(). */
enum { THREAD_FORGET_BYTES = 16 << 10 };

static TEAI_NOINLINE void thread_forget_stack(void)
{
    char below[THREAD_FORGET_BYTES];
    memset(below, 0, sizeof below);
    __asm__ volatile("" : : "r"(below) : "memory");
}

struct thread_wait {
    struct teai_finalizers *finalizers;
    uint32_t seen;
};

static void thread_sleep(void *argument)
{
    const struct thread_wait *wait = argument;
    teai_platform_futex_wait(&wait->finalizers->wake, wait->seen);
}

static void finalizer_thread(void *argument)
{
    struct tea_heap *h = argument;
    struct teai_finalizers *f = &h->finalizers;
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, h->world.signal);
    pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL) { /* no memory: started again when something is due next */
        atomic_store_explicit(&f->thread_started, 0, memory_order_relaxed);
        return;
    }
    for (;;) {
        /* acquire: pairs with teai_finalizers_wake(). */
        struct thread_wait wait = { f, atomic_load_explicit(&f->wake, memory_order_acquire) };
        if (mode_is_by_thread(h))
            thread_run_due(h, m);
        thread_forget_stack();
        teai_world_call_blocking(h, m, thread_sleep, &wait);
    }
}

void teai_finalizers_wake(struct tea_heap *h)
{
    struct teai_finalizers *f = &h->finalizers;
    if (!mode_is_by_thread(h) || teai_due_count(&h->specials.due) == 0)
        return;
    if (atomic_exchange_explicit(&f->thread_started, 1, memory_order_relaxed) == 0 &&
        teai_platform_client_helper_start("teaspan-final", finalizer_thread, h) != 0) {
        atomic_store_explicit(&f->thread_started, 0, memory_order_relaxed);
        return;
    }
    /* release: pairs with finalizer_thread(). */
    atomic_fetch_add_explicit(&f->wake, 1, memory_order_release);
    teai_platform_futex_wake(&f->wake, 1);
}

void teai_finalizers_after_fork(struct tea_heap *h)
{
    struct teai_finalizers *f = &h->finalizers;
    atomic_store_explicit(&f->thread_started, 0, memory_order_relaxed);
    if (turn_is_mine(f, teai_self) && teai_self != NULL)
        return;
    /* A thread that does not exist here had the turn. The call it was making is not made again. */
    atomic_store_explicit(&f->runner_addr, 0, memory_order_relaxed);
    atomic_store_explicit(&f->turn, TURN_FREE, memory_order_relaxed);
}

enum tea_finalizer_mode tea_finalizer_mode(enum tea_finalizer_mode mode)
{
    struct tea_heap *h = teai_init_default();
    if (h == NULL)
        return TEA_FINALIZE_BY_THREAD;
    uint32_t now = atomic_load_explicit(&h->finalizers.mode, memory_order_relaxed);
    if (mode != TEA_FINALIZE_BY_THREAD && mode != TEA_FINALIZE_ON_DEMAND)
        return (enum tea_finalizer_mode)now;
    now = atomic_exchange_explicit(&h->finalizers.mode, mode, memory_order_relaxed);
    teai_world_acquire(h, teai_self);
    teai_finalizers_wake(h);
    teai_world_release(h);
    return (enum tea_finalizer_mode)now;
}
