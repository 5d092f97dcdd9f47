/* gc/cache.c -- lease the next run of free slots, from the cached span or a new one.
 *
 * Steps of a refill: look for a run in the rest of the cached span; else give that span back and take
 * another. A run is leased by writing WHITE (BLACK while marking: what is allocated during a cycle survives it)
 * over its state bytes and, unless the kind is leaf, zeroing its slots if they may hold old contents.
 *
 * heap live grows by the run's bytes. (Go adds all free slots of a span when it is taken; runs are what is really
 * handed out, and with small goals the difference is a tenth of the heap.)
 *
 * Locks. None; the caches are their threads' own. Callers are inside the runtime, so no stop sees half a lease.
 * Source. Runs of free slots: Immix (Blackburn and McKinley, 2008), here over equal slots.
 */
#include "gc/cache.h"

#include "gc/heap.h"
#include "gc/sweep.h"
#include "gc/thread.h"

#include <string.h>

typedef uint64_t __attribute__((may_alias)) aliased_word;

enum { STATES_A_WORD = 8 };
#define STATE_LOW_BITS UINT64_C(0x0101010101010101)

void teai_cache_init(struct teai_cache *cache, uint8_t span_class)
{
    cache->slot_bytes = (uint32_t)teai_sizeclass_bytes[span_class / TEAI_NKINDS];
    cache->span = TEAI_NO_PAGE;
}

/* Eight states at once; past the last slot they are FREE. acquire: pairs with the release in object_free_small()
 * (gc/object.c): of a slot seen FREE everything else is settled, needzero too. */
static uint64_t states_load(const teai_slot_byte *states)
{
    return __atomic_load_n((const aliased_word *)(const void *)states, __ATOMIC_ACQUIRE);
}

/* First slot at or after `from` that is FREE; nslots if none. */
static uint32_t run_find_free(const teai_slot_byte *states, uint32_t from, uint32_t nslots)
{
    uint32_t slot = from & ~(uint32_t)(STATES_A_WORD - 1);
    uint64_t skip = ~UINT64_C(0) << (from % STATES_A_WORD * 8);
    for (; slot < nslots; slot += STATES_A_WORD, skip = ~UINT64_C(0)) {
        uint64_t is_free = ~states_load(states + slot) & STATE_LOW_BITS & skip;
        if (is_free != 0) {
            slot += (uint32_t)__builtin_ctzll(is_free) / 8;
            return slot < nslots ? slot : nslots;
        }
    }
    return nslots;
}

/* First slot at or after `from` that is not FREE; nslots if none. */
static uint32_t run_find_taken(const teai_slot_byte *states, uint32_t from, uint32_t nslots)
{
    uint32_t slot = from & ~(uint32_t)(STATES_A_WORD - 1);
    uint64_t skip = ~UINT64_C(0) << (from % STATES_A_WORD * 8);
    for (; slot < nslots; slot += STATES_A_WORD, skip = ~UINT64_C(0)) {
        uint64_t is_taken = states_load(states + slot) & STATE_LOW_BITS & skip;
        if (is_taken != 0) {
            slot += (uint32_t)__builtin_ctzll(is_taken) / 8;
            return slot < nslots ? slot : nslots;
        }
    }
    return nslots;
}

/* Nobody else writes these states: they are FREE and their span is ours (C1), or ours and the world is stopped. Eight at once
 * where eight belong to the run. */
static void states_fill(teai_slot_byte *states, uint32_t nslots, uint8_t state)
{
    uint32_t i = 0;
    for (; i < nslots && (uintptr_t)(states + i) % STATES_A_WORD != 0; i++)
        teai_slot_store(&states[i], state);
    for (; i + STATES_A_WORD <= nslots; i += STATES_A_WORD)
        __atomic_store_n((aliased_word *)(void *)(states + i), state * STATE_LOW_BITS, __ATOMIC_RELAXED);
    for (; i < nslots; i++)
        teai_slot_store(&states[i], state);
}

/* ThreadSanitizer knows an acquire and a release as a pair only by their address: for it, each state that another thread
 * may have freed is looked at by itself. */
static void states_acquire_singly(const teai_slot_byte *states, uint32_t nslots)
{
    for (uint32_t i = 0; i < nslots; i++)
        (void)atomic_load_explicit(&states[i], memory_order_acquire);
}

