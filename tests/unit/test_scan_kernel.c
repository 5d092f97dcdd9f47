/* tests/unit/test_scan_kernel.c -- every scan kernel against a slow, obvious loop: for each size class it scans by span, at
 * each density of grey objects, over random words and the words at the heap's edges.
 *
 * A kernel test runs once per kernel; where the CPU lacks what a kernel needs it is skipped.
 */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include "gc/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

enum { MAX_WORDS = TEAI_PAGE_BYTES / TEAI_WORD_BYTES };

static const unsigned densities_percent[] = {0, 1, 2, 10, 50, 100};
enum { NDENSITIES = sizeof densities_percent / sizeof densities_percent[0] };

/* The one that TEASPAN=kernel= names. */
static const struct teai_scan_kernel *kernel_of_test(void)
{
    TEST_REQUIRE(teai_thread_self() != NULL);
    const struct teai_scan_kernel *kernel = h->mark.kernel;
    const struct teai_scan_kernel *asked_for =
        h->settings.kernel == TEAI_KERNEL_AVX512 ? &teai_scan_kernel_avx512
        : h->settings.kernel == TEAI_KERNEL_AVX2 ? &teai_scan_kernel_avx2
                                                 : &teai_scan_kernel_portable;
    if (kernel != asked_for)
        heap_test_skip("this kernel does not run here: the CPU lacks it, or this is a build for "
                       "ThreadSanitizer");
    return kernel;
}

static bool happens(struct test_random *random, unsigned percent)
{
    return test_random_below(random, 100) < percent;
}

/* --- filtering --- */

/* Words as programs have them: pointers anywhere into the heap, small numbers, and what is just not a pointer. */
static uintptr_t random_word(struct test_random *random, const struct teai_tables *t)
{
    uintptr_t base = t->heap_base_addr, limit = base + t->heap_limit_bytes;
    switch (test_random_below(random, 16)) {
    case 0:
        return base;
    case 1:
        return base - 1;
    case 2:
        return limit - 1;
    case 3:
        return limit;
    case 4:
        return limit + test_random_next(random) % ((uint64_t)1 << 40);
    case 5:
        return 0;
    case 6:
        return UINTPTR_MAX - test_random_below(random, 2);
    case 7:
        return test_random_next(random);
    case 8:
        return test_random_below(random, 1000);
    case 9: /* above and below the middle of the address space: the comparison is an unsigned one */
        return (base & UINT32_MAX) | (uintptr_t)1 << 63;
    default:
        return base + test_random_next(random) % t->heap_limit_bytes;
    }
}

static size_t slow_filter(const struct teai_tables *t, const uintptr_t *words, size_t nwords,
                          uint64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < nwords; i++)
        if (words[i] >= t->heap_base_addr && words[i] < t->heap_base_addr + t->heap_limit_bytes)
            out[n++] = words[i] - t->heap_base_addr;
    return n;
}

static bool slow_word_is_typed_pointer(const struct teai_tables *t, const uintptr_t *word)
{
    size_t i = ((uintptr_t)word - t->heap_base_addr) / TEAI_WORD_BYTES;
    return (t->pointer_bits[i / 8] & 1u << i % 8) != 0;
}

static size_t slow_filter_typed(const struct teai_tables *t, const uintptr_t *words, size_t nwords,
                                uint64_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < nwords; i++)
        if (slow_word_is_typed_pointer(t, &words[i]))
            n += slow_filter(t, &words[i], 1, &out[n]);
    return n;
}

typedef size_t (*filter_fn)(const struct teai_tables *t, uintptr_t base_addr, size_t nwords,
                            uint64_t *out);

static void assert_filters_like_the_loop(filter_fn filter, bool typed, const struct teai_tables *t,
                                         const uintptr_t *words, size_t nwords)
{
    static uint64_t fast[MAX_WORDS + 16], slow[MAX_WORDS + 16];
    size_t nslow = (typed ? slow_filter_typed : slow_filter)(t, words, nwords, slow);
    fast[nwords + 8] = 4711;
    size_t nfast = filter(t, (uintptr_t)words, nwords, fast);
    if (nfast != nslow || memcmp(fast, slow, nslow * sizeof *fast) != 0)
        fail_msg("%zu words at %p: %zu found, expected %zu, or others", nwords, (const void *)words,
                 nfast, nslow);
    assert_int_equal(fast[nwords + 8], 4711); /* what a kernel may write beyond is bounded */
}

