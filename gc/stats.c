/* gc/stats.c -- Go's MemStats: counts put together from the threads' caches while the world is stopped.
 *
 * Allocation counts nothing: a cache knows how many slots it leased, less those it has not handed out. So an exact picture
 * needs every cache at rest.
 */
#include "teaspan/stats.h"

#include "gc/cycle.h"
#include "gc/init.h"
#include "gc/thread.h"

#include <string.h>

struct class_counts {
    uint64_t mallocs[TEAI_NSPAN_CLASSES], frees[TEAI_NSPAN_CLASSES];
    uint64_t tiny;
};

static void counts_add_mutator(struct class_counts *counts, const struct tea_mutator *m)
{
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        counts->mallocs[i] += m->cache[i].nleased - teai_cache_unused_slots(&m->cache[i]);
    counts->tiny += m->tiny.nallocs;
}

static void counts_collect(const struct tea_heap *h, struct class_counts *counts)
{
    memset(counts, 0, sizeof *counts);
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++) {
        counts->mallocs[i] = atomic_load_explicit(&h->counters.class_mallocs[i], memory_order_relaxed);
        counts->frees[i] = atomic_load_explicit(&h->counters.class_frees[i], memory_order_relaxed);
    }
    counts->tiny = atomic_load_explicit(&h->counters.tiny_mallocs, memory_order_relaxed);
    for (const struct tea_mutator *m = h->world.mutators; m != NULL; m = m->next)
        counts_add_mutator(counts, m);
}

/* Tiny objects count as allocated and freed at once, their blocks as objects of 16 bytes (as in Go). */
static void stats_add_objects(struct tea_stats *s, const struct tea_heap *h, const struct class_counts *counts)
{
    uint64_t freed_bytes = atomic_load_explicit(&h->counters.large_free_bytes, memory_order_relaxed);
    s->total_alloc_bytes = atomic_load_explicit(&h->counters.large_alloc_bytes, memory_order_relaxed);
    s->mallocs = atomic_load_explicit(&h->counters.large_mallocs, memory_order_relaxed) + counts->tiny;
    s->frees = atomic_load_explicit(&h->counters.large_frees, memory_order_relaxed) + counts->tiny;
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++) {
        struct tea_stats_by_size *row = &s->by_size[i / TEAI_NKINDS];
        uint64_t slot_bytes = teai_sizeclass_bytes[i / TEAI_NKINDS];
        row->size_bytes = (uint32_t)slot_bytes;
        row->mallocs += counts->mallocs[i];
        row->frees += counts->frees[i];
        s->mallocs += counts->mallocs[i];
        s->frees += counts->frees[i];
        s->total_alloc_bytes += counts->mallocs[i] * slot_bytes;
        freed_bytes += counts->frees[i] * slot_bytes;
    }
    s->alloc_bytes = s->heap_alloc_bytes = s->total_alloc_bytes - freed_bytes;
    s->heap_objects = s->mallocs - s->frees;
}

static void stats_add_pages(struct tea_stats *s, const struct tea_heap *h)
{
    struct teai_page_counts counts = teai_page_heap_counts(h->pages);
    s->heap_inuse_bytes = (uint64_t)counts.in_use << TEAI_PAGE_SHIFT;
    s->heap_released_bytes = (uint64_t)counts.free_released << TEAI_PAGE_SHIFT;
    s->heap_idle_bytes = s->heap_released_bytes + ((uint64_t)counts.free_ready << TEAI_PAGE_SHIFT);
    s->heap_sys_bytes = s->heap_inuse_bytes + s->heap_idle_bytes;
    s->gc_sys_bytes = teai_heap_table_bytes(h);
    s->other_sys_bytes = atomic_load_explicit(&h->metadata.bytes, memory_order_relaxed);
    s->sys_bytes = s->heap_sys_bytes + s->stack_sys_bytes + s->gc_sys_bytes + s->other_sys_bytes;
}

