/* gc/alloc.c -- allocation: the fast path, and what happens when it runs out: refill, collect, grow.
 *
 * The fast path is a thread's cursor in its leased run (gc/cache.h): no lock, no atomic, no test of the phase. When the
 * run is used up: collect if a cycle is due, then lease another. When there is no memory: a full collection, then the
 * client's callback, then NULL.
 *
 * Locks. None in the fast path; below it those of the central lists and the page heap, inside the runtime region.
 * Source. Go runtime, malloc.go, for the order of steps and the tiny allocator.
 */
#include "gc/alloc.h"

#include "gc/cycle.h"
#include "gc/sweep.h"
#include "teaspan/alloc.h"

#include <errno.h>
#include <string.h>

/* --- small objects --- */

static void *cache_pop(struct teai_cache *c)
{
    uintptr_t addr = c->cursor_addr;
    if (TEAI_UNLIKELY(addr == c->limit_addr))
        return NULL;
    c->cursor_addr = addr + c->slot_bytes;
    return (void *)addr;
}

static bool stress_is_due(struct tea_heap *h, struct tea_mutator *m)
{
    uint32_t every = h->settings.stress;
    return every != 0 && ++m->refills % every == 0;
}

static void collect_if_due(struct tea_heap *h, struct tea_mutator *m)
{
    if (TEAI_UNLIKELY(teai_cycle_is_due(h)))
        teai_cycle_run(h, m, TEAI_CYCLE_HEAP);
    else if (TEAI_UNLIKELY(stress_is_due(h, m)))
        teai_cycle_run(h, m, TEAI_CYCLE_STRESS);
}

static bool refill(struct tea_heap *h, struct tea_mutator *m, uint8_t span_class)
{
    teai_runtime_enter(m);
    teai_thread_settle_freed(h, m);
    bool filled = teai_cache_refill(h, m, span_class);
    teai_runtime_leave(h, m);
    return filled;
}

/* No memory: try again after a full collection, then as often as the client's callback wants. */
struct oom_state {
    bool collected;
};

static bool oom_try_again(struct tea_heap *h, struct tea_mutator *m, struct oom_state *state, size_t size_bytes)
{
    if (!state->collected) {
        state->collected = true;
        teai_cycle_run(h, m, TEAI_CYCLE_OOM);
        return true;
    }
    if (teai_oom_ask(size_bytes)) {
        state->collected = false;
        return true;
    }
    errno = ENOMEM;
    return false;
}

static TEAI_NOINLINE void *small_slow(struct tea_mutator *m, uint8_t span_class, size_t size_bytes)
{
    struct tea_heap *h = m->heap;
    struct oom_state oom = { false };
    void *object;
    collect_if_due(h, m);
    while ((object = cache_pop(&m->cache[span_class])) == NULL)
        if (!refill(h, m, span_class) && !oom_try_again(h, m, &oom, size_bytes))
            return NULL;
    return object;
}

TEAI_INLINE void *small_pop(struct tea_mutator *m, uint8_t span_class, size_t size_bytes)
{
    struct teai_cache *c = &m->cache[span_class];
    uintptr_t addr = c->cursor_addr;
    if (TEAI_UNLIKELY(addr == c->limit_addr))
        return small_slow(m, span_class, size_bytes);
    c->cursor_addr = addr + c->slot_bytes;
    return (void *)addr;
}

static void *small_leaf(struct tea_mutator *m, size_t size_bytes, bool zero)
{
    uint8_t span_class = teai_span_class_of(teai_sizeclass_of(size_bytes), TEAI_LEAF);
    void *object = small_pop(m, span_class, size_bytes);
    if (zero && object != NULL && m->cache[span_class].zero_each)
        memset(object, 0, m->cache[span_class].slot_bytes);
    return object;
}

/* --- tiny objects: leaf, below 16 bytes, several to a block --- */

static size_t tiny_alignment(size_t size_bytes)
{
    return size_bytes % 8 == 0 ? 8 : size_bytes % 4 == 0 ? 4 : size_bytes % 2 == 0 ? 2 : 1;
}

