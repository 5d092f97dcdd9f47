/* gc/verify.c -- walk everything and check every numbered invariant of spans, lists and caches.
 *
 * Slow and obvious. P1-P4: gc/span.h. L1, L2: gc/central.c. C1: gc/cache.h.
 */
#include "gc/verify.h"

#include "gc/sweep.h"
#include "gc/thread.h"

static void verify_free_page(const struct tea_heap *h, uint32_t page)
{
    const teai_slot_byte *states = teai_span_states(&h->tables, page);
    for (uint32_t i = 0; i < TEAI_SLOTS_A_PAGE; i++)
        TEAI_CHECK(teai_slot_load(&states[i]) == TEAI_SLOT_FREE); /* P1 */
}

static void verify_small_span(struct tea_heap *h, uint32_t span, struct teai_heap_census *census)
{
    const struct teai_tables *t = &h->tables;
    const struct teai_span *s = &t->spans[span];
    const teai_slot_byte *states = teai_span_states(t, span);
    uint32_t nlive = 0;
    TEAI_CHECK(s->kind == s->span_class % TEAI_NKINDS);
    TEAI_CHECK(s->slot_bytes == teai_sizeclass_bytes[s->span_class / TEAI_NKINDS]);
    for (uint32_t i = 0; i < s->npages; i++) /* P2 */
        TEAI_CHECK(atomic_load_explicit(&t->page_tag[span + i], memory_order_relaxed) == (s->span_class | i << 8));
    for (uint32_t i = 0; i < s->npages * TEAI_SLOTS_A_PAGE; i++) {
        uint8_t state = teai_slot_load(&states[i]);
        TEAI_CHECK(state == TEAI_SLOT_FREE || (state == TEAI_SLOT_WHITE && i < s->nslots)); /* P1, P3 */
        nlive += state == TEAI_SLOT_WHITE;
    }
    TEAI_CHECK(nlive == atomic_load_explicit(&s->nlive, memory_order_relaxed)); /* P3 */
    uint8_t where = atomic_load_explicit(&s->where, memory_order_relaxed);
    TEAI_CHECK(where != TEAI_WHERE_NONE);                            /* L1 */
    TEAI_CHECK(where != TEAI_WHERE_FULL || nlive == s->nslots);      /* L2 */
    census->nspans_small++;
    census->nslots_live += nlive;
    census->bytes_live += (uint64_t)nlive * s->slot_bytes;
}

static void verify_large_span(struct tea_heap *h, uint32_t span, struct teai_heap_census *census)
{
    const struct teai_tables *t = &h->tables;
    const struct teai_span *s = &t->spans[span];
    for (uint32_t i = 0; i < s->npages; i++) { /* P2 */
        TEAI_CHECK(atomic_load_explicit(&t->page_tag[span + i], memory_order_relaxed) == TEAI_CLASS_LARGE);
        TEAI_CHECK(atomic_load_explicit(&t->page_first[span + i], memory_order_relaxed) == span);
    }
    TEAI_CHECK(teai_slot_load(teai_span_states(t, span)) == TEAI_SLOT_WHITE); /* P3 */
    census->nspans_large++;
    census->bytes_live += (uint64_t)s->npages << TEAI_PAGE_SHIFT;
}

static void verify_spans(struct tea_heap *h, struct teai_heap_census *census)
{
    const struct teai_tables *t = &h->tables;
    uint32_t limit = teai_page_heap_limit(h->pages);
    for (uint32_t page = 0; page < limit;) {
        unsigned tag = atomic_load_explicit(&t->page_tag[page], memory_order_relaxed);
        if ((uint8_t)tag == TEAI_CLASS_NONE) {
            verify_free_page(h, page++);
            continue;
        }
        TEAI_CHECK(teai_span_is_swept(&t->spans[page], teai_heap_gen(h))); /* S3 */
        if ((uint8_t)tag == TEAI_CLASS_LARGE)
            verify_large_span(h, page, census);
        else
            verify_small_span(h, page, census);
        page += t->spans[page].npages;
    }
}

static void verify_list(struct tea_heap *h, uint32_t head, uint32_t tail, uint8_t span_class, uint8_t where)
{
    const struct teai_span *spans = h->tables.spans;
    uint32_t last = TEAI_NO_PAGE;
    for (uint32_t span = head; span != TEAI_NO_PAGE; span = spans[span].next) {
        TEAI_CHECK(spans[span].prev == last);
        TEAI_CHECK(spans[span].span_class == span_class);
        TEAI_CHECK(atomic_load_explicit(&spans[span].where, memory_order_relaxed) == where); /* L1 */
        last = span;
    }
    TEAI_CHECK(last == tail);
}

static void verify_caches(struct tea_heap *h, struct teai_heap_census *census)
{
    for (const struct tea_mutator *m = h->world.mutators; m != NULL; m = m->next)
        for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++) {
            const struct teai_cache *c = &m->cache[i];
            for (uintptr_t addr = c->cursor_addr; addr < c->limit_addr; addr += c->slot_bytes) {
                struct teai_slot_ref ref = teai_slot_find(&h->tables, addr);
                TEAI_CHECK(ref.span != TEAI_NO_PAGE && teai_slot_addr(&h->tables, ref) == addr);
                TEAI_CHECK(teai_slot_load(teai_span_states(&h->tables, ref.span) + ref.slot) == TEAI_SLOT_WHITE); /* C1 */
                census->nslots_leased++;
            }
        }
}

void teai_verify_heap(struct tea_heap *h, struct teai_heap_census *census_out)
{
    struct teai_heap_census census = { 0 };
    struct tea_mutator *self = teai_thread_self();
    teai_world_acquire(h, self);
    teai_sweep_finish(h);
    teai_world_stop(h, self);
    verify_spans(h, &census);
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++) {
        const struct teai_central *c = &h->central[i];
        verify_list(h, c->partial_head, c->partial_tail, (uint8_t)i, TEAI_WHERE_PARTIAL);
        verify_list(h, c->full_head, c->full_tail, (uint8_t)i, TEAI_WHERE_FULL);
    }
    verify_caches(h, &census);
    teai_verify_specials(h);
    teai_world_restart(h);
    teai_world_release(h);
    teai_runtime_enter(self); /* a thread stopped with the page heap's lock would keep others from stopping */
    teai_verify_page_heap(h->pages);
    teai_runtime_leave(h, self);
    if (census_out != NULL)
        *census_out = census;
}
