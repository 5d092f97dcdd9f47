/* gc/page_summary.h -- radix tree over chunks: the lowest run of free pages in O(log n).
 *
 * The leaves sum up one chunk each; every further level sums up TEAI_SUMMARY_FANOUT entries of the
 * level below; the top has one entry. An entry of all zeroes says "nothing free", so that untouched
 * memory speaks of pages that the heap does not have yet.
 *
 * Callers: gc/page_heap.c, under its lock. Source: Go runtime, mpagealloc.go.
 */
#ifndef TEAI_PAGE_SUMMARY_H
#define TEAI_PAGE_SUMMARY_H

#include "gc/page_bits.h"

enum {
    TEAI_SUMMARY_FANOUT_SHIFT = 3, /* a node's entries share two cache lines */
    TEAI_SUMMARY_FANOUT = 1 << TEAI_SUMMARY_FANOUT_SHIFT,
    TEAI_SUMMARY_MAX_LEVELS = 7 /* 2^27 pages: 1 TiB */
};

struct teai_summary_tree {
    uint32_t nlevels;
    struct teai_free_runs *levels[TEAI_SUMMARY_MAX_LEVELS]; /* [0]: the leaves */
};

/* Where a run of free pages begins. */
struct teai_summary_hit {
    bool inside_chunk; /* somewhere inside the chunk that begins at `page` */
    uint32_t page;     /* else exactly here; TEAI_NO_PAGE: nowhere */
};

/* Bytes of zeroed memory for a tree over `nchunks` chunks. */
size_t teai_summary_bytes(uint32_t nchunks);
void teai_summary_init(struct teai_summary_tree *tree, void *memory, uint32_t nchunks);

/* Sum up the chunks [first_chunk, last_chunk] anew, from the bitmap that has a bit set for each
 * page not free. */
void teai_summary_update(struct teai_summary_tree *tree, const uint64_t *in_use,
                         uint32_t first_chunk, uint32_t last_chunk);

/* The lowest run of `npages` that begins in a chunk after `chunk`, or among the `run` free pages at
 * the end of it. */
struct teai_summary_hit teai_summary_find_after(const struct teai_summary_tree *tree,
                                                uint32_t chunk, uint32_t run, uint32_t npages);

#endif
