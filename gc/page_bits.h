/* gc/page_bits.h -- bitmaps with a bit a page: ranges, and runs of clear bits in a chunk.
 *
 * A bitmap is an array of words for the whole heap; bit page % 64 of word page / 64 stands for
 * `page`. The functions on runs look at one chunk, TEAI_CHUNK_WORDS words: a cache line of a
 * bitmap.
 *
 * Callers hold the lock that guards the bitmap. tests/unit/test_page_bits.c compares each function
 * with a loop over single bits.
 *
 * Source. Erosion by doubling shifts: Warren, Hacker's Delight, 6-3, as Go's page allocator uses
 * it.
 */
#ifndef TEAI_PAGE_BITS_H
#define TEAI_PAGE_BITS_H

#include "gc/page_heap.h"

enum { TEAI_CHUNK_WORDS = TEAI_CHUNK_PAGES / 64 };
_Static_assert(TEAI_CHUNK_PAGES % 64 == 0, "a chunk is whole words");

/* Free pages of a chunk, or of neighbouring chunks: at the start, in the longest run, at the
 * end. */
struct teai_free_runs {
    uint32_t start;
    uint32_t longest;
    uint32_t end;
};

/* The lowest n bits, n from 0 to 64. */
TEAI_INLINE uint64_t teai_low_bits(uint32_t n)
{
    return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

/* --- ranges: [first, first + n) --- */

/* The bits of the range that lie in the word of `first`; *n_out says how many they are. */
TEAI_INLINE uint64_t teai_bits_head(uint32_t first, uint32_t n, uint32_t *n_out)
{
    uint32_t bit = first % 64;
    *n_out = n < 64 - bit ? n : 64 - bit;
    return teai_low_bits(*n_out) << bit;
}

static inline void teai_bits_set(uint64_t *words, uint32_t first, uint32_t n)
{
    for (uint32_t taken; n > 0; first += taken, n -= taken) {
        uint64_t mask = teai_bits_head(first, n, &taken);
        words[first / 64] |= mask;
    }
}

static inline void teai_bits_clear(uint64_t *words, uint32_t first, uint32_t n)
{
    for (uint32_t taken; n > 0; first += taken, n -= taken) {
        uint64_t mask = teai_bits_head(first, n, &taken);
        words[first / 64] &= ~mask;
    }
}

/* How many bits of the range are set. */
static inline uint32_t teai_bits_count(const uint64_t *words, uint32_t first, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t taken; n > 0; first += taken, n -= taken) {
        uint64_t mask = teai_bits_head(first, n, &taken);
        count += (uint32_t)__builtin_popcountll(words[first / 64] & mask);
    }
    return count;
}

/* --- runs --- */

/* Bit i of the result: bits i to i + n - 1 are all set. n from 1 to 64. */
TEAI_INLINE uint64_t teai_bits_erode(uint64_t bits, uint32_t n)
{
    uint32_t covered = 1;
    for (; covered <= n / 2; covered *= 2)
        bits &= bits >> covered;
    return bits & bits >> (n - covered);
}

/* The first of `n` clear bits in a row, at or after bit `from` of a chunk; TEAI_CHUNK_PAGES if
 * there are none. */
static inline uint32_t teai_chunk_find_clear(const uint64_t *words, uint32_t from, uint32_t n)
{
    uint32_t run = 0; /* clear bits at the end of the words before */
    for (uint32_t w = from / 64; w < TEAI_CHUNK_WORDS; w++) {
        uint64_t set = words[w] | (w == from / 64 ? teai_low_bits(from % 64) : 0);
        uint32_t nlow = set != 0 ? (uint32_t)__builtin_ctzll(set) : 64;
        if (run + nlow >= n)
            return w * 64 - run;
        uint64_t fits = n <= 64 ? teai_bits_erode(~set, n) : 0;
        if (fits != 0)
            return w * 64 + (uint32_t)__builtin_ctzll(fits);
        run = set != 0 ? (uint32_t)__builtin_clzll(set) : run + 64;
    }
    return TEAI_CHUNK_PAGES;
}

/* The longest run of set bits in `bits`, or `at_least` if there is no longer one. */
TEAI_INLINE uint32_t teai_bits_longest(uint64_t bits, uint32_t at_least)
{
    if (at_least >= 64 || bits == 0)
        return at_least;
    uint64_t longer = teai_bits_erode(bits, at_least + 1);
    for (; longer != 0; longer &= longer >> 1)
        at_least++;
    return at_least;
}

/* Runs of clear bits of a chunk. */
static inline struct teai_free_runs teai_chunk_summarise(const uint64_t *words)
{
    struct teai_free_runs runs = {TEAI_CHUNK_PAGES, 0, 0};
    uint32_t run = 0; /* clear bits at the end of the words so far */
    for (uint32_t w = 0; w < TEAI_CHUNK_WORDS; w++) {
        uint64_t set = words[w];
        if (set == 0) {
            run += 64;
            continue;
        }
        run += (uint32_t)__builtin_ctzll(set);
        if (runs.start == TEAI_CHUNK_PAGES)
            runs.start = run;
        if (run > runs.longest)
            runs.longest = run;
        runs.longest = teai_bits_longest(~set, runs.longest);
        run = (uint32_t)__builtin_clzll(set);
    }
    runs.end = run;
    if (run > runs.longest)
        runs.longest = run;
    return runs;
}

#endif
