/* workloads/support_heap.c -- what the heap adapters share: the counters, and the end when memory is out. */
#include "heap.h"
#include "support_result.h"

#include <stdatomic.h>

_Thread_local struct heap_counter heap_counter;

static _Atomic uint64_t flushed_bytes;
static _Atomic uint64_t flushed_objects;

_Noreturn void heap_out_of_memory(void)
{
    workload_fail("out of memory");
}

/* Go packs small leaves into a block as long as they fit, each aligned to what its size divides by. When one
 * does not fit it gets a new block, and the block with more room left is the one to fill next. */
void heap_count_tiny(size_t nbytes)
{
    uint32_t size = (uint32_t)nbytes;
    uint32_t align = size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
    uint32_t used = (heap_counter.tiny_used_bytes + align - 1) & ~(align - 1);
    bool fits = heap_counter.tiny_used_bytes != 0 && used + size <= HEAP_COUNT_TINY_BYTES;
    if (fits) {
        heap_counter.tiny_used_bytes = used + size;
    } else if (heap_counter.tiny_used_bytes == 0 || size < heap_counter.tiny_used_bytes) {
        heap_counter.tiny_used_bytes = size;
    }
    heap_count_exact(fits ? 0 : HEAP_COUNT_TINY_BYTES);
}

/* relaxed throughout: read after the threads that flushed were joined. */
void heap_count_flush(void)
{
    atomic_fetch_add_explicit(&flushed_bytes, heap_counter.bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&flushed_objects, heap_counter.objects, memory_order_relaxed);
    heap_counter = (struct heap_counter){0};
}

struct heap_totals heap_count_totals(void)
{
    return (struct heap_totals){
        atomic_load_explicit(&flushed_bytes, memory_order_relaxed) + heap_counter.bytes,
        atomic_load_explicit(&flushed_objects, memory_order_relaxed) + heap_counter.objects,
    };
}
