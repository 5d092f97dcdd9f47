/* gc/mark.c -- shade and drain: finding everything reachable, span by span.
 *
 * The order of work, and why (figures in docs/performance.md):
 *   1. larger objects and oblets before spans: a pointer array that reaches much of the heap then greys whole spans
 *      before the first of them is scanned (2-4 times faster on scattered heaps);
 *   2. spans in FIFO order;
 *   3. words that may be pointers are gathered in a buffer and looked up together, which lets the loads of the side
 *      tables overlap and a vector kernel test sixteen or so at a time.
 *
 * The head of mark.h has the invariants (M1-M4) and the argument for plain stores.
 */
#include "gc/mark.h"

#include "gc/arena.h"
#include "gc/heap.h"

/* --- shading --- */

static void mark_overflow(struct teai_marker *m)
{
    /* relaxed: read when all markers are idle. */
    atomic_store_explicit(&m->heap->mark.overflowed, 1, memory_order_relaxed);
}

/* Raise span_grey by one step. True: it was NONE, so the caller queues the span. */
static bool mark_raise_span_grey(struct teai_marker *m, _Atomic uint8_t *grey)
{
    uint8_t seen = atomic_load_explicit(grey, memory_order_relaxed);
    if (!m->parallel) {
        if (seen != TEAI_GREY_MANY)
            atomic_store_explicit(grey, seen + 1, memory_order_relaxed);
        return seen == TEAI_GREY_NONE;
    }
    while (seen != TEAI_GREY_MANY)
        /* acq_rel: pairs with mark_take_span(): what we stored before is seen by whoever takes the span after. */
        if (atomic_compare_exchange_weak_explicit(grey, &seen, seen + 1, memory_order_acq_rel, memory_order_relaxed))
            return seen == TEAI_GREY_NONE;
    return false;
}

static void mark_put_span(struct teai_marker *m, uint32_t span, uint32_t slot)
{
    if (TEAI_LIKELY(teai_span_queue_put(&m->queue, (teai_span_entry)span << 16 | slot)))
        return;
    atomic_store_explicit(&m->tables.span_grey[span], TEAI_GREY_NONE, memory_order_relaxed);
    mark_overflow(m);
}

/* An object of this span just became grey: queue the span, unless it is queued (M1). */
static void mark_queue_span(struct teai_marker *m, uint32_t span, uint32_t slot)
{
    if (mark_raise_span_grey(m, &m->tables.span_grey[span]))
        mark_put_span(m, span, slot);
}

static void mark_push_object(struct teai_marker *m, uintptr_t addr)
{
    if (!teai_work_push(&m->heap->mark.pool, &m->objects, addr))
        mark_overflow(m);
}

void teai_mark_small(struct teai_marker *m, uint8_t span_class, uint32_t span, uint32_t slot, teai_slot_byte *state)
{
    const struct teai_class_info info = teai_class_info[span_class];
    m->marked_bytes += info.slot_bytes;
    if (info.is_leaf) {
        teai_slot_store(state, TEAI_SLOT_BLACK);
        return;
    }
    teai_slot_store(state, TEAI_SLOT_GREY);
    if (TEAI_LIKELY(info.is_span_scanned && !m->by_object))
        mark_queue_span(m, span, slot);
    else
        mark_push_object(m, teai_page_addr(&m->tables, span) + (uintptr_t)slot * info.slot_bytes);
}

/* How much of a large object is to be scanned: of an arena's chunk, what was handed out since the arena's last reset. */
static size_t large_scan_bytes(const struct teai_span *s)
{
    /* Only a conservative span's word of this name is an arena: a typed one's is its type. */
    if (s->kind == TEAI_CONSERVATIVE && s->arena != NULL && s->arena_epoch != s->arena->epoch)
        return sizeof(struct teai_arena_chunk);
    return atomic_load_explicit(&s->scan_bytes, memory_order_relaxed);
}

/* Every oblet of a large object becomes a work item of its own, the first pushed last so that it is scanned first. */
static void mark_push_large(struct teai_marker *m, uint32_t span)
{
    const struct teai_span *s = &m->tables.spans[span];
    uintptr_t base = teai_page_addr(&m->tables, span);
    size_t bytes = large_scan_bytes(s);
    size_t last = bytes == 0 ? 0 : (bytes - 1) / TEAI_OBLET_BYTES;
    for (size_t i = last + 1; i-- > 0;)
        if (!teai_work_push(&m->heap->mark.pool, &m->objects, base + i * TEAI_OBLET_BYTES)) {
            /* Left grey: the repair sweep scans all of it. */
            mark_overflow(m);
            return;
        }
    teai_slot_store(teai_span_states(&m->tables, span), TEAI_SLOT_BLACK);
}