static void run_lease(struct tea_heap *h, struct teai_cache *c, uint32_t slot, uint32_t nslots)
{
    struct teai_span *s = &h->tables.spans[c->span];
    teai_slot_byte *states = teai_span_states(&h->tables, c->span) + slot;
    bool marking = atomic_load_explicit(&h->phase, memory_order_relaxed) != TEAI_PHASE_OFF;
    uint8_t state = marking ? TEAI_SLOT_BLACK : TEAI_SLOT_WHITE;
    if (TEAI_TSAN)
        states_acquire_singly(states, nslots);
    states_fill(states, nslots, state);
    atomic_fetch_add_explicit(&s->nlive, nslots, memory_order_relaxed);

    uintptr_t base = teai_page_addr(&h->tables, c->span) + (uintptr_t)slot * c->slot_bytes;
    size_t bytes = (size_t)nslots * c->slot_bytes;
    /* relaxed: ordered by states_load(). */
    bool needs_zero = atomic_load_explicit(&s->needzero, memory_order_relaxed);
    c->zero_each = needs_zero && s->kind == TEAI_LEAF;
    if (needs_zero && s->kind != TEAI_LEAF)
        memset((void *)base, 0, bytes);
    c->nleased += nslots;
    c->is_counted = true;
    /* relaxed: a count that only steers pacing. */
    atomic_fetch_add_explicit(&h->live_bytes, bytes, memory_order_relaxed);
    c->next_slot = slot + nslots;
    c->limit_addr = base + bytes;
    /* The cursor last: until then the run is empty for the fast path. */
    c->cursor_addr = base;
}

/* A run in what is left of the cached span. */
static bool cache_next_run(struct tea_heap *h, struct teai_cache *c)
{
    if (c->span == TEAI_NO_PAGE)
        return false;
    const struct teai_span *s = &h->tables.spans[c->span];
    const teai_slot_byte *states = teai_span_states(&h->tables, c->span);
    uint32_t slot = run_find_free(states, c->next_slot, s->nslots);
    if (slot == s->nslots)
        return false;
    run_lease(h, c, slot, run_find_taken(states, slot, s->nslots) - slot);
    return true;
}

bool teai_cache_refill(struct tea_heap *h, struct tea_mutator *m, uint8_t span_class)
{
    struct teai_cache *c = &m->cache[span_class];
    while (!cache_next_run(h, c)) {
        if (c->span != TEAI_NO_PAGE)
            teai_central_return(h, c->span, false);
        c->span = teai_central_take(h, &m->pages, span_class);
        if (c->span == TEAI_NO_PAGE)
            return false;
        c->next_slot = 0;
    }
    return true;
}

/* Turn what was not handed out of the run back into free slots. The run's span need not be the cached one any more (C3). */
static void cache_return_run(struct tea_heap *h, struct teai_cache *c)
{
    uint32_t unused = (uint32_t)teai_cache_unused_slots(c);
    if (unused == 0)
        return;
    struct teai_slot_ref ref = teai_slot_find(&h->tables, c->cursor_addr);
    struct teai_span *s = &h->tables.spans[ref.span];
    const uint8_t span_class = s->span_class; /* read now: with its last slot free the span may become another */
    teai_sweep_ensure(h, ref.span);
    /* The slots of a leased run are zero unless the kind is leaf, but the span may say otherwise of the rest. */
    teai_slot_byte *states = teai_span_states(&h->tables, ref.span) + ref.slot;
    c->limit_addr = c->cursor_addr = 0;
    c->nleased -= unused;
    states_fill(states, unused, TEAI_SLOT_FREE);
    /* seq_cst: pairs with teai_central_return(), as in object_free_small(). */
    uint32_t nlive = atomic_fetch_sub_explicit(&s->nlive, unused, memory_order_seq_cst) - unused;
    if (c->is_counted)
        teai_live_sub(h, (uint64_t)unused * c->slot_bytes);
    teai_central_slot_freed(h, ref.span, span_class, nlive == 0);
}

void teai_cache_flush(struct tea_heap *h, struct tea_mutator *m, uint8_t span_class)
{
    struct teai_cache *c = &m->cache[span_class];
    cache_return_run(h, c);
    if (c->span != TEAI_NO_PAGE)
        teai_central_return(h, c->span, true);
    c->span = TEAI_NO_PAGE;
}

static void cache_blacken_run(struct tea_heap *h, const struct teai_cache *c)
{
    uint32_t unused = (uint32_t)teai_cache_unused_slots(c);
    if (unused == 0)
        return;
    struct teai_slot_ref ref = teai_slot_find(&h->tables, c->cursor_addr);
    teai_slot_byte *states = teai_span_states(&h->tables, ref.span) + ref.slot;
    states_fill(states, unused, TEAI_SLOT_BLACK);
}

void teai_cache_detach_stopped(struct tea_heap *h, struct tea_mutator *m)
{
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++) {
        struct teai_cache *c = &m->cache[i];
        cache_blacken_run(h, c);
        c->is_counted = false;
        if (c->span != TEAI_NO_PAGE)
            teai_central_return_stopped(h, c->span);
        c->span = TEAI_NO_PAGE;
    }
    m->freed_bytes = 0;
}
