/* gc/mark_reference.c -- the slow, obvious marker that the real one is compared with.
 *
 * One thread, a depth-first search with an explicit stack that has room for every object, a bit a slot for what was
 * reached, and every question answered through teai_slot_find(). It starts from the roots that the mark used.
 *
 * Callers. The collecting thread, with the world stopped, after marking and before sweeping (GODEBUG=gccheckmark=1).
 */
#include "gc/arena.h"
#include "gc/cycle.h"
#include "gc/thread.h"
#include "gc/weak.h"

struct reference {
    struct tea_heap *heap;
    uint64_t *reached;       /* a bit a slot */
    size_t reached_bytes;
    uintptr_t *stack;
    size_t stack_bytes, nstack;
    uint64_t nreached;
};

static size_t reference_bit(struct teai_slot_ref ref)
{
    return ((size_t)ref.span << TEAI_STATE_SHIFT) + ref.slot;
}

static bool reference_is_reached(const struct reference *r, struct teai_slot_ref ref)
{
    size_t bit = reference_bit(ref);
    return (r->reached[bit / 64] >> (bit % 64) & 1) != 0;
}

static void reference_reach(struct reference *r, uintptr_t addr)
{
    const struct teai_tables *t = &r->heap->tables;
    if (addr - t->heap_base_addr >= t->heap_limit_bytes)
        return;
    struct teai_slot_ref ref = teai_slot_find(t, addr);
    if (ref.span == TEAI_NO_PAGE || teai_slot_load(teai_span_states(t, ref.span) + ref.slot) == TEAI_SLOT_FREE ||
        reference_is_reached(r, ref))
        return;
    size_t bit = reference_bit(ref);
    r->reached[bit / 64] |= UINT64_C(1) << (bit % 64);
    r->nreached++;
    r->stack[r->nstack++] = teai_slot_addr(t, ref);
}

TEAI_NO_SANITIZE static void reference_reach_words(struct reference *r, uintptr_t base, uintptr_t limit, bool past_end)
{
    for (uintptr_t addr = base; addr < limit; addr += TEAI_WORD_BYTES) {
        uintptr_t word = teai_word_load((const uintptr_t *)addr);
        reference_reach(r, word);
        if (past_end && word % TEAI_WORD_BYTES == 0)
            reference_reach(r, word - 1);
    }
}

static bool reference_word_is_pointer(const struct teai_tables *t, const struct teai_span *s, uintptr_t object,
                                      uintptr_t addr)
{
    if (s->span_class != TEAI_CLASS_LARGE) {
        size_t word = (addr - t->heap_base_addr) / TEAI_WORD_BYTES;
        return (t->pointer_bits[word / 8] >> (word % 8) & 1) != 0;
    }
    size_t word = (addr - object) / TEAI_WORD_BYTES % (s->type->size_bytes / TEAI_WORD_BYTES);
    return word < s->type->nwords && (s->type->pointer_words[word / 64] >> (word % 64) & 1) != 0;
}

static void reference_scan(struct reference *r, uintptr_t object)
{
    const struct teai_tables *t = &r->heap->tables;
    struct teai_slot_ref ref = teai_slot_find(t, object);
    const struct teai_span *s = &t->spans[ref.span];
    size_t bytes = teai_slot_bytes(t, ref);
    if (s->kind == TEAI_LEAF)
        return;
    if (s->span_class == TEAI_CLASS_LARGE) {
        bytes = atomic_load_explicit(&s->scan_bytes, memory_order_relaxed);
        if (s->kind == TEAI_CONSERVATIVE && s->arena != NULL && s->arena_epoch != s->arena->epoch)
            bytes = sizeof(struct teai_arena_chunk);
    }
    if (s->kind != TEAI_TYPED) {
        reference_reach_words(r, object, object + bytes, r->heap->settings.heap_past_end);
        return;
    }
    for (uintptr_t addr = object; addr < object + bytes; addr += TEAI_WORD_BYTES)
        if (reference_word_is_pointer(t, s, object, addr))
            reference_reach(r, teai_word_load((const uintptr_t *)addr));
}

static void reference_drain(struct reference *r)
{
    while (r->nstack != 0)
        reference_scan(r, r->stack[--r->nstack]);
}