void teai_mark_large(struct teai_marker *m, uint32_t page)
{
    /* relaxed: the span was published before the world stopped. */
    uint32_t span = atomic_load_explicit(&m->tables.page_first[page], memory_order_relaxed);
    teai_slot_byte *state = teai_span_states(&m->tables, span);
    const struct teai_span *s = &m->tables.spans[span];
    uint8_t seen = teai_slot_load(state), reached = s->kind == TEAI_LEAF ? TEAI_SLOT_BLACK : TEAI_SLOT_GREY;
    /* A locked operation, unlike for small objects: counting or scanning a large one twice would cost more. */
    if (seen != TEAI_SLOT_WHITE ||
        !atomic_compare_exchange_strong_explicit(state, &seen, reached, memory_order_relaxed, memory_order_relaxed))
        return;
    m->marked_bytes += (uint64_t)s->npages << TEAI_PAGE_SHIFT;
    if (reached == TEAI_SLOT_GREY)
        mark_push_large(m, span);
}

void teai_mark_offset(struct teai_marker *m, uint64_t offset)
{
    const struct teai_tables *t = &m->tables;
    uint32_t page = (uint32_t)(offset >> TEAI_PAGE_SHIFT);
    unsigned tag = atomic_load_explicit(&t->page_tag[page], memory_order_relaxed);
    uint8_t span_class = (uint8_t)tag;
    if (TEAI_UNLIKELY(span_class == TEAI_CLASS_LARGE)) {
        teai_mark_large(m, page);
        return;
    }
    /* No test for pages without objects or words behind a span's last slot: their states are FREE. */
    uint32_t span = page - (tag >> 8);
    uint64_t in_span = offset - ((uint64_t)span << TEAI_PAGE_SHIFT);
    uint32_t slot = (uint32_t)((in_span * teai_class_info[span_class].magic) >> 32);
    teai_slot_byte *state = teai_span_states(t, span) + slot;
    if (teai_slot_load(state) == TEAI_SLOT_WHITE)
        teai_mark_small(m, span_class, span, slot, state);
}

void teai_mark_shade(struct teai_marker *m, uintptr_t addr)
{
    uint64_t offset = addr - m->tables.heap_base_addr;
    if (offset < m->tables.heap_limit_bytes)
        teai_mark_offset(m, offset);
}

/* --- words of roots --- */

/* A word outside the heap keeps the object it points into, and the one that ends where it points. Part of an unsanitized
 * loop, and most words lead nowhere: with calls into ThreadSanitizer for each, roots take longer than anything else. */
TEAI_NO_SANITIZE TEAI_INLINE void mark_root_word(struct teai_marker *m, uintptr_t word)
{
    uint64_t offset = word - m->tables.heap_base_addr;
    if (offset < m->tables.heap_limit_bytes)
        teai_mark_offset(m, offset);
    if (offset - 1 < m->tables.heap_limit_bytes && offset % TEAI_WORD_BYTES == 0)
        teai_mark_offset(m, offset - 1);
}

TEAI_NO_SANITIZE void teai_mark_root_block(struct teai_marker *m, struct teai_root_block block)
{
    for (uintptr_t addr = block.base_addr; addr < block.limit_addr; addr += TEAI_WORD_BYTES) {
        uintptr_t word = teai_word_load((const uintptr_t *)addr);
        if (block.exact)
            teai_mark_shade(m, word);
        else
            mark_root_word(m, word);
    }
}

/* --- scanning --- */

static void mark_resolve(struct teai_marker *m)
{
    size_t n = m->ncandidates;
    m->ncandidates = 0;
    if (n != 0)
        m->kernel->resolve(m, m->candidates, n);
}

static void mark_make_room(struct teai_marker *m)
{
    if (m->ncandidates > TEAI_CANDIDATES_FLUSH)
        mark_resolve(m);
}

/* For the init option: heap words that point one past an object keep it too. The slow, plain way. */
static void mark_scan_past_end(struct teai_marker *m, uintptr_t base, size_t nwords)
{
    teai_mark_root_block(m, (struct teai_root_block){ base, base + nwords * TEAI_WORD_BYTES, false });
}

