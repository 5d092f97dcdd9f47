/* gc/work_chunk.c -- grey objects of more than 512 bytes, and oblets: stacks made of chunks that markers share.
 *
 * Locks. pool.lock, once per chunk, that is once per 254 objects at most.
 */
#include "gc/work_chunk.h"

enum { WORK_BLOCK_BYTES = 64 << 10 };

/* The head of a block takes the place of its first chunk. */
struct teai_work_block {
    struct teai_work_block *next;
    size_t bytes;
};

void teai_work_pool_init(struct teai_work_pool *pool, struct teai_metadata *md)
{
    pool->lock.rank = TEAI_RANK_MARK_POOL;
    pool->metadata = md;
    pool->limit_bytes = UINT64_MAX;
}

static bool pool_grow_locked(struct teai_work_pool *pool)
{
    size_t bytes = WORK_BLOCK_BYTES;
    if (pool->bytes + bytes > pool->limit_bytes)
        return false;
    struct teai_work_block *block = teai_metadata_alloc(pool->metadata, &bytes);
    if (block == NULL)
        return false;
    block->next = pool->blocks;
    block->bytes = bytes;
    pool->blocks = block;
    pool->bytes += bytes;
    if (pool->bytes > pool->peak_bytes)
        pool->peak_bytes = pool->bytes;
    struct teai_work_chunk *chunks = (struct teai_work_chunk *)(void *)block;
    for (size_t i = 1; i < bytes / TEAI_WORK_CHUNK_BYTES; i++) {
        chunks[i].next = pool->empty;
        pool->empty = &chunks[i];
    }
    return true;
}

static struct teai_work_chunk *pool_take_empty(struct teai_work_pool *pool)
{
    teai_lock_acquire(&pool->lock);
    struct teai_work_chunk *chunk = NULL;
    if (pool->empty != NULL || pool_grow_locked(pool)) {
        chunk = pool->empty;
        pool->empty = chunk->next;
        chunk->nentries = 0;
    }
    teai_lock_release(&pool->lock);
    return chunk;
}

static void pool_put_full(struct teai_work_pool *pool, struct teai_work_chunk *chunk)
{
    teai_lock_acquire(&pool->lock);
    chunk->next = pool->full;
    pool->full = chunk;
    atomic_fetch_add_explicit(&pool->nfull, 1, memory_order_relaxed);
    teai_lock_release(&pool->lock);
}

static void pool_put_empty(struct teai_work_pool *pool, struct teai_work_chunk *chunk)
{
    teai_lock_acquire(&pool->lock);
    chunk->next = pool->empty;
    pool->empty = chunk;
    teai_lock_release(&pool->lock);
}

static void stack_swap(struct teai_work_stack *stack)
{
    struct teai_work_chunk *active = stack->active;
    stack->active = stack->spare;
    stack->spare = active;
}

/* The active chunk is full (or missing): make room. */
static bool stack_make_room(struct teai_work_pool *pool, struct teai_work_stack *stack)
{
    if (stack->spare != NULL && stack->spare->nentries == 0) {
        stack_swap(stack);
        return true;
    }
    struct teai_work_chunk *fresh = pool_take_empty(pool);
    if (fresh == NULL)
        return false;
    if (stack->spare != NULL)
        pool_put_full(pool, stack->spare);
    stack->spare = stack->active;
    stack->active = fresh;
    return true;
}

bool teai_work_push(struct teai_work_pool *pool, struct teai_work_stack *stack, uintptr_t entry)
{
    if (TEAI_UNLIKELY(stack->active == NULL || stack->active->nentries == TEAI_WORK_CHUNK_ENTRIES))
        if (!stack_make_room(pool, stack))
            return false;
    stack->active->entries[stack->active->nentries++] = entry;
    return true;
}

bool teai_work_pop(struct teai_work_stack *stack, uintptr_t *entry_out)
{
    if (stack->active == NULL || stack->active->nentries == 0) {
        if (stack->spare == NULL || stack->spare->nentries == 0)
            return false;
        stack_swap(stack);
    }
    *entry_out = stack->active->entries[--stack->active->nentries];
    return true;
}

bool teai_work_fetch(struct teai_work_pool *pool, struct teai_work_stack *stack)
{
    TEAI_ASSERT(teai_work_is_empty(stack));
    /* relaxed: a hint; the list is looked at under the lock. */
    if (atomic_load_explicit(&pool->nfull, memory_order_relaxed) == 0)
        return false;
    teai_lock_acquire(&pool->lock);
    struct teai_work_chunk *chunk = pool->full;
    if (chunk != NULL) {
        pool->full = chunk->next;
        atomic_fetch_sub_explicit(&pool->nfull, 1, memory_order_relaxed);
    }
    teai_lock_release(&pool->lock);
    if (chunk == NULL)
        return false;
    if (stack->active != NULL)
        pool_put_empty(pool, stack->active);
    stack->active = chunk;
    return true;
}

/* Half of the only chunk that has entries goes into a fresh one. */
static bool stack_split(struct teai_work_pool *pool, struct teai_work_stack *stack)
{
    struct teai_work_chunk *from = stack->active;
    struct teai_work_chunk *half = pool_take_empty(pool);
    if (half == NULL)
        return false;
    uint64_t keep = from->nentries / 2;
    for (uint64_t i = keep; i < from->nentries; i++)
        half->entries[half->nentries++] = from->entries[i];
    from->nentries = keep;
    pool_put_full(pool, half);
    return true;
}

bool teai_work_share(struct teai_work_pool *pool, struct teai_work_stack *stack)
{
    if (stack->spare != NULL && stack->spare->nentries != 0) {
        struct teai_work_chunk *spare = stack->spare;
        stack->spare = NULL;
        pool_put_full(pool, spare);
        return true;
    }
    return stack->active != NULL && stack->active->nentries > 1 && stack_split(pool, stack);
}

bool teai_work_is_empty(const struct teai_work_stack *stack)
{
    return (stack->active == NULL || stack->active->nentries == 0) &&
           (stack->spare == NULL || stack->spare->nentries == 0);
}

void teai_work_stack_release(struct teai_work_pool *pool, struct teai_work_stack *stack)
{
    TEAI_ASSERT(teai_work_is_empty(stack));
    if (stack->active != NULL)
        pool_put_empty(pool, stack->active);
    if (stack->spare != NULL)
        pool_put_empty(pool, stack->spare);
    stack->active = stack->spare = NULL;
}

void teai_work_pool_trim(struct teai_work_pool *pool, uint64_t keep_bytes)
{
    if (pool->bytes <= keep_bytes)
        return;
    TEAI_CHECK(pool->full == NULL);
    while (pool->blocks != NULL) {
        struct teai_work_block *block = pool->blocks;
        pool->blocks = block->next;
        teai_metadata_free(pool->metadata, block, block->bytes);
    }
    pool->empty = NULL;
    pool->bytes = 0;
}
