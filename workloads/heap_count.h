/* workloads/heap_count.h -- bytes and objects asked for, counted alike for heaps that keep no such figure.
 *
 * Bytes are rounded to what Go's size classes make of the sizes that the workloads use: multiples of 16 (8 up
 * to 32), whole pages of 8 KiB above 32 KiB, and leaves below 16 bytes packed into blocks of 16. The
 * comparison needs the figure to within 10 % of Go's.
 *
 * Counters are a thread's own, so that counting costs a few instructions; heap_count_flush() adds them to
 * the total of all threads.
 *
 * Source. The packing: Go runtime, mallocgcTiny.
 */
#ifndef WORKLOADS_HEAP_COUNT_H
#define WORKLOADS_HEAP_COUNT_H

enum {
    HEAP_COUNT_TINY_BYTES = 16,
    HEAP_COUNT_LARGE_BYTES = 32 << 10,
    HEAP_COUNT_PAGE_BYTES = 8 << 10
};

struct heap_counter {
    uint64_t bytes;
    uint64_t objects;
    uint32_t tiny_used_bytes; /* of the block that small leaves are packed into; 0: none yet */
};
extern _Thread_local struct heap_counter heap_counter;

/* support_heap.c */
void heap_count_flush(void);
struct heap_totals heap_count_totals(void); /* of this thread and those that flushed */
void heap_count_tiny(size_t nbytes);

static inline void heap_count_exact(size_t nbytes)
{
    heap_counter.bytes += nbytes;
    heap_counter.objects++;
}

static inline void heap_count(size_t nbytes)
{
    size_t multiple = nbytes > 32 ? 16 : 8;
    if (nbytes > HEAP_COUNT_LARGE_BYTES)
        multiple = HEAP_COUNT_PAGE_BYTES;
    heap_count_exact((nbytes + multiple - 1) & ~(multiple - 1));
}

static inline void heap_count_leaf(size_t nbytes)
{
    if (nbytes < HEAP_COUNT_TINY_BYTES)
        heap_count_tiny(nbytes);
    else
        heap_count(nbytes);
}

#endif
