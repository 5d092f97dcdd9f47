/* tests/unit/test_page_heap.c -- the page heap in situations with a known answer.
 *
 * The tables of placements, frees and cache fillings follow the cases of Go's page allocator tests
 * (mpagealloc_test.go, mpagecache_test.go) as far as they apply to one contiguous heap.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/page_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = TEAI_CHUNK_PAGES, MAX_ROWS = 12 };

struct range {
    uint32_t first, npages; /* npages 0: end of a list */
};

/* A heap of `npages` pages, none lent yet, that cannot grow further. */
static void open_full_size(struct page_fixture *f, uint32_t npages)
{
    bool zeroed;
    page_fixture_open(f, npages, npages);
    uint32_t page = teai_page_heap_alloc(f->ph, 1, &zeroed, NULL);
    assert_int_equal(page, 0);
    teai_page_heap_free(f->ph, page, 1);
    assert_int_equal(teai_page_heap_release(f->ph, 1), 1);
    f->growth_fails = true;
}

/* The same with everything lent. */
static void open_all_lent(struct page_fixture *f, uint32_t npages)
{
    bool zeroed;
    open_full_size(f, npages);
    assert_int_equal(teai_page_heap_alloc(f->ph, npages, &zeroed, NULL), 0);
    assert_true(zeroed);
}

/* The same with only these ranges lent. */
static void open_lent(struct page_fixture *f, uint32_t npages, const struct range *lent)
{
    open_all_lent(f, npages);
    uint32_t page = 0;
    for (; lent->npages > 0; page = lent->first + lent->npages, lent++)
        if (lent->first > page)
            teai_page_heap_free(f->ph, page, lent->first - page);
    if (page < npages)
        teai_page_heap_free(f->ph, page, npages - page);
}

static uint32_t alloc(struct page_fixture *f, uint32_t npages)
{
    bool zeroed;
    uint32_t page = teai_page_heap_alloc(f->ph, npages, &zeroed, NULL);
    teai_verify_page_heap(f->ph);
    return page;
}

/* --- placement --- */

struct placement {
    const char *name;
    uint32_t heap_pages;
    struct range lent[MAX_ROWS];
    struct {
        uint32_t npages, page; /* npages 0: end of the list */
    } requests[MAX_ROWS];
};

