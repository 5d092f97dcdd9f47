/* gc/page_cache.c -- the free pages of a block of 64, lent by their thread without a lock.
 *
 * Most spans are a page or two. Taking every free page of the block that holds the lowest free page
 * costs the page heap's lock once for up to 64 of them, and keeps lowest fit nearly true. The heap
 * counts such pages as in use; only the cache knows which of them are clean, so it must be flushed
 * before they can be released.
 *
 * Callers. The thread that owns the cache, or the one that stopped it.
 * Source. Go runtime, mpagecache.go.
 */
#include "gc/page_heap_state.h"

enum { CACHE_MAX_RUN_PAGES = 16 };

static bool cache_refill(struct teai_page_heap *ph, struct teai_page_cache *cache)
{
    teai_lock_acquire(&ph->lock);
    uint32_t page = teai_page_heap_find_or_grow_locked(ph, 1, 1);
    if (page != TEAI_NO_PAGE) {
        uint32_t word = page / 64;
        cache->base_page = word * 64;
        cache->free_bits = ~ph->in_use[word];
        cache->released_bits = teai_page_heap_take_word_locked(ph, word, cache->free_bits);
    }
    teai_lock_release(&ph->lock);
    return page != TEAI_NO_PAGE;
}

/* Lend the run of `npages` that begins at `bit`. */
static uint32_t cache_lend(struct teai_page_cache *cache, uint32_t bit, uint32_t npages,
                           bool *zeroed_out)
{
    uint64_t run = teai_low_bits(npages) << bit;
    *zeroed_out = (cache->released_bits & run) == run;
    cache->free_bits &= ~run;
    cache->released_bits &= ~run;
    return cache->base_page + bit;
}

uint32_t teai_page_cache_alloc(struct teai_page_heap *ph, struct teai_page_cache *cache,
                               uint32_t npages, bool *zeroed_out)
{
    TEAI_ASSERT(npages > 0);
    if (npages > CACHE_MAX_RUN_PAGES)
        return teai_page_heap_alloc(ph, npages, zeroed_out, NULL);
    if (cache->free_bits == 0 && !cache_refill(ph, cache))
        return TEAI_NO_PAGE;
    uint64_t fits = teai_bits_erode(cache->free_bits, npages);
    if (fits == 0)
        return teai_page_heap_alloc(ph, npages, zeroed_out, NULL);
    return cache_lend(cache, (uint32_t)__builtin_ctzll(fits), npages, zeroed_out);
}

void teai_page_cache_flush(struct teai_page_heap *ph, struct teai_page_cache *cache)
{
    if (cache->free_bits == 0)
        return;
    teai_lock_acquire(&ph->lock);
    teai_page_heap_give_word_locked(ph, cache->base_page / 64, cache->free_bits,
                                    cache->released_bits);
    teai_lock_release(&ph->lock);
    *cache = (struct teai_page_cache){0};
}
