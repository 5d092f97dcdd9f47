/* gc/span_queue.c -- grey spans: a ring per marker, one producer, any number of consumers.
 *
 * Entries are atomics because a thief may read one while the owner overwrites it; the thief's compare-and-swap then
 * fails (Q2). All consumers, the owner too, claim with that compare-and-swap; the owner takes batches so that it
 * costs one locked operation per TEAI_SPAN_BATCH spans.
 */
#include "gc/span_queue.h"

enum { QUEUE_LEAST_ENTRIES = 1024 };

bool teai_span_queue_reserve(struct teai_metadata *md, struct teai_span_queue *q, uint64_t nspans)
{
    uint64_t want = QUEUE_LEAST_ENTRIES;
    while (want < nspans)
        want *= 2;
    if (q->ring != NULL && want <= q->mask + 1)
        return true;
    size_t bytes = want * sizeof *q->ring;
    _Atomic uint64_t *ring = teai_metadata_alloc(md, &bytes);
    if (ring == NULL)
        return q->ring != NULL;
    if (q->ring != NULL)
        teai_metadata_free(md, (void *)q->ring, q->ring_bytes);
    q->ring = ring;
    q->ring_bytes = bytes;
    q->mask = want - 1;
    return true;
}

void teai_span_queue_reset(struct teai_span_queue *q)
{
    atomic_store_explicit(&q->head, 0, memory_order_relaxed);
    atomic_store_explicit(&q->tail, 0, memory_order_relaxed);
    q->batch_next = q->batch_size = 0;
    q->batch_max = TEAI_SPAN_BATCH;
}

bool teai_span_queue_put(struct teai_span_queue *q, teai_span_entry entry)
{
    uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed); /* only we write it */
    /* acquire: pairs with queue_claim(): whoever moved head has copied its entries. */
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    if (TEAI_UNLIKELY(q->ring == NULL || tail - head > q->mask))
        return false;
    atomic_store_explicit(&q->ring[tail & q->mask], entry, memory_order_relaxed);
    /* release: publishes the entry to queue_claim(). */
    atomic_store_explicit(&q->tail, tail + 1, memory_order_release);
    return true;
}

/* Copy up to `most` entries, or half if `half`, from the head into `out`, and claim them. */
static uint32_t queue_claim(struct teai_span_queue *q, uint32_t most, bool half, teai_span_entry *out)
{
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    for (;;) {
        /* acquire: pairs with teai_span_queue_put(): entries below tail are written. */
        uint64_t tail = atomic_load_explicit(&q->tail, memory_order_acquire);
        uint64_t available = tail - head;
        if (available == 0)
            return 0;
        uint64_t n = half ? (available + 1) / 2 : available;
        n = n < most ? n : most;
        for (uint64_t i = 0; i < n; i++)
            out[i] = atomic_load_explicit(&q->ring[(head + i) & q->mask], memory_order_relaxed);
        /* release: our copies are made before the owner may overwrite; acquire on failure: to try again. */
        if (atomic_compare_exchange_weak_explicit(&q->head, &head, head + n, memory_order_acq_rel,
                                                  memory_order_acquire))
            return (uint32_t)n;
    }
}

bool teai_span_queue_get(struct teai_span_queue *q, teai_span_entry *entry_out)
{
    if (q->batch_next == q->batch_size) {
        q->batch_next = 0;
        q->batch_size = q->ring != NULL ? queue_claim(q, q->batch_max, false, q->batch) : 0;
        if (q->batch_size == 0)
            return false;
    }
    *entry_out = q->batch[q->batch_next++];
    return true;
}

uint32_t teai_span_queue_steal(struct teai_span_queue *thief, struct teai_span_queue *victim)
{
    TEAI_ASSERT(thief->batch_next == thief->batch_size);
    if (victim->ring == NULL)
        return 0;
    thief->batch_next = 0;
    thief->batch_size = queue_claim(victim, TEAI_SPAN_STEAL_MAX, true, thief->batch);
    return thief->batch_size;
}

uint64_t teai_span_queue_public(const struct teai_span_queue *q)
{
    /* relaxed: a hint for idle markers; claiming decides. */
    uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    return tail > head ? tail - head : 0;
}
