/* gc/gc_pacer.c -- facts for pacer/, and what follows from its decision.
 *
 * Measuring and acting are here, deciding is pacer/'s. In stop-the-world mode nothing is allocated while marking
 * and sweeping is finished before a cycle starts, so runway and minimum trigger are 0 (Go facts 10.7).
 *
 * Locks. pacer_lock for settings, facts and goal; trigger_bytes is published relaxed for the allocators.
 */
#include "gc/cycle.h"

void teai_gc_pacer_init(struct tea_heap *h)
{
    h->pacer_lock.rank = TEAI_RANK_PACER;
    h->knobs.gc_percent = h->settings.gc_percent;
    h->knobs.memory_limit_bytes = h->settings.memory_limit_bytes;
    teai_gc_pacer_commit(h);
}

uint64_t teai_gc_metadata_bytes(const struct tea_heap *h)
{
    return teai_heap_table_bytes(h) + atomic_load_explicit(&h->metadata.bytes, memory_order_relaxed);
}

uint64_t teai_gc_mapped_ready_bytes(const struct tea_heap *h)
{
    struct teai_page_counts counts = teai_page_heap_counts(h->pages);
    return (((uint64_t)counts.in_use + counts.free_ready) << TEAI_PAGE_SHIFT) + teai_gc_metadata_bytes(h);
}

/* Side tables grow with the heap: under a memory limit count them as they will be when the heap is as large as the limit. */
static uint64_t pacer_table_growth_bytes(const struct tea_heap *h)
{
    uint64_t now = teai_heap_table_bytes(h);
    uint64_t limit = (uint64_t)h->knobs.memory_limit_bytes;
    uint64_t heap = (uint64_t)teai_page_heap_limit(h->pages) << TEAI_PAGE_SHIFT;
    if (h->knobs.memory_limit_bytes == TEAI_PACER_NO_LIMIT || heap >= limit)
        return 0;
    uint64_t then = limit / (TEAI_PAGE_BYTES / (TEAI_SLOTS_A_PAGE + sizeof(struct teai_span)));
    return then > now ? then - now : 0;
}

void teai_gc_pacer_commit(struct tea_heap *h)
{
    teai_lock_acquire(&h->pacer_lock);
    struct teai_page_counts counts = teai_page_heap_counts(h->pages);
    uint64_t in_use_bytes = (uint64_t)counts.in_use << TEAI_PAGE_SHIFT;
    h->facts.mapped_ready_bytes = teai_gc_mapped_ready_bytes(h) + pacer_table_growth_bytes(h);
    h->facts.heap_free_bytes = (uint64_t)counts.free_ready << TEAI_PAGE_SHIFT;
    if (h->facts.heap_alloc_bytes > in_use_bytes)
        h->facts.heap_alloc_bytes = in_use_bytes;
    h->goal = teai_pacer_goal(&h->facts, &h->knobs);
    /* relaxed: allocators may see the old trigger for a moment. */
    atomic_store_explicit(&h->trigger_bytes, h->goal.trigger_bytes, memory_order_relaxed);
    teai_lock_release(&h->pacer_lock);
}

int32_t teai_gc_pacer_set_percent(struct tea_heap *h, int32_t percent)
{
    teai_lock_acquire(&h->pacer_lock);
    int32_t old = h->knobs.gc_percent;
    h->knobs.gc_percent = percent < 0 ? -1 : percent;
    h->facts.heap_alloc_bytes = atomic_load_explicit(&h->live_bytes, memory_order_relaxed);
    teai_lock_release(&h->pacer_lock);
    teai_gc_pacer_commit(h);
    return old;
}

int64_t teai_gc_pacer_set_limit(struct tea_heap *h, int64_t limit_bytes)
{
    teai_lock_acquire(&h->pacer_lock);
    int64_t old = h->knobs.memory_limit_bytes;
    bool changed = limit_bytes >= 0 && limit_bytes != old;
    if (changed) {
        h->knobs.memory_limit_bytes = limit_bytes;
        h->facts.heap_alloc_bytes = atomic_load_explicit(&h->live_bytes, memory_order_relaxed);
    }
    teai_lock_release(&h->pacer_lock);
    if (changed)
        teai_gc_pacer_commit(h);
    return old;
}
