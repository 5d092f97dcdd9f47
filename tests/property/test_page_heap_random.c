/* tests/property/test_page_heap_random.c -- random operations on the page heap and on a twin.
 *
 * The slow, obvious twin is one byte a page and searches from page 0. Every answer must be the
 * same: addresses, what is known to be zero, counts, what growth was asked for, how much was
 * released. Memory is checked too: a run said to be zero is read.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/page_fixture.h"
#include "tests/support/random.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 4096, NCACHES = 3, CACHE_MAX_RUN_PAGES = 16, CACHE_BLOCK_PAGES = 64 };

enum { TWIN_FREE, TWIN_IN_USE, TWIN_CACHED /* plus the number of the cache */ };

struct twin_page {
    uint8_t use;
    bool dirty;
};

struct run {
    uint32_t first, npages;
};

struct world {
    struct page_fixture fixture;
    struct teai_page_cache caches[NCACHES];
    struct test_random random;
    bool touch_memory;
    /* The twin. */
    struct twin_page *pages;
    uint32_t limit, used_limit, ngrowths;
    uint32_t cache_base[NCACHES];
    /* What is lent. */
    struct run runs[MAX_RUNS];
    uint32_t nruns;
    /* That the test does not see easy cases only. */
    uint32_t nzeroed, ndirty, nrefused, nextended, nreleased, ncached;
};

/* --- the twin --- */

static bool twin_is_free(const struct world *w, uint32_t first, uint32_t npages)
{
    for (uint32_t i = 0; i < npages; i++)
        if (first + i >= w->limit || w->pages[first + i].use != TWIN_FREE)
            return false;
    return true;
}

static uint32_t twin_ndirty(const struct world *w, uint32_t first, uint32_t npages)
{
    uint32_t ndirty = 0;
    for (uint32_t i = 0; i < npages; i++)
        ndirty += w->pages[first + i].dirty;
    return ndirty;
}

static void twin_use(struct world *w, uint32_t page, uint32_t use)
{
    w->pages[page].use = (uint8_t)use;
    if (page >= w->used_limit)
        w->used_limit = page + 1;
}

static uint32_t twin_find(const struct world *w, uint32_t npages, uint32_t align_pages)
{
    uint32_t run = 0;
    for (uint32_t page = 0; page < w->limit; page++) {
        bool may_begin = run > 0 || page % align_pages == 0;
        run = w->pages[page].use == TWIN_FREE && may_begin ? run + 1 : 0;
        if (run == npages)
            return page + 1 - npages;
    }
    return TEAI_NO_PAGE;
}

static bool twin_grow_to(struct world *w, uint32_t npages)
{
    if (npages > w->fixture.max_pages)
        return false;
    w->ngrowths++;
    if (!w->fixture.growth_fails)
        w->limit = page_fixture_growth(&w->fixture, npages);
    return !w->fixture.growth_fails;
}

static uint32_t twin_find_or_grow(struct world *w, uint32_t npages, uint32_t align_pages)
{
    uint32_t found = twin_find(w, npages, align_pages);
    if (found != TEAI_NO_PAGE)
        return found;
    uint32_t tail = w->limit;
    while (tail > 0 && w->pages[tail - 1].use == TWIN_FREE)
        tail--;
    uint32_t first = (tail + align_pages - 1) / align_pages * align_pages;
    return twin_grow_to(w, first + npages) ? first : TEAI_NO_PAGE;
}

static uint32_t twin_find_cached(const struct world *w, uint32_t cache, uint32_t npages)
{
    uint32_t run = 0;
    for (uint32_t page = w->cache_base[cache];
         page < w->cache_base[cache] + CACHE_BLOCK_PAGES && page < w->limit; page++) {
        run = w->pages[page].use == TWIN_CACHED + cache ? run + 1 : 0;
        if (run == npages)
            return page + 1 - npages;
    }
    return TEAI_NO_PAGE;
}

static void twin_cache_refill(struct world *w, uint32_t cache, uint32_t page)
{
    uint32_t base = page / CACHE_BLOCK_PAGES * CACHE_BLOCK_PAGES;
    w->cache_base[cache] = base;
    for (uint32_t i = base; i < base + CACHE_BLOCK_PAGES && i < w->limit; i++)
        if (w->pages[i].use == TWIN_FREE)
            twin_use(w, i, TWIN_CACHED + cache);
}

static uint32_t twin_cache_alloc(struct world *w, uint32_t cache, uint32_t npages)
{
    if (npages > CACHE_MAX_RUN_PAGES)
        return twin_find_or_grow(w, npages, 1);
    if (twin_find_cached(w, cache, 1) == TEAI_NO_PAGE) {
        uint32_t page = twin_find_or_grow(w, 1, 1);
        if (page == TEAI_NO_PAGE)
            return page;
        twin_cache_refill(w, cache, page);
    }
    uint32_t found = twin_find_cached(w, cache, npages);
    w->ncached += found != TEAI_NO_PAGE;
    return found != TEAI_NO_PAGE ? found : twin_find_or_grow(w, npages, 1);
}