static const struct placement placements[] = {
    {"all free 1", CHUNK, {{0}}, {{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}}},
    {"lowest free of many chunks",
     3 * CHUNK,
     {{0, 3 * CHUNK - 1}},
     {{1, 3 * CHUNK - 1}, {1, TEAI_NO_PAGE}}},
    {"past a full chunk", 2 * CHUNK, {{0, CHUNK}}, {{1, CHUNK}, {1, CHUNK + 1}}},
    {"all free 2", CHUNK, {{0}}, {{2, 0}, {2, 2}, {2, 4}, {2, 6}, {2, 8}}},
    {"straddle 2",
     2 * CHUNK,
     {{0, CHUNK - 1}, {CHUNK + 1, CHUNK - 1}},
     {{2, CHUNK - 1}, {1, TEAI_NO_PAGE}}},
    {"all free 5", CHUNK, {{0}}, {{5, 0}, {5, 5}, {5, 10}, {5, 15}, {5, 20}}},
    {"all free 64", CHUNK, {{0}}, {{64, 0}, {64, 64}, {64, 128}}},
    {"all free 65", CHUNK, {{0}}, {{65, 0}, {65, 65}, {65, 130}}},
    {"all but 3 of a chunk",
     CHUNK,
     {{0}},
     {{CHUNK - 3, 0},
      {CHUNK - 3, TEAI_NO_PAGE},
      {1, CHUNK - 3},
      {2, CHUNK - 2},
      {1, TEAI_NO_PAGE}}},
    {"all of a chunk", CHUNK, {{0}}, {{CHUNK, 0}, {CHUNK, TEAI_NO_PAGE}, {1, TEAI_NO_PAGE}}},
    {"straddle a chunk's worth",
     2 * CHUNK,
     {{0, CHUNK / 2}, {3 * CHUNK / 2, CHUNK / 2}},
     {{CHUNK, CHUNK / 2}, {CHUNK, TEAI_NO_PAGE}, {1, TEAI_NO_PAGE}}},
    {"straddle a chunk's worth and 1",
     2 * CHUNK,
     {{0, CHUNK / 2}},
     {{CHUNK + 1, CHUNK / 2}, {CHUNK, TEAI_NO_PAGE}, {1, 3 * CHUNK / 2 + 1}}},
    {"two chunks",
     2 * CHUNK,
     {{0}},
     {{2 * CHUNK, 0}, {2 * CHUNK, TEAI_NO_PAGE}, {1, TEAI_NO_PAGE}}},
    {"two chunks' worth over three",
     3 * CHUNK,
     {{0, CHUNK / 2}, {5 * CHUNK / 2, CHUNK / 2}},
     {{2 * CHUNK, CHUNK / 2}, {2 * CHUNK, TEAI_NO_PAGE}, {1, TEAI_NO_PAGE}}},
    {"5/4 of a chunk",
     3 * CHUNK,
     {{0, CHUNK}, {CHUNK, 3 * CHUNK / 4}, {5 * CHUNK / 2, CHUNK / 4}},
     {{5 * CHUNK / 4, TEAI_NO_PAGE},
      {3 * CHUNK / 4, 7 * CHUNK / 4},
      {CHUNK / 4, 11 * CHUNK / 4},
      {1, TEAI_NO_PAGE}}},
    {"seven chunks and 5",
     8 * CHUNK,
     {{0}},
     {{7 * CHUNK + 5, 0}, {7 * CHUNK + 5, TEAI_NO_PAGE}, {1, 7 * CHUNK + 5}}},
    {"a run that begins in one node of the tree and ends in the next",
     20 * CHUNK,
     {{0, 8 * CHUNK - 3}, {8 * CHUNK + 4, 2 * CHUNK}},
     {{8, 10 * CHUNK + 4}, {7, 8 * CHUNK - 3}}},
    {"a run over a whole node and a bit on each side",
     30 * CHUNK,
     {{0, 8 * CHUNK - 1}, {16 * CHUNK + 1, CHUNK}},
     {{8 * CHUNK + 3, 17 * CHUNK + 1}, {8 * CHUNK + 2, 8 * CHUNK - 1}}},
    {"the first of two fits, though the second is tighter",
     CHUNK,
     {{0, 1}, {11, 1}, {14, 1}},
     {{2, 1}, {2, 3}}},
    {"holes that are too small are passed over, then used",
     CHUNK,
     {{2, 1}, {6, 1}},
     {{3, 3}, {4, 7}, {2, 0}, {1, 11}}},
};

static void runs_are_placed_at_the_lowest_fit(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof placements / sizeof placements[0]; i++) {
        const struct placement *p = &placements[i];
        struct page_fixture f;
        open_lent(&f, p->heap_pages, p->lent);
        for (int r = 0; p->requests[r].npages > 0; r++) {
            uint32_t page = alloc(&f, p->requests[r].npages);
            if (page != p->requests[r].page)
                fail_msg("%s: request %d got %u, not %u", p->name, r, page, p->requests[r].page);
        }
        page_fixture_close(&f);
    }
}

static void requests_of_one_size_fill_the_heap_upwards_and_then_fail(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 16, 64, 1024, 1025, 2048, 2049};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct page_fixture f;
        bool zeroed;
        open_full_size(&f, 4 * CHUNK);
        for (uint32_t n = 0; n < 4 * CHUNK / sizes[i]; n++)
            assert_int_equal(teai_page_heap_alloc(f.ph, sizes[i], &zeroed, NULL), n * sizes[i]);
        assert_int_equal(alloc(&f, sizes[i]), TEAI_NO_PAGE);
        page_fixture_close(&f);
    }
}

static void whole_heap_can_be_lent_again_and_again(void **state)
{
    (void)state;
    struct page_fixture f;
    open_full_size(&f, 8 * CHUNK);
    for (int round = 0; round < 10; round++) {
        assert_int_equal(alloc(&f, 8 * CHUNK), 0);
        teai_page_heap_free(f.ph, 0, 8 * CHUNK);
        for (uint32_t chunk = 0; chunk < 8; chunk++)
            assert_int_equal(alloc(&f, CHUNK), chunk * CHUNK);
        for (uint32_t chunk = 0; chunk < 8; chunk++)
            teai_page_heap_free(f.ph, chunk * CHUNK, CHUNK);
    }
    page_fixture_close(&f);
}

