/* gc/heap.h -- the heap object: address space, side tables, central lists, counters, phase.
 *
 * One object is passed through all of gc/; the default one lives at the API's edge (gc/init.c). Fields are
 * grouped by who writes them, a cache line apart where threads write at once.
 */
#ifndef TEAI_HEAP_H
#define TEAI_HEAP_H

#include "gc/central.h"
#include "gc/exception.h"
#include "gc/fiber.h"
#include "gc/finalizer.h"
#include "gc/handshake.h"
#include "gc/log.h"
#include "gc/metadata.h"
#include "gc/pin.h"
#include "gc/root.h"
#include "gc/root_callback.h"
#include "gc/settings.h"
#include "gc/span.h"
#include "gc/special.h"
#include "gc/mark.h"
#include "gc/trace.h"
#include "pacer/pacer.h"
#include "teaspan/stats.h"

/* Where the cycle stands (gc/cycle.c). Changes only while the world is stopped. */
enum teai_phase {
    TEAI_PHASE_OFF = 0,          /* not marking; sweeping may be under way */
    TEAI_PHASE_MARK,
    TEAI_PHASE_MARK_TERMINATION
};

/* Sweeping state (gc/sweep.c). */
struct teai_sweep {
    _Atomic uint32_t next_page;  /* pages below have been looked at this cycle */
    _Atomic uint32_t limit_page; /* fixed when the cycle ends */
    _Atomic uint32_t nactive;    /* threads inside the page walk */
    _Atomic uint32_t done_gen;   /* equals the heap's sweep_gen when nothing is left to sweep */
    _Atomic uint32_t wake;       /* futex of the background sweeper */
    bool thread_started;
    _Atomic uint64_t pages_swept;
    _Atomic uint64_t slots_freed;
};

/* Figures of one cycle, for the trace and statistics. */
struct teai_cycle_record {
    uint64_t begin_ns, stopped_ns, marked_ns, end_ns;
    uint64_t heap_start_bytes;
    uint64_t marked_bytes;
    uint64_t stack_bytes, globals_bytes;
    uint64_t goal_bytes;
    uint64_t mark_cpu_ns;
    bool forced;
};

struct teai_counters {
    _Atomic uint64_t large_mallocs, large_frees;
    _Atomic uint64_t large_alloc_bytes, large_free_bytes;
    _Atomic uint64_t class_frees[TEAI_NSPAN_CLASSES];
    _Atomic uint64_t class_mallocs[TEAI_NSPAN_CLASSES]; /* of threads that have ended; the others' are in their caches */
    _Atomic uint64_t tiny_mallocs;
};

struct tea_heap {
    /* Read-mostly after start. */
    struct teai_tables tables;
    struct teai_page_heap *pages;
    uint8_t *reservation_base;
    size_t reservation_bytes;
    uint32_t max_pages;
    struct teai_settings settings;
    uint64_t start_ns;

    /* Changed with the world stopped. */
    _Atomic uint32_t sweep_gen;  /* even; grows by 2 a cycle */
    _Atomic uint32_t phase;      /* enum teai_phase */

    /* heap_live and the trigger: read at every refill. */
    _Alignas(64) _Atomic uint64_t live_bytes;
    _Atomic uint64_t trigger_bytes; /* UINT64_MAX while collections are off */

    /* Pacing (gc/gc_pacer.c), under pacer_lock. */
    _Alignas(64) struct teai_lock pacer_lock;
    struct teai_knobs knobs;
    struct teai_goal goal;
    struct teai_facts facts;
    _Atomic uint32_t disable_count;

    struct teai_sweep sweep;
    struct teai_world world;
    struct teai_roots roots;
    struct teai_root_callbacks root_callbacks;
    struct teai_fibers fibers;
    struct teai_exceptions exceptions;
    struct teai_pins pins;
    struct teai_specials specials;
    struct teai_finalizers finalizers;
    struct teai_mark mark;
    struct teai_log log;
    struct teai_trace trace;
    struct teai_metadata metadata;
    struct teai_counters counters;
    struct teai_cycle_record cycle;

    /* Totals over cycles; written by the collecting thread, under the world lock. */
    _Atomic uint32_t ncycles;
    uint32_t nforced;
    uint64_t pause_total_ns, time_to_stop_total_ns, gc_cpu_ns;
    uint64_t pause_ns[TEA_STATS_PAUSES], pause_end_unix_ns[TEA_STATS_PAUSES];
    uint64_t last_gc_unix_ns;

    struct teai_central central[TEAI_NSPAN_CLASSES];
};

/* The heap behind the public interface. */
extern struct tea_heap teai_default_heap;

/* Reserve address space for at most `max_bytes` of objects (0: from the size of RAM) and its tables. 0 or an errno. */
int teai_heap_reserve(struct tea_heap *h, size_t max_bytes);
/* Bytes of metadata that the heap's size brings with it. */
uint64_t teai_heap_table_bytes(const struct tea_heap *h);

TEAI_INLINE uint32_t teai_heap_gen(const struct tea_heap *h)
{
    /* relaxed: changes only while the world is stopped, and stops order it. */
    return atomic_load_explicit(&h->sweep_gen, memory_order_relaxed);
}

/* Never below 0: a cycle may have left out of the count what is given back now. */
TEAI_INLINE void teai_live_sub(struct tea_heap *h, uint64_t bytes)
{
    if (bytes == 0)
        return;
    /* relaxed: a count that only steers pacing. */
    uint64_t live = atomic_load_explicit(&h->live_bytes, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&h->live_bytes, &live, live > bytes ? live - bytes : 0,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

#endif
