/* gc/scan_kernel_avx2.c -- the scan kernel for x86-64 CPUs with AVX2, BMI2 and POPCNT but no AVX-512.
 *
 * The same two ideas as in scan_kernel_avx512.c, four words at a time: filter by compressing the words that lie in the
 * heap (a permutation from a table, since AVX2 has no compress), resolve by gathering tags and states before anything
 * is stored. Which words of a line are to be loaded is a lane mask, from a table too.
 */
#include "gc/mark.h"
#include "gc/slot_runs.h"

#if TEAI_X86_64

#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

enum { LANES = 4, STATES_A_VECTOR = 32 };

/* For each set of selected lanes: the 32-bit halves of those, in order, at the front. */
#define LANE(i) 2 * (i), 2 * (i) + 1
static const uint32_t compress_order[16][8] __attribute__((aligned(32))) = {
    { 0 },
    { LANE(0) },
    { LANE(1) },
    { LANE(0), LANE(1) },
    { LANE(2) },
    { LANE(0), LANE(2) },
    { LANE(1), LANE(2) },
    { LANE(0), LANE(1), LANE(2) },
    { LANE(3) },
    { LANE(0), LANE(3) },
    { LANE(1), LANE(3) },
    { LANE(0), LANE(1), LANE(3) },
    { LANE(2), LANE(3) },
    { LANE(0), LANE(2), LANE(3) },
    { LANE(1), LANE(2), LANE(3) },
    { LANE(0), LANE(1), LANE(2), LANE(3) },
};

AVX2 TEAI_INLINE __m256i lanes_of(unsigned select)
{
    const __m256i bit = _mm256_set_epi64x(8, 4, 2, 1);
    return _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x((long long)select), bit), bit);
}

AVX2 TEAI_INLINE unsigned select_of(__m256i lanes)
{
    return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(lanes));
}

/* Append the selected lanes; all four are stored, so `out` has room for them. */
AVX2 TEAI_INLINE size_t append_lanes(uint64_t *out, size_t n, __m256i lanes, unsigned select)
{
    __m256i order = _mm256_load_si256((const __m256i *)compress_order[select]);
    _mm256_storeu_si256((__m256i *)(out + n), _mm256_permutevar8x32_epi32(lanes, order));
    return n + (unsigned)__builtin_popcount(select);
}

/* Unsigned comparison by flipping the sign bits: the limit is stored flipped. */
struct heap_bounds {
    __m256i base, flip, flipped_limit;
};

AVX2 TEAI_INLINE struct heap_bounds heap_bounds_of(const struct teai_tables *t)
{
    __m256i flip = _mm256_set1_epi64x(INT64_MIN);
    __m256i limit = _mm256_set1_epi64x((long long)t->heap_limit_bytes);
    return (struct heap_bounds){ _mm256_set1_epi64x((long long)t->heap_base_addr), flip, _mm256_xor_si256(limit, flip) };
}

AVX2 TEAI_INLINE size_t filter_loaded(const struct heap_bounds *heap, __m256i words, unsigned select, uint64_t *out,
                                      size_t n)
{
    __m256i offsets = _mm256_sub_epi64(words, heap->base);
    __m256i inside = _mm256_cmpgt_epi64(heap->flipped_limit, _mm256_xor_si256(offsets, heap->flip));
    return append_lanes(out, n, offsets, select_of(inside) & select);
}

/* Of the selected words among four those that lie in the heap; words that are not selected are not touched. */
AVX2 TEAI_INLINE size_t filter_words(const struct heap_bounds *heap, const uint64_t *words, unsigned select,
                                     uint64_t *out, size_t n)
{
    return filter_loaded(heap, _mm256_maskload_epi64((const long long *)words, lanes_of(select)), select, out, n);
}

