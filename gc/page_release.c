/* gc/page_release.c -- give free pages back to the OS without keeping anybody from allocating.
 *
 * From the highest chunk down, and from the highest page of each, because lowest-fit allocation
 * wants those last. The free, dirty pages of a block of 64 are taken at once, the lock dropped for
 * the system calls, and the pages given back, now clean: whoever wants exactly these pages waits
 * for 512 KiB at most, some 25 us.
 *
 * Where OS pages are larger than ours, only OS pages that are free as a whole can go, and they go
 * as a whole if any page of theirs is dirty.
 *
 * The kernel may refuse (memory that the program has locked): such pages stay dirty until a later
 * call.
 */
#include "gc/page_heap_state.h"

/* The first bits of those aligned units that are all ones. */
static uint64_t units_full(uint64_t bits, uint32_t unit)
{
    return teai_bits_erode(bits, unit) & UINT64_MAX / teai_low_bits(unit);
}

/* Whole units from their first bits: no two overlap, so nothing carries. */
static uint64_t units_fill(uint64_t firsts, uint32_t unit)
{
    return firsts * teai_low_bits(unit);
}

/* Of the 64 pages of a word, those in units that are free and not all clean. */
static uint64_t release_candidates(const struct teai_page_heap *ph, uint32_t word)
{
    uint32_t unit = ph->release_unit_pages;
    uint64_t free_units = units_full(~ph->in_use[word], unit);
    uint64_t clean_units = units_full(~ph->dirty[word], unit);
    return units_fill(free_units & ~clean_units, unit);
}

static uint64_t highest_bits(uint64_t bits, uint32_t n)
{
    while ((uint32_t)__builtin_popcountll(bits) > n)
        bits &= bits - 1;
    return bits;
}

/* The run of ones that ends at the highest one. */
static uint64_t highest_run(uint64_t bits)
{
    uint32_t nzeroes = (uint32_t)__builtin_clzll(bits);
    uint64_t at_top = bits << nzeroes;
    uint32_t nones = at_top == UINT64_MAX ? 64 : (uint32_t)__builtin_clzll(~at_top);
    return teai_low_bits(nones) << (64 - nzeroes - nones);
}

/* The system calls. Which of `pages` the kernel took. */
static uint64_t release_runs(const struct teai_page_heap *ph, uint32_t word, uint64_t pages)
{
    uint64_t released = 0;
    for (uint64_t rest = pages, run; rest != 0; rest &= ~run) {
        run = highest_run(rest);
        size_t first_page = (size_t)word * 64 + (size_t)__builtin_ctzll(run);
        size_t bytes = (size_t)__builtin_popcountll(run) << TEAI_PAGE_SHIFT;
        if (teai_platform_release(ph->heap_base + (first_page << TEAI_PAGE_SHIFT), bytes) == 0)
            released |= run;
    }
    return released;
}

/* Release `pages` of a word, dropping the lock meanwhile; how many the kernel took. */
static uint32_t release_word_locked(struct teai_page_heap *ph, uint32_t word, uint64_t pages)
{
    teai_page_heap_take_word_locked(ph, word, pages);
    ph->nreleases++;
    teai_lock_release(&ph->lock);
    uint64_t released = release_runs(ph, word, pages);
    teai_lock_acquire(&ph->lock);
    ph->nreleases--;
    teai_page_heap_give_word_locked(ph, word, pages, released);
    return (uint32_t)__builtin_popcountll(released);
}

static uint32_t release_chunk_locked(struct teai_page_heap *ph, uint32_t chunk, uint32_t max_pages)
{
    uint32_t nreleased = 0;
    for (uint32_t w = TEAI_CHUNK_WORDS; w-- > 0;) {
        uint32_t word = chunk * TEAI_CHUNK_WORDS + w;
        uint64_t pages = highest_bits(release_candidates(ph, word), max_pages - nreleased);
        if (pages != 0)
            nreleased += release_word_locked(ph, word, pages);
    }
    return nreleased;
}

uint32_t teai_page_heap_release(struct teai_page_heap *ph, uint32_t max_pages)
{
    uint32_t nchunks = (teai_page_heap_limit(ph) + TEAI_CHUNK_PAGES - 1) / TEAI_CHUNK_PAGES;
    uint32_t nreleased = 0;
    while (nchunks > 0 && max_pages - nreleased >= ph->release_unit_pages) {
        uint32_t room = (max_pages - nreleased) / ph->release_unit_pages * ph->release_unit_pages;
        teai_lock_acquire(&ph->lock);
        nreleased += release_chunk_locked(ph, --nchunks, room);
        teai_lock_release(&ph->lock);
    }
    return nreleased;
}