static void aligned_runs_are_placed_at_the_lowest_aligned_fit(void **state)
{
    (void)state;
    static const struct range lent[] = {{0, 1}, {40, 2}, {64, 1}, {400, 1}, {0, 0}};
    struct page_fixture f;
    bool zeroed;
    open_lent(&f, 2 * CHUNK, lent);
    assert_int_equal(teai_page_heap_alloc_aligned(f.ph, 16, 16, &zeroed), 16);
    assert_int_equal(teai_page_heap_alloc_aligned(f.ph, 1, 32, &zeroed), 32);
    assert_int_equal(teai_page_heap_alloc_aligned(f.ph, 1, 64, &zeroed), 128);
    assert_int_equal(teai_page_heap_alloc_aligned(f.ph, 256, 256, &zeroed), 512);
    assert_int_equal(teai_page_heap_alloc_aligned(f.ph, 1, CHUNK, &zeroed), TEAI_NO_PAGE);
    assert_int_equal(teai_page_heap_alloc_aligned(f.ph, 1, 1, &zeroed), 1);
    page_fixture_close(&f);
}

static void no_grow_takes_free_pages_only(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed;
    page_fixture_open(&f, 4 * CHUNK, 10);
    assert_int_equal(teai_page_heap_alloc_no_grow(f.ph, 1, &zeroed), TEAI_NO_PAGE);
    assert_int_equal(f.ngrowths, 0);
    assert_int_equal(alloc(&f, 4), 0);
    assert_int_equal(teai_page_heap_alloc_no_grow(f.ph, 6, &zeroed), 4);
    assert_int_equal(teai_page_heap_alloc_no_grow(f.ph, 1, &zeroed), TEAI_NO_PAGE);
    assert_int_equal(f.ngrowths, 1);
    page_fixture_close(&f);
}

/* --- freeing --- */

/* Whether exactly these ranges are free. Lends every free page on the way. */
static void assert_free_ranges(struct page_fixture *f, const struct range *free_ranges)
{
    bool zeroed;
    for (; free_ranges->npages > 0; free_ranges++)
        for (uint32_t i = 0; i < free_ranges->npages; i++)
            assert_int_equal(teai_page_heap_alloc_no_grow(f->ph, 1, &zeroed),
                             free_ranges->first + i);
    assert_int_equal(teai_page_heap_alloc_no_grow(f->ph, 1, &zeroed), TEAI_NO_PAGE);
}

/* Frees of one size, each leaving a heap in which exactly what was freed is free. */
static const struct {
    uint32_t heap_pages;
    struct range freed[MAX_ROWS];
    struct range free_after[MAX_ROWS];
} frees[] = {
    {CHUNK, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}}, {{0, 5}}},
    {3 * CHUNK,
     {{CHUNK / 2, 1}, {CHUNK, 1}, {3 * CHUNK - 1, 1}},
     {{CHUNK / 2, 1}, {CHUNK, 1}, {3 * CHUNK - 1, 1}}},
    {CHUNK, {{0, 2}, {2, 2}, {4, 2}, {6, 2}, {8, 2}}, {{0, 10}}},
    {2 * CHUNK, {{CHUNK - 1, 2}}, {{CHUNK - 1, 2}}},
    {CHUNK, {{20, 5}, {15, 5}, {10, 5}, {0, 5}, {5, 5}}, {{0, 25}}},
    {CHUNK, {{0, 64}, {128, 64}, {64, 64}}, {{0, 192}}},
    {CHUNK, {{0, 65}, {130, 65}, {65, 65}}, {{0, 195}}},
    {CHUNK, {{0, CHUNK}}, {{0, CHUNK}}},
    {2 * CHUNK, {{CHUNK / 2, CHUNK}}, {{CHUNK / 2, CHUNK}}},
    {2 * CHUNK, {{CHUNK / 2, CHUNK + 1}}, {{CHUNK / 2, CHUNK + 1}}},
    {3 * CHUNK, {{CHUNK / 2, 2 * CHUNK}}, {{CHUNK / 2, 2 * CHUNK}}},
    {8 * CHUNK, {{0, 7 * CHUNK + 5}}, {{0, 7 * CHUNK + 5}}},
    {8 * CHUNK,
     {{511, 2}, {64, 64}, {7 * CHUNK, CHUNK}, {63, 1}},
     {{63, 65}, {511, 2}, {7 * CHUNK, CHUNK}}},
};

