/* gc/scan_kernel_avx512.c -- the scan kernel for CPUs with AVX-512 F, BW, VL and DQ.
 *
 * Filtering compresses the words that lie in the heap, eight at a time. (Compress to a register, then store all of it:
 * compress to memory is about ten times slower on some CPUs. Source: Go's scan_amd64.s.)
 *
 * Resolving works in two steps over some hundred candidates: gather page tag and state of eight at once, so that their
 * cache misses overlap, and collect the few that are WHITE or large; then handle those one by one. Storing states
 * between gathers would make the gathers wait for the stores (1.2-1.4 times slower, measured). Gathers read four bytes
 * where the tables have one or two; the tables are padded.
 */
#include "gc/mark.h"
#include "gc/slot_runs.h"

#if TEAI_X86_64

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi,bmi2,popcnt")))

enum { LANES = 8, LINE_WORDS = 8, STATES_A_VECTOR = 64 };

/* Append the selected lanes; all eight are stored, so `out` has room for them. */
AVX512 TEAI_INLINE size_t append_lanes(uint64_t *out, size_t n, __m512i lanes, __mmask8 select)
{
    _mm512_storeu_si512(out + n, _mm512_maskz_compress_epi64(select, lanes));
    return n + (unsigned)__builtin_popcount(select);
}

/* What filtering compares with. */
struct heap_bounds {
    __m512i base, limit;
};

AVX512 TEAI_INLINE struct heap_bounds heap_bounds_of(const struct teai_tables *t)
{
    return (struct heap_bounds){ _mm512_set1_epi64((long long)t->heap_base_addr),
                                 _mm512_set1_epi64((long long)t->heap_limit_bytes) };
}

/* Of the words selected in a line (or any eight words) those that lie in the heap. */
AVX512 TEAI_INLINE size_t filter_words(const struct heap_bounds *heap, const uint64_t *words, __mmask8 select,
                                       uint64_t *out, size_t n)
{
    __m512i offsets = _mm512_sub_epi64(_mm512_maskz_loadu_epi64(select, words), heap->base);
    return append_lanes(out, n, offsets, _mm512_mask_cmplt_epu64_mask(select, offsets, heap->limit));
}

AVX512 TEAI_INLINE size_t filter_range(const struct heap_bounds *heap, const uint64_t *words, size_t nwords,
                                       uint64_t *out, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= nwords; i += LANES)
        n = filter_words(heap, words + i, 0xff, out, n);
    return i < nwords ? filter_words(heap, words + i, (__mmask8)((1u << (nwords - i)) - 1), out, n) : n;
}

AVX512 TEAI_NO_SANITIZE static size_t avx512_filter(const struct teai_tables *t, uintptr_t base_addr, size_t nwords,
                                                    uint64_t *out)
{
    const struct heap_bounds heap = heap_bounds_of(t);
    return filter_range(&heap, (const uint64_t *)base_addr, nwords, out, 0);
}

/* Line by line: a byte of the bitmap describes the eight words of a 64-byte line. */
AVX512 TEAI_INLINE size_t filter_typed_range(const struct teai_tables *t, const struct heap_bounds *heap,
                                             uintptr_t base_addr, size_t nwords, uint64_t *out, size_t n)
{
    uint64_t first_word = (base_addr - t->heap_base_addr) / TEAI_WORD_BYTES;
    uint64_t last_word = first_word + nwords;
    for (uint64_t line = first_word / LINE_WORDS; line * LINE_WORDS < last_word; line++) {
        uint64_t line_first = line * LINE_WORDS;
        unsigned select = t->pointer_bits[line];
        if (line_first < first_word)
            select &= 0xffu << (first_word - line_first);
        if (line_first + LINE_WORDS > last_word)
            select &= 0xffu >> (line_first + LINE_WORDS - last_word);
        if (select != 0)
            n = filter_words(heap, (const uint64_t *)t->heap_base_addr + line_first, (__mmask8)select, out, n);
    }
    return n;
}

AVX512 TEAI_NO_SANITIZE static size_t avx512_filter_typed(const struct teai_tables *t, uintptr_t base_addr,
                                                          size_t nwords, uint64_t *out)
{
    const struct heap_bounds heap = heap_bounds_of(t);
    return filter_typed_range(t, &heap, base_addr, nwords, out, 0);
}

