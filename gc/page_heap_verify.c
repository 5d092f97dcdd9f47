/* gc/page_heap_verify.c -- check every invariant of the page heap, one page at a time (gc/page_heap_state.h).
 *
 * Slow and obvious on purpose: nothing here uses the bit tricks that it checks.
 */
#include "gc/page_heap_state.h"

static bool bit_is_set(const uint64_t *words, uint32_t page)
{
    return (words[page / 64] >> page % 64 & 1) != 0;
}

/* P1 */
static void verify_fence(const struct teai_page_heap *ph)
{
    for (uint32_t page = ph->limit; page % TEAI_CHUNK_PAGES != 0; page++)
        TEAI_CHECK(bit_is_set(ph->in_use, page));
}

static uint32_t max_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Runs of free pages in [first, first + npages), which may reach beyond the heap. */
static struct teai_free_runs slow_runs(const struct teai_page_heap *ph, uint32_t first, uint32_t npages)
{
    struct teai_free_runs runs = {0, 0, 0};
    for (uint32_t i = 0; i < npages; i++) {
        bool is_free = first + i < ph->limit && !bit_is_set(ph->in_use, first + i);
        runs.end = is_free ? runs.end + 1 : 0;
        runs.longest = max_of(runs.longest, runs.end);
        if (runs.end == i + 1)
            runs.start = runs.end;
    }
    return runs;
}

static void verify_entry(struct teai_free_runs is, struct teai_free_runs should_be)
{
    TEAI_CHECK(is.start == should_be.start);
    TEAI_CHECK(is.longest == should_be.longest);
    TEAI_CHECK(is.end == should_be.end);
}

/* P2: entries over the heap's pages, and on each level the entry right behind them (P1: nothing free there). */
static void verify_summaries(const struct teai_page_heap *ph)
{
    uint32_t nentries = (ph->limit + TEAI_CHUNK_PAGES - 1) / TEAI_CHUNK_PAGES;
    for (uint32_t i = 0; i < nentries; i++)
        verify_entry(ph->tree.levels[0][i], slow_runs(ph, i * TEAI_CHUNK_PAGES, TEAI_CHUNK_PAGES));
    for (uint32_t level = 0; level < ph->tree.nlevels; level++) {
        if (nentries % TEAI_SUMMARY_FANOUT != 0)
            verify_entry(ph->tree.levels[level][nentries], (struct teai_free_runs){0, 0, 0});
        nentries = (nentries + TEAI_SUMMARY_FANOUT - 1) / TEAI_SUMMARY_FANOUT;
        for (uint32_t i = 0; level + 1 < ph->tree.nlevels && i < nentries; i++)
            verify_entry(ph->tree.levels[level + 1][i], teai_summary_of_node(&ph->tree, level + 1, i));
    }
    uint32_t top = ph->tree.nlevels - 1;
    TEAI_CHECK(ph->tree.levels[top][0].longest == slow_runs(ph, 0, ph->limit).longest);
}

/* P3 */
static void verify_hint(const struct teai_page_heap *ph)
{
    TEAI_CHECK(ph->hint <= ph->limit);
    for (uint32_t page = 0; page < ph->hint; page++)
        TEAI_CHECK(bit_is_set(ph->in_use, page));
}

/* P4, P5 (its second half), P6 */
static void verify_pages(const struct teai_page_heap *ph)
{
    struct teai_page_counts seen = {0, 0, 0};
    for (uint32_t page = 0; page < ph->limit; page++) {
        bool in_use = bit_is_set(ph->in_use, page), dirty = bit_is_set(ph->dirty, page);
        TEAI_CHECK(dirty || !in_use);
        TEAI_CHECK(page < teai_page_heap_limit(ph) || !dirty);
        seen.in_use += in_use;
        seen.free_ready += !in_use && dirty;
        seen.free_released += !in_use && !dirty;
    }
    struct teai_page_counts counts = teai_page_heap_counts(ph);
    TEAI_CHECK(counts.in_use == seen.in_use);
    TEAI_CHECK(counts.free_ready == seen.free_ready);
    TEAI_CHECK(counts.free_released == seen.free_released);
}

void teai_verify_page_heap(struct teai_page_heap *ph)
{
    teai_lock_acquire(&ph->lock);
    TEAI_CHECK(ph->limit <= ph->max_pages && teai_page_heap_limit(ph) <= ph->limit);
    verify_fence(ph);
    verify_summaries(ph);
    verify_hint(ph);
    verify_pages(ph);
    teai_lock_release(&ph->lock);
}