static void exactly_what_is_freed_is_free(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof frees / sizeof frees[0]; i++) {
        struct page_fixture f;
        uint32_t nfreed = 0;
        open_all_lent(&f, frees[i].heap_pages);
        for (const struct range *r = frees[i].freed; r->npages > 0; r++) {
            teai_page_heap_free(f.ph, r->first, r->npages);
            teai_verify_page_heap(f.ph);
            nfreed += r->npages;
        }
        struct teai_page_counts counts = teai_page_heap_counts(f.ph);
        assert_int_equal(counts.free_ready, nfreed);
        assert_int_equal(counts.in_use, frees[i].heap_pages - nfreed);
        assert_free_ranges(&f, frees[i].free_after);
        page_fixture_close(&f);
    }
}

/* --- growing --- */

static void growth_completes_the_free_pages_at_the_end(void **state)
{
    (void)state;
    struct page_fixture f;
    page_fixture_open(&f, 100 * CHUNK, 1);
    assert_int_equal(alloc(&f, 10), 0);
    assert_int_equal(f.asked_pages, 10);
    teai_page_heap_free(f.ph, 7, 3);
    assert_int_equal(alloc(&f, 8), 7); /* 3 old pages and 5 new ones */
    assert_int_equal(f.asked_pages, 15);
    teai_page_heap_free(f.ph, 0, 15);
    assert_int_equal(alloc(&f, 3 * CHUNK), 0);
    assert_int_equal(f.asked_pages, 3 * CHUNK);
    page_fixture_close(&f);
}

static void growth_may_make_more_ready_than_asked(void **state)
{
    (void)state;
    struct page_fixture f;
    page_fixture_open(&f, 1000, 300);
    assert_int_equal(alloc(&f, 1), 0);
    assert_int_equal(alloc(&f, 299), 1);
    assert_int_equal(f.ngrowths, 1);
    assert_int_equal(alloc(&f, 650), 300); /* 950: rounded up to 1200, of which there are 1000 */
    assert_int_equal(f.ngrowths, 2);
    assert_int_equal(alloc(&f, 50), 950);
    assert_int_equal(f.ngrowths, 2);
    page_fixture_close(&f);
}

static void heap_never_grows_beyond_its_maximum(void **state)
{
    (void)state;
    struct page_fixture f;
    page_fixture_open(&f, 100, 1);
    assert_int_equal(alloc(&f, 101), TEAI_NO_PAGE);
    assert_int_equal(alloc(&f, UINT32_MAX), TEAI_NO_PAGE);
    assert_int_equal(f.ngrowths, 0);
    assert_int_equal(alloc(&f, 100), 0);
    assert_int_equal(alloc(&f, 1), TEAI_NO_PAGE);
    page_fixture_close(&f);
}

static void failed_growth_changes_nothing(void **state)
{
    (void)state;
    struct page_fixture f;
    page_fixture_open(&f, 1000, 10);
    assert_int_equal(alloc(&f, 8), 0);
    f.growth_fails = true;
    assert_int_equal(alloc(&f, 3), TEAI_NO_PAGE);
    struct teai_page_counts counts = teai_page_heap_counts(f.ph);
    assert_int_equal(counts.in_use, 8);
    assert_int_equal(counts.free_ready, 0);
    assert_int_equal(counts.free_released, 2);
    f.growth_fails = false;
    assert_int_equal(alloc(&f, 3), 8);
    page_fixture_close(&f);
}

static void aligned_growth_leaves_no_more_than_alignment_asks(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed;
    page_fixture_open(&f, 1000, 1);
    assert_int_equal(alloc(&f, 3), 0);
    assert_int_equal(teai_page_heap_alloc_aligned(f.ph, 5, 16, &zeroed), 16);
    assert_int_equal(f.asked_pages, 21);
    assert_int_equal(alloc(&f, 13), 3);
    page_fixture_close(&f);
}

static void limit_is_above_all_pages_ever_lent(void **state)
{
    (void)state;
    struct page_fixture f;
    page_fixture_open(&f, 1000, 500);
    assert_int_equal(teai_page_heap_limit(f.ph), 0);
    assert_int_equal(alloc(&f, 70), 0);
    assert_int_equal(teai_page_heap_limit(f.ph), 70);
    teai_page_heap_free(f.ph, 0, 70);
    assert_int_equal(teai_page_heap_limit(f.ph), 70);
    page_fixture_close(&f);
}

