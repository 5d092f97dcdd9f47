/* gc/due.c -- the queue of finalizers and cleanups that are due: first in, first out.
 *
 * Locks. specials.lock of its owner; entries are put with the world stopped, when no memory may be wanting (S6), so room is
 * reserved when a finalizer or cleanup is registered.
 */
#include "gc/due.h"

#include "gc/heap.h"

enum { DUE_SHRINK_FACTOR = 4 };

static size_t due_least_capacity(void)
{
    size_t capacity = 1;
    while (capacity * 2 * sizeof(struct teai_due) <= teai_platform_os_page_bytes())
        capacity *= 2;
    return capacity;
}

static size_t due_capacity_for(size_t ndue)
{
    size_t capacity = due_least_capacity();
    while (capacity < ndue)
        capacity *= 2;
    return capacity;
}

struct teai_due *teai_due_at(const struct teai_due_queue *queue, size_t place)
{
    return &queue->ring[(queue->head + place) & (queue->capacity - 1)];
}

static bool due_resize(struct tea_heap *h, struct teai_due_queue *queue, size_t capacity)
{
    size_t bytes = capacity * sizeof(struct teai_due);
    struct teai_due *ring = teai_metadata_alloc(&h->metadata, &bytes);
    if (ring == NULL)
        return false;
    size_t count = teai_due_count(queue);
    for (size_t i = 0; i < count; i++)
        ring[i] = *teai_due_at(queue, i);
    if (queue->ring != NULL)
        teai_metadata_free(&h->metadata, queue->ring, queue->mapping_bytes);
    queue->ring = ring;
    queue->capacity = capacity;
    queue->mapping_bytes = bytes;
    queue->head = 0;
    return true;
}

bool teai_due_reserve(struct tea_heap *h, struct teai_due_queue *queue, size_t ndue)
{
    return ndue <= queue->capacity || due_resize(h, queue, due_capacity_for(ndue));
}

void teai_due_trim(struct tea_heap *h, struct teai_due_queue *queue, size_t ndue)
{
    size_t capacity = due_capacity_for(ndue);
    if (queue->capacity >= DUE_SHRINK_FACTOR * capacity)
        (void)due_resize(h, queue, capacity); /* without memory for less it stays as it is */
}

void teai_due_put(struct teai_due_queue *queue, const struct teai_due *due)
{
    size_t count = teai_due_count(queue);
    TEAI_CHECK(count < queue->capacity); /* S6 */
    *teai_due_at(queue, count) = *due;
    atomic_store_explicit(&queue->count, count + 1, memory_order_relaxed);
    if (due->object != NULL)
        queue->nfinalizers_queued++;
    else
        queue->ncleanups_queued++;
}

bool teai_due_take(struct teai_due_queue *queue, struct teai_due *due_out)
{
    size_t count = teai_due_count(queue);
    if (count == 0)
        return false;
    struct teai_due *oldest = teai_due_at(queue, 0);
    *due_out = *oldest;
    *oldest = (struct teai_due){ .object = NULL };
    queue->head = (queue->head + 1) & (queue->capacity - 1);
    atomic_store_explicit(&queue->count, count - 1, memory_order_relaxed);
    return true;
}

void teai_due_list_roots_stopped(struct tea_heap *h, const struct teai_due_queue *queue)
{
    /* Entries that are not in use are zero. */
    teai_mark_add_root(h, (uintptr_t)queue->ring, (uintptr_t)(queue->ring + queue->capacity), true);
}