/* Gather the pointers among `nwords` (at most 1024) words at `base`. */
static void mark_scan_words(struct teai_marker *m, uintptr_t base, size_t nwords, bool typed)
{
    if (TEAI_UNLIKELY(m->past_end && !typed)) {
        mark_scan_past_end(m, base, nwords);
        return;
    }
    mark_make_room(m);
    uint64_t *out = m->candidates + m->ncandidates;
    m->ncandidates += typed ? m->kernel->filter_typed(&m->tables, base, nwords, out)
                            : m->kernel->filter(&m->tables, base, nwords, out);
}

/* From this many candidates on there is nothing to gain by waiting for more. */
enum { RESOLVE_ANYWAY = 128 };

enum { SCAN_PIECE_WORDS = TEAI_PAGE_BYTES / TEAI_WORD_BYTES };
_Static_assert(TEAI_CANDIDATES >= TEAI_CANDIDATES_FLUSH + SCAN_PIECE_WORDS, "a piece fits behind what is not resolved yet");

static void mark_scan_range(struct teai_marker *m, uintptr_t base, uintptr_t limit, bool typed)
{
    for (; base < limit; base += SCAN_PIECE_WORDS * TEAI_WORD_BYTES) {
        size_t nwords = (limit - base) / TEAI_WORD_BYTES;
        mark_scan_words(m, base, nwords < SCAN_PIECE_WORDS ? nwords : SCAN_PIECE_WORDS, typed);
    }
}

/* A large typed object's layout repeats in every element; its bitmap stays with the type. */
static void mark_scan_large_typed(struct teai_marker *m, const struct tea_type *type, uintptr_t object, uintptr_t base,
                                  uintptr_t limit)
{
    size_t element_words = type->size_bytes / TEAI_WORD_BYTES;
    for (uintptr_t addr = base; addr < limit; addr += TEAI_WORD_BYTES) {
        size_t word = (addr - object) / TEAI_WORD_BYTES % element_words;
        if (word < type->nwords && (type->pointer_words[word / 64] >> (word % 64) & 1) != 0)
            teai_mark_shade(m, teai_word_load((const uintptr_t *)addr));
    }
}

static void mark_scan_oblet(struct teai_marker *m, uint32_t span, uintptr_t base)
{
    const struct teai_span *s = &m->tables.spans[span];
    uintptr_t object = teai_page_addr(&m->tables, span);
    uintptr_t end = object + large_scan_bytes(s);
    uintptr_t limit = end - base < TEAI_OBLET_BYTES ? end : base + TEAI_OBLET_BYTES;
    if (s->kind == TEAI_TYPED)
        mark_scan_large_typed(m, s->type, object, base, limit);
    else
        mark_scan_range(m, base, limit, false);
}

/* An entry of the object stack: a small object's start, or an oblet's. */
static void mark_scan_object(struct teai_marker *m, uintptr_t addr)
{
    const struct teai_tables *t = &m->tables;
    uint32_t page = teai_page_of(t, addr);
    unsigned tag = atomic_load_explicit(&t->page_tag[page], memory_order_relaxed);
    uint8_t span_class = (uint8_t)tag;
    if (span_class == TEAI_CLASS_LARGE) {
        mark_scan_oblet(m, atomic_load_explicit(&t->page_first[page], memory_order_relaxed), addr);
        return;
    }
    const struct teai_class_info info = teai_class_info[span_class];
    uint32_t span = page - (tag >> 8);
    uint32_t slot = (uint32_t)(((addr - teai_page_addr(t, span)) * info.magic) >> 32);
    teai_slot_store(teai_span_states(t, span) + slot, TEAI_SLOT_BLACK);
    m->nobjects_single++;
    mark_scan_range(m, addr, addr + info.slot_bytes, info.is_typed);
}

static void mark_large_contents(struct teai_marker *m, uint32_t span)
{
    uintptr_t base = teai_page_addr(&m->tables, span);
    size_t bytes = m->tables.spans[span].kind == TEAI_LEAF ? 0 : large_scan_bytes(&m->tables.spans[span]);
    for (size_t at = 0; at < bytes; at += TEAI_OBLET_BYTES)
        if (!teai_work_push(&m->heap->mark.pool, &m->objects, base + at))
            mark_scan_oblet(m, span, base + at);
}

void teai_mark_contents(struct teai_marker *m, uintptr_t object)
{
    const struct teai_tables *t = &m->tables;
    unsigned tag = atomic_load_explicit(&t->page_tag[teai_page_of(t, object)], memory_order_relaxed);
    const struct teai_class_info info = teai_class_info[(uint8_t)tag];
    if ((uint8_t)tag == TEAI_CLASS_LARGE)
        mark_large_contents(m, teai_page_of(t, object)); /* its start, so the page is the span's first */
    else if (!info.is_leaf)
        mark_scan_range(m, object, object + info.slot_bytes, info.is_typed);
}

