/* gc/thread.c -- mutators: attach a thread when it starts or first uses the heap, detach it when it ends.
 *
 * A thread made by pthread_create() gets its record before it exists: the record is listed as BLOCKED, and holds the start
 * argument as a root. The new thread takes the record over and only then runs its start routine. Any other thread is
 * adopted at its first use of the heap.
 *
 * A pthread key's destructor detaches: after a return, pthread_exit() or cancellation. It does so the second time it is called,
 * because destructors of other keys may come after it, and what they are given may be referred to by nothing but the thread's
 * specific data. Those that allocate after that attach the thread again, and the key's destructor runs again, as often as the
 * C library repeats it. A thread that still ends attached, or ends without destructors, is found missing by the next stop
 * (handshake.c) or by the next thread that has its kernel id.
 *
 * The return value of a joinable thread stays a root in its record, on the list `ended`, until pthread_join(),
 * pthread_detach(), or a new thread with the same pthread_t, which shows that the old one was joined
 * where we did not see it.
 *
 * Invariants.
 *   T1  A record is on one list, `mutators` or `ended`, from before its thread runs until it is freed.
 *   T2  While a record is listed only its own thread changes it, except `joinable`, and `state` with the world stopped. What a
 *       stop reads changes under threads_lock unless the state is RUNNING.
 *
 * Locks. world.threads_lock guards the lists; a stop holds it, so no thread comes or goes during one. A running mutator
 * outside the runtime may wait for it: the stop's signal parks it there.
 * Records live in the collector's own memory.
 */
#define _GNU_SOURCE
#include "gc/thread.h"

#include "gc/fork.h"
#include "gc/init.h"
#include "gc/interpose.h"
#include "gc/thread_roots.h"
#include "platform/pthread_real.h"

#include <errno.h>

_Thread_local struct tea_mutator *teai_self __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_key TEAI_STATE;
static pthread_once_t thread_key_once TEAI_STATE = PTHREAD_ONCE_INIT;
static bool thread_key_is_made TEAI_STATE;

static void thread_ended(void *record)
{
    struct tea_mutator *m = record;
    if (m->blocking_depth != 0) {
        m->blocking_depth = 0; /* it ended inside the region */
        teai_blocking_leave(m);
    }
    if (!m->is_ending) {
        m->is_ending = true;
        if (pthread_setspecific(thread_key, m) == 0)
            return; /* until the other keys' destructors have run */
    }
    teai_thread_detach(m->heap, m);
}

static void thread_make_key(void)
{
    /* Fails only when the process has no keys left; threads are then found missing after they ended. */
    thread_key_is_made = pthread_key_create(&thread_key, thread_ended) == 0;
}

/* --- records and lists --- */

