/* gc/page_heap.h -- which pages are free, in use, given back; lends runs of pages to spans.
 *
 * Pages are numbered from 0, the start of the reservation. Lowest-addressed fit, in O(log n), by a radix
 * tree of summaries (free at start, longest, at end). The head of page_heap.c has the argument.
 */
#ifndef TEAI_PAGE_HEAP_H
#define TEAI_PAGE_HEAP_H

#include "platform/platform.h"

enum { TEAI_PAGE_SHIFT = 13 };
#define TEAI_PAGE_BYTES ((size_t)1 << TEAI_PAGE_SHIFT)
#define TEAI_NO_PAGE UINT32_MAX
enum { TEAI_CHUNK_PAGES = 512 };   /* one leaf of the radix tree: 4 MiB */

/* Called with the page heap's lock held when pages [0, npages) must become usable: make the heap's memory and
 * every side table ready up to there. Returns 0 or an errno. May make more ready than asked: *npages_ready_out. */
typedef int (*teai_page_heap_grow_fn)(void *context, uint32_t npages, uint32_t *npages_ready_out);

/* Counts in pages; in_use + free_ready + free_released = pages handed to the heap so far. */
struct teai_page_counts {
    uint32_t in_use;        /* lent to spans */
    uint32_t free_ready;    /* free, still holding memory of the OS */
    uint32_t free_released; /* free, never touched since the last release (or ever) */
};

struct teai_page_heap;

/* Bytes that teai_page_heap_init() needs for a heap of at most `max_pages`. The memory is given zeroed, demand-paged. */
size_t teai_page_heap_state_bytes(uint32_t max_pages);
struct teai_page_heap *teai_page_heap_init(void *state, uint32_t max_pages, uint8_t *heap_base,
                                           teai_page_heap_grow_fn grow, void *grow_context);

/* A run of `npages`, the lowest that fits; TEAI_NO_PAGE if there is none and the heap cannot grow.
 * *zeroed_out: every byte of it reads zero. *fresh_pages_out (may be NULL): how many of its pages were released. */
uint32_t teai_page_heap_alloc(struct teai_page_heap *ph, uint32_t npages, bool *zeroed_out, uint32_t *fresh_pages_out);
/* The same, starting at a multiple of `align_pages` (a power of two). */
uint32_t teai_page_heap_alloc_aligned(struct teai_page_heap *ph, uint32_t npages, uint32_t align_pages, bool *zeroed_out);
/* Like alloc but only from pages that are free now: never grows. */
uint32_t teai_page_heap_alloc_no_grow(struct teai_page_heap *ph, uint32_t npages, bool *zeroed_out);
/* Lengthen a run in use by the `nmore` pages behind it, if all are free (the heap may grow for it). False: not possible,
 * nothing changed. *zeroed_out speaks of the added pages. */
bool teai_page_heap_extend(struct teai_page_heap *ph, uint32_t first_page, uint32_t npages, uint32_t nmore, bool *zeroed_out);
void teai_page_heap_free(struct teai_page_heap *ph, uint32_t first_page, uint32_t npages);

/* Give all free pages back to the OS, in runs of whole OS pages, at most `max_pages`; returns how many. */
uint32_t teai_page_heap_release(struct teai_page_heap *ph, uint32_t max_pages);

struct teai_page_counts teai_page_heap_counts(const struct teai_page_heap *ph); /* relaxed reads; no lock */
/* Pages the heap has ever used are below this. */
uint32_t teai_page_heap_limit(const struct teai_page_heap *ph);

/* Walks everything and checks the numbered invariants; aborts on a violation. */
void teai_verify_page_heap(struct teai_page_heap *ph);

/* --- per-thread page cache: the free pages of one aligned block of 64 pages, taken at once, lent without lock --- */
struct teai_page_cache {
    uint32_t base_page;      /* multiple of 64 */
    uint64_t free_bits;      /* bit i: page base_page + i is ours and free */
    uint64_t released_bits;  /* and holds no memory of the OS */
};
/* From the cache, refilling it under the lock when empty; runs of up to 16 pages. Larger ones, or a cache that has no
 * fit, go to the heap. */
uint32_t teai_page_cache_alloc(struct teai_page_heap *ph, struct teai_page_cache *cache, uint32_t npages, bool *zeroed_out);
/* Return everything to the heap. Counts treat cached pages as in use. */
void teai_page_cache_flush(struct teai_page_heap *ph, struct teai_page_cache *cache);

#endif