/* --- scanning a queued span ---
 *
 * While a marker scans a span it holds span_grey at ONE. Objects that become grey in it meanwhile raise it to MANY and queue
 * nothing: the marker sees that and goes round again while the span is in its cache. (Trees and lists whose nodes were
 * allocated together are finished in one visit: 4 times faster on a tree of 2 million nodes.) Putting span_grey back to NONE
 * fails if it was raised, so no object is left behind but by the race that mark.h describes. */

/* Hold the span, and say how many objects in it had become grey: ONE or MANY. */
static uint8_t mark_hold_span(struct teai_marker *m, _Atomic uint8_t *grey)
{
    if (m->parallel) /* acq_rel: pairs with mark_raise_span_grey(): states stored before a raise are seen */
        return atomic_exchange_explicit(grey, TEAI_GREY_ONE, memory_order_acq_rel);
    uint8_t seen = atomic_load_explicit(grey, memory_order_relaxed);
    atomic_store_explicit(grey, TEAI_GREY_ONE, memory_order_relaxed);
    return seen;
}

/* Let go of the span. False: something in it became grey since it was last held. */
static bool mark_release_span(struct teai_marker *m, _Atomic uint8_t *grey)
{
    uint8_t held = TEAI_GREY_ONE;
    if (m->parallel)
        return atomic_compare_exchange_strong_explicit(grey, &held, TEAI_GREY_NONE, memory_order_acq_rel,
                                                       memory_order_acquire);
    if (atomic_load_explicit(grey, memory_order_relaxed) != TEAI_GREY_ONE)
        return false;
    atomic_store_explicit(grey, TEAI_GREY_NONE, memory_order_relaxed);
    return true;
}

static void mark_scan_one(struct teai_marker *m, uint32_t span, uint32_t slot, const struct teai_class_info *info)
{
    teai_slot_byte *state = teai_span_states(&m->tables, span) + slot;
    if (teai_slot_load(state) != TEAI_SLOT_GREY)
        return;
    teai_slot_store(state, TEAI_SLOT_BLACK);
    m->nobjects_single++;
    mark_scan_words(m, teai_page_addr(&m->tables, span) + (uintptr_t)slot * info->slot_bytes,
                    info->slot_bytes / TEAI_WORD_BYTES, info->is_typed);
}

/* For the init option: see mark_scan_past_end(). */
static void mark_scan_many_past_end(struct teai_marker *m, uintptr_t base, const struct teai_class_info *info,
                                    const uint64_t *grey)
{
    for (uint32_t slot = 0; slot < info->nslots; slot++)
        if ((grey[slot / 64] >> (slot % 64) & 1) != 0)
            mark_scan_words(m, base + (uintptr_t)slot * info->slot_bytes, info->slot_bytes / TEAI_WORD_BYTES,
                            info->is_typed);
}

static void mark_scan_many(struct teai_marker *m, uint32_t span, const struct teai_class_info *info)
{
    uint64_t grey[TEAI_SLOTS_A_PAGE / 64];
    uintptr_t base = teai_page_addr(&m->tables, span);
    m->nobjects_batch += m->kernel->take_grey(teai_span_states(&m->tables, span), info->nslots, grey);
    if (TEAI_UNLIKELY(m->past_end))
        mark_scan_many_past_end(m, base, info, grey);
    else
        m->ncandidates += m->kernel->filter_slots(&m->tables, base, info, grey, m->candidates + m->ncandidates);
}

/* Look up what the span's objects refer to, now if that may lead back into the span. A few candidates that lead elsewhere
 * wait for more: they are looked up the faster the more there are. */
static void mark_resolve_span(struct teai_marker *m, uint32_t span, size_t ncandidates_before)
{
    uint64_t span_offset = (uint64_t)span << TEAI_PAGE_SHIFT;
    bool leads_back = m->ncandidates >= RESOLVE_ANYWAY;
    for (size_t i = ncandidates_before; i < m->ncandidates && !leads_back; i++)
        leads_back = m->candidates[i] - span_offset < TEAI_PAGE_BYTES;
    if (leads_back)
        mark_resolve(m);
}

enum { PREFETCH_STATE_LINES = 4, PREFETCH_OBJECT_LINES = 16, LINE_BYTES = 64 };

