/* tests/unit/test_page_bits.c -- bitmap tricks against loops over single bits. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gc/page_bits.h"
#include "tests/support/random.h"

#include <string.h>

enum { ROUNDS = 1000, NWORDS = 2 * TEAI_CHUNK_WORDS, NBITS = NWORDS * 64 };

static bool bit_at(const uint64_t *words, uint32_t bit)
{
    return (words[bit / 64] >> bit % 64 & 1) != 0;
}

/* Words of all kinds: empty, full, a few runs, noise. */
static uint64_t random_word(struct test_random *r)
{
    switch (test_random_below(r, 6)) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX;
    case 2:
        return teai_low_bits(test_random_below(r, 65));
    case 3:
        return ~teai_low_bits(test_random_below(r, 65));
    case 4:
        return UINT64_C(1) << test_random_below(r, 64);
    default:
        return test_random_next(r) & test_random_next(r) & test_random_next(r);
    }
}

static void random_words(struct test_random *r, uint64_t *words, uint32_t nwords)
{
    for (uint32_t i = 0; i < nwords; i++)
        words[i] = random_word(r);
}

static void set_and_clear_change_exactly_their_range(void **state)
{
    (void)state;
    struct test_random r = test_random_start(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before[NWORDS], set[NWORDS], cleared[NWORDS];
        random_words(&r, before, NWORDS);
        memcpy(set, before, sizeof before);
        memcpy(cleared, before, sizeof before);
        uint32_t first = test_random_below(&r, NBITS), n = test_random_below(&r, NBITS - first + 1);
        teai_bits_set(set, first, n);
        teai_bits_clear(cleared, first, n);
        for (uint32_t bit = 0; bit < NBITS; bit++) {
            bool inside = bit >= first && bit < first + n;
            assert_int_equal(bit_at(set, bit), inside ? 1 : bit_at(before, bit));
            assert_int_equal(bit_at(cleared, bit), inside ? 0 : bit_at(before, bit));
        }
    }
}

static void count_agrees_with_single_bits(void **state)
{
    (void)state;
    struct test_random r = test_random_start(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t words[NWORDS];
        random_words(&r, words, NWORDS);
        uint32_t first = test_random_below(&r, NBITS), n = test_random_below(&r, NBITS - first + 1),
                 count = 0;
        for (uint32_t bit = first; bit < first + n; bit++)
            count += bit_at(words, bit);
        assert_int_equal(teai_bits_count(words, first, n), count);
    }
}

/* The first of `n` set bits in a row, of 64; 64 if there are none. */
static uint32_t slow_first_run(uint64_t bits, uint32_t n)
{
    for (uint32_t first = 0; first + n <= 64; first++)
        if ((bits >> first & teai_low_bits(n)) == teai_low_bits(n))
            return first;
    return 64;
}

static void erosion_marks_where_runs_begin(void **state)
{
    (void)state;
    struct test_random r = test_random_start(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t bits = random_word(&r);
        for (uint32_t n = 1; n <= 64; n++) {
            uint64_t eroded = teai_bits_erode(bits, n);
            for (uint32_t first = 0; first < 64; first++)
                assert_int_equal(bit_at(&eroded, first),
                                 first + n <= 64 && slow_first_run(bits >> first, n) == 0);
        }
    }
}

static void first_run_of_known_words(void **state)
{
    (void)state;
    static const struct {
        uint64_t bits;
        uint32_t n, first;
    } vectors[] = {
        {0, 1, 64},
        {UINT64_MAX, 1, 0},
        {UINT64_MAX, 64, 0},
        {UINT64_MAX >> 1, 64, 64},
        {UINT64_C(1) << 63, 1, 63},
        {UINT64_C(3) << 62, 2, 62},
        {UINT64_C(0x6000000000000001), 2, 61},
        {UINT64_C(0x5555555555555555), 2, 64},
        {UINT64_C(0xf0f1), 5, 64},
        {UINT64_C(0xf0f1), 4, 4},
        {UINT64_C(0x7fffffff00000000), 31, 32},
        {UINT64_C(0x7fffffff00000000), 32, 64},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        uint64_t eroded = teai_bits_erode(vectors[i].bits, vectors[i].n);
        assert_int_equal(eroded != 0 ? __builtin_ctzll(eroded) : 64, vectors[i].first);
        assert_int_equal(slow_first_run(vectors[i].bits, vectors[i].n), vectors[i].first);
    }
}

static uint32_t slow_find_clear(const uint64_t *words, uint32_t from, uint32_t n)
{
    uint32_t run = 0;
    for (uint32_t bit = from; bit < TEAI_CHUNK_PAGES; bit++) {
        run = bit_at(words, bit) ? 0 : run + 1;
        if (run == n)
            return bit + 1 - n;
    }
    return TEAI_CHUNK_PAGES;
}

static void search_in_a_chunk_finds_the_lowest_run(void **state)
{
    (void)state;
    struct test_random r = test_random_start(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t words[TEAI_CHUNK_WORDS];
        random_words(&r, words, TEAI_CHUNK_WORDS);
        for (uint32_t n = 1; n <= TEAI_CHUNK_PAGES; n += 1 + n / 16) {
            uint32_t from = round % 2 == 0 ? 0 : test_random_below(&r, TEAI_CHUNK_PAGES);
            assert_int_equal(teai_chunk_find_clear(words, from, n),
                             slow_find_clear(words, from, n));
        }
    }
}

static struct teai_free_runs slow_summarise(const uint64_t *words)
{
    struct teai_free_runs runs = {0, 0, 0};
    while (runs.start < TEAI_CHUNK_PAGES && !bit_at(words, runs.start))
        runs.start++;
    for (uint32_t bit = 0; bit < TEAI_CHUNK_PAGES; bit++) {
        runs.end = bit_at(words, bit) ? 0 : runs.end + 1;
        if (runs.end > runs.longest)
            runs.longest = runs.end;
    }
    return runs;
}

static void assert_summary_is_right(const uint64_t *words)
{
    struct teai_free_runs runs = teai_chunk_summarise(words), slow = slow_summarise(words);
    assert_int_equal(runs.start, slow.start);
    assert_int_equal(runs.longest, slow.longest);
    assert_int_equal(runs.end, slow.end);
}

static void summaries_of_random_chunks(void **state)
{
    (void)state;
    struct test_random r = test_random_start(__func__);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t words[TEAI_CHUNK_WORDS];
        random_words(&r, words, TEAI_CHUNK_WORDS);
        assert_summary_is_right(words);
    }
}

static void summaries_of_chunks_with_one_run(void **state)
{
    (void)state;
    for (uint32_t first = 0; first <= TEAI_CHUNK_PAGES; first += 7)
        for (uint32_t n = 0; first + n <= TEAI_CHUNK_PAGES; n += 5) {
            uint64_t words[TEAI_CHUNK_WORDS];
            memset(words, 0xff, sizeof words);
            teai_bits_clear(words, first, n);
            assert_summary_is_right(words);
            teai_bits_set(words, 0, TEAI_CHUNK_PAGES);
            teai_bits_clear(words, TEAI_CHUNK_PAGES - n, n);
            assert_summary_is_right(words);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_and_clear_change_exactly_their_range),
        cmocka_unit_test(count_agrees_with_single_bits),
        cmocka_unit_test(erosion_marks_where_runs_begin),
        cmocka_unit_test(first_run_of_known_words),
        cmocka_unit_test(search_in_a_chunk_finds_the_lowest_run),
        cmocka_unit_test(summaries_of_random_chunks),
        cmocka_unit_test(summaries_of_chunks_with_one_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
