/* gc/span.c -- make spans of pages, publish them, find the slot an address belongs to.
 *
 * Publication. A word found anywhere may lead the marker to a span that is just being made. The page tag is
 * stored last (release) and read first; a marker that sees no tag ignores the page. Since marking happens while
 * mutators are outside the runtime (or, for pages given out during a mark, black), that is enough.
 *
 * Callers. Attached mutators inside the runtime; sweepers, for deletion.
 * Locks. None of its own; the page heap's below.
 */
#include "gc/span.h"

#include "gc/heap.h"

struct teai_class_info teai_class_info[256] TEAI_STATE;

void teai_class_info_init(void)
{
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++) {
        unsigned sizeclass = i / TEAI_NKINDS;
        teai_class_info[i] = (struct teai_class_info){
            .magic = teai_sizeclass_magic[sizeclass],
            .slot_bytes = (uint32_t)teai_sizeclass_bytes[sizeclass],
            .nslots = (uint16_t)teai_sizeclass_nslots[sizeclass],
            .is_leaf = i % TEAI_NKINDS == TEAI_LEAF,
            .is_typed = i % TEAI_NKINDS == TEAI_TYPED,
            .is_span_scanned =
                i % TEAI_NKINDS != TEAI_LEAF && teai_sizeclass_bytes[sizeclass] <= TEAI_SPAN_SCAN_MAX_BYTES,
        };
    }
}

struct teai_slot_ref teai_slot_find(const struct teai_tables *t, uintptr_t addr)
{
    struct teai_slot_ref none = { TEAI_NO_PAGE, 0 };
    uint32_t page = teai_page_of(t, addr);
    /* acquire: pairs with the release in span_tag_pages(): the span's record is complete. */
    unsigned tag = atomic_load_explicit(&t->page_tag[page], memory_order_acquire);
    unsigned span_class = tag & 0xff;
    if (span_class == TEAI_CLASS_NONE)
        return none;
    if (span_class == TEAI_CLASS_LARGE) {
        /* relaxed: written before the tag. */
        uint32_t first = atomic_load_explicit(&t->page_first[page], memory_order_relaxed);
        return (struct teai_slot_ref){ first, 0 };
    }
    uint32_t span = page - (tag >> 8);
    uint32_t offset = (uint32_t)(addr - teai_page_addr(t, span));
    uint32_t slot = (uint32_t)(((uint64_t)offset * teai_sizeclass_magic[span_class / TEAI_NKINDS]) >> 32);
    /* Behind the last slot of a span lie a few bytes that belong to none. */
    return slot < t->spans[span].nslots ? (struct teai_slot_ref){ span, slot } : none;
}

uintptr_t teai_slot_addr(const struct teai_tables *t, struct teai_slot_ref ref)
{
    const struct teai_span *s = &t->spans[ref.span];
    return teai_page_addr(t, ref.span) + (uintptr_t)ref.slot * s->slot_bytes;
}

size_t teai_slot_bytes(const struct teai_tables *t, struct teai_slot_ref ref)
{
    const struct teai_span *s = &t->spans[ref.span];
    return s->span_class == TEAI_CLASS_LARGE ? (size_t)s->npages << TEAI_PAGE_SHIFT : s->slot_bytes;
}

static void span_init(struct tea_heap *h, uint32_t span, uint32_t npages, uint32_t nslots, uint32_t slot_bytes,
                      uint8_t span_class, uint8_t kind, bool zeroed)
{
    struct teai_span *s = &h->tables.spans[span];
    s->npages = npages;
    s->nslots = nslots;
    s->slot_bytes = slot_bytes;
    s->span_class = span_class;
    s->kind = kind;
    s->next = s->prev = TEAI_NO_PAGE;
    s->type = NULL; /* nor an arena */
    atomic_store_explicit(&s->nlive, 0, memory_order_relaxed);
    atomic_store_explicit(&s->nspecials, 0, memory_order_relaxed);
    atomic_store_explicit(&s->where, TEAI_WHERE_NONE, memory_order_relaxed);
    atomic_store_explicit(&s->needzero, !zeroed, memory_order_relaxed);
    atomic_store_explicit(&s->scan_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&h->tables.span_grey[span], 0, memory_order_relaxed);
    /* release: pairs with teai_span_is_swept(). */
    atomic_store_explicit(&s->sweep_gen, teai_heap_gen(h), memory_order_release);
}