/* A page of the heap that nobody uses, with random words, in a heap of some size. */
static uintptr_t *random_page(struct test_random *random, uint8_t span_class)
{
    static void *keep_heap_large;
    keep_heap_large = tea_alloc_leaf((size_t)3 << 20);
    struct tea_mutator *m = teai_thread_self();
    teai_runtime_enter(m);
    uint32_t span = teai_span_new_small(h, &m->pages, span_class);
    h->tables.heap_limit_bytes = (size_t)teai_page_heap_limit(h->pages) << TEAI_PAGE_SHIFT;
    uintptr_t *words = (uintptr_t *)teai_page_addr(&h->tables, span);
    for (size_t i = 0; i < MAX_WORDS; i++)
        words[i] = random_word(random, &h->tables);
    assert_non_null(keep_heap_large);
    return words;
}

static void filtering_finds_what_the_loop_finds(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    struct test_random random = test_random_start(kernel->name);
    const uintptr_t *words = random_page(&random, teai_span_class_of(2, TEAI_CONSERVATIVE));
    for (size_t nwords = 0; nwords <= MAX_WORDS; nwords += nwords < 70 ? 1 : 61)
        for (size_t first = 0; first + nwords <= MAX_WORDS && first < 10; first++)
            assert_filters_like_the_loop(kernel->filter, false, &h->tables, words + first, nwords);
    assert_filters_like_the_loop(kernel->filter, false, &h->tables, words, MAX_WORDS);
}

static void filtering_typed_words_finds_what_the_loop_finds(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    struct test_random random = test_random_start(kernel->name);
    const uintptr_t *words = random_page(&random, teai_span_class_of(2, TEAI_TYPED));
    uint8_t *bits = &h->tables.pointer_bits[((uintptr_t)words - h->tables.heap_base_addr) / 64];
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < MAX_WORDS / 8; i++) /* all, none, few, any */
            bits[i] = round == 0   ? 0xff
                      : round == 1 ? 0
                      : round == 2 ? 1u << i % 8
                                   : (uint8_t)test_random_next(&random);
        for (size_t nwords = 0; nwords <= MAX_WORDS; nwords += nwords < 70 ? 1 : 61)
            for (size_t first = 0; first + nwords <= MAX_WORDS && first < 20; first++)
                assert_filters_like_the_loop(kernel->filter_typed, true, &h->tables, words + first,
                                             nwords);
    }
}

/* --- taking grey objects --- */

static const uint8_t not_grey[] = {TEAI_SLOT_FREE, TEAI_SLOT_WHITE, TEAI_SLOT_BLACK};

/* `nslots` states, grey ones at the density; behind them FREE ones. */
static void random_states(struct test_random *random, teai_slot_byte *states, uint32_t nslots,
                          unsigned percent_grey)
{
    for (uint32_t i = 0; i < TEAI_SLOTS_A_PAGE; i++)
        states[i] = i >= nslots                     ? (uint8_t)TEAI_SLOT_FREE
                    : happens(random, percent_grey) ? (uint8_t)TEAI_SLOT_GREY
                                                    : not_grey[test_random_below(random, 3)];
}

static unsigned slow_take_grey(uint8_t *states, uint32_t nslots, uint64_t *grey)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < nslots; i++)
        if (states[i] == TEAI_SLOT_GREY) {
            states[i] = TEAI_SLOT_BLACK;
            grey[i / 64] |= UINT64_C(1) << i % 64;
            n++;
        }
    return n;
}

static void assert_takes_like_the_loop(const struct teai_scan_kernel *kernel,
                                       const teai_slot_byte *states, uint32_t nslots)
{
    enum { NGREY_WORDS = TEAI_SLOTS_A_PAGE / 64 };
    _Alignas(64) teai_slot_byte fast[TEAI_SLOTS_A_PAGE];
    uint8_t slow[TEAI_SLOTS_A_PAGE];
    for (uint32_t i = 0; i < TEAI_SLOTS_A_PAGE; i++)
        fast[i] = slow[i] = states[i];
    uint64_t fast_grey[NGREY_WORDS] = {0}, slow_grey[NGREY_WORDS] = {0};
    unsigned nslow = slow_take_grey(slow, nslots, slow_grey);
    assert_int_equal(kernel->any_grey(fast, teai_round_up(nslots, 64)), nslow != 0);
    assert_int_equal(kernel->take_grey(fast, nslots, fast_grey), nslow);
    assert_memory_equal(fast_grey, slow_grey, (nslots + 63) / 64 * sizeof(uint64_t));
    for (uint32_t i = 0; i < TEAI_SLOTS_A_PAGE; i++)
        assert_int_equal(fast[i], slow[i]);
    assert_false(kernel->any_grey(fast, teai_round_up(nslots, 64)));
}