static void reference_scan_finalizable(void *context, uintptr_t object)
{
    struct reference *r = context;
    reference_scan(r, object);
    reference_drain(r);
}

static void reference_reach_value(void *context, uintptr_t ephemeron, uintptr_t key, uintptr_t value)
{
    struct reference *r = context;
    const struct teai_tables *t = &r->heap->tables;
    if (!reference_is_reached(r, teai_slot_find(t, ephemeron)) || !reference_is_reached(r, teai_slot_find(t, key)))
        return;
    reference_reach(r, value);
    reference_drain(r);
}

static void reference_reach_ephemerons(struct reference *r)
{
    uint64_t nreached;
    do {
        nreached = r->nreached;
        teai_ephemerons_visit_stopped(r->heap, reference_reach_value, r);
    } while (r->nreached != nreached);
}

static bool slot_is_leased(struct tea_heap *h, uintptr_t addr)
{
    for (const struct tea_mutator *m = h->world.mutators; m != NULL; m = m->next)
        for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
            if (addr >= m->cache[i].cursor_addr && addr < m->cache[i].limit_addr)
                return true;
    return false;
}

static void reference_compare_slot(struct reference *r, struct teai_slot_ref ref, struct teai_reference_result *result)
{
    const struct teai_tables *t = &r->heap->tables;
    uint8_t state = teai_slot_load(teai_span_states(t, ref.span) + ref.slot);
    if (reference_is_reached(r, ref)) {
        if (state != TEAI_SLOT_BLACK && result->nmissed++ == 0)
            result->first_missed_addr = teai_slot_addr(t, ref);
    } else if (state != TEAI_SLOT_WHITE && state != TEAI_SLOT_FREE && !slot_is_leased(r->heap, teai_slot_addr(t, ref))) {
        result->nextra++;
    }
}

static void reference_compare_all(struct reference *r, struct teai_reference_result *result)
{
    const struct teai_tables *t = &r->heap->tables;
    uint32_t npages = (uint32_t)(t->heap_limit_bytes >> TEAI_PAGE_SHIFT);
    for (uint32_t page = 0; page < npages; page++) {
        struct teai_slot_ref ref = teai_slot_find(t, teai_page_addr(t, page));
        if (ref.span != page)
            continue;
        for (ref.slot = 0; ref.slot < t->spans[page].nslots; ref.slot++)
            reference_compare_slot(r, ref, result);
    }
}

static uint64_t reference_count_objects(const struct tea_heap *h)
{
    const struct teai_tables *t = &h->tables;
    uint32_t npages = (uint32_t)(t->heap_limit_bytes >> TEAI_PAGE_SHIFT);
    uint64_t n = 0;
    for (uint32_t page = 0; page < npages; page++)
        if (teai_slot_find(t, teai_page_addr(t, page)).span == page)
            n += t->spans[page].nslots;
    return n;
}

struct teai_reference_result teai_mark_reference_compare(struct tea_heap *h)
{
    struct teai_reference_result result = { 0 };
    struct reference r = { .heap = h };
    r.reached_bytes = (h->tables.heap_limit_bytes >> TEAI_PAGE_SHIFT) * TEAI_SLOTS_A_PAGE / 8 + sizeof(uint64_t);
    r.stack_bytes = (reference_count_objects(h) + 1) * sizeof(uintptr_t);
    r.reached = teai_metadata_alloc(&h->metadata, &r.reached_bytes);
    r.stack = teai_metadata_alloc(&h->metadata, &r.stack_bytes);
    result.no_memory = r.reached == NULL || r.stack == NULL || h->mark.roots_incomplete;
    if (!result.no_memory) {
        for (size_t i = 0; i < h->mark.nroot_blocks; i++) {
            struct teai_root_block block = h->mark.root_blocks[i];
            reference_reach_words(&r, block.base_addr, block.limit_addr, !block.exact);
            reference_drain(&r);
        }
        teai_specials_visit_finalizable_stopped(h, reference_scan_finalizable, &r);
        reference_reach_ephemerons(&r);
        reference_compare_all(&r, &result);
        result.nreached = r.nreached;
    }
    if (r.stack != NULL)
        teai_metadata_free(&h->metadata, r.stack, r.stack_bytes);
    if (r.reached != NULL)
        teai_metadata_free(&h->metadata, r.reached, r.reached_bytes);
    return result;
}