static void span_tag_pages(struct teai_tables *t, uint32_t span, uint32_t from, uint32_t npages, uint8_t span_class)
{
    bool large = span_class == TEAI_CLASS_LARGE;
    for (uint32_t i = from; i < npages; i++) {
        if (large)
            atomic_store_explicit(&t->page_first[span + i], span, memory_order_relaxed);
        uint16_t tag = (uint16_t)(span_class | (large ? 0 : i << 8));
        /* release: pairs with teai_slot_find(); publishes the span's record and page_first. */
        atomic_store_explicit(&t->page_tag[span + i], tag, memory_order_release);
    }
}

static void span_untag_pages(struct teai_tables *t, uint32_t first, uint32_t npages)
{
    for (uint32_t i = 0; i < npages; i++)
        atomic_store_explicit(&t->page_tag[first + i], TEAI_CLASS_NONE, memory_order_relaxed);
}

uint32_t teai_span_new_small(struct tea_heap *h, struct teai_page_cache *pages, uint8_t span_class)
{
    size_t sizeclass = span_class / TEAI_NKINDS;
    uint32_t npages = teai_sizeclass_pages[sizeclass];
    bool zeroed;
    uint32_t span = teai_page_cache_alloc(h->pages, pages, npages, &zeroed);
    if (span == TEAI_NO_PAGE)
        return span;
    span_init(h, span, npages, teai_sizeclass_nslots[sizeclass], (uint32_t)teai_sizeclass_bytes[sizeclass],
              span_class, span_class % TEAI_NKINDS, zeroed);
    span_tag_pages(&h->tables, span, 0, npages, span_class);
    return span;
}

uint32_t teai_span_new_large(struct tea_heap *h, uint32_t npages, uint32_t align_pages, enum teai_kind kind, bool *zeroed_out)
{
    uint32_t span = align_pages <= 1 ? teai_page_heap_alloc(h->pages, npages, zeroed_out, NULL)
                                     : teai_page_heap_alloc_aligned(h->pages, npages, align_pages, zeroed_out);
    if (span != TEAI_NO_PAGE)
        span_init(h, span, npages, 1, 0, TEAI_CLASS_LARGE, (uint8_t)kind, *zeroed_out);
    return span;
}

void teai_span_publish_large(struct tea_heap *h, uint32_t span)
{
    struct teai_span *s = &h->tables.spans[span];
    uint8_t state = atomic_load_explicit(&h->phase, memory_order_relaxed) == TEAI_PHASE_OFF ? TEAI_SLOT_WHITE
                                                                                              : TEAI_SLOT_BLACK;
    atomic_store_explicit(&s->nlive, 1, memory_order_relaxed);
    /* A cycle may have come and gone since the pages were taken. */
    atomic_store_explicit(&s->sweep_gen, teai_heap_gen(h), memory_order_relaxed);
    teai_slot_store(teai_span_states(&h->tables, span), state);
    span_tag_pages(&h->tables, span, 0, s->npages, TEAI_CLASS_LARGE);
}

bool teai_span_extend_large(struct tea_heap *h, uint32_t span, uint32_t npages, bool *zeroed_out)
{
    struct teai_span *s = &h->tables.spans[span];
    if (!teai_page_heap_extend(h->pages, span, s->npages, npages - s->npages, zeroed_out))
        return false;
    span_tag_pages(&h->tables, span, s->npages, npages, TEAI_CLASS_LARGE);
    s->npages = npages;
    return true;
}

void teai_span_shrink_large(struct tea_heap *h, uint32_t span, uint32_t npages)
{
    struct teai_span *s = &h->tables.spans[span];
    uint32_t nfreed = s->npages - npages;
    s->npages = npages;
    span_untag_pages(&h->tables, span + npages, nfreed);
    teai_page_heap_free(h->pages, span + npages, nfreed);
}

void teai_span_delete(struct tea_heap *h, uint32_t span)
{
    struct teai_span *s = &h->tables.spans[span];
    TEAI_ASSERT(atomic_load_explicit(&s->nlive, memory_order_relaxed) == 0);
    atomic_store_explicit(&s->where, TEAI_WHERE_NONE, memory_order_relaxed);
    span_untag_pages(&h->tables, span, s->npages);
    teai_page_heap_free(h->pages, span, s->npages);
}
