/* workloads/heap_gc.h -- workloads on teaspan, as a program written for it would call it: it never frees. */
#ifndef WORKLOADS_HEAP_GC_H
#define WORKLOADS_HEAP_GC_H

#include <string.h>
#include <teaspan/teaspan.h>

#include "heap_count.h"

enum { HEAP_NEEDS_RELEASE = 0 };

#define heap_store(slot, value) (*(slot) = (value))
#define heap_store_range(to, from, nbytes) memcpy((to), (from), (nbytes))

static inline void heap_init(void)
{
    /* The first allocation starts the collector. */
}

static inline void *heap_alloc(size_t nbytes)
{
    return heap_checked(tea_alloc(nbytes));
}

static inline void *heap_alloc_leaf(size_t nbytes)
{
    return heap_checked(tea_alloc_leaf(nbytes));
}

static inline void *heap_alloc_leaf_uninit(size_t nbytes)
{
    return heap_checked(tea_alloc_leaf_uninit(nbytes));
}

static inline void *heap_realloc(void *object, size_t nbytes)
{
    size_t usable_bytes = tea_usable_bytes(object);
    void *resized = heap_checked(tea_realloc(object, nbytes));
    /* Growing in place adds only the difference to the collector's figure; the totals count a whole object. */
    if (resized == object)
        heap_count_exact(usable_bytes);
    return resized;
}

static inline void heap_release(void *object)
{
    (void)object;
}

static inline void heap_collect(void)
{
    tea_collect();
}

static inline uint32_t heap_gc_count(void)
{
    return tea_gc_count();
}

static inline void heap_thread_end(void)
{
    heap_count_flush();
}

static inline struct tea_stats heap_stats(void)
{
    struct tea_stats stats = {.struct_bytes = sizeof stats};
    if (tea_stats_read(&stats) != TEA_OK)
        stats = (struct tea_stats){0};
    return stats;
}

static inline struct heap_totals heap_totals(void)
{
    struct tea_stats stats = heap_stats();
    struct heap_totals resized = heap_count_totals();
    return (struct heap_totals){stats.total_alloc_bytes + resized.bytes,
                                stats.mallocs + resized.objects};
}

static inline struct heap_footprint heap_footprint(void)
{
    struct tea_stats stats = heap_stats();
    return (struct heap_footprint){stats.heap_inuse_bytes, stats.heap_idle_bytes,
                                   stats.heap_released_bytes};
}

#define heap_arena tea_arena /* struct heap_arena is the library's own */

static inline struct tea_arena *heap_arena_create(size_t chunk_bytes)
{
    return heap_checked(tea_arena_create(chunk_bytes));
}

static inline void *heap_arena_alloc_uninit(struct tea_arena *arena, size_t nbytes)
{
    return heap_checked(tea_arena_alloc_uninit(arena, nbytes));
}

static inline void heap_arena_reset(struct tea_arena *arena)
{
    tea_arena_reset(arena);
}

static inline void heap_arena_destroy(struct tea_arena *arena)
{
    tea_arena_destroy(arena);
}

#endif