static struct tea_mutator *thread_new_record(struct tea_heap *h)
{
    pthread_once(&thread_key_once, thread_make_key);
    size_t bytes = sizeof(struct tea_mutator);
    struct tea_mutator *m = teai_metadata_alloc(&h->metadata, &bytes);
    if (m == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    m->heap = h;
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        teai_cache_init(&m->cache[i], (uint8_t)i);
    return m;
}

static void thread_free_record(struct tea_heap *h, struct tea_mutator *m)
{
    teai_metadata_free(&h->metadata, m, teai_round_up(sizeof *m, teai_platform_os_page_bytes()));
}

static void list_insert(struct tea_mutator **list, struct tea_mutator *m)
{
    m->prev = NULL;
    m->next = *list;
    if (m->next != NULL)
        m->next->prev = m;
    *list = m;
}

static void list_remove(struct tea_mutator **list, struct tea_mutator *m)
{
    if (m->prev != NULL)
        m->prev->next = m->next;
    else
        *list = m->next;
    if (m->next != NULL)
        m->next->prev = m->prev;
}

static void thread_link_locked(struct teai_world *w, struct tea_mutator *m)
{
    list_insert(&w->mutators, m);
    m->serial = ++w->nattached;
    w->nmutators++;
}

static void thread_unlink_locked(struct teai_world *w, struct tea_mutator *m)
{
    list_remove(&w->mutators, m);
    w->nmutators--;
}

static void thread_forget_result_locked(struct tea_heap *h, struct tea_mutator *m)
{
    list_remove(&h->world.ended, m);
    thread_free_record(h, m);
}

static void thread_flush(struct tea_heap *h, struct tea_mutator *m)
{
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        teai_cache_flush(h, m, (uint8_t)i);
    teai_page_cache_flush(h->pages, &m->pages);
    teai_thread_settle_freed(h, m);
}

static void thread_keep_counts(struct tea_heap *h, struct tea_mutator *m)
{
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        if (m->cache[i].nleased != 0)
            atomic_fetch_add_explicit(&h->counters.class_mallocs[i], m->cache[i].nleased, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->counters.tiny_mallocs, m->tiny.nallocs, memory_order_relaxed);
}

/* A mutator whose thread no longer exists: nobody uses its caches. */
static void thread_drop_locked(struct tea_heap *h, struct tea_mutator *m)
{
    teai_fibers_thread_lost(h, m);
    thread_flush(h, m);
    thread_keep_counts(h, m);
    thread_unlink_locked(&h->world, m);
    thread_free_record(h, m);
}

void teai_thread_drop_stopped(struct tea_heap *h, struct tea_mutator *m)
{
    thread_drop_locked(h, m);
}

void teai_thread_abandon(struct tea_heap *h, struct tea_mutator *m)
{
    teai_fibers_thread_lost(h, m);
    thread_flush(h, m);
    thread_keep_counts(h, m);
    thread_free_record(h, m);
}

/* --- a thread begins --- */

/* The kernel and the C library give their ids to one living thread at a time: records with ours are of threads that are gone. */
static void thread_drop_namesakes_locked(struct tea_heap *h, const struct tea_mutator *self)
{
    struct tea_mutator *next;
    for (struct tea_mutator *m = h->world.mutators; m != NULL; m = next) {
        next = m->next;
        if (m != self && m->tid == self->tid)
            thread_drop_locked(h, m);
    }
    for (struct tea_mutator *m = h->world.ended; m != NULL; m = next) {
        next = m->next;
        if (pthread_equal(m->pthread, self->pthread))
            thread_forget_result_locked(h, m);
    }
}

/* The calling thread makes `m` its own and begins to run as a mutator. */
static void thread_take_over(struct tea_heap *h, struct tea_mutator *m, bool is_listed)
{
    uintptr_t base_addr, limit_addr;
    if (teai_platform_stack_bounds(&base_addr, &limit_addr) != 0)
        teai_fatal(__FILE__, __LINE__, "the bounds of this thread's stack cannot be found");
    if (thread_key_is_made)
        pthread_setspecific(thread_key, m);
    teai_signal_unblock(atomic_load_explicit(&h->world.signal, memory_order_relaxed));
    /* Not stoppable before it can answer: the handler finds teai_self set, the stopping thread finds it listed. */
    m->in_runtime = 1;
    teai_self = m;
    teai_lock_acquire(&h->world.threads_lock);
    m->tid = teai_platform_thread_id();
    m->pthread = pthread_self();
    m->stack_base_addr = base_addr;
    m->stack_limit_addr = m->sp_addr = limit_addr;
    m->thread_pointer_addr = teai_platform_thread_pointer();
    thread_drop_namesakes_locked(h, m);
    if (!is_listed)
        thread_link_locked(&h->world, m);
    teai_lock_release(&h->world.threads_lock);
    teai_world_begin_mutator(m);
}

struct tea_mutator *teai_thread_attach(struct tea_heap *h)
{
    struct tea_mutator *m = thread_new_record(h);
    if (m == NULL)
        return NULL;
    atomic_store_explicit(&m->state, TEAI_MUTATOR_BLOCKED, memory_order_relaxed); /* unlisted yet */
    thread_take_over(h, m, false);
    return m;
}

struct tea_mutator *teai_thread_self(void)
{
    struct tea_mutator *m = teai_self;
    if (TEAI_LIKELY(m != NULL))
        return m;
    struct tea_heap *h = teai_init_default();
    if (h == NULL)
        return NULL;
    teai_fork_check(h, NULL);
    return teai_thread_attach(h);
}

/* --- a thread that we start --- */

static void *thread_main(void *record)
{
    struct tea_mutator *m = record;
    /* acquire: pairs with thread_let_begin(). */
    while (atomic_load_explicit(&m->may_begin, memory_order_acquire) == 0)
        teai_platform_futex_wait(&m->may_begin, 0);
    thread_take_over(m->heap, m, true);
    void *argument = m->start_argument;
    m->start_argument = NULL;
    void *result = m->start(argument);
    teai_thread_set_result(result);
    return result;
}

static void thread_let_begin(struct tea_mutator *m, pthread_t thread)
{
    struct teai_world *w = &m->heap->world;
    teai_lock_acquire(&w->threads_lock);
    m->pthread = thread;
    teai_lock_release(&w->threads_lock);
    _Atomic uint32_t *may_begin = &m->may_begin;
    /* release: pairs with thread_main(). The record may be gone at once; a wake-up on its address does no harm. */
    atomic_store_explicit(may_begin, 1, memory_order_release);
    teai_platform_futex_wake(may_begin, 1);
}

static bool attributes_say_joinable(const pthread_attr_t *attributes)
{
    int state = PTHREAD_CREATE_JOINABLE;
    return attributes == NULL || pthread_attr_getdetachstate(attributes, &state) != 0 || state == PTHREAD_CREATE_JOINABLE;
}

static struct tea_mutator *thread_prepare(struct tea_heap *h, void *(*start)(void *), void *argument)
{
    struct tea_mutator *m = thread_new_record(h);
    if (m == NULL)
        return NULL;
    m->start = start;
    m->in_runtime = 1;
    atomic_store_explicit(&m->state, TEAI_MUTATOR_BLOCKED, memory_order_relaxed); /* unlisted yet */
    teai_lock_acquire(&h->world.threads_lock);
    /* Not earlier: a stop may come while we wait, and the record is no root before it is listed. */
    m->start_argument = argument;
    thread_link_locked(&h->world, m);
    teai_lock_release(&h->world.threads_lock);
    return m;
}

static void thread_undo_prepare(struct tea_heap *h, struct tea_mutator *m)
{
    teai_lock_acquire(&h->world.threads_lock);
    thread_unlink_locked(&h->world, m);
    teai_lock_release(&h->world.threads_lock);
    thread_free_record(h, m);
}

int teai_thread_create(pthread_t *thread_out, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    struct tea_mutator *self = teai_thread_self(); /* whose stack holds `argument` until it is in the record */
    if (self == NULL && !teai_init_is_done()) /* the collector cannot start: the thread will not use it either */
        return teai_pthread_create_real(thread_out, attributes, start, argument);
    struct tea_mutator *m = self != NULL ? thread_prepare(self->heap, start, argument) : NULL;
    if (m == NULL)
        return EAGAIN;
    m->joinable = attributes_say_joinable(attributes);
    pthread_t thread;
    int error = teai_pthread_create_real(&thread, attributes, thread_main, m);
    if (error != 0) {
        thread_undo_prepare(self->heap, m);
        return error;
    }
    *thread_out = thread;
    thread_let_begin(m, thread);
    return 0;
}

/* --- a thread ends --- */

void teai_thread_detach(struct tea_heap *h, struct tea_mutator *m)
{
    struct teai_world *w = &h->world;
    teai_runtime_enter(m);
    thread_flush(h, m);
    teai_fibers_thread_ends(h, m);
    teai_runtime_leave(h, m);

    /* Waiting for the list's lock while a stop holds it: count as stopped, or that stop waits for us. */
    m->in_runtime = 1;
    teai_world_end_mutator(m);
    teai_lock_acquire(&w->threads_lock);
    thread_keep_counts(h, m);
    thread_unlink_locked(w, m);
    bool keep = m->joinable;
    if (keep)
        list_insert(&w->ended, m);
    teai_lock_release(&w->threads_lock);
    teai_self = NULL;
    if (!keep)
        thread_free_record(h, m);
}

void teai_thread_set_result(void *result)
{
    struct tea_mutator *m = teai_self;
    if (m != NULL)
        m->result = result;
}

static struct tea_mutator *list_find(struct tea_mutator *list, pthread_t thread)
{
    while (list != NULL && !pthread_equal(list->pthread, thread))
        list = list->next;
    return list;
}

static bool world_is_started(const struct teai_world *w)
{
    /* acquire: pairs with teai_world_init(). */
    return atomic_load_explicit(&w->signal, memory_order_acquire) != 0;
}

uint64_t teai_thread_serial(pthread_t thread)
{
    struct teai_world *w = &teai_default_heap.world;
    if (!world_is_started(w))
        return 0;
    teai_lock_acquire(&w->threads_lock);
    const struct tea_mutator *m = list_find(w->mutators, thread);
    m = m != NULL ? m : list_find(w->ended, thread);
    uint64_t serial = m != NULL ? m->serial : 0;
    teai_lock_release(&w->threads_lock);
    return serial;
}

void teai_thread_joined(uint64_t serial)
{
    if (serial == 0)
        return;
    struct tea_heap *h = &teai_default_heap;
    teai_lock_acquire(&h->world.threads_lock);
    struct tea_mutator *m = h->world.ended;
    while (m != NULL && m->serial != serial)
        m = m->next;
    if (m != NULL)
        thread_forget_result_locked(h, m);
    teai_lock_release(&h->world.threads_lock);
}

void teai_thread_detached(pthread_t thread)
{
    struct tea_heap *h = &teai_default_heap;
    if (!world_is_started(&h->world))
        return;
    teai_lock_acquire(&h->world.threads_lock);
    struct tea_mutator *m = list_find(h->world.mutators, thread);
    if (m != NULL)
        m->joinable = false;
    else if ((m = list_find(h->world.ended, thread)) != NULL)
        thread_forget_result_locked(h, m);
    teai_lock_release(&h->world.threads_lock);
}
