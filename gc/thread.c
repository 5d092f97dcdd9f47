/* gc/thread.c -- mutators: attach a thread at its first use of the heap, detach it when it ends.
 *
 * Records live in the collector's own memory. A pthread key's destructor detaches; destructors of other keys that
 * allocate afterwards attach the thread again, and the key's destructor runs again.
 *
 * Locks. world.threads_lock guards the list; a stop holds it, so no thread comes or goes during one.
 */
#include "gc/thread.h"

#include "gc/fork.h"
#include "gc/init.h"

#include <errno.h>

_Thread_local struct tea_mutator *teai_self __attribute__((tls_model("initial-exec")));

static pthread_key_t thread_key TEAI_STATE;
static pthread_once_t thread_key_once TEAI_STATE = PTHREAD_ONCE_INIT;

static void thread_ended(void *record)
{
    struct tea_mutator *m = record;
    teai_thread_detach(m->heap, m);
}

static void thread_make_key(void)
{
    /* Fails only when the process has no keys left; threads then keep their records until the process ends. */
    (void)pthread_key_create(&thread_key, thread_ended);
}

static void thread_link(struct teai_world *w, struct tea_mutator *m)
{
    teai_lock_acquire(&w->threads_lock);
    m->next = w->mutators;
    if (m->next != NULL)
        m->next->prev = m;
    w->mutators = m;
    w->nmutators++;
    teai_lock_release(&w->threads_lock);
}

static void thread_unlink(struct teai_world *w, struct tea_mutator *m)
{
    teai_lock_acquire(&w->threads_lock);
    if (m->prev != NULL)
        m->prev->next = m->next;
    else
        w->mutators = m->next;
    if (m->next != NULL)
        m->next->prev = m->prev;
    w->nmutators--;
    teai_lock_release(&w->threads_lock);
}

struct tea_mutator *teai_thread_attach(struct tea_heap *h)
{
    pthread_once(&thread_key_once, thread_make_key);
    size_t bytes = sizeof(struct tea_mutator);
    struct tea_mutator *m = teai_metadata_alloc(&h->metadata, &bytes);
    if (m == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    m->heap = h;
    m->tid = teai_platform_thread_id();
    m->pthread = pthread_self();
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        teai_cache_init(&m->cache[i], (uint8_t)i);
    if (teai_platform_stack_bounds(&m->stack_base_addr, &m->stack_limit_addr) != 0)
        teai_fatal(__FILE__, __LINE__, "the bounds of this thread's stack cannot be found");
    pthread_setspecific(thread_key, m);
    /* Not stoppable before it can answer: the handler finds teai_self set, the stopping thread finds it listed. */
    m->in_runtime = 1;
    teai_self = m;
    thread_link(&h->world, m);
    teai_runtime_leave(h, m);
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

static void thread_keep_counts(struct tea_heap *h, struct tea_mutator *m)
{
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        if (m->cache[i].nleased != 0)
            atomic_fetch_add_explicit(&h->counters.class_mallocs[i], m->cache[i].nleased, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->counters.tiny_mallocs, m->tiny.nallocs, memory_order_relaxed);
}

static void thread_flush(struct tea_heap *h, struct tea_mutator *m)
{
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        teai_cache_flush(h, m, (uint8_t)i);
    teai_page_cache_flush(h->pages, &m->pages);
    teai_live_sub(h, m->freed_bytes);
    m->freed_bytes = 0;
}

static void thread_free_record(struct tea_heap *h, struct tea_mutator *m)
{
    teai_metadata_free(&h->metadata, m, teai_round_up(sizeof *m, teai_platform_os_page_bytes()));
}

void teai_thread_abandon(struct tea_heap *h, struct tea_mutator *m)
{
    thread_flush(h, m);
    thread_keep_counts(h, m);
    thread_free_record(h, m);
}

void teai_thread_detach(struct tea_heap *h, struct tea_mutator *m)
{
    teai_runtime_enter(m);
    thread_flush(h, m);
    teai_runtime_leave(h, m);

    /* Waiting for the list's lock while a stop holds it: count as stopped, or that stop waits for us. */
    teai_runtime_enter(m);
    m->sp_addr = m->stack_limit_addr;
    atomic_store_explicit(&m->state, TEAI_MUTATOR_BLOCKED, memory_order_seq_cst);
    atomic_fetch_add_explicit(&h->world.ack, 1, memory_order_seq_cst);
    teai_platform_futex_wake(&h->world.ack, 1);
    thread_unlink(&h->world, m);
    thread_keep_counts(h, m);
    teai_self = NULL;
    thread_free_record(h, m);
}
