/* gc/collect.c -- the public calls that collect, and the knobs. */
#include "gc/cycle.h"
#include "gc/init.h"
#include "gc/sweep.h"
#include "gc/thread.h"
#include "teaspan/pacer.h"

#include <errno.h>

void tea_collect(void)
{
    int saved_errno = errno;
    struct tea_mutator *m = teai_thread_self();
    if (m != NULL)
        teai_cycle_run(m->heap, m, TEAI_CYCLE_FORCED);
    errno = saved_errno;
}

static void release_page_cache(struct tea_heap *h, struct tea_mutator *m)
{
    teai_runtime_enter(m);
    teai_page_cache_flush(h->pages, &m->pages);
    teai_runtime_leave(h, m);
}

void tea_collect_and_release(void)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return;
    int saved_errno = errno;
    struct tea_heap *h = m->heap;
    teai_cycle_run(h, m, TEAI_CYCLE_FORCED);
    release_page_cache(h, m);
    /* In bounded pieces, between which a stop may happen. */
    enum { RELEASE_PAGES = 512 };
    for (uint32_t released = RELEASE_PAGES; released != 0;) {
        teai_runtime_enter(m);
        released = teai_page_heap_release(h->pages, RELEASE_PAGES);
        teai_runtime_leave(h, m);
    }
    errno = saved_errno;
}

void tea_disable(void)
{
    struct tea_heap *h = teai_init_default();
    if (h != NULL)
        atomic_fetch_add_explicit(&h->disable_count, 1, memory_order_relaxed);
}

enum tea_status tea_enable(void)
{
    struct tea_heap *h = teai_init_default();
    if (h == NULL)
        return TEA_ERR_NOMEM;
    uint32_t count = atomic_load_explicit(&h->disable_count, memory_order_relaxed);
    while (count != 0)
        if (atomic_compare_exchange_weak_explicit(&h->disable_count, &count, count - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return TEA_OK;
    teai_log_line(&h->log, "teaspan: tea_enable: collections are not disabled; ignored");
    return TEA_ERR_STATE;
}

int tea_set_gc_percent(int percent)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return 100;
    teai_runtime_enter(m);
    int old = teai_gc_pacer_set_percent(m->heap, percent);
    teai_runtime_leave(m->heap, m);
    return old;
}

int64_t tea_set_memory_limit(int64_t limit_bytes)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEAI_PACER_NO_LIMIT;
    teai_runtime_enter(m);
    int64_t old = teai_gc_pacer_set_limit(m->heap, limit_bytes);
    teai_runtime_leave(m->heap, m);
    return old;
}