/* The span after the next one: its states and first objects. The hardware finds the rest of a span by itself. */
static void mark_prefetch_ahead(const struct teai_marker *m)
{
    const struct teai_span_queue *q = &m->queue;
    if (q->batch_next + 1 >= q->batch_size)
        return;
    uint32_t span = (uint32_t)(q->batch[q->batch_next + 1] >> 16);
    const char *states = (const char *)teai_span_states(&m->tables, span);
    const char *objects = (const char *)teai_page_addr(&m->tables, span);
    for (unsigned i = 0; i < PREFETCH_STATE_LINES; i++)
        __builtin_prefetch(states + i * LINE_BYTES);
    for (unsigned i = 0; i < PREFETCH_OBJECT_LINES; i++)
        __builtin_prefetch(objects + i * LINE_BYTES);
}

static void mark_scan_span(struct teai_marker *m, teai_span_entry entry)
{
    uint32_t span = (uint32_t)(entry >> 16), slot = entry & 0xffff;
    _Atomic uint8_t *grey = &m->tables.span_grey[span];
    uint8_t span_class = (uint8_t)atomic_load_explicit(&m->tables.page_tag[span], memory_order_relaxed);
    const struct teai_class_info info = teai_class_info[span_class];
    m->nspans++;
    mark_prefetch_ahead(m);
    do {
        uint8_t found = mark_hold_span(m, grey);
        mark_make_room(m);
        size_t before = m->ncandidates;
        if (found == TEAI_GREY_ONE)
            mark_scan_one(m, span, slot, &info);
        else
            mark_scan_many(m, span, &info);
        mark_resolve_span(m, span, before);
    } while (!mark_release_span(m, grey));
}

/* The next larger object, our own first, then from the pool. */
static bool mark_next_object(struct teai_marker *m, uintptr_t *object_out)
{
    return teai_work_pop(&m->objects, object_out) ||
           (teai_work_fetch(&m->heap->mark.pool, &m->objects) && teai_work_pop(&m->objects, object_out));
}

void teai_mark_drain(struct teai_marker *m)
{
    uintptr_t object;
    teai_span_entry entry;
    for (;;) {
        if (mark_next_object(m, &object))
            mark_scan_object(m, object);
        else if (teai_span_queue_get(&m->queue, &entry))
            mark_scan_span(m, entry);
        else if (m->ncandidates != 0)
            mark_resolve(m);
        else
            return;
        if (TEAI_UNLIKELY(m->parallel && atomic_load_explicit(&m->heap->mark.nsleeping, memory_order_relaxed) != 0))
            teai_mark_feed_idle(m);
    }
}

/* --- repair --- */

/* Grey objects are scanned here and now, not listed: so every round gets on, even when no list has room for anything. */
static bool mark_repair_small(struct teai_marker *m, uint32_t span, const struct teai_class_info *info)
{
    teai_slot_byte *states = teai_span_states(&m->tables, span);
    if (info->is_leaf || !m->kernel->any_grey(states, info->nslots))
        return false;
    if (info->is_span_scanned && !m->by_object) {
        mark_make_room(m);
        mark_scan_many(m, span, info);
        return true;
    }
    for (uint32_t slot = 0; slot < info->nslots; slot++)
        if (teai_slot_load(&states[slot]) == TEAI_SLOT_GREY)
            mark_scan_object(m, teai_page_addr(&m->tables, span) + (uintptr_t)slot * info->slot_bytes);
    return true;
}

static bool mark_repair_large(struct teai_marker *m, uint32_t span)
{
    teai_slot_byte *state = teai_span_states(&m->tables, span);
    if (teai_slot_load(state) != TEAI_SLOT_GREY)
        return false;
    teai_slot_store(state, TEAI_SLOT_BLACK);
    uintptr_t base = teai_page_addr(&m->tables, span);
    size_t bytes = large_scan_bytes(&m->tables.spans[span]);
    for (size_t at = 0; at < bytes; at += TEAI_OBLET_BYTES)
        mark_scan_oblet(m, span, base + at);
    return true;
}

uint32_t teai_mark_repair_pages(struct teai_marker *m, uint32_t from, uint32_t to)
{
    const struct teai_tables *t = &m->tables;
    uint32_t nrepaired = 0;
    for (uint32_t page = from; page < to; page++) {
        unsigned tag = atomic_load_explicit(&t->page_tag[page], memory_order_relaxed);
        uint8_t span_class = (uint8_t)tag;
        if (span_class == TEAI_CLASS_NONE || tag >> 8 != 0)
            continue;
        if (span_class != TEAI_CLASS_LARGE)
            nrepaired += mark_repair_small(m, page, &teai_class_info[span_class]);
        else if (atomic_load_explicit(&t->page_first[page], memory_order_relaxed) == page)
            nrepaired += mark_repair_large(m, page);
    }
    return nrepaired;
}
