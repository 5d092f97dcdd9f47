/* gc/central.c -- the spans of one span class that no thread holds: with free slots, and without.
 *
 * Two doubly linked lists a class, so that a span can leave from the middle when an explicit free or the
 * sweeper changes what it is. A refill takes the lock once for a whole span, so the lock is cold.
 *
 * Invariants.
 *   L1  A span is on the list that its `where` names, or on none; both change under the class's lock.
 *   L2  PARTIAL spans may turn out full and FULL ones may have had slots freed an instant ago; the list is a hint,
 *       state bytes decide. No span with free slots stays on FULL once the freeing call has returned.
 *   L3  An unswept span is on a list (stops take spans from the caches), so whoever unlinks one can claim it.
 *
 * Locks. central[class].lock, never two at once; the page heap's lock is taken under it.
 * Callers. Mutators inside the runtime, sweepers; teai_central_return_stopped() with the world stopped.
 */
#include "gc/central.h"

#include "gc/heap.h"
#include "gc/sweep.h"

void teai_central_init(struct teai_central *central)
{
    central->lock.rank = TEAI_RANK_CENTRAL;
    central->partial_head = central->partial_tail = TEAI_NO_PAGE;
    central->full_head = central->full_tail = TEAI_NO_PAGE;
}

struct central_list {
    uint32_t *head, *tail;
};

static struct central_list central_list_of(struct teai_central *c, uint8_t where)
{
    return where == TEAI_WHERE_PARTIAL ? (struct central_list){ &c->partial_head, &c->partial_tail }
                                       : (struct central_list){ &c->full_head, &c->full_tail };
}

static uint8_t span_where(const struct teai_span *s)
{
    /* acquire: pairs with span_set_where(): who sees a span listed sees the class it is listed by. Elsewhere the lock orders
     * it, or it is a hint that is checked again under the lock. */
    return atomic_load_explicit(&s->where, memory_order_acquire);
}

static void span_set_where(struct teai_span *s, uint8_t where)
{
    /* release: pairs with span_where(). */
    atomic_store_explicit(&s->where, where, memory_order_release);
}

static void central_link_tail(struct tea_heap *h, struct teai_central *c, uint32_t span, uint8_t where)
{
    struct teai_span *spans = h->tables.spans;
    struct central_list list = central_list_of(c, where);
    span_set_where(&spans[span], where);
    spans[span].next = TEAI_NO_PAGE;
    spans[span].prev = *list.tail;
    if (*list.tail == TEAI_NO_PAGE)
        *list.head = span;
    else
        spans[*list.tail].next = span;
    *list.tail = span;
}

static void central_unlink(struct tea_heap *h, struct teai_central *c, uint32_t span)
{
    struct teai_span *spans = h->tables.spans, *s = &spans[span];
    struct central_list list = central_list_of(c, span_where(s));
    if (s->prev == TEAI_NO_PAGE)
        *list.head = s->next;
    else
        spans[s->prev].next = s->next;
    if (s->next == TEAI_NO_PAGE)
        *list.tail = s->prev;
    else
        spans[s->next].prev = s->prev;
    s->next = s->prev = TEAI_NO_PAGE;
    span_set_where(s, TEAI_WHERE_NONE);
}

static struct teai_central *central_of(struct tea_heap *h, uint32_t span)
{
    return &h->central[h->tables.spans[span].span_class];
}

static bool span_has_free(const struct teai_span *s)
{
    return atomic_load_explicit(&s->nlive, memory_order_relaxed) < s->nslots;
}

/* How a listed span can be used by an allocator. */
enum central_claim { CLAIM_NO, CLAIM_SWEPT, CLAIM_TO_SWEEP };

static enum central_claim central_try_claim(struct tea_heap *h, struct teai_span *s)
{
    uint32_t gen = teai_heap_gen(h);
    if (teai_span_is_swept(s, gen))
        return CLAIM_SWEPT;
    return teai_sweep_try_claim(s, gen) ? CLAIM_TO_SWEEP : CLAIM_NO; /* no: another thread is sweeping it */
}

/* Sweep a claimed, unlinked span for the allocator. True: it has free slots. */
static bool central_sweep_taken(struct tea_heap *h, uint32_t span)
{
    struct teai_span *s = &h->tables.spans[span];
    teai_sweep_small_claimed(h, span);
    /* release: pairs with teai_span_is_swept(). */
    atomic_store_explicit(&s->sweep_gen, teai_heap_gen(h), memory_order_release);
    return span_has_free(s);
}

enum { CENTRAL_SEARCH_BUDGET = 100 };

/* Take the first usable span of one list. Only unswept spans of the FULL list can have free slots. */
static uint32_t central_take_from(struct tea_heap *h, struct teai_central *c, uint8_t where, int *budget)
{
    while ((*budget)-- > 0) {
        teai_lock_acquire(&c->lock);
        uint32_t span = *central_list_of(c, where).head;
        enum central_claim claim = CLAIM_NO;
        while (span != TEAI_NO_PAGE) {
            struct teai_span *s = &h->tables.spans[span];
            claim = central_try_claim(h, s);
            if (claim == CLAIM_TO_SWEEP || (claim == CLAIM_SWEPT && where == TEAI_WHERE_PARTIAL))
                break;
            uint32_t next = (*budget)-- > 0 ? s->next : TEAI_NO_PAGE;
            if (where == TEAI_WHERE_FULL && claim == CLAIM_SWEPT) {
                /* Swept and full: out of the way, so that the unswept ones stay in front. */
                central_unlink(h, c, span);
                central_link_tail(h, c, span, where);
            }
            span = next;
        }
        if (span != TEAI_NO_PAGE)
            central_unlink(h, c, span);
        teai_lock_release(&c->lock);
        if (span == TEAI_NO_PAGE)
            return TEAI_NO_PAGE;
        bool usable = claim == CLAIM_TO_SWEEP ? central_sweep_taken(h, span) : span_has_free(&h->tables.spans[span]);
        if (usable)
            return span;
        teai_central_return(h, span, false);
    }
    return TEAI_NO_PAGE;
}

