/* gc/sweep.c -- give the slots of dead objects back to their spans.
 *
 * Problem. After mark termination every span still counts dead objects as handed out. Sweeping turns mark states
 * into allocation states, a span at a time: when an allocator wants that span, or by a walk over the pages in
 * address order, which the background sweeper and whoever needs the sweep finished share. A span costs about 50 ns,
 * since its states are 512 consecutive bytes at most and no object is touched.
 *
 * Invariants (checked by teai_verify_heap).
 *   S1  A span is swept once per cycle: whoever moves sweep_gen from heap_gen - 2 to heap_gen - 1 owns the span until
 *       heap_gen is stored.
 *   S2  No slot is handed out from an unswept span, and none is freed in one.
 *   S3  A cycle starts when nothing is unswept.
 *
 * Locks and atomics. sweep_gen is the one shared word of a span; moving or deleting a swept span takes its central
 * list's lock.
 *
 * Callers. Mutators inside the runtime; the background sweeper. Never with the world stopped.
 *
 * Source. Sweep generations: Go runtime, mgcsweep.go. Lazy sweeping: Hughes 1982.
 */
#include "gc/sweep.h"

#include <string.h>

enum { SWEEP_CHUNK_PAGES = 512 };
/* Fewer pages than this are left to allocators and the next cycle's start: not worth waking a thread. */
enum { SWEEP_BACKGROUND_MIN_PAGES = 1024 };

typedef uint64_t __attribute__((may_alias)) aliased_word;
#define STATE_LOW_BITS UINT64_C(0x0101010101010101)

/* WHITE (1) -> FREE (0), BLACK (7) -> WHITE (1), FREE stays: bit 1, moved to bit 0. Eight states a step; a span's states
 * are padded to whole words. Plain accesses: the claim (S1) makes this thread the only one here. */
uint32_t teai_sweep_states(teai_slot_byte *states, uint32_t nslots)
{
    uint64_t nlive = 0;
    for (uint32_t i = 0; i < nslots; i += 8) {
        aliased_word *word = (aliased_word *)(void *)(states + i);
        uint64_t live = (__atomic_load_n(word, __ATOMIC_RELAXED) >> 1) & STATE_LOW_BITS;
        __atomic_store_n(word, live, __ATOMIC_RELAXED);
        nlive += (live * STATE_LOW_BITS) >> 56;
    }
    return (uint32_t)nlive;
}

