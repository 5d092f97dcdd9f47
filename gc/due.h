/* gc/due.h -- the queue of finalizers and cleanups that are due: first in, first out. */
#ifndef TEAI_DUE_H
#define TEAI_DUE_H

#include "platform/platform.h"
#include "teaspan/finalizer.h"

struct tea_heap;
struct tea_mutator;

/* One call to be made. */
struct teai_due {
    void *object;            /* NULL: a cleanup */
    void *argument;
    union {
        tea_finalizer_fn finalizer;
        tea_cleanup_fn cleanup;
    };
};

/* A ring in the collector's own memory. */
struct teai_due_queue {
    struct teai_due *ring;
    size_t capacity;         /* 0 or a power of two */
    size_t head;             /* place of the oldest */
    _Atomic size_t count;
    size_t mapping_bytes;
    uint64_t nfinalizers_queued, ncleanups_queued; /* ever */
};

/* How many calls are due. relaxed: changes under specials.lock; without it, a hint whether to look. */
TEAI_INLINE size_t teai_due_count(const struct teai_due_queue *queue)
{
    return atomic_load_explicit(&queue->count, memory_order_relaxed);
}

/* Under specials.lock: have room for `ndue` calls in all; false: no memory. */
bool teai_due_reserve(struct tea_heap *h, struct teai_due_queue *queue, size_t ndue);
/* Under specials.lock: give memory back that exceeds what `ndue` calls need by far. */
void teai_due_trim(struct tea_heap *h, struct teai_due_queue *queue, size_t ndue);
/* There is room. */
void teai_due_put(struct teai_due_queue *queue, const struct teai_due *due);
/* The call at this place, counted from the oldest. */
struct teai_due *teai_due_at(const struct teai_due_queue *queue, size_t place);
/* The oldest call; false: none is due. */
bool teai_due_take(struct teai_due_queue *queue, struct teai_due *due_out);
/* With the world stopped: objects, contexts and arguments in the queue are roots. */
void teai_due_list_roots_stopped(struct tea_heap *h, const struct teai_due_queue *queue);

#endif
