/* gc/page_heap_verify.c -- check the page heap's invariants, one page at a time.
 *
 * Slow and obvious on purpose: nothing here uses the bit tricks that it checks. The invariants are
 * those of gc/page_heap_state.h.
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

static bool page_is_free(const struct teai_page_heap *ph, uint32_t page)
{
    return page < ph->limit && !bit_is_set(ph->in_use, page);
}

static uint32_t max_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Runs of free pages in [first, first + npages), which may reach beyond the heap. */
static struct teai_free_runs slow_runs(const struct teai_page_heap *ph, uint32_t first,
                                       uint32_t npages)
{
    struct teai_free_runs runs = {0, 0, 0};
    for (uint32_t i = 0; i < npages && first + i <= ph->limit; i++) {
        runs.end = page_is_free(ph, first + i) ? runs.end + 1 : 0;
        runs.longest = max_of(runs.longest, runs.end);
        if (runs.end == i + 1)
            runs.start = runs.end;
    }
    return runs;
}

/* P2, and P1 for the entries of the last node that are behind the heap's end. */
static void verify_level(const struct teai_page_heap *ph, uint32_t level)
{
    const uint32_t entry_pages = (uint32_t)TEAI_CHUNK_PAGES << (level * TEAI_SUMMARY_FANOUT_SHIFT);
    const uint32_t node_pages = entry_pages * TEAI_SUMMARY_FANOUT;
    for (uint32_t first = 0; first < ph->limit || first % node_pages != 0; first += entry_pages) {
        struct teai_free_runs entry = ph->tree.levels[level][first / entry_pages];
        struct teai_free_runs should_be = slow_runs(ph, first, entry_pages);
        TEAI_CHECK(entry.start == should_be.start);
        TEAI_CHECK(entry.longest == should_be.longest);
        TEAI_CHECK(entry.end == should_be.end);
    }
}

/* P3 */
static void verify_hint(const struct teai_page_heap *ph)
{
    TEAI_CHECK(ph->hint <= ph->limit);
    for (uint32_t page = 0; page < ph->hint; page++)
        TEAI_CHECK(!page_is_free(ph, page));
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
    for (uint32_t level = 0; level < ph->tree.nlevels; level++)
        verify_level(ph, level);
    verify_hint(ph);
    verify_pages(ph);
    teai_lock_release(&ph->lock);
}