static void *tiny_alloc(struct tea_mutator *m, size_t size_bytes)
{
    struct teai_tiny *tiny = &m->tiny;
    size_bytes += size_bytes == 0; /* or two empty objects would be one, and one at a block's end be the next block */
    size_t at = teai_round_up(tiny->used_bytes, tiny_alignment(size_bytes));
    if (tiny->block_addr != 0 && at + size_bytes <= TEAI_TINY_BYTES) {
        tiny->used_bytes = (uint32_t)(at + size_bytes);
        tiny->nallocs++;
        return (void *)(tiny->block_addr + at);
    }
    void *block = small_leaf(m, TEAI_TINY_BYTES, true);
    /* Keep whichever block has more room left. */
    if (block != NULL && (tiny->block_addr == 0 || size_bytes < tiny->used_bytes)) {
        tiny->block_addr = (uintptr_t)block;
        tiny->used_bytes = (uint32_t)size_bytes;
    }
    return block;
}

/* --- large objects --- */

static uint32_t large_take_pages(struct tea_heap *h, struct tea_mutator *m, uint32_t npages, uint32_t align_pages,
                                 enum teai_kind kind, bool *zeroed_out)
{
    teai_runtime_enter(m);
    teai_thread_settle_freed(h, m);
    uint32_t span = teai_span_new_large(h, npages, align_pages, kind, zeroed_out);
    teai_runtime_leave(h, m);
    return span;
}

/* Cleared outside the runtime, so that a long clear delays no stop, and unpublished, so that nobody scans it. */
static void *large_publish(struct tea_heap *h, struct tea_mutator *m, uint32_t span, const struct teai_request *request,
                           bool zeroed)
{
    struct teai_span *s = &h->tables.spans[span];
    uintptr_t base = teai_page_addr(&h->tables, span);
    size_t bytes = (size_t)s->npages << TEAI_PAGE_SHIFT;
    if (request->zero && !zeroed)
        memset((void *)base, 0, bytes);
    s->type = request->type;
    atomic_store_explicit(&s->scan_bytes, request->kind == TEAI_LEAF ? 0 : bytes, memory_order_relaxed);
    teai_runtime_enter(m);
    teai_span_publish_large(h, span);
    atomic_fetch_add_explicit(&h->live_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->counters.large_mallocs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->counters.large_alloc_bytes, bytes, memory_order_relaxed);
    /* The only reference is in this frame from here on; a stop in leave scans it. */
    teai_runtime_leave(h, m);
    return (void *)base;
}

static void *large_alloc(struct tea_mutator *m, const struct teai_request *request)
{
    struct tea_heap *h = m->heap;
    uint64_t npages = (request->size_bytes + TEAI_PAGE_BYTES - 1) >> TEAI_PAGE_SHIFT;
    if (npages > h->max_pages) {
        errno = ENOMEM;
        return NULL;
    }
    uint32_t align_pages = (uint32_t)(request->align_bytes >> TEAI_PAGE_SHIFT);
    struct oom_state oom = { false };
    bool zeroed;
    uint32_t span;
    collect_if_due(h, m);
    while ((span = large_take_pages(h, m, (uint32_t)npages, align_pages, request->kind, &zeroed)) == TEAI_NO_PAGE)
        if (!oom_try_again(h, m, &oom, request->size_bytes))
            return NULL;
    return large_publish(h, m, span, request, zeroed);
}

/* --- typed objects --- */

/* Bits of the words that `mask` selects in a byte of the bitmap. Its other bits may belong to slots of another thread's run
 * in the same span; often the slot held an object of the same type before, and nothing is to be done. relaxed: markers read
 * the bits of an object only after it was handed out and its thread stopped. */