static void taking_grey_finds_what_the_loop_finds(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    struct test_random random = test_random_start(kernel->name);
    for (size_t c = 2; teai_sizeclass_bytes[c] <= TEAI_SPAN_SCAN_MAX_BYTES; c++)
        for (size_t d = 0; d < NDENSITIES; d++)
            for (int round = 0; round < 20; round++) {
                _Alignas(64) teai_slot_byte states[TEAI_SLOTS_A_PAGE];
                random_states(&random, states, teai_sizeclass_nslots[c], densities_percent[d]);
                assert_takes_like_the_loop(kernel, states, teai_sizeclass_nslots[c]);
            }
}

static void a_single_grey_slot_is_found_wherever_it_is(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    for (size_t c = 2; teai_sizeclass_bytes[c] <= TEAI_SPAN_SCAN_MAX_BYTES; c++)
        for (size_t s = 0; s < sizeof not_grey; s++)
            for (uint32_t grey = 0; grey < teai_sizeclass_nslots[c]; grey++) {
                _Alignas(64) teai_slot_byte states[TEAI_SLOTS_A_PAGE] = {0};
                for (uint32_t i = 0; i < teai_sizeclass_nslots[c]; i++)
                    states[i] = not_grey[s];
                states[grey] = TEAI_SLOT_GREY;
                assert_takes_like_the_loop(kernel, states, teai_sizeclass_nslots[c]);
            }
}

/* --- resolving --- */

/* All that resolving changes. */
struct outcome {
    uint8_t *states;
    uint8_t *span_grey;
    uint64_t marked_bytes;
    uint64_t nqueued, nobjects;
};

static size_t heap_npages(void)
{
    return h->tables.heap_limit_bytes >> TEAI_PAGE_SHIFT;
}

static uint8_t *copy_states(void)
{
    size_t n = heap_npages() << TEAI_STATE_SHIFT;
    uint8_t *copy = malloc(n);
    for (size_t i = 0; i < n; i++)
        copy[i] = teai_slot_load(&h->tables.slot_state[i]);
    return copy;
}

static uint8_t *copy_span_grey(void)
{
    uint8_t *copy = malloc(heap_npages());
    for (size_t i = 0; i < heap_npages(); i++)
        copy[i] = h->tables.span_grey[i];
    return copy;
}

static void restore_states(const uint8_t *states)
{
    for (size_t i = 0; i < heap_npages() << TEAI_STATE_SHIFT; i++)
        teai_slot_store(&h->tables.slot_state[i], states[i]);
    for (size_t i = 0; i < heap_npages(); i++)
        h->tables.span_grey[i] = TEAI_GREY_NONE;
}

static uint64_t count_stacked(struct teai_marker *m)
{
    uint64_t n = 0;
    uintptr_t entry;
    do
        while (teai_work_pop(&m->objects, &entry))
            n++;
    while (teai_work_fetch(&h->mark.pool, &m->objects));
    return n;
}

/* `offsets` has room for 8 more. */
static struct outcome resolve_with(const struct teai_scan_kernel *kernel, uint64_t *offsets,
                                   size_t noffsets)
{
    teai_mark_begin(h, 1);
    struct teai_marker *m = h->mark.markers[0];
    m->kernel = kernel;
    kernel->resolve(m, offsets, noffsets);
    return (struct outcome){copy_states(), copy_span_grey(), m->marked_bytes,
                            teai_span_queue_public(&m->queue), count_stacked(m)};
}