/* --- grey slots --- */

/* Slots of 16 and 32 bytes, four and two to a line: bits of the slots of a line -> its words. */
static const uint8_t words_of_4_slots[16] = {
    0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f, 0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff,
};
static const uint8_t words_of_2_slots[4] = { 0x00, 0x0f, 0xf0, 0xff };

/* Line by line, so that every load is aligned and neighbours share one. */
AVX512 TEAI_INLINE size_t filter_lines(const struct heap_bounds *heap, const uint64_t *words, unsigned slots_a_line,
                                       const uint8_t *words_of_slots, const uint64_t *grey, uint32_t nslots,
                                       uint64_t *out)
{
    size_t n = 0;
    const uint64_t line_bits = (UINT64_C(1) << slots_a_line) - 1;
    for (uint32_t first = 0; first < nslots; first += 64) {
        uint64_t bits = grey[first / 64];
        while (bits != 0) {
            unsigned line = (unsigned)__builtin_ctzll(bits) / slots_a_line;
            unsigned shift = line * slots_a_line;
            __mmask8 select = words_of_slots[bits >> shift & line_bits];
            bits &= ~(line_bits << shift);
            n = filter_words(heap, words + (first / slots_a_line + line) * LINE_WORDS, select, out, n);
        }
    }
    return n;
}

/* Slots of other sizes: range by range. Not sanitized, as its caller: gcc 12 crashes on a mixture when a local variable's
 * address is taken. */
AVX512 TEAI_NO_SANITIZE TEAI_INLINE size_t filter_runs(const struct teai_tables *t, const struct heap_bounds *heap,
                                                       uintptr_t span_addr, const struct teai_class_info *info,
                                                       const uint64_t *grey, uint64_t *out)
{
    size_t n = 0;
    for (uint32_t first = 0; first < info->nslots; first += 64) {
        uint64_t bits = grey[first / 64];
        while (bits != 0) {
            struct teai_slot_run run = teai_slot_run_take(&bits);
            uintptr_t base = span_addr + (uintptr_t)(first + run.start) * info->slot_bytes;
            size_t nwords = (size_t)run.length * info->slot_bytes / TEAI_WORD_BYTES;
            n = info->is_typed ? filter_typed_range(t, heap, base, nwords, out, n)
                               : filter_range(heap, (const uint64_t *)base, nwords, out, n);
        }
    }
    return n;
}

AVX512 TEAI_NO_SANITIZE static size_t avx512_filter_slots(const struct teai_tables *t, uintptr_t span_addr,
                                                          const struct teai_class_info *info, const uint64_t *grey,
                                                          uint64_t *out)
{
    const struct heap_bounds heap = heap_bounds_of(t);
    const uint64_t *words = (const uint64_t *)span_addr;
    if (info->slot_bytes == 16 && !info->is_typed)
        return filter_lines(&heap, words, 4, words_of_4_slots, grey, info->nslots, out);
    if (info->slot_bytes == 32 && !info->is_typed)
        return filter_lines(&heap, words, 2, words_of_2_slots, grey, info->nslots, out);
    return filter_runs(t, &heap, span_addr, info, grey, out);
}

/* Masked byte stores leave the neighbours alone, which may be becoming grey. */
AVX512 static unsigned avx512_take_grey(teai_slot_byte *states, uint32_t nslots, uint64_t *grey_out)
{
    const __m512i grey_state = _mm512_set1_epi8(TEAI_SLOT_GREY), black_state = _mm512_set1_epi8(TEAI_SLOT_BLACK);
    unsigned ngrey = 0;
    for (uint32_t first = 0; first < nslots; first += STATES_A_VECTOR) {
        uint8_t *bytes = (uint8_t *)(states + first);
        __mmask64 grey = _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(bytes), grey_state);
        if (grey != 0) /* a load soon after waits for a masked store, even one that stores nothing */
            _mm512_mask_storeu_epi8(bytes, grey, black_state);
        grey_out[first / STATES_A_VECTOR] = grey;
        ngrey += (unsigned)__builtin_popcountll(grey);
    }
    return ngrey;
}