/* From the top, one unit at a time. */
static uint32_t twin_release(struct world *w, uint32_t max_pages)
{
    uint32_t unit = w->fixture.ph->release_unit_pages, nreleased = 0;
    for (uint32_t first = w->limit / unit * unit; first > 0 && max_pages - nreleased >= unit;) {
        first -= unit;
        if (!twin_is_free(w, first, unit) || twin_ndirty(w, first, unit) == 0)
            continue;
        for (uint32_t i = 0; i < unit; i++)
            w->pages[first + i].dirty = false;
        if (first + unit > w->used_limit)
            w->used_limit = first + unit; /* the heap had all of the OS page in hand */
        nreleased += unit;
    }
    return nreleased;
}

static struct teai_page_counts twin_counts(const struct world *w)
{
    struct teai_page_counts counts = {0, 0, 0};
    for (uint32_t page = 0; page < w->limit; page++) {
        bool is_free = w->pages[page].use == TWIN_FREE;
        counts.in_use += !is_free;
        counts.free_ready += is_free && w->pages[page].dirty;
        counts.free_released += is_free && !w->pages[page].dirty;
    }
    return counts;
}

/* --- one operation on both --- */

/* [first, first + npages) is lent now: both must agree on what it holds. */
static void lend(struct world *w, uint32_t first, uint32_t npages, bool zeroed)
{
    assert_int_equal(zeroed, twin_ndirty(w, first, npages) == 0);
    w->nzeroed += zeroed;
    w->ndirty += !zeroed;
    for (uint32_t page = first; page < first + npages; page++) {
        if (w->touch_memory && zeroed)
            assert_int_equal(*page_fixture_word(&w->fixture, page), 0);
        if (w->touch_memory)
            *page_fixture_word(&w->fixture, page) = page + 1;
        twin_use(w, page, TWIN_IN_USE);
        w->pages[page].dirty = true;
    }
}

static void expect_run(struct world *w, uint32_t page, uint32_t twin_page, uint32_t npages,
                       bool zeroed)
{
    assert_int_equal(page, twin_page);
    if (page == TEAI_NO_PAGE) {
        w->nrefused++;
        return;
    }
    lend(w, page, npages, zeroed);
    w->runs[w->nruns++] = (struct run){page, npages};
}

static uint32_t some_npages(struct world *w)
{
    uint32_t most = w->fixture.max_pages / 3 + 2;
    return test_random_skewed(&w->random, most);
}

static void do_alloc(struct world *w)
{
    uint32_t npages = some_npages(w), nfresh = 0;
    bool zeroed = false;
    uint32_t page = teai_page_heap_alloc(w->fixture.ph, npages, &zeroed, &nfresh);
    uint32_t twin = twin_find_or_grow(w, npages, 1);
    if (twin != TEAI_NO_PAGE)
        assert_int_equal(nfresh, npages - twin_ndirty(w, twin, npages));
    expect_run(w, page, twin, npages, zeroed);
}

static void do_alloc_aligned(struct world *w)
{
    uint32_t npages = some_npages(w), align = 1u << test_random_below(&w->random, 8);
    bool zeroed = false;
    uint32_t page = teai_page_heap_alloc_aligned(w->fixture.ph, npages, align, &zeroed);
    expect_run(w, page, twin_find_or_grow(w, npages, align), npages, zeroed);
}

static void do_alloc_no_grow(struct world *w)
{
    uint32_t npages = some_npages(w);
    bool zeroed = false;
    uint32_t page = teai_page_heap_alloc_no_grow(w->fixture.ph, npages, &zeroed);
    expect_run(w, page, twin_find(w, npages, 1), npages, zeroed);
}

static void do_cache_alloc(struct world *w)
{
    uint32_t cache = test_random_below(&w->random, NCACHES);
    uint32_t npages = test_random_skewed(&w->random, CACHE_MAX_RUN_PAGES + 1);
    bool zeroed = false;
    uint32_t page = teai_page_cache_alloc(w->fixture.ph, &w->caches[cache], npages, &zeroed);
    expect_run(w, page, twin_cache_alloc(w, cache, npages), npages, zeroed);
}

static void do_cache_flush(struct world *w)
{
    uint32_t cache = test_random_below(&w->random, NCACHES);
    teai_page_cache_flush(w->fixture.ph, &w->caches[cache]);
    for (uint32_t page = 0; page < w->limit; page++)
        if (w->pages[page].use == TWIN_CACHED + cache)
            w->pages[page].use = TWIN_FREE;
}

static bool twin_extend(struct world *w, uint32_t first, uint32_t nmore)
{
    uint32_t limit = first + nmore;
    uint32_t present = limit < w->limit ? limit : w->limit;
    return twin_is_free(w, first, present - first) && (limit <= w->limit || twin_grow_to(w, limit));
}

static void do_extend(struct world *w)
{
    if (w->nruns == 0)
        return;
    struct run *run = &w->runs[test_random_below(&w->random, w->nruns)];
    uint32_t nmore = some_npages(w), first_more = run->first + run->npages;
    bool zeroed = false;
    bool extended = teai_page_heap_extend(w->fixture.ph, run->first, run->npages, nmore, &zeroed);
    assert_int_equal(extended, twin_extend(w, first_more, nmore));
    if (!extended)
        return;
    lend(w, first_more, nmore, zeroed);
    run->npages += nmore;
    w->nextended++;
}