/* One offset after another, by what mark.h promises. */
static struct outcome resolve_slowly(const uint64_t *offsets, size_t noffsets)
{
    const struct teai_tables *t = &h->tables;
    struct outcome o = {copy_states(), copy_span_grey(), 0, 0, 0};
    for (size_t i = 0; i < noffsets; i++) {
        struct teai_slot_ref ref = teai_slot_find(t, t->heap_base_addr + offsets[i]);
        if (ref.span == TEAI_NO_PAGE ||
            o.states[((size_t)ref.span << TEAI_STATE_SHIFT) + ref.slot] != TEAI_SLOT_WHITE)
            continue;
        const struct teai_span *s = &t->spans[ref.span];
        size_t bytes = teai_slot_bytes(t, ref);
        uint8_t *state = &o.states[((size_t)ref.span << TEAI_STATE_SHIFT) + ref.slot];
        o.marked_bytes += bytes;
        bool by_span = s->span_class != TEAI_CLASS_LARGE && bytes <= TEAI_SPAN_SCAN_MAX_BYTES;
        *state = s->kind == TEAI_LEAF || s->span_class == TEAI_CLASS_LARGE ? TEAI_SLOT_BLACK
                                                                           : TEAI_SLOT_GREY;
        if (s->kind == TEAI_LEAF)
            continue;
        if (!by_span) {
            o.nobjects += (bytes + TEAI_OBLET_BYTES - 1) / TEAI_OBLET_BYTES;
            continue;
        }
        o.nqueued += o.span_grey[ref.span] == TEAI_GREY_NONE;
        o.span_grey[ref.span] =
            o.span_grey[ref.span] == TEAI_GREY_NONE ? TEAI_GREY_ONE : TEAI_GREY_MANY;
    }
    return o;
}

static void assert_same_outcome(const struct outcome *fast, const struct outcome *slow)
{
    assert_int_equal(fast->marked_bytes, slow->marked_bytes);
    assert_int_equal(fast->nqueued, slow->nqueued);
    assert_int_equal(fast->nobjects, slow->nobjects);
    assert_memory_equal(fast->states, slow->states, heap_npages() << TEAI_STATE_SHIFT);
    assert_memory_equal(fast->span_grey, slow->span_grey, heap_npages());
}

static void outcome_free(struct outcome *o)
{
    free(o->states);
    free(o->span_grey);
}

/* Objects of every class and kind, some freed; large ones too. */
static void **make_objects(struct test_random *random, size_t *nobjects)
{
    static const uint64_t every_word = 1;
    static const struct tea_type type = {sizeof(void *), 1, &every_word};
    static void *objects[20000];
    size_t n = 0;
    for (size_t c = 2; c < TEAI_NSIZE_CLASSES; c++) {
        uint32_t per_kind = 4000 / teai_sizeclass_bytes[c] * 4 + 4;
        for (uint32_t i = 0; i < per_kind; i++) {
            objects[n++] = tea_alloc(teai_sizeclass_bytes[c]);
            objects[n++] = tea_alloc_leaf(teai_sizeclass_bytes[c]);
            objects[n++] = tea_alloc_typed(&type, teai_sizeclass_bytes[c] / sizeof(void *));
        }
    }
    for (size_t bytes = 40000; bytes < 1000000; bytes *= 2) {
        objects[n++] = tea_alloc(bytes);
        objects[n++] = tea_alloc_leaf(bytes);
        objects[n++] = tea_alloc_typed(&type, bytes / sizeof(void *));
    }
    for (size_t i = 0; i < n; i++)
        if (happens(random, 20))
            tea_free(objects[i]);
    *nobjects = n;
    return objects;
}

static void resolving_shades_what_the_loop_shades(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    struct test_random random = test_random_start(kernel->name);
    size_t nobjects;
    void **objects = make_objects(&random, &nobjects);
    teai_mark_begin(h, 1); /* sets the heap's limit */
    uint8_t *before = copy_states();
    for (size_t noffsets = 0; noffsets < 2000; noffsets += noffsets < 20 ? 1 : 97) {
        static uint64_t offsets[2000 + 8];
        for (size_t i = 0; i < noffsets; i++) /* starts of objects, insides, and anything */
            offsets[i] = happens(&random, 70)
                             ? (uintptr_t)objects[test_random_below(&random, (uint32_t)nobjects)] +
                                   test_random_below(&random, 8) - h->tables.heap_base_addr
                             : test_random_next(&random) % h->tables.heap_limit_bytes;
        struct outcome slow = resolve_slowly(offsets, noffsets);
        struct outcome fast = resolve_with(kernel, offsets, noffsets);
        assert_same_outcome(&fast, &slow);
        outcome_free(&slow);
        outcome_free(&fast);
        restore_states(before);
    }
    free(before);
}

/* The same slot several times in one go: shaded, counted and queued once. */
static void a_slot_named_again_and_again_is_shaded_once(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    uintptr_t object = (uintptr_t)tea_alloc(64);
    teai_mark_begin(h, 1);
    uint64_t offsets[64 + 8];
    for (int i = 0; i < 64; i++)
        offsets[i] = object + (uintptr_t)i - h->tables.heap_base_addr;
    struct outcome fast = resolve_with(kernel, offsets, 64);
    assert_int_equal(fast.marked_bytes, 64);
    assert_int_equal(fast.nqueued, 1);
    outcome_free(&fast);
}