uint32_t teai_central_take(struct tea_heap *h, struct teai_page_cache *pages, uint8_t span_class)
{
    struct teai_central *c = &h->central[span_class];
    int budget = CENTRAL_SEARCH_BUDGET;
    uint32_t span = central_take_from(h, c, TEAI_WHERE_PARTIAL, &budget);
    if (span == TEAI_NO_PAGE && !teai_sweep_is_done(h))
        span = central_take_from(h, c, TEAI_WHERE_FULL, &budget);
    if (span == TEAI_NO_PAGE)
        span = teai_span_new_small(h, pages, span_class);
    if (span != TEAI_NO_PAGE)
        span_set_where(&h->tables.spans[span], TEAI_WHERE_CACHED);
    return span;
}

void teai_central_return(struct tea_heap *h, uint32_t span, bool has_free)
{
    struct teai_central *c = central_of(h, span);
    struct teai_span *s = &h->tables.spans[span];
    teai_lock_acquire(&c->lock);
    bool empty = atomic_load_explicit(&s->nlive, memory_order_relaxed) == 0;
    if (!empty && (has_free || span_has_free(s))) {
        central_link_tail(h, c, span, TEAI_WHERE_PARTIAL);
    } else if (!empty) {
        central_link_tail(h, c, span, TEAI_WHERE_FULL);
        /* Either we see the slot that another thread frees just now, or it sees FULL and waits for the lock (L2).
         * seq_cst: a store-load pair, the other side is teai_central_slot_freed(). */
        atomic_store_explicit(&s->where, TEAI_WHERE_FULL, memory_order_seq_cst);
        if (atomic_load_explicit(&s->nlive, memory_order_seq_cst) < s->nslots) {
            central_unlink(h, c, span);
            central_link_tail(h, c, span, TEAI_WHERE_PARTIAL);
        }
    }
    teai_lock_release(&c->lock);
    if (empty)
        teai_span_delete(h, span);
}

void teai_central_return_stopped(struct tea_heap *h, uint32_t span)
{
    bool partial = span_has_free(&h->tables.spans[span]);
    central_link_tail(h, central_of(h, span), span, partial ? TEAI_WHERE_PARTIAL : TEAI_WHERE_FULL);
}

/* Nothing keeps the span in being once the caller has freed its slot: another thread may have emptied and deleted it, and its
 * first page may start a span of another class by now. */
static bool central_span_is_of(const struct tea_heap *h, uint32_t span, uint8_t span_class)
{
    return atomic_load_explicit(&h->tables.page_tag[span], memory_order_acquire) == span_class;
}

void teai_central_slot_freed(struct tea_heap *h, uint32_t span, uint8_t span_class, bool now_empty)
{
    struct teai_central *c = &h->central[span_class];
    struct teai_span *s = &h->tables.spans[span];
    /* seq_cst: pairs with teai_central_return(); the caller has lowered nlive, seq_cst too. */
    uint8_t where = atomic_load_explicit(&s->where, memory_order_seq_cst);
    if (where != TEAI_WHERE_FULL && !(now_empty && where == TEAI_WHERE_PARTIAL))
        return;
    bool delete = false;
    teai_lock_acquire(&c->lock);
    where = span_where(s);
    if ((where == TEAI_WHERE_FULL || where == TEAI_WHERE_PARTIAL) && central_span_is_of(h, span, span_class)) {
        delete = atomic_load_explicit(&s->nlive, memory_order_relaxed) == 0 && teai_span_is_swept(s, teai_heap_gen(h));
        if (delete || where == TEAI_WHERE_FULL)
            central_unlink(h, c, span);
        if (!delete && where == TEAI_WHERE_FULL)
            central_link_tail(h, c, span, TEAI_WHERE_PARTIAL);
    }
    teai_lock_release(&c->lock);
    if (delete)
        teai_span_delete(h, span);
}

bool teai_central_swept(struct tea_heap *h, uint32_t span, uint32_t heap_gen)
{
    struct teai_central *c = central_of(h, span);
    struct teai_span *s = &h->tables.spans[span];
    bool empty = atomic_load_explicit(&s->nlive, memory_order_relaxed) == 0;
    uint8_t belongs = span_has_free(s) ? TEAI_WHERE_PARTIAL : TEAI_WHERE_FULL;
    if (!empty && span_where(s) == belongs) {
        /* The usual case: it stays where it is. release: pairs with teai_span_is_swept(). */
        atomic_store_explicit(&s->sweep_gen, heap_gen, memory_order_release);
        return false;
    }
    teai_lock_acquire(&c->lock);
    central_unlink(h, c, span);
    if (!empty)
        central_link_tail(h, c, span, belongs);
    /* release: pairs with teai_span_is_swept(). */
    atomic_store_explicit(&s->sweep_gen, heap_gen, memory_order_release);
    teai_lock_release(&c->lock);
    if (empty)
        teai_span_delete(h, span);
    return empty;
}