/* --- lengthening --- */

static void run_is_extended_over_free_pages_behind_it(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed;
    open_full_size(&f, 2 * CHUNK);
    assert_int_equal(alloc(&f, 10), 0);
    assert_true(teai_page_heap_extend(f.ph, 0, 10, CHUNK, &zeroed));
    assert_true(zeroed);
    assert_int_equal(alloc(&f, 1), CHUNK + 10);
    teai_page_heap_free(f.ph, 0, CHUNK + 10);
    page_fixture_close(&f);
}

static void run_is_not_extended_over_a_page_in_use(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed;
    open_full_size(&f, CHUNK);
    assert_int_equal(alloc(&f, 10), 0);
    assert_int_equal(alloc(&f, 3), 10);
    assert_int_equal(alloc(&f, 1), 13);
    teai_page_heap_free(f.ph, 10, 3);
    struct teai_page_counts before = teai_page_heap_counts(f.ph), after;
    assert_false(teai_page_heap_extend(f.ph, 0, 10, 4, &zeroed));
    after = teai_page_heap_counts(f.ph);
    assert_memory_equal(&before, &after, sizeof before);
    assert_true(teai_page_heap_extend(f.ph, 0, 10, 3, &zeroed));
    assert_false(zeroed);
    page_fixture_close(&f);
}

static void run_at_the_end_is_extended_by_growing(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed;
    page_fixture_open(&f, CHUNK, 8);
    assert_int_equal(alloc(&f, 6), 0);
    assert_true(teai_page_heap_extend(f.ph, 0, 6, 20, &zeroed));
    assert_int_equal(f.asked_pages, 26);
    assert_false(teai_page_heap_extend(f.ph, 0, 26, CHUNK, &zeroed)); /* beyond the maximum */
    f.growth_fails = true;
    assert_false(teai_page_heap_extend(f.ph, 0, 26, 100, &zeroed));
    assert_int_equal(alloc(&f, 6), 26);
    page_fixture_close(&f);
}

/* --- zeroed or not --- */

static void pages_are_zeroed_until_they_are_lent(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed = false;
    uint32_t nfresh = 0;
    open_full_size(&f, CHUNK);
    assert_int_equal(teai_page_heap_alloc(f.ph, 4, &zeroed, &nfresh), 0);
    assert_true(zeroed);
    assert_int_equal(nfresh, 4);
    teai_page_heap_free(f.ph, 0, 4);
    /* Four used pages, two fresh ones. */
    assert_int_equal(teai_page_heap_alloc(f.ph, 6, &zeroed, &nfresh), 0);
    assert_false(zeroed);
    assert_int_equal(nfresh, 2);
    page_fixture_close(&f);
}

static void released_pages_are_zeroed_again(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed = false;
    open_full_size(&f, CHUNK);
    assert_int_equal(alloc(&f, 8), 0);
    for (uint32_t page = 0; page < 8; page++)
        *page_fixture_word(&f, page) = 1;
    teai_page_heap_free(f.ph, 2, 3);
    assert_int_equal(teai_page_heap_release(f.ph, UINT32_MAX), 3);
    struct teai_page_counts counts = teai_page_heap_counts(f.ph);
    assert_int_equal(counts.free_ready, 0);
    assert_int_equal(counts.free_released, CHUNK - 5);
    assert_int_equal(teai_page_heap_alloc(f.ph, 3, &zeroed, NULL), 2);
    assert_true(zeroed);
    for (uint32_t page = 0; page < 8; page++)
        assert_int_equal(*page_fixture_word(&f, page), page < 2 || page > 4);
    page_fixture_close(&f);
}

/* --- releasing --- */

static void write_all(struct page_fixture *f, uint32_t npages)
{
    for (uint32_t page = 0; page < npages; page++)
        *page_fixture_word(f, page) = 1;
}

static uint32_t lowest_released(struct page_fixture *f, uint32_t npages)
{
    for (uint32_t page = 0; page < npages; page++)
        if (*page_fixture_word(f, page) == 0)
            return page;
    return npages;
}