AVX2 TEAI_INLINE size_t filter_range(const struct heap_bounds *heap, const uint64_t *words, size_t nwords,
                                     uint64_t *out, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= nwords; i += LANES)
        n = filter_loaded(heap, _mm256_loadu_si256((const __m256i *)(words + i)), 0xf, out, n);
    return i < nwords ? filter_words(heap, words + i, (1u << (nwords - i)) - 1, out, n) : n;
}

AVX2 TEAI_INLINE size_t filter_typed_range(const struct teai_tables *t, const struct heap_bounds *heap,
                                           uintptr_t base_addr, size_t nwords, uint64_t *out, size_t n)
{
    uint64_t first = (base_addr - t->heap_base_addr) / TEAI_WORD_BYTES, last = first + nwords;
    for (uint64_t word = first; word < last; word += LANES) {
        /* Four bits from word on; they may lie in two bytes. The table is padded. */
        unsigned bits = t->pointer_bits[word / 8] | (unsigned)t->pointer_bits[word / 8 + 1] << 8;
        unsigned select = bits >> (word % 8) & 0xf;
        if (last - word < LANES)
            select &= (1u << (last - word)) - 1;
        if (select != 0)
            n = filter_words(heap, (const uint64_t *)t->heap_base_addr + word, select, out, n);
    }
    return n;
}

AVX2 TEAI_NO_SANITIZE static size_t avx2_filter(const struct teai_tables *t, uintptr_t base_addr, size_t nwords,
                                                uint64_t *out)
{
    const struct heap_bounds heap = heap_bounds_of(t);
    return filter_range(&heap, (const uint64_t *)base_addr, nwords, out, 0);
}

AVX2 TEAI_NO_SANITIZE static size_t avx2_filter_typed(const struct teai_tables *t, uintptr_t base_addr, size_t nwords,
                                                      uint64_t *out)
{
    const struct heap_bounds heap = heap_bounds_of(t);
    return filter_typed_range(t, &heap, base_addr, nwords, out, 0);
}

AVX2 TEAI_NO_SANITIZE static size_t avx2_filter_slots(const struct teai_tables *t, uintptr_t span_addr,
                                                      const struct teai_class_info *info, const uint64_t *grey,
                                                      uint64_t *out)
{
    const struct heap_bounds heap = heap_bounds_of(t);
    size_t n = 0;
    for (uint32_t first = 0; first < info->nslots; first += 64) {
        uint64_t bits = grey[first / 64];
        while (bits != 0) {
            struct teai_slot_run run = teai_slot_run_take(&bits);
            uintptr_t base = span_addr + (uintptr_t)(first + run.start) * info->slot_bytes;
            size_t nwords = (size_t)run.length * info->slot_bytes / TEAI_WORD_BYTES;
            n = info->is_typed ? filter_typed_range(t, &heap, base, nwords, out, n)
                               : filter_range(&heap, (const uint64_t *)base, nwords, out, n);
        }
    }
    return n;
}

AVX2 TEAI_INLINE uint32_t states_grey(const teai_slot_byte *states)
{
    __m256i seen = _mm256_loadu_si256((const __m256i *)(const void *)states);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(seen, _mm256_set1_epi8(TEAI_SLOT_GREY)));
}

/* Byte stores, since the neighbours may be becoming grey. */
AVX2 static unsigned avx2_take_grey(teai_slot_byte *states, uint32_t nslots, uint64_t *grey_out)
{
    unsigned ngrey = 0;
    for (uint32_t first = 0; first < nslots; first += 64) {
        uint64_t grey = states_grey(states + first) | (uint64_t)states_grey(states + first + STATES_A_VECTOR) << 32;
        grey_out[first / 64] = grey;
        ngrey += (unsigned)__builtin_popcountll(grey);
        for (; grey != 0; grey &= grey - 1)
            teai_slot_store(&states[first + (uint32_t)__builtin_ctzll(grey)], TEAI_SLOT_BLACK);
    }
    return ngrey;
}

