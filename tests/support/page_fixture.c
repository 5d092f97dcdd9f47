/* tests/support/page_fixture.c -- a page heap over real memory that grows as a test wants it to. */
#include "tests/support/page_fixture.h"

#include "base/word.h"

#include <errno.h>

enum { FIXTURE_ALIGN_BYTES = 2 << 20 };

static int fixture_grow(void *context, uint32_t npages, uint32_t *npages_ready)
{
    struct page_fixture *f = context;
    TEAI_CHECK(*npages_ready == f->ready_pages && npages > f->ready_pages);
    teai_lock_assert_held(&f->ph->lock);
    f->ngrowths++;
    f->asked_pages = npages;
    if (f->growth_fails)
        return ENOMEM;
    uint32_t ready = page_fixture_growth(f, npages);
    int error = teai_platform_commit(page_fixture_word(f, f->ready_pages),
                                     (size_t)(ready - f->ready_pages) << TEAI_PAGE_SHIFT);
    if (error == 0)
        *npages_ready = f->ready_pages = ready;
    return error;
}

static size_t fixture_state_bytes(const struct page_fixture *f)
{
    return teai_round_up(teai_page_heap_state_bytes(f->max_pages), teai_platform_os_page_bytes());
}

static size_t fixture_heap_bytes(const struct page_fixture *f)
{
    return teai_round_up((size_t)f->max_pages << TEAI_PAGE_SHIFT, teai_platform_os_page_bytes());
}

void page_fixture_open(struct page_fixture *f, uint32_t max_pages, uint32_t step_pages)
{
    *f = (struct page_fixture){.max_pages = max_pages, .step_pages = step_pages};
    f->state = teai_platform_reserve(fixture_state_bytes(f), FIXTURE_ALIGN_BYTES);
    f->heap_base = teai_platform_reserve(fixture_heap_bytes(f), FIXTURE_ALIGN_BYTES);
    TEAI_CHECK(f->state != NULL && f->heap_base != NULL);
    TEAI_CHECK(teai_platform_commit(f->state, fixture_state_bytes(f)) == 0);
    f->ph = teai_page_heap_init(f->state, max_pages, f->heap_base, fixture_grow, f);
}

void page_fixture_close(struct page_fixture *f)
{
    teai_verify_page_heap(f->ph);
    teai_platform_unreserve(f->heap_base, fixture_heap_bytes(f));
    teai_platform_unreserve(f->state, fixture_state_bytes(f));
}