static void pointer_bits_write(uint8_t *byte, uint8_t mask, uint8_t bits)
{
    uint8_t seen = __atomic_load_n(byte, __ATOMIC_RELAXED);
    while ((seen & mask) != bits &&
           !__atomic_compare_exchange_n(byte, &seen, (uint8_t)((seen & ~mask) | bits), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
        ;
}

static bool type_word_is_pointer(const struct tea_type *type, size_t word)
{
    return word < type->nwords && (type->pointer_words[word / 64] >> (word % 64) & 1) != 0;
}

/* The type's bits for each element of the slot, byte by byte. */
void teai_alloc_set_pointer_bits(struct tea_heap *h, uintptr_t object, size_t slot_bytes, const struct tea_type *type)
{
    size_t word = (object - h->tables.heap_base_addr) / TEAI_WORD_BYTES;
    size_t limit = word + slot_bytes / TEAI_WORD_BYTES;
    size_t element_words = type->size_bytes / TEAI_WORD_BYTES, in_element = 0;
    while (word < limit) {
        uint8_t *byte = &h->tables.pointer_bits[word / 8];
        uint8_t mask = 0, bits = 0;
        do {
            uint8_t bit = (uint8_t)(1u << (word % 8));
            mask |= bit;
            bits |= type_word_is_pointer(type, in_element) ? bit : 0;
            in_element = in_element + 1 == element_words ? 0 : in_element + 1;
            word++;
        } while (word < limit && word % 8 != 0);
        pointer_bits_write(byte, mask, bits);
    }
}

static void *small_typed(struct tea_mutator *m, size_t size_bytes, const struct tea_type *type)
{
    uint8_t span_class = teai_span_class_of(teai_sizeclass_of(size_bytes), TEAI_TYPED);
    void *object = small_pop(m, span_class, size_bytes);
    if (object != NULL)
        teai_alloc_set_pointer_bits(m->heap, (uintptr_t)object, m->cache[span_class].slot_bytes, type);
    return object;
}

/* --- by request --- */

static bool size_is_possible(size_t size_bytes)
{
    if (TEAI_LIKELY(size_bytes <= TEA_MAX_OBJECT_BYTES))
        return true;
    errno = ENOMEM;
    return false;
}

static void *small_alloc(struct tea_mutator *m, const struct teai_request *r)
{
    switch (r->kind) {
    case TEAI_LEAF:
        return r->size_bytes < TEAI_TINY_BYTES ? tiny_alloc(m, r->size_bytes) : small_leaf(m, r->size_bytes, r->zero);
    case TEAI_TYPED:
        return small_typed(m, r->size_bytes, r->type);
    default:
        return small_pop(m, teai_span_class_of(teai_sizeclass_of(r->size_bytes), r->kind), r->size_bytes);
    }
}

/* Slots that are multiples of the alignment, in spans that start at a page: a request rounded up to a power of two gets
 * such a class, or pages. */
static size_t size_for_alignment(size_t size_bytes, size_t align_bytes)
{
    if (align_bytes <= 16)
        return size_bytes == TEAI_SIZECLASS_24_BYTES ? size_bytes + 1 : size_bytes;
    size_t rounded = align_bytes;
    size_bytes += size_bytes == 0; /* which would round to 0 below */
    while (rounded < size_bytes)
        rounded *= 2;
    return rounded <= TEAI_PAGE_BYTES ? rounded : teai_round_up(size_bytes, align_bytes);
}

void *teai_alloc(const struct teai_request *request)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL || !size_is_possible(request->size_bytes))
        return NULL;
    struct teai_request r = *request;
    if (r.align_bytes != 0)
        r.size_bytes = size_for_alignment(r.size_bytes, r.align_bytes);
    bool needs_pages = r.size_bytes > TEAI_MAX_SMALL_BYTES || (r.align_bytes > 16 && r.size_bytes > TEAI_PAGE_BYTES);
    return needs_pages ? large_alloc(m, &r) : small_alloc(m, &r);
}

/* --- the public calls --- */