AVX2 static bool avx2_any_grey(const teai_slot_byte *states, size_t nslots)
{
    uint32_t grey = 0;
    for (size_t i = 0; i < nslots; i += STATES_A_VECTOR)
        grey |= states_grey(states + i);
    return grey != 0;
}

/* --- resolving: the steps of scan_kernel_avx512.c, four candidates at a time --- */

enum { RESOLVE_BLOCK = 512, FOUND_CLASS_BITS = 8 };

struct found {
    uint64_t words[RESOLVE_BLOCK + LANES];
    size_t n;
};

AVX2 TEAI_INLINE __m256i splat(uint64_t value)
{
    return _mm256_set1_epi64x((long long)value);
}

AVX2 TEAI_INLINE uint64_t first_lane(__m256i lanes)
{
    return (uint64_t)_mm_cvtsi128_si64(_mm256_castsi256_si128(lanes));
}

AVX2 TEAI_INLINE bool all_equal_first(__m256i lanes)
{
    __m256i first = _mm256_broadcastq_epi64(_mm256_castsi256_si128(lanes));
    return select_of(_mm256_cmpeq_epi64(lanes, first)) == 0xf;
}

/* All lanes, which the compiler must not know: else it gathers into whatever the register held, and each gather waits for
 * the one before (4 times slower on scattered heaps, measured). */
AVX2 TEAI_INLINE __m128i every_lane(void)
{
    __m128i mask = _mm_set1_epi32(-1);
    __asm__("" : "+x"(mask));
    return mask;
}

/* Four 32-bit words. A macro, since the scale is part of the instruction. */
#define gather32(table, index, scale)                                                                                  \
    _mm256_mask_i64gather_epi32(_mm_setzero_si128(), (const int *)(const void *)(table), index, every_lane(), scale)

/* Which of the four states are WHITE. A lane of a large object reads some other state of the table. */
AVX2 TEAI_INLINE unsigned white_states(const teai_slot_byte *states, __m256i index)
{
    __m128i low8 = _mm_and_si128(gather32(states, index, 1), _mm_set1_epi32(0xff));
    return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(low8, _mm_set1_epi32(TEAI_SLOT_WHITE))));
}

AVX2 TEAI_INLINE void found_add(struct found *found, __m256i state_index, __m256i span_class, unsigned is_white)
{
    if (is_white == 0)
        return;
    __m256i word = _mm256_or_si256(_mm256_slli_epi64(state_index, FOUND_CLASS_BITS), span_class);
    found->n = append_lanes(found->words, found->n, word, is_white);
}

TEAI_INLINE void resolve_large(struct teai_marker *m, const uint64_t *offsets, unsigned lanes)
{
    for (; lanes != 0; lanes &= lanes - 1)
        teai_mark_large(m, (uint32_t)(offsets[__builtin_ctz(lanes)] >> TEAI_PAGE_SHIFT));
}

AVX2 TEAI_INLINE void resolve_one_tag(struct teai_marker *m, const uint64_t *offsets, __m256i offset, __m256i page,
                                      unsigned tag, struct found *found)
{
    uint8_t span_class = (uint8_t)tag;
    uint64_t page_in_span = tag >> 8;
    if (TEAI_UNLIKELY(span_class == TEAI_CLASS_LARGE)) {
        resolve_large(m, offsets, 0xf);
        return;
    }
    __m256i in_page = _mm256_and_si256(offset, splat(TEAI_PAGE_BYTES - 1));
    __m256i in_span = _mm256_add_epi64(in_page, splat(page_in_span << TEAI_PAGE_SHIFT));
    __m256i slot = _mm256_srli_epi64(_mm256_mul_epu32(in_span, splat(teai_class_info[span_class].magic)), 32);
    __m256i first_state = _mm256_slli_epi64(_mm256_sub_epi64(page, splat(page_in_span)), TEAI_STATE_SHIFT);
    __m256i index = _mm256_add_epi64(first_state, slot);
    found_add(found, index, splat(span_class), white_states(m->tables.slot_state, index));
}