static void highest_pages_are_released_first(void **state)
{
    (void)state;
    struct page_fixture f;
    open_all_lent(&f, 3 * CHUNK);
    write_all(&f, 3 * CHUNK);
    teai_page_heap_free(f.ph, 0, 3 * CHUNK);
    assert_int_equal(teai_page_heap_release(f.ph, 1), 1);
    assert_int_equal(lowest_released(&f, 3 * CHUNK), 3 * CHUNK - 1);
    assert_int_equal(teai_page_heap_release(f.ph, 100), 100);
    assert_int_equal(lowest_released(&f, 3 * CHUNK), 3 * CHUNK - 101);
    assert_int_equal(teai_page_heap_release(f.ph, 2 * CHUNK), 2 * CHUNK);
    assert_int_equal(lowest_released(&f, 3 * CHUNK), CHUNK - 101);
    assert_int_equal(teai_page_heap_release(f.ph, UINT32_MAX), CHUNK - 101);
    assert_int_equal(teai_page_heap_release(f.ph, UINT32_MAX), 0);
    assert_int_equal(teai_page_heap_counts(f.ph).free_released, 3 * CHUNK);
    page_fixture_close(&f);
}

static void pages_in_use_are_never_released(void **state)
{
    (void)state;
    static const struct range lent[] = {{0, 3}, {60, 10}, {500, 30}, {0, 0}};
    struct page_fixture f;
    open_all_lent(&f, 2 * CHUNK);
    write_all(&f, 2 * CHUNK);
    teai_page_heap_free(f.ph, 3, 57);
    teai_page_heap_free(f.ph, 70, 430);
    teai_page_heap_free(f.ph, 530, 2 * CHUNK - 530);
    assert_int_equal(teai_page_heap_release(f.ph, UINT32_MAX), 2 * CHUNK - 43);
    const struct range *r = lent;
    for (uint32_t page = 0; page < 2 * CHUNK; page++) {
        if (r->npages > 0 && page >= r->first + r->npages)
            r++;
        bool in_use = page >= r->first && page < r->first + r->npages;
        assert_int_equal(*page_fixture_word(&f, page), in_use);
    }
    page_fixture_close(&f);
}

static void refused_pages_stay_dirty_and_are_passed_over(void **state)
{
    (void)state;
    struct page_fixture f;
    bool zeroed = true;
    open_all_lent(&f, CHUNK);
    write_all(&f, CHUNK);
    teai_page_heap_free(f.ph, 0, CHUNK);
    if (syscall(SYS_mlock, page_fixture_word(&f, 100), TEAI_PAGE_BYTES) != 0)
        skip();
    /* The block of 64 pages that holds page 100 is free in one run, which the kernel refuses as a
     * whole. */
    assert_int_equal(teai_page_heap_release(f.ph, UINT32_MAX), CHUNK - 64);
    assert_int_equal(teai_page_heap_counts(f.ph).free_ready, 64);
    assert_int_equal(teai_page_heap_alloc(f.ph, 65, &zeroed, NULL), 0);
    assert_false(zeroed);
    assert_int_equal(*page_fixture_word(&f, 100), 1);
    page_fixture_close(&f);
}

static void large_os_pages_are_released_whole(void **state)
{
    (void)state;
    struct page_fixture f;
    open_all_lent(&f, CHUNK);
    f.ph->release_unit_pages = 8;
    write_all(&f, CHUNK);
    teai_page_heap_free(f.ph, 3, 20); /* pages 8 to 22 hold one whole unit, 8 to 15 */
    assert_int_equal(teai_page_heap_release(f.ph, 7), 0);
    assert_int_equal(teai_page_heap_release(f.ph, UINT32_MAX), 8);
    assert_int_equal(lowest_released(&f, CHUNK), 8);
    struct teai_page_counts counts = teai_page_heap_counts(f.ph);
    assert_int_equal(counts.free_ready, 12);
    assert_int_equal(counts.free_released, 8);
    page_fixture_close(&f);
}

/* --- the page cache --- */

/* A cache with these free pages gives, to requests of this size, pages at these bits, then none. */
static const struct {
    uint64_t free_bits;
    uint32_t npages;
    int32_t bits[MAX_ROWS]; /* -1: the end */
} cache_cases[] = {
    {0, 1, {-1}},
    {1, 1, {0, -1}},
    {3, 2, {0, -1}},
    {UINT64_C(1) << 63, 1, {63, -1}},
    {UINT64_C(3) << 62, 2, {62, -1}},
    {UINT64_C(0x8421), 1, {0, 5, 10, 15, -1}},
    {UINT64_C(0x3333), 2, {0, 4, 8, 12, -1}},
    {UINT64_C(0x5555555555555555), 2, {-1}},
    {UINT64_C(0x1fffe) << 47, 16, {48, -1}},
    {UINT64_MAX, 16, {0, 16, 32, 48, -1}},
    {UINT64_MAX, 13, {0, 13, 26, 39, -1}},
    {UINT64_MAX & ~(UINT64_C(1) << 11), 10, {0, 12, 22, 32, 42, 52, -1}},
};

