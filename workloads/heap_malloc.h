/* workloads/heap_malloc.h -- workloads on the C library's malloc: the program frees what it owns. */
#ifndef WORKLOADS_HEAP_MALLOC_H
#define WORKLOADS_HEAP_MALLOC_H

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "heap_count.h"

enum { HEAP_NEEDS_RELEASE = 1 };

#define heap_store(slot, value) (*(slot) = (value))
#define heap_store_range(to, from, nbytes) memcpy((to), (from), (nbytes))

static inline void heap_init(void)
{
}

static inline void *heap_alloc(size_t nbytes)
{
    heap_count(nbytes);
    return heap_checked(calloc(1, nbytes));
}

static inline void *heap_alloc_leaf(size_t nbytes)
{
    heap_count_leaf(nbytes);
    return heap_checked(calloc(1, nbytes));
}

static inline void *heap_alloc_leaf_uninit(size_t nbytes)
{
    heap_count_leaf(nbytes);
    return heap_checked(malloc(nbytes));
}

static inline void *heap_realloc(void *object, size_t nbytes)
{
    heap_count(nbytes);
    return heap_checked(realloc(object, nbytes));
}

static inline void heap_release(void *object)
{
    free(object);
}

static inline void heap_collect(void)
{
}

static inline uint32_t heap_gc_count(void)
{
    return 0;
}

static inline void heap_thread_end(void)
{
    heap_count_flush();
}

static inline struct heap_totals heap_totals(void)
{
    return heap_count_totals();
}

/* glibc does not say what it has given back: 0. */
static inline struct heap_footprint heap_footprint(void)
{
    struct mallinfo2 info = mallinfo2();
    return (struct heap_footprint){info.uordblks + info.hblkhd, info.fordblks, 0};
}

#include "heap_arena.h"

#endif
