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

/* Slots of other sizes: range by range. */
AVX512 TEAI_INLINE size_t filter_runs(const struct teai_tables *t, const struct heap_bounds *heap, uintptr_t span_addr,
                                      const struct teai_class_info *info, const uint64_t *grey, uint64_t *out)
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

_Static_assert(sizeof(struct teai_class_info) == 3 * sizeof(uint32_t) && offsetof(struct teai_class_info, magic) == 0,
               "magic is gathered with a stride of three 32-bit words");

/* Reciprocals of the classes in the low bytes. Usually all are of one class. */
AVX512 TEAI_INLINE __m512i gather_magic(__m512i span_class, __mmask8 lanes)
{
    unsigned first = (unsigned)_mm_cvtsi128_si32(_mm512_castsi512_si128(span_class));
    if (TEAI_LIKELY(_mm512_mask_cmpneq_epi64_mask(lanes, span_class, _mm512_set1_epi64(first)) == 0))
        return _mm512_set1_epi64(teai_class_info[first].magic);
    __m512i magic_word = _mm512_add_epi64(span_class, _mm512_add_epi64(span_class, span_class));
    return _mm512_cvtepu32_epi64(_mm512_mask_i64gather_epi32(_mm256_setzero_si256(), lanes, magic_word, teai_class_info,
                                                             sizeof(uint32_t)));
}

/* Where in slot_state the candidates' states are; nonsense in lanes of large objects. */
AVX512 TEAI_INLINE __m512i gather_state_index(const struct teai_tables *t, __m512i offsets, __mmask8 lanes,
                                              __m512i *span_class_out)
{
    const __m512i low16 = _mm512_set1_epi64(0xffff), low8 = _mm512_set1_epi64(0xff);
    const __m512i in_page = _mm512_set1_epi64((long long)TEAI_PAGE_BYTES - 1);
    __m512i page = _mm512_srli_epi64(offsets, TEAI_PAGE_SHIFT);
    __m512i tag = _mm512_and_si512(_mm512_cvtepu32_epi64(_mm512_mask_i64gather_epi32(
                                       _mm256_setzero_si256(), lanes, page, t->page_tag, sizeof(uint16_t))), low16);
    __m512i span_class = _mm512_and_si512(tag, low8);
    __m512i page_in_span = _mm512_srli_epi64(tag, 8);
    __m512i magic = gather_magic(span_class, lanes);
    __m512i in_span =
        _mm512_or_si512(_mm512_slli_epi64(page_in_span, TEAI_PAGE_SHIFT), _mm512_and_si512(offsets, in_page));
    __m512i slot = _mm512_srli_epi64(_mm512_mul_epu32(in_span, magic), 32);
    __m512i span = _mm512_sub_epi64(page, page_in_span);
    *span_class_out = span_class;
    return _mm512_add_epi64(_mm512_slli_epi64(span, TEAI_STATE_SHIFT), slot);
}

enum { RESOLVE_BLOCK = 512, FOUND_CLASS_BITS = 8 };

/* Test up to RESOLVE_BLOCK candidates: those whose object is WHITE go to `found`, as state index and span class in one word.
 * Returns how many. Large objects are shaded here. */
AVX512 TEAI_INLINE size_t resolve_test_block(struct teai_marker *m, const uint64_t *offsets, size_t noffsets,
                                             uint64_t *found)
{
    const __m512i white = _mm512_set1_epi64(TEAI_SLOT_WHITE), large = _mm512_set1_epi64(TEAI_CLASS_LARGE);
    const __m512i low8 = _mm512_set1_epi64(0xff);
    const struct teai_tables *t = &m->tables;
    size_t nfound = 0;
    for (size_t i = 0; i < noffsets; i += LANES) {
        __mmask8 lanes = noffsets - i >= LANES ? 0xff : (__mmask8)((1u << (noffsets - i)) - 1);
        __m512i offset = _mm512_maskz_loadu_epi64(lanes, offsets + i);
        __m512i span_class;
        __m512i index = gather_state_index(t, offset, lanes, &span_class);
        __mmask8 is_large = _mm512_mask_cmpeq_epi64_mask(lanes, span_class, large);
        __mmask8 is_small = (__mmask8)(lanes & ~is_large);
        __m512i state = _mm512_and_si512(_mm512_cvtepu32_epi64(_mm512_mask_i64gather_epi32(
                                             _mm256_setzero_si256(), is_small, index, t->slot_state, 1)), low8);
        __mmask8 is_white = _mm512_mask_cmpeq_epi64_mask(is_small, state, white);
        __m512i word = _mm512_or_si512(_mm512_slli_epi64(index, FOUND_CLASS_BITS), span_class);
        nfound = append_lanes(found, nfound, word, is_white);
        for (unsigned bits = is_large; bits != 0; bits &= bits - 1)
            teai_mark_large(m, (uint32_t)(offsets[i + (unsigned)__builtin_ctz(bits)] >> TEAI_PAGE_SHIFT));
    }
    return nfound;
}

AVX512 static void avx512_resolve(struct teai_marker *m, const uint64_t *offsets, size_t noffsets)
{
    uint64_t found[RESOLVE_BLOCK + LANES];
    for (size_t i = 0; i < noffsets; i += RESOLVE_BLOCK) {
        size_t n = noffsets - i < RESOLVE_BLOCK ? noffsets - i : RESOLVE_BLOCK;
        size_t nfound = resolve_test_block(m, offsets + i, n, found);
        for (size_t k = 0; k < nfound; k++)
            teai_mark_state_index(m, found[k] >> FOUND_CLASS_BITS, (uint8_t)found[k]);
    }
}

const struct teai_scan_kernel teai_scan_kernel_avx512 = {
    "avx512", avx512_filter, avx512_filter_typed, avx512_filter_slots, avx512_take_grey, avx512_resolve, avx512_any_grey,
};

#else

/* Other machines never choose it. */
const struct teai_scan_kernel teai_scan_kernel_avx512 = { "none", NULL, NULL, NULL, NULL, NULL, NULL };

#endif