static void cache_lends_its_lowest_fit(void **state)
{
    (void)state;
    struct page_fixture f;
    open_all_lent(&f, CHUNK); /* so that what the cache does not have is nowhere */
    for (size_t i = 0; i < sizeof cache_cases / sizeof cache_cases[0]; i++) {
        struct teai_page_cache cache = {.base_page = 128, .free_bits = cache_cases[i].free_bits};
        bool zeroed;
        for (const int32_t *bit = cache_cases[i].bits; *bit >= 0; bit++)
            assert_int_equal(teai_page_cache_alloc(f.ph, &cache, cache_cases[i].npages, &zeroed),
                             128 + *bit);
        assert_int_equal(teai_page_cache_alloc(f.ph, &cache, cache_cases[i].npages, &zeroed),
                         TEAI_NO_PAGE);
    }
    page_fixture_close(&f);
}

static void cache_takes_all_free_pages_of_the_lowest_block(void **state)
{
    (void)state;
    static const struct range lent[] = {{0, 70}, {71, 9}, {100, 412}, {0, 0}};
    struct page_fixture f;
    struct teai_page_cache cache = {0};
    bool zeroed;
    open_lent(&f, CHUNK, lent);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 1, &zeroed), 70);
    assert_int_equal(cache.base_page, 64);
    assert_int_equal(cache.free_bits, UINT64_C(0xfffff) << 16);
    assert_int_equal(cache.released_bits, 0);
    struct teai_page_counts counts = teai_page_heap_counts(f.ph);
    assert_int_equal(counts.in_use, CHUNK);
    teai_page_cache_flush(f.ph, &cache);
    assert_int_equal(cache.free_bits, 0);
    static const struct range free_after[] = {{80, 20}, {0, 0}};
    assert_free_ranges(&f, free_after);
    page_fixture_close(&f);
}

static void cache_remembers_which_pages_are_zeroed(void **state)
{
    (void)state;
    struct page_fixture f;
    struct teai_page_cache cache = {0};
    bool zeroed;
    open_full_size(&f, CHUNK);
    assert_int_equal(alloc(&f, 4), 0);
    teai_page_heap_free(f.ph, 0, 4);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 3, &zeroed), 0);
    assert_false(zeroed);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 2, &zeroed), 3); /* one used, one fresh */
    assert_false(zeroed);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 2, &zeroed), 5);
    assert_true(zeroed);
    teai_page_cache_flush(f.ph, &cache);
    assert_int_equal(teai_page_heap_counts(f.ph).free_released, CHUNK - 7);
    page_fixture_close(&f);
}

static void what_the_cache_cannot_give_comes_from_the_heap(void **state)
{
    (void)state;
    struct page_fixture f;
    struct teai_page_cache cache = {0};
    bool zeroed;
    open_full_size(&f, CHUNK);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 17, &zeroed), 0);
    assert_int_equal(cache.free_bits, 0);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 1, &zeroed), 17);
    for (uint32_t page = 18; page < 50; page += 16)
        assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 16, &zeroed), page);
    /* 14 are left in the block. */
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 15, &zeroed), 64);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 14, &zeroed), 50);
    assert_int_equal(cache.free_bits, 0);
    teai_page_cache_flush(f.ph, &cache);
    page_fixture_close(&f);
}

static void cache_grows_the_heap_when_nothing_is_free(void **state)
{
    (void)state;
    struct page_fixture f;
    struct teai_page_cache cache = {0};
    bool zeroed = false;
    page_fixture_open(&f, CHUNK, 10);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 2, &zeroed), 0);
    assert_true(zeroed);
    assert_int_equal(cache.free_bits, 0x3fc); /* what the heap has of the block, and no more */
    f.growth_fails = true;
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 8, &zeroed), 2);
    assert_int_equal(teai_page_cache_alloc(f.ph, &cache, 1, &zeroed), TEAI_NO_PAGE);
    teai_page_cache_flush(f.ph, &cache);
    page_fixture_close(&f);
}