AVX512 static bool avx512_any_grey(const teai_slot_byte *states, size_t nslots)
{
    const __m512i grey_state = _mm512_set1_epi8(TEAI_SLOT_GREY);
    __mmask64 grey = 0;
    for (size_t i = 0; i < nslots; i += STATES_A_VECTOR)
        grey |= _mm512_cmpeq_epi8_mask(_mm512_loadu_si512((const uint8_t *)(states + i)), grey_state);
    return grey != 0;
}

/* --- resolving --- */

enum { RESOLVE_BLOCK = 512, FOUND_CLASS_BITS = 8 };

/* WHITE objects found: state index and span class in one word. */
struct found {
    uint64_t words[RESOLVE_BLOCK + LANES];
    size_t n;
};

AVX512 TEAI_INLINE __m512i splat(uint64_t value)
{
    return _mm512_set1_epi64((long long)value);
}

AVX512 TEAI_INLINE uint64_t first_lane(__m512i lanes)
{
    return (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(lanes));
}

AVX512 TEAI_INLINE bool all_equal_first(__m512i lanes)
{
    return _mm512_cmpneq_epi64_mask(lanes, _mm512_broadcastq_epi64(_mm512_castsi512_si128(lanes))) == 0;
}

/* All lanes, which the compiler must not know: else it may gather into whatever the register held, and each gather would
 * wait for the one before. */
AVX512 TEAI_INLINE __mmask8 every_lane(void)
{
    __mmask8 mask = 0xff;
    __asm__("" : "+Yk"(mask));
    return mask;
}

/* Eight 32-bit words. A macro, since the scale is part of the instruction. */
#define gather32(table, index, lanes, scale)                                                                           \
    _mm512_mask_i64gather_epi32(_mm256_setzero_si256(), lanes, index, table, scale)

/* Which of the eight states are WHITE. Gathers four bytes each; only the lowest counts. */
AVX512 TEAI_INLINE __mmask8 white_states(const teai_slot_byte *states, __m512i index, __mmask8 lanes)
{
    __m256i seen = gather32(states, index, lanes, 1);
    __m256i low8 = _mm256_and_si256(seen, _mm256_set1_epi32(0xff));
    return _mm256_mask_cmpeq_epi32_mask(lanes, low8, _mm256_set1_epi32(TEAI_SLOT_WHITE));
}

/* Few are WHITE, but in the first pass over a pointer array, where nearly all are: either way the branch is foreseen. */
AVX512 TEAI_INLINE void found_add(struct found *found, __m512i state_index, __m512i span_class, __mmask8 is_white)
{
    if (is_white == 0)
        return;
    __m512i word = _mm512_or_si512(_mm512_slli_epi64(state_index, FOUND_CLASS_BITS), span_class);
    found->n = append_lanes(found->words, found->n, word, is_white);
}

TEAI_INLINE void resolve_large(struct teai_marker *m, const uint64_t *offsets, unsigned lanes)
{
    for (; lanes != 0; lanes &= lanes - 1)
        teai_mark_large(m, (uint32_t)(offsets[__builtin_ctz(lanes)] >> TEAI_PAGE_SHIFT));
}

/* Eight candidates whose pages have the same tag: one span class, at the same place in its span. */
AVX512 TEAI_INLINE void resolve_one_tag(struct teai_marker *m, const uint64_t *offsets, __m512i offset, __m512i page,
                                        unsigned tag, struct found *found)
{
    uint8_t span_class = (uint8_t)tag;
    uint64_t page_in_span = tag >> 8;
    if (TEAI_UNLIKELY(span_class == TEAI_CLASS_LARGE)) {
        resolve_large(m, offsets, 0xff);
        return;
    }
    __m512i in_page = _mm512_and_si512(offset, splat(TEAI_PAGE_BYTES - 1));
    __m512i in_span = _mm512_add_epi64(in_page, splat(page_in_span << TEAI_PAGE_SHIFT));
    __m512i slot = _mm512_srli_epi64(_mm512_mul_epu32(in_span, splat(teai_class_info[span_class].magic)), 32);
    __m512i first_state = _mm512_slli_epi64(_mm512_sub_epi64(page, splat(page_in_span)), TEAI_STATE_SHIFT);
    __m512i index = _mm512_add_epi64(first_state, slot);
    found_add(found, index, splat(span_class), white_states(m->tables.slot_state, index, every_lane()));
}