bool teai_sweep_try_claim(struct teai_span *s, uint32_t heap_gen)
{
    uint32_t unswept = heap_gen - 2;
    /* acquire: pairs with the release that published the span as swept the cycle before. The marks need no order
     * here: the world stopped in between. relaxed on failure: another thread owns the span and we touch nothing. */
    return atomic_compare_exchange_strong_explicit(&s->sweep_gen, &unswept, heap_gen - 1, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* GODEBUG=clobberfree=1 and debug builds: make uses after free visible. */
static void sweep_fill_dead(struct tea_heap *h, uint32_t span)
{
    const struct teai_span *s = &h->tables.spans[span];
    const teai_slot_byte *states = teai_span_states(&h->tables, span);
    for (uint32_t i = 0; i < s->nslots; i++)
        if (teai_slot_load(&states[i]) == TEAI_SLOT_WHITE)
            memset((void *)(teai_page_addr(&h->tables, span) + (uintptr_t)i * s->slot_bytes), TEAI_POISON_BYTE,
                   s->slot_bytes);
}

uint32_t teai_sweep_small_claimed(struct tea_heap *h, uint32_t span)
{
    struct teai_span *s = &h->tables.spans[span];
    if (TEAI_POISON_FREED || h->settings.clobber_free)
        sweep_fill_dead(h, span);
    uint32_t before = atomic_load_explicit(&s->nlive, memory_order_relaxed);
    uint32_t after = teai_sweep_states(teai_span_states(&h->tables, span), s->nslots);
    TEAI_CHECK(after <= before);
    uint32_t nfreed = before - after;
    if (nfreed != 0) {
        atomic_store_explicit(&s->nlive, after, memory_order_relaxed);
        atomic_store_explicit(&s->needzero, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&h->counters.class_frees[s->span_class], nfreed, memory_order_relaxed);
    }
    return nfreed;
}

static void sweep_large_claimed(struct tea_heap *h, uint32_t span, uint32_t heap_gen)
{
    struct teai_span *s = &h->tables.spans[span];
    teai_slot_byte *state = teai_span_states(&h->tables, span);
    bool live = teai_slot_load(state) == TEAI_SLOT_BLACK;
    teai_slot_store(state, live ? TEAI_SLOT_WHITE : TEAI_SLOT_FREE);
    if (!live)
        atomic_store_explicit(&s->nlive, 0, memory_order_relaxed);
    /* release: pairs with teai_span_is_swept(). */
    atomic_store_explicit(&s->sweep_gen, heap_gen, memory_order_release);
    if (live)
        return;
    uint64_t bytes = (uint64_t)s->npages << TEAI_PAGE_SHIFT;
    atomic_fetch_add_explicit(&h->counters.large_frees, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->counters.large_free_bytes, bytes, memory_order_relaxed);
    teai_span_delete(h, span);
}

static void sweep_claimed(struct tea_heap *h, uint32_t span, uint8_t span_class, uint32_t heap_gen)
{
    if (span_class == TEAI_CLASS_LARGE) {
        sweep_large_claimed(h, span, heap_gen);
        return;
    }
    teai_sweep_small_claimed(h, span);
    teai_central_swept(h, span, heap_gen);
}

/* Sweep the span that starts at `page`, if one does and it is unswept. Returns the page after it, or page + 1. */
static uint32_t sweep_page(struct tea_heap *h, uint32_t page, uint32_t heap_gen, int *nswept)
{
    struct teai_tables *t = &h->tables;
    /* acquire: pairs with the release in span_tag_pages(). */
    unsigned tag = atomic_load_explicit(&t->page_tag[page], memory_order_acquire);
    uint8_t span_class = (uint8_t)tag;
    bool starts = span_class != TEAI_CLASS_NONE && tag >> 8 == 0;
    if (span_class == TEAI_CLASS_LARGE)
        starts = atomic_load_explicit(&t->page_first[page], memory_order_relaxed) == page;
    if (!starts || !teai_sweep_try_claim(&t->spans[page], heap_gen))
        return page + 1;
    /* Claimed, so it stays a span of this class until we say otherwise. */
    uint32_t npages = t->spans[page].npages;
    sweep_claimed(h, page, span_class, heap_gen);
    *nswept += 1;
    atomic_fetch_add_explicit(&h->sweep.pages_swept, npages, memory_order_relaxed);
    return page + npages;
}

/* `limit_page` before `next_page`: a sweeper that claims pages of this cycle sees its limit. */
void teai_sweep_begin_stopped(struct tea_heap *h)
{
    struct teai_sweep *sw = &h->sweep;
    atomic_store_explicit(&h->sweep_gen, teai_heap_gen(h) + 2, memory_order_relaxed);
    atomic_store_explicit(&sw->limit_page, teai_page_heap_limit(h->pages), memory_order_relaxed);
    atomic_store_explicit(&sw->pages_swept, 0, memory_order_relaxed);
    /* release: pairs with the claim in teai_sweep_some(). */
    atomic_store_explicit(&sw->next_page, 0, memory_order_release);
}

bool teai_sweep_is_done(const struct tea_heap *h)
{
    /* acquire: pairs with the release in sweep_leave(): what sweepers wrote is seen. */
    return atomic_load_explicit(&h->sweep.done_gen, memory_order_acquire) == teai_heap_gen(h);
}

/* The last sweeper to leave after the walk has ended says so. One that was delayed into a later cycle changes nothing,
 * since done_gen only ever moves from one generation to the next. */
static void sweep_leave(struct tea_heap *h, uint32_t gen)
{
    struct teai_sweep *sw = &h->sweep;
    /* seq_cst here and in teai_sweep_some(): whoever sees no active sweeper and no page left sees all work done. */
    if (atomic_fetch_sub_explicit(&sw->nactive, 1, memory_order_seq_cst) != 1)
        return;
    uint32_t limit = atomic_load_explicit(&sw->limit_page, memory_order_relaxed);
    uint32_t before = gen - 2;
    if (atomic_load_explicit(&sw->next_page, memory_order_seq_cst) >= limit &&
        atomic_load_explicit(&sw->nactive, memory_order_seq_cst) == 0)
        atomic_compare_exchange_strong_explicit(&sw->done_gen, &before, gen, memory_order_release,
                                                memory_order_relaxed);
}

/* Claim the next pages of the walk: the first of them, or `TEAI_NO_PAGE` at its end. */
static uint32_t sweep_claim_pages(struct teai_sweep *sw)
{
    if (atomic_load_explicit(&sw->next_page, memory_order_relaxed) >=
        atomic_load_explicit(&sw->limit_page, memory_order_relaxed))
        return TEAI_NO_PAGE;
    return atomic_fetch_add_explicit(&sw->next_page, SWEEP_CHUNK_PAGES, memory_order_seq_cst);
}

int teai_sweep_some(struct tea_heap *h)
{
    struct teai_sweep *sw = &h->sweep;
    if (teai_sweep_is_done(h))
        return -1;
    atomic_fetch_add_explicit(&sw->nactive, 1, memory_order_seq_cst);
    uint32_t gen = teai_heap_gen(h);
    uint32_t from = sweep_claim_pages(sw);
    uint32_t limit = atomic_load_explicit(&sw->limit_page, memory_order_relaxed);
    int nswept = 0;
    if (from < limit) {
        gen = teai_heap_gen(h);
        uint32_t to = limit - from < SWEEP_CHUNK_PAGES ? limit : from + SWEEP_CHUNK_PAGES;
        for (uint32_t page = from; page < to;)
            page = sweep_page(h, page, gen, &nswept);
    }
    sweep_leave(h, gen);
    return from < limit ? nswept : -1;
}

void teai_sweep_finish(struct tea_heap *h)
{
    /* Nothing to claim and not done: another sweeper is inside its last chunk. Look again each time, because the last to leave
     * has to say that all is done, and one that was delayed since the cycle before says so of that cycle. */
    while (!teai_sweep_is_done(h))
        if (teai_sweep_some(h) < 0)
            teai_platform_yield();
}

enum { SWEEP_ENSURE_SPINS = 100 };

void teai_sweep_ensure(struct tea_heap *h, uint32_t span)
{
    struct teai_span *s = &h->tables.spans[span];
    uint32_t gen = teai_heap_gen(h);
    for (unsigned spins = 0; !teai_span_is_swept(s, gen); spins++) {
        if (teai_sweep_try_claim(s, gen)) {
            /* The asker's object is allocated and live, so the span is not deleted under it. */
            sweep_claimed(h, span, s->span_class, gen);
            return;
        }
        /* The span's sweeper needs less than a microsecond, unless it lost its CPU, to us perhaps. */
        if (spins < SWEEP_ENSURE_SPINS)
            teai_platform_pause();
        else
            teai_platform_yield();
    }
}

static void sweep_background(void *argument)
{
    struct tea_heap *h = argument;
    struct teai_sweep *sw = &h->sweep;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&sw->wake, memory_order_acquire);
        while (teai_sweep_some(h) >= 0)
            ;
        teai_platform_futex_wait(&sw->wake, seen);
    }
}

void teai_sweep_wake(struct tea_heap *h)
{
    struct teai_sweep *sw = &h->sweep;
    if (atomic_load_explicit(&sw->limit_page, memory_order_relaxed) < SWEEP_BACKGROUND_MIN_PAGES)
        return;
    if (!sw->thread_started) /* under the world lock; without a thread allocators do it all */
        sw->thread_started = teai_platform_helper_start("teaspan-sweep", sweep_background, h) == 0;
    atomic_fetch_add_explicit(&sw->wake, 1, memory_order_release);
    teai_platform_futex_wake(&sw->wake, 1);
}

void teai_sweep_after_fork(struct tea_heap *h)
{
    h->sweep.thread_started = false;
    /* The sweeper may have counted itself active for a moment although nothing was left to sweep. */
    if (teai_sweep_is_done(h))
        atomic_store_explicit(&h->sweep.nactive, 0, memory_order_relaxed);
}