/* --- what must not go unnoticed --- */

static struct page_fixture broken;

static void free_twice(void)
{
    teai_page_heap_free(broken.ph, 10, 2);
}

static void free_beyond_the_end(void)
{
    teai_page_heap_free(broken.ph, CHUNK - 1, 2);
}

static void flush_pages_never_taken(void)
{
    struct teai_page_cache cache = {0, UINT64_C(1) << 10, 0};
    teai_page_cache_flush(broken.ph, &cache);
}

static void break_leaf(void)
{
    broken.ph->tree.levels[0][0].longest--;
    teai_verify_page_heap(broken.ph);
}

static void break_top(void)
{
    broken.ph->tree.levels[broken.ph->tree.nlevels - 1][0].end++;
    teai_verify_page_heap(broken.ph);
}

static void break_fence(void)
{
    teai_bits_clear(broken.ph->in_use, broken.ph->limit, 1);
    teai_verify_page_heap(broken.ph);
}

static void break_hint(void)
{
    broken.ph->hint = 11;
    teai_verify_page_heap(broken.ph);
}

static void break_counts(void)
{
    broken.ph->free_ready_pages++;
    teai_verify_page_heap(broken.ph);
}

static void break_dirty(void)
{
    teai_bits_clear(broken.ph->dirty, 0, 1);
    teai_verify_page_heap(broken.ph);
}

static bool aborts(void (*fn)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        fn();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void verify_only(void)
{
    teai_verify_page_heap(broken.ph);
}

static void misuse_and_corruption_abort(void **state)
{
    (void)state;
    bool zeroed;
    page_fixture_open(&broken, 100 * CHUNK, 1);
    assert_int_equal(teai_page_heap_alloc(broken.ph, 100, &zeroed, NULL), 0);
    teai_page_heap_free(broken.ph, 10, 2);
    assert_false(aborts(verify_only));
    assert_true(aborts(free_twice));
    assert_true(aborts(free_beyond_the_end));
    assert_true(aborts(flush_pages_never_taken));
    assert_true(aborts(break_leaf));
    assert_true(aborts(break_top));
    assert_true(aborts(break_fence));
    assert_true(aborts(break_hint));
    assert_true(aborts(break_counts));
    assert_true(aborts(break_dirty));
    page_fixture_close(&broken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_placed_at_the_lowest_fit),
        cmocka_unit_test(requests_of_one_size_fill_the_heap_upwards_and_then_fail),
        cmocka_unit_test(whole_heap_can_be_lent_again_and_again),
        cmocka_unit_test(aligned_runs_are_placed_at_the_lowest_aligned_fit),
        cmocka_unit_test(no_grow_takes_free_pages_only),
        cmocka_unit_test(exactly_what_is_freed_is_free),
        cmocka_unit_test(growth_completes_the_free_pages_at_the_end),
        cmocka_unit_test(growth_may_make_more_ready_than_asked),
        cmocka_unit_test(heap_never_grows_beyond_its_maximum),
        cmocka_unit_test(failed_growth_changes_nothing),
        cmocka_unit_test(aligned_growth_leaves_no_more_than_alignment_asks),
        cmocka_unit_test(limit_is_above_all_pages_ever_lent),
        cmocka_unit_test(run_is_extended_over_free_pages_behind_it),
        cmocka_unit_test(run_is_not_extended_over_a_page_in_use),
        cmocka_unit_test(run_at_the_end_is_extended_by_growing),
        cmocka_unit_test(pages_are_zeroed_until_they_are_lent),
        cmocka_unit_test(released_pages_are_zeroed_again),
        cmocka_unit_test(highest_pages_are_released_first),
        cmocka_unit_test(pages_in_use_are_never_released),
        cmocka_unit_test(refused_pages_stay_dirty_and_are_passed_over),
        cmocka_unit_test(large_os_pages_are_released_whole),
        cmocka_unit_test(cache_lends_its_lowest_fit),
        cmocka_unit_test(cache_takes_all_free_pages_of_the_lowest_block),
        cmocka_unit_test(cache_remembers_which_pages_are_zeroed),
        cmocka_unit_test(what_the_cache_cannot_give_comes_from_the_heap),
        cmocka_unit_test(cache_grows_the_heap_when_nothing_is_free),
        cmocka_unit_test(misuse_and_corruption_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
