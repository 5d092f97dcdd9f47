/* tests/support/page_fixture.h -- a page heap over real memory that grows as a test wants it to. */
#ifndef TEST_SUPPORT_PAGE_FIXTURE_H
#define TEST_SUPPORT_PAGE_FIXTURE_H

#include "gc/page_heap_state.h"

struct page_fixture {
    struct teai_page_heap *ph;
    uint8_t *heap_base;
    void *state;
    uint32_t max_pages;
    uint32_t step_pages;  /* growth is rounded up to a multiple of this */
    bool growth_fails;    /* with ENOMEM */
    uint32_t ngrowths;    /* calls, failed ones included */
    uint32_t asked_pages; /* by the last one */
    uint32_t ready_pages; /* what the heap has now */
};

/* A heap of no pages so far that may grow to `max_pages`. */
void page_fixture_open(struct page_fixture *f, uint32_t max_pages, uint32_t step_pages);
/* Verifies the heap, then takes it down. */
void page_fixture_close(struct page_fixture *f);

/* How many pages are ready once the heap asked for `npages`. */
static inline uint32_t page_fixture_growth(const struct page_fixture *f, uint32_t npages)
{
    uint32_t ready = (npages + f->step_pages - 1) / f->step_pages * f->step_pages;
    return ready < f->max_pages ? ready : f->max_pages;
}

/* The first word of a page. */
static inline uintptr_t *page_fixture_word(const struct page_fixture *f, uint32_t page)
{
    return (uintptr_t *)(f->heap_base + ((size_t)page << TEAI_PAGE_SHIFT));
}

#endif
