/* include/teaspan/stats.h -- what the heap holds and what the collector has done; Go's MemStats. */
#ifndef TEASPAN_STATS_H
#define TEASPAN_STATS_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

#define TEA_STATS_PAUSES 256
#define TEA_STATS_SIZE_CLASSES 68

/* Fields of Go's runtime.MemStats under their snake-case names, and meaning what they mean there.
 * Identities: sys_bytes = heap_sys + stack_sys + gc_sys + other_sys; heap_sys = heap_inuse + heap_idle;
 * heap_objects = mallocs - frees. Units: bytes, counts, ns as the names say. */
struct tea_stats {
    size_t struct_bytes;          /* set by the caller: sizeof(struct tea_stats) */

    uint64_t alloc_bytes;         /* allocated and not yet freed (dead objects not yet swept count) */
    uint64_t total_alloc_bytes;   /* allocated since the start */
    uint64_t sys_bytes;           /* obtained from the OS and not released: the sum of the *_sys below */
    uint64_t mallocs;             /* objects allocated since the start, tiny ones included */
    uint64_t frees;               /* objects freed since the start */

    uint64_t heap_alloc_bytes;    /* = alloc_bytes */
    uint64_t heap_sys_bytes;      /* heap_inuse + heap_idle */
    uint64_t heap_idle_bytes;     /* free pages, released ones included */
    uint64_t heap_inuse_bytes;    /* pages of spans in use */
    uint64_t heap_released_bytes; /* free pages that hold no memory of the OS */
    uint64_t heap_objects;        /* mallocs - frees */

    uint64_t stack_inuse_bytes;   /* stacks we own: 0 so far */
    uint64_t stack_sys_bytes;
    uint64_t gc_sys_bytes;        /* metadata: span table, mark state, work lists */
    uint64_t other_sys_bytes;     /* thread records, roots, tables */

    uint64_t next_gc_bytes;       /* the heap goal */
    uint64_t last_gc_unix_ns;     /* end of the last collection, since 1970; 0: none */
    uint64_t pause_total_ns;      /* sum of all stops */
    uint64_t pause_ns[TEA_STATS_PAUSES];          /* ring, newest at (num_gc + 255) % 256 */
    uint64_t pause_end_unix_ns[TEA_STATS_PAUSES];
    uint32_t num_gc;              /* finished collections */
    uint32_t num_forced_gc;       /* of these, by tea_collect() */
    double gc_cpu_fraction;       /* of this process's CPU time since the start */
    bool enable_gc;

    struct tea_stats_by_size {
        uint32_t size_bytes;      /* slot size of the class; 0 for the last rows without a class */
        uint64_t mallocs, frees;
    } by_size[TEA_STATS_SIZE_CLASSES];

    /* Beyond Go. */
    uint64_t heap_live_bytes;     /* marked by the last collection plus allocated since */
    uint64_t heap_marked_bytes;   /* found reachable by the last collection */
    uint64_t trigger_bytes;       /* heap_live at which the next collection starts */
    uint64_t worklist_peak_bytes; /* most memory the marker's work lists have held */
    uint64_t mark_overflows;      /* times a work list could not grow (marking went on without it) */
    uint64_t time_to_stop_total_ns; /* from asking the threads to stop until they stood */
    uint32_t markers;             /* threads that mark in total */

    /* Every stop of all threads, by collections, statistics and forks. Quantiles are exact to 12.5 %. */
    uint64_t num_stops;
    uint64_t time_to_stop_p50_ns, time_to_stop_p99_ns, time_to_stop_max_ns; /* from asking until all stood */
    uint64_t stopped_p50_ns, stopped_p99_ns, stopped_max_ns;                /* from then until they ran again */

    /* teaspan/finalizer.h: calls that became due, and those of them that have returned. */
    uint64_t finalizers_queued, finalizers_run;
    uint64_t cleanups_queued, cleanups_run;

    /* teaspan/fiber.h: those that have not ended, and in the last collection those that were scanned from end to end for want
     * of a stack pointer. */
    uint64_t fibers, fibers_scanned_whole;
};

/* tea_stats_read -- fill `stats` (set stats->struct_bytes first).
 *
 * Errors:   TEA_ERR_INVALID if struct_bytes is not a size this library knows.
 * Threads:  any; stops the world for an exact picture.
 */
TEA_API enum tea_status tea_stats_read(struct tea_stats *stats);

/* tea_gc_count -- finished collections; cheap. Threads: any. */
TEA_API uint32_t tea_gc_count(void);

TEA_END_DECLS
#endif