/* --- a whole span, as the marker does it --- */

/* Take the grey slots, filter their words: the same pointers in the same order. */
static void scanning_a_span_finds_what_the_loop_finds(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    struct test_random random = test_random_start(kernel->name);
    const uintptr_t *page = random_page(&random, teai_span_class_of(2, TEAI_CONSERVATIVE));
    for (size_t c = 2; teai_sizeclass_bytes[c] <= TEAI_SPAN_SCAN_MAX_BYTES; c++)
        for (size_t d = 0; d < NDENSITIES; d++) {
            _Alignas(64) teai_slot_byte states[TEAI_SLOTS_A_PAGE];
            random_states(&random, states, teai_sizeclass_nslots[c], densities_percent[d]);
            uint64_t grey[TEAI_SLOTS_A_PAGE / 64];
            kernel->take_grey(states, teai_sizeclass_nslots[c], grey);
            size_t slot_words = teai_sizeclass_bytes[c] / TEAI_WORD_BYTES;
            for (uint32_t slot = 0; slot < teai_sizeclass_nslots[c]; slot++)
                if (grey[slot / 64] >> slot % 64 & 1)
                    assert_filters_like_the_loop(kernel->filter, false, &h->tables,
                                                 page + slot * slot_words, slot_words);
        }
}

/* All grey slots of a span at once: what filtering them one by one finds, for each class, kind and density. */
static void filtering_slots_finds_what_filtering_each_finds(void **state)
{
    (void)state;
    const struct teai_scan_kernel *kernel = kernel_of_test();
    struct test_random random = test_random_start(kernel->name);
    const uintptr_t *page = random_page(&random, teai_span_class_of(2, TEAI_TYPED));
    for (unsigned c = 2; teai_sizeclass_bytes[c] <= TEAI_SPAN_SCAN_MAX_BYTES; c++)
        for (unsigned k = 0; k < 2 * NDENSITIES; k++) {
            const struct teai_class_info *info = &teai_class_info[teai_span_class_of(
                c, k % 2 == 0 ? TEAI_CONSERVATIVE : TEAI_TYPED)];
            _Alignas(64) teai_slot_byte states[TEAI_SLOTS_A_PAGE];
            uint64_t grey[TEAI_SLOTS_A_PAGE / 64];
            uint64_t together[MAX_WORDS + 8], one_by_one[MAX_WORDS + 8];
            random_states(&random, states, info->nslots, densities_percent[k / 2]);
            kernel->take_grey(states, info->nslots, grey);
            size_t ntogether =
                kernel->filter_slots(&h->tables, (uintptr_t)page, info, grey, together);
            size_t nwords = info->slot_bytes / TEAI_WORD_BYTES, n = 0;
            for (uint32_t slot = 0; slot < info->nslots; slot++)
                if (grey[slot / 64] >> slot % 64 & 1)
                    n += info->is_typed
                             ? teai_scan_kernel_portable.filter_typed(
                                   &h->tables, (uintptr_t)(page + slot * nwords), nwords,
                                   one_by_one + n)
                             : teai_scan_kernel_portable.filter(&h->tables,
                                                                (uintptr_t)(page + slot * nwords),
                                                                nwords, one_by_one + n);
            assert_int_equal(ntogether, n);
            assert_memory_equal(together, one_by_one, n * sizeof *together);
        }
}

#define kernel_test(function)                                                                      \
    heap_test_with(function, "TEASPAN=kernel=portable"),                                           \
        heap_test_with(function, "TEASPAN=kernel=avx2"),                                           \
        heap_test_with(function, "TEASPAN=kernel=avx512")

int main(void)
{
    const struct CMUnitTest tests[] = {
        kernel_test(filtering_finds_what_the_loop_finds),
        kernel_test(filtering_typed_words_finds_what_the_loop_finds),
        kernel_test(taking_grey_finds_what_the_loop_finds),
        kernel_test(filtering_slots_finds_what_filtering_each_finds),
        kernel_test(a_single_grey_slot_is_found_wherever_it_is),
        kernel_test(resolving_shades_what_the_loop_shades),
        kernel_test(a_slot_named_again_and_again_is_shaded_once),
        kernel_test(scanning_a_span_finds_what_the_loop_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