/* Free a run, or only its beginning or its end. */
static void do_free(struct world *w)
{
    if (w->nruns == 0)
        return;
    uint32_t i = test_random_below(&w->random, w->nruns);
    struct run *run = &w->runs[i], freed = *run;
    uint32_t nkept =
        test_random_below(&w->random, 4) == 0 ? test_random_below(&w->random, run->npages) : 0;
    freed.npages -= nkept;
    run->npages = nkept;
    if (test_random_below(&w->random, 2) == 0)
        freed.first += nkept;
    else
        run->first += freed.npages;
    teai_page_heap_free(w->fixture.ph, freed.first, freed.npages);
    for (uint32_t page = 0; page < freed.npages; page++)
        w->pages[freed.first + page].use = TWIN_FREE;
    if (nkept == 0)
        w->runs[i] = w->runs[--w->nruns];
}

static void do_release(struct world *w)
{
    uint32_t max_pages = test_random_below(&w->random, 3) == 0 ? UINT32_MAX : some_npages(w);
    uint32_t nreleased = teai_page_heap_release(w->fixture.ph, max_pages);
    assert_int_equal(nreleased, twin_release(w, max_pages));
    w->nreleased += nreleased;
}

static void compare(const struct world *w)
{
    struct teai_page_counts counts = teai_page_heap_counts(w->fixture.ph), twin = twin_counts(w);
    assert_int_equal(counts.in_use, twin.in_use);
    assert_int_equal(counts.free_ready, twin.free_ready);
    assert_int_equal(counts.free_released, twin.free_released);
    assert_int_equal(w->fixture.ready_pages, w->limit);
    assert_int_equal(w->fixture.ngrowths, w->ngrowths);
    assert_int_equal(teai_page_heap_limit(w->fixture.ph), w->used_limit);
}

/* --- many operations --- */

/* Out of 100; in turn the heap fills up and empties. */
static const struct {
    void (*operation)(struct world *w);
    uint32_t weight_filling, weight_emptying;
} operations[] = {
    {do_alloc, 20, 8},        {do_alloc_aligned, 8, 3}, {do_alloc_no_grow, 10, 5},
    {do_cache_alloc, 30, 14}, {do_cache_flush, 2, 4},   {do_extend, 10, 5},
    {do_free, 17, 55},        {do_release, 3, 6},
};

static void do_something(struct world *w, bool filling)
{
    uint32_t draw = test_random_below(&w->random, 100);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        uint32_t weight = filling ? operations[i].weight_filling : operations[i].weight_emptying;
        if (draw < weight) {
            operations[i].operation(w);
            return;
        }
        draw -= weight;
    }
}

/* A heap of at most `max_pages`, from its first page on. */
static void run_world(struct world *w, uint32_t max_pages, uint32_t step_pages, uint32_t unit_pages,
                      uint32_t noperations)
{
    struct test_random random = w->random;
    memset(w, 0, sizeof *w);
    w->random = random;
    w->touch_memory = max_pages < 10000;
    page_fixture_open(&w->fixture, max_pages, step_pages);
    w->fixture.ph->release_unit_pages = unit_pages;
    w->pages = calloc(max_pages, sizeof w->pages[0]);
    assert_non_null(w->pages);
    for (uint32_t i = 0; i < noperations; i++) {
        if (i % 64 == 0)
            w->fixture.growth_fails = test_random_below(&w->random, 4) == 0;
        bool filling = i / 256 % 2 == 0 && w->nruns < MAX_RUNS;
        do_something(w, filling);
        compare(w);
        if (i % 32 == 0)
            teai_verify_page_heap(w->fixture.ph);
    }
    page_fixture_close(&w->fixture);
    free(w->pages);
}

static struct world world;

static void heap_agrees_with_its_twin(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 63, 64, 65, 100, 511, 512, 513, 1024, 4096, 4097, 9000};
    world.random = test_random_start(__func__);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t step = 1; step <= 1000; step = step * 10 - 1 + step / 10)
            run_world(&world, sizes[i], step, 1, 1500);
    assert_true(world.nzeroed > 0 && world.ndirty > 0 && world.nrefused > 0);
    assert_true(world.nextended > 0 && world.nreleased > 0 && world.ncached > 0);
}

static void heap_under_larger_os_pages_agrees_with_its_twin(void **state)
{
    (void)state;
    world.random = test_random_start(__func__);
    for (uint32_t unit = 2; unit <= 64; unit *= 2)
        run_world(&world, 3000, 64, unit, 3000);
}

/* Its tree has five levels. */
static void large_heap_agrees_with_its_twin(void **state)
{
    (void)state;
    world.random = test_random_start(__func__);
    run_world(&world, 600000, 2048, 1, 600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_agrees_with_its_twin),
        cmocka_unit_test(heap_under_larger_os_pages_agrees_with_its_twin),
        cmocka_unit_test(large_heap_agrees_with_its_twin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
