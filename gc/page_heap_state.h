/* gc/page_heap_state.h -- what the page heap remembers; shared by its files and by nobody else.
 *
 * Invariants (checked by teai_verify_page_heap).
 *   P1  The heap has pages [0, limit). A bit of in_use at or above the limit is set if it is in the
 *       limit's chunk (the fence) and clear in later chunks, whose summaries say "nothing free".
 *   P2  Each leaf summary says what in_use says about its chunk, each entry above what the entries
 *       under it say.
 *   P3  No page below `hint` is free.
 *   P4  in_use_pages is the number of bits set in in_use below the limit, free_ready_pages that of
 *       free pages with their dirty bit set, free_released_pages that of the others.
 *   P5  A page whose dirty bit is clear reads as zero, unless it is in use. All pages in use have
 *       it set.
 *   P6  No page at or above used_limit was ever lent.
 *
 * Why the senses of the bits. State memory is given zeroed, and what the heap does not reach is not
 * touched: a fresh page has to be free and clean without anybody writing so.
 *
 * Locks. `lock` guards all of it. The atomic words are written under it and may be read without.
 */
#ifndef TEAI_PAGE_HEAP_STATE_H
#define TEAI_PAGE_HEAP_STATE_H

#include "gc/page_summary.h"

struct teai_page_heap {
    struct teai_lock lock;
    uint32_t max_pages;
    uint32_t limit;              /* pages that the heap has */
    uint32_t hint;               /* no free page is below */
    uint32_t nreleases;          /* threads that hold pages while the kernel takes their memory */
    uint32_t release_unit_pages; /* pages of an OS page, at least 1 */
    _Atomic uint32_t used_limit;
    _Atomic uint32_t in_use_pages;
    _Atomic uint32_t free_ready_pages;
    _Atomic uint32_t free_released_pages;
    uint8_t *heap_base;
    teai_page_heap_grow_fn grow;
    void *grow_context;
    uint64_t *in_use; /* bit a page: lent, cached, being released, or fence */
    uint64_t *dirty;  /* bit a page: may hold memory of the OS, and anything in it */
    struct teai_summary_tree tree;
};

/* The lowest run of `npages`, growing the heap for it if need be; TEAI_NO_PAGE. Marks nothing. May
 * drop the lock. */
uint32_t teai_page_heap_find_or_grow_locked(struct teai_page_heap *ph, uint32_t npages,
                                            uint32_t align_pages);

/* Of the 64 pages of a word of the bitmaps, those in `pages` go from free to in use; which of them
 * were clean. */
uint64_t teai_page_heap_take_word_locked(struct teai_page_heap *ph, uint32_t word, uint64_t pages);
/* They go from in use to free, and those in `clean` are clean. */
void teai_page_heap_give_word_locked(struct teai_page_heap *ph, uint32_t word, uint64_t pages,
                                     uint64_t clean);

#endif