_Static_assert(sizeof(struct teai_class_info) == 3 * sizeof(uint32_t) && offsetof(struct teai_class_info, magic) == 0,
               "magic is gathered with a stride of three 32-bit words");

AVX2 TEAI_INLINE void resolve_mixed_tags(struct teai_marker *m, const uint64_t *offsets, __m256i offset, __m256i page,
                                         __m256i tag, struct found *found)
{
    __m256i span_class = _mm256_and_si256(tag, splat(0xff));
    __m256i page_in_span = _mm256_srli_epi64(tag, 8);
    __m256i magic_word = _mm256_add_epi64(span_class, _mm256_add_epi64(span_class, span_class));
    __m256i magic = _mm256_cvtepu32_epi64(gather32(teai_class_info, magic_word, sizeof(uint32_t)));
    __m256i in_span = _mm256_or_si256(_mm256_slli_epi64(page_in_span, TEAI_PAGE_SHIFT),
                                      _mm256_and_si256(offset, splat(TEAI_PAGE_BYTES - 1)));
    __m256i slot = _mm256_srli_epi64(_mm256_mul_epu32(in_span, magic), 32);
    __m256i index = _mm256_add_epi64(_mm256_slli_epi64(_mm256_sub_epi64(page, page_in_span), TEAI_STATE_SHIFT), slot);
    unsigned is_large = select_of(_mm256_cmpeq_epi64(span_class, splat(TEAI_CLASS_LARGE)));
    found_add(found, index, span_class, white_states(m->tables.slot_state, index) & ~is_large);
    resolve_large(m, offsets, is_large);
}

AVX2 TEAI_INLINE void resolve_four(struct teai_marker *m, const uint64_t *offsets, struct found *found)
{
    const _Atomic uint16_t *page_tag = m->tables.page_tag;
    __m256i offset = _mm256_loadu_si256((const __m256i *)offsets);
    __m256i page = _mm256_srli_epi64(offset, TEAI_PAGE_SHIFT);
    if (all_equal_first(page)) {
        unsigned tag = atomic_load_explicit(&page_tag[first_lane(page)], memory_order_relaxed);
        resolve_one_tag(m, offsets, offset, page, tag, found);
        return;
    }
    __m256i tag = _mm256_cvtepu32_epi64(gather32(page_tag, page, sizeof(uint16_t)));
    tag = _mm256_and_si256(tag, splat(0xffff));
    if (TEAI_LIKELY(all_equal_first(tag)))
        resolve_one_tag(m, offsets, offset, page, (unsigned)first_lane(tag), found);
    else
        resolve_mixed_tags(m, offsets, offset, page, tag, found);
}

/* The last candidate fills up the last four. */
static void resolve_pad(uint64_t *offsets, size_t noffsets)
{
    for (size_t i = noffsets; i % LANES != 0; i++)
        offsets[i] = offsets[noffsets - 1];
}

AVX2 static void avx2_resolve(struct teai_marker *m, uint64_t *offsets, size_t noffsets)
{
    struct found found;
    resolve_pad(offsets, noffsets);
    for (size_t first = 0; first < noffsets; first += RESOLVE_BLOCK) {
        found.n = 0;
        for (size_t i = first; i < noffsets && i < first + RESOLVE_BLOCK; i += LANES)
            resolve_four(m, offsets + i, &found);
        for (size_t k = 0; k < found.n; k++)
            teai_mark_state_index(m, found.words[k] >> FOUND_CLASS_BITS, (uint8_t)found.words[k]);
    }
}

const struct teai_scan_kernel teai_scan_kernel_avx2 = {
    "avx2", avx2_filter, avx2_filter_typed, avx2_filter_slots, avx2_take_grey, avx2_resolve, avx2_any_grey,
};

#else

/* Other machines never choose it. */
const struct teai_scan_kernel teai_scan_kernel_avx2 = { "none", NULL, NULL, NULL, NULL, NULL, NULL };

#endif