_Static_assert(sizeof(struct teai_class_info) == 3 * sizeof(uint32_t) && offsetof(struct teai_class_info, magic) == 0,
               "magic is gathered with a stride of three 32-bit words");

AVX512 TEAI_INLINE void resolve_mixed_tags(struct teai_marker *m, const uint64_t *offsets, __m512i offset, __m512i page,
                                           __m512i tag, struct found *found)
{
    __m512i span_class = _mm512_and_si512(tag, splat(0xff));
    __m512i page_in_span = _mm512_srli_epi64(tag, 8);
    __m512i magic_word = _mm512_add_epi64(span_class, _mm512_add_epi64(span_class, span_class));
    __m512i magic = _mm512_cvtepu32_epi64(gather32(teai_class_info, magic_word, every_lane(), sizeof(uint32_t)));
    __m512i in_span = _mm512_or_si512(_mm512_slli_epi64(page_in_span, TEAI_PAGE_SHIFT),
                                      _mm512_and_si512(offset, splat(TEAI_PAGE_BYTES - 1)));
    __m512i slot = _mm512_srli_epi64(_mm512_mul_epu32(in_span, magic), 32);
    __m512i index = _mm512_add_epi64(_mm512_slli_epi64(_mm512_sub_epi64(page, page_in_span), TEAI_STATE_SHIFT), slot);
    __mmask8 is_large = _mm512_cmpeq_epi64_mask(span_class, splat(TEAI_CLASS_LARGE));
    found_add(found, index, span_class, white_states(m->tables.slot_state, index, (__mmask8)~is_large));
    resolve_large(m, offsets, is_large);
}

/* A gather costs a dozen cycles: when all pages are one, or all tags, the scalar unit knows. */
AVX512 TEAI_INLINE void resolve_eight(struct teai_marker *m, const uint64_t *offsets, struct found *found)
{
    const _Atomic uint16_t *page_tag = m->tables.page_tag;
    __m512i offset = _mm512_loadu_si512(offsets);
    __m512i page = _mm512_srli_epi64(offset, TEAI_PAGE_SHIFT);
    if (all_equal_first(page)) {
        unsigned tag = atomic_load_explicit(&page_tag[first_lane(page)], memory_order_relaxed);
        resolve_one_tag(m, offsets, offset, page, tag, found);
        return;
    }
    __m512i tag = _mm512_cvtepu32_epi64(gather32(page_tag, page, every_lane(), sizeof(uint16_t)));
    tag = _mm512_and_si512(tag, splat(0xffff));
    if (TEAI_LIKELY(all_equal_first(tag)))
        resolve_one_tag(m, offsets, offset, page, (unsigned)first_lane(tag), found);
    else
        resolve_mixed_tags(m, offsets, offset, page, tag, found);
}

/* The last candidate fills up the last eight: looking at it twice does no harm. `offsets` has room for that. */
static void resolve_pad(uint64_t *offsets, size_t noffsets)
{
    for (size_t i = noffsets; i % LANES != 0; i++)
        offsets[i] = offsets[noffsets - 1];
}

AVX512 static void avx512_resolve(struct teai_marker *m, uint64_t *offsets, size_t noffsets)
{
    struct found found;
    resolve_pad(offsets, noffsets);
    for (size_t first = 0; first < noffsets; first += RESOLVE_BLOCK) {
        found.n = 0;
        for (size_t i = first; i < noffsets && i < first + RESOLVE_BLOCK; i += LANES)
            resolve_eight(m, offsets + i, &found);
        for (size_t k = 0; k < found.n; k++)
            teai_mark_state_index(m, found.words[k] >> FOUND_CLASS_BITS, (uint8_t)found.words[k]);
    }
}

const struct teai_scan_kernel teai_scan_kernel_avx512 = {
    "avx512", avx512_filter, avx512_filter_typed, avx512_filter_slots, avx512_take_grey, avx512_resolve, avx512_any_grey,
};

#else

/* Other machines never choose it. */
const struct teai_scan_kernel teai_scan_kernel_avx512 = { "none", NULL, NULL, NULL, NULL, NULL, NULL };

#endif
