/* gc/span_queue.h -- grey spans: a ring per marker, one producer, any number of consumers.
 *
 * The owner appends at the tail; the owner and thieves claim entries at the head, in batches, with one
 * compare-and-swap a batch. FIFO throughout: LIFO is twice as slow on scattered heaps (measured).
 *
 * Invariants.
 *   Q1  Entries [head, tail) are valid; head <= tail; tail - head <= capacity.
 *   Q2  Only the owner moves the tail; an entry is overwritten only when head has passed it. A thief whose copy may
 *       have been overwritten fails its compare-and-swap, because head moved.
 *   Q3  A batch claimed by its owner is private; at most TEAI_SPAN_BATCH spans are out of thieves' reach.
 *
 * A ring that is full and may not grow refuses the entry; the span's objects stay grey for the repair sweep.
 */
#ifndef TEAI_SPAN_QUEUE_H
#define TEAI_SPAN_QUEUE_H

#include "gc/metadata.h"

enum { TEAI_SPAN_BATCH = 16, TEAI_SPAN_STEAL_MAX = 128 };

/* span << 16 | slot that made it grey */
typedef uint64_t teai_span_entry;

struct teai_span_queue {
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Atomic uint64_t *ring;
    uint64_t mask;                      /* capacity - 1 */
    size_t ring_bytes;
    uint32_t batch_next, batch_size;    /* the owner's private batch */
    uint32_t batch_max;                 /* how many the owner takes at once */
    teai_span_entry batch[TEAI_SPAN_STEAL_MAX];
};

/* Make room for `nspans` entries (rounded up to a power of two), when nobody else looks. Keeps the old ring when there is
 * no memory; false if there is none at all. */
bool teai_span_queue_reserve(struct teai_metadata *md, struct teai_span_queue *q, uint64_t nspans);
void teai_span_queue_reset(struct teai_span_queue *q);
/* Owner: append. False: full. */
bool teai_span_queue_put(struct teai_span_queue *q, teai_span_entry entry);
/* Owner: the next entry. */
bool teai_span_queue_get(struct teai_span_queue *q, teai_span_entry *entry_out);
/* Another marker: move up to half of what `victim` has, at most TEAI_SPAN_STEAL_MAX, into the thief's private batch (which
 * must be used up). Returns how many. */
uint32_t teai_span_queue_steal(struct teai_span_queue *thief, struct teai_span_queue *victim);
/* Entries that others could take. */
uint64_t teai_span_queue_public(const struct teai_span_queue *q);

#endif