void *tea_alloc(size_t size_bytes)
{
    struct tea_mutator *m = teai_self;
    if (TEAI_LIKELY(m != NULL && size_bytes <= TEAI_MAX_SMALL_BYTES))
        return small_pop(m, teai_span_class_of(teai_sizeclass_of(size_bytes), TEAI_CONSERVATIVE), size_bytes);
    return teai_alloc(&(struct teai_request){ .size_bytes = size_bytes, .kind = TEAI_CONSERVATIVE, .zero = true });
}

static bool product_overflows(size_t count, size_t size_bytes, size_t *product_out)
{
    if (!__builtin_mul_overflow(count, size_bytes, product_out))
        return false;
    errno = ENOMEM;
    return true;
}

void *tea_calloc(size_t count, size_t size_bytes)
{
    size_t bytes;
    return product_overflows(count, size_bytes, &bytes) ? NULL : tea_alloc(bytes);
}

static void *alloc_leaf(size_t size_bytes, bool zero)
{
    struct tea_mutator *m = teai_self;
    if (TEAI_LIKELY(m != NULL && size_bytes <= TEAI_MAX_SMALL_BYTES))
        return size_bytes < TEAI_TINY_BYTES ? tiny_alloc(m, size_bytes) : small_leaf(m, size_bytes, zero);
    return teai_alloc(&(struct teai_request){ .size_bytes = size_bytes, .kind = TEAI_LEAF, .zero = zero });
}

void *tea_alloc_leaf(size_t size_bytes)
{
    return alloc_leaf(size_bytes, true);
}

void *tea_alloc_leaf_uninit(size_t size_bytes)
{
    return alloc_leaf(size_bytes, false);
}

static bool type_is_valid(const struct tea_type *type)
{
    return type != NULL && type->size_bytes != 0 && type->size_bytes % TEAI_WORD_BYTES == 0 &&
           type->nwords <= type->size_bytes / TEAI_WORD_BYTES && (type->nwords == 0 || type->pointer_words != NULL);
}

void *tea_alloc_typed(const struct tea_type *type, size_t count)
{
    size_t bytes;
    if (!type_is_valid(type)) {
        errno = EINVAL;
        return NULL;
    }
    if (product_overflows(count, type->size_bytes, &bytes))
        return NULL;
    return teai_alloc(&(struct teai_request){ .size_bytes = bytes, .kind = TEAI_TYPED, .zero = true, .type = type });
}

#define ALIGNMENT_MAX_BYTES ((size_t)1 << 20)

void *tea_alloc_aligned(size_t alignment_bytes, size_t size_bytes)
{
    if (alignment_bytes == 0 || (alignment_bytes & (alignment_bytes - 1)) != 0 || alignment_bytes > ALIGNMENT_MAX_BYTES) {
        errno = EINVAL;
        return NULL;
    }
    return teai_alloc(&(struct teai_request){ .size_bytes = size_bytes, .kind = TEAI_CONSERVATIVE, .zero = true,
                                              .align_bytes = alignment_bytes });
}

void *tea_alloc_uncollectable(size_t size_bytes)
{
    void *object = tea_alloc(size_bytes);
    if (object == NULL)
        return NULL;
    struct tea_mutator *m = teai_self;
    teai_runtime_enter(m);
    bool pinned = teai_pin_add(m->heap, (uintptr_t)object);
    teai_runtime_leave(m->heap, m);
    if (!pinned) {
        tea_free(object);
        errno = ENOMEM;
        return NULL;
    }
    return object;
}

static char *copy_text(const char *text, size_t nbytes)
{
    char *copy = tea_alloc_leaf_uninit(nbytes + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, nbytes);
    copy[nbytes] = '\0';
    return copy;
}

char *tea_strdup(const char *text)
{
    return copy_text(text, strlen(text));
}

char *tea_strndup(const char *text, size_t max_bytes)
{
    return copy_text(text, strnlen(text, max_bytes));
}

void *tea_memdup(const void *bytes, size_t size_bytes)
{
    void *copy = tea_alloc(size_bytes);
    if (copy != NULL && size_bytes != 0)
        memcpy(copy, bytes, size_bytes);
    return copy;
}
