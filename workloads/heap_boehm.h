/* workloads/heap_boehm.h -- workloads on Boehm GC, with the defaults that its users get. */
#ifndef WORKLOADS_HEAP_BOEHM_H
#define WORKLOADS_HEAP_BOEHM_H

/* Makes gc.h wrap pthread_create, so that the collector knows every thread. */
#define GC_THREADS
#include <gc.h>
#include <string.h>

#include "heap_count.h"

enum { HEAP_NEEDS_RELEASE = 0 };

#define heap_store(slot, value) (*(slot) = (value))
#define heap_store_range(to, from, nbytes) memcpy((to), (from), (nbytes))

static inline void heap_init(void)
{
    GC_INIT();
}

static inline void *heap_alloc(size_t nbytes)
{
    heap_count(nbytes);
    return heap_checked(GC_MALLOC(nbytes));
}

static inline void *heap_alloc_leaf_uninit(size_t nbytes)
{
    heap_count_leaf(nbytes);
    return heap_checked(GC_MALLOC_ATOMIC(nbytes));
}

static inline void *heap_alloc_leaf(size_t nbytes)
{
    return memset(heap_alloc_leaf_uninit(nbytes), 0, nbytes);
}

static inline void *heap_realloc(void *object, size_t nbytes)
{
    heap_count(nbytes);
    return heap_checked(GC_REALLOC(object, nbytes));
}

static inline void heap_release(void *object)
{
    (void)object;
}

static inline void heap_collect(void)
{
    GC_gcollect();
}

static inline uint32_t heap_gc_count(void)
{
    return (uint32_t)GC_get_gc_no();
}

static inline void heap_thread_end(void)
{
    heap_count_flush();
}

static inline struct heap_totals heap_totals(void)
{
    return heap_count_totals();
}

static inline struct heap_footprint heap_footprint(void)
{
    uint64_t free_bytes = GC_get_free_bytes();
    return (struct heap_footprint){GC_get_heap_size() - free_bytes, free_bytes,
                                   GC_get_unmapped_bytes()};
}

#include "heap_arena.h"

#endif