static void stats_add_cycles(struct tea_stats *s, const struct tea_heap *h)
{
    s->next_gc_bytes = h->goal.goal_bytes;
    s->trigger_bytes = h->goal.trigger_bytes;
    s->last_gc_unix_ns = h->last_gc_unix_ns;
    s->pause_total_ns = h->pause_total_ns;
    s->time_to_stop_total_ns = h->time_to_stop_total_ns;
    memcpy(s->pause_ns, h->pause_ns, sizeof s->pause_ns);
    memcpy(s->pause_end_unix_ns, h->pause_end_unix_ns, sizeof s->pause_end_unix_ns);
    s->num_gc = atomic_load_explicit(&h->ncycles, memory_order_relaxed);
    s->num_forced_gc = h->nforced;
    uint64_t cpu_ns = teai_platform_process_cpu_ns();
    s->gc_cpu_fraction = cpu_ns != 0 ? (double)h->gc_cpu_ns / (double)cpu_ns : 0;
    s->enable_gc = atomic_load_explicit(&h->disable_count, memory_order_relaxed) == 0;
    s->heap_live_bytes = atomic_load_explicit(&h->live_bytes, memory_order_relaxed);
    s->heap_marked_bytes = h->facts.marked_bytes;
    s->worklist_peak_bytes = h->mark.worklist_peak_bytes;
    s->mark_overflows = h->mark.noverflows;
    s->markers = h->mark.nmarkers_max;
    s->fibers = atomic_load_explicit(&h->fibers.nfibers, memory_order_relaxed);
    s->fibers_scanned_whole = h->fibers.nscanned_whole;
}

/* This read's own stop is in the figures of the next one. */
static void stats_add_stops(struct tea_stats *s, const struct teai_world *w)
{
    const struct teai_histogram *to_stop = &w->time_to_stop_ns, *stopped = &w->stopped_ns;
    s->num_stops = stopped->count;
    s->time_to_stop_p50_ns = teai_histogram_quantile(to_stop, 500);
    s->time_to_stop_p99_ns = teai_histogram_quantile(to_stop, 990);
    s->time_to_stop_max_ns = to_stop->max;
    s->stopped_p50_ns = teai_histogram_quantile(stopped, 500);
    s->stopped_p99_ns = teai_histogram_quantile(stopped, 990);
    s->stopped_max_ns = stopped->max;
}

static void stats_add_finalizers(struct tea_stats *s, const struct tea_heap *h)
{
    s->finalizers_queued = h->specials.due.nfinalizers_queued;
    s->cleanups_queued = h->specials.due.ncleanups_queued;
    s->finalizers_run = atomic_load_explicit(&h->finalizers.nfinalizers_run, memory_order_relaxed);
    s->cleanups_run = atomic_load_explicit(&h->finalizers.ncleanups_run, memory_order_relaxed);
}

/* By the stopped collector's rules: nothing here allocates or locks. */
static void stats_fill_stopped(struct tea_stats *s, struct tea_heap *h)
{
    struct class_counts counts;
    counts_collect(h, &counts);
    stats_add_objects(s, h, &counts);
    stats_add_pages(s, h);
    stats_add_cycles(s, h);
    stats_add_stops(s, &h->world);
    stats_add_finalizers(s, h);
}

enum tea_status tea_stats_read(struct tea_stats *stats)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    struct tea_heap *h = m->heap;
    if (stats == NULL || stats->struct_bytes != sizeof *stats) {
        teai_log_line(&h->log, "teaspan: tea_stats_read: struct_bytes is %z, want %z", stats ? stats->struct_bytes : 0,
                      sizeof *stats);
        return TEA_ERR_INVALID;
    }
    memset(stats, 0, sizeof *stats);
    stats->struct_bytes = sizeof *stats;
    teai_world_acquire(h, m);
    teai_world_stop(h, m);
    stats_fill_stopped(stats, h);
    teai_world_restart(h);
    teai_world_release(h);
    return TEA_OK;
}

uint32_t tea_gc_count(void)
{
    /* acquire: pairs with cycle_account(). */
    return atomic_load_explicit(&teai_default_heap.ncycles, memory_order_acquire);
}
