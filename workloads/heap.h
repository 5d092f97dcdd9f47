/* workloads/heap.h -- the one door through which every workload reaches the heap under comparison.
 *
 * Problem. A workload is written once and compiled once per heap; what differs between heaps must be small
 * enough to be read at a glance, and must not favour one of them.
 *
 * The build names the adapter (WORKLOAD_HEAP_HEADER) and the heap (WORKLOAD_HEAP_NAME). An adapter provides,
 * as static inline functions:
 *
 *   heap_init()                     before anything else
 *   heap_alloc(n)                   zeroed; every word may hold a reference
 *   heap_alloc_leaf(n)              zeroed; holds no references
 *   heap_alloc_leaf_uninit(n)       the same, contents unspecified
 *   heap_realloc(p, n)              resize an object, keeping its kind; it may move
 *   heap_store(&slot, value)        put a reference into an object of the heap
 *   heap_store_range(to, from, n)   the same for all words of a range
 *   heap_release(p)                 the owner is done with p: free() where the program must call it, nothing
 *                                   where a collector finds out
 *   HEAP_NEEDS_RELEASE              constant: heap_release() does something. A program may skip the walk that
 *                                   only finds what to release
 *   heap_collect()                  a full collection with its sweep; nothing where there is no collector
 *   heap_gc_count()                 finished collections
 *   heap_thread_end()               a thread that allocated is about to end
 *   heap_totals()                   what the program has asked for since the start
 *   heap_footprint()                what the heap holds from the operating system now
 *   struct heap_arena, heap_arena_create(), _alloc_uninit(), _reset(), _destroy(): see heap_arena.h
 *
 * Allocation never returns NULL: out of memory ends the program (heap_checked).
 *
 * What heap_totals() counts is the same for all: objects asked for and their bytes, a resized object counting
 * as a new one of its whole new size, as in Go, whose append allocates anew. Bytes are rounded up as the heap
 * itself does, or, where it keeps no such figure, as heap_count.h does.
 */
#ifndef WORKLOADS_HEAP_H
#define WORKLOADS_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_totals {
    uint64_t bytes;
    uint64_t objects;
};

/* Bytes of the heap: in use by pages that hold objects, free but kept, and of the latter given back to the
 * kernel. Go's HeapInuse, HeapIdle, HeapReleased. */
struct heap_footprint {
    uint64_t inuse_bytes;
    uint64_t idle_bytes;
    uint64_t released_bytes;
};

_Noreturn void heap_out_of_memory(void); /* support_heap.c */

static inline void *heap_checked(void *object)
{
    if (__builtin_expect(object == NULL, 0))
        heap_out_of_memory();
    return object;
}

#include WORKLOAD_HEAP_HEADER

#endif
