/* workloads/heap_arena.h -- bump allocation for heaps that have no arena of their own; included by their adapters.
 *
 * A chain of equal chunks, each an object of the heap. Reset goes back to the first chunk and keeps the rest,
 * so that a program which fills the arena to the same height again allocates nothing.
 */
#ifndef WORKLOADS_HEAP_ARENA_H
#define WORKLOADS_HEAP_ARENA_H

enum { HEAP_ARENA_ALIGN_BYTES = 16 };

struct heap_arena_chunk {
    _Alignas(HEAP_ARENA_ALIGN_BYTES) struct heap_arena_chunk *next;
    _Alignas(HEAP_ARENA_ALIGN_BYTES) char bytes[];
};

struct heap_arena {
    size_t chunk_bytes;
    size_t used_bytes; /* of the current chunk */
    struct heap_arena_chunk *first;
    struct heap_arena_chunk *current;
};

static inline struct heap_arena_chunk *heap_arena_new_chunk(const struct heap_arena *arena)
{
    return heap_alloc(sizeof(struct heap_arena_chunk) + arena->chunk_bytes);
}

/* Memory is taken in chunks of `chunk_bytes`, the most that one block can have. */
static inline struct heap_arena *heap_arena_create(size_t chunk_bytes)
{
    struct heap_arena *arena = heap_alloc(sizeof *arena);
    arena->chunk_bytes = chunk_bytes;
    heap_store(&arena->first, heap_arena_new_chunk(arena));
    heap_store(&arena->current, arena->first);
    return arena;
}

static inline void heap_arena_next_chunk(struct heap_arena *arena)
{
    if (arena->current->next == NULL)
        heap_store(&arena->current->next, heap_arena_new_chunk(arena));
    heap_store(&arena->current, arena->current->next);
    arena->used_bytes = 0;
}

/* A block aligned to 16 that may hold references, contents unspecified. */
static inline void *heap_arena_alloc_uninit(struct heap_arena *arena, size_t nbytes)
{
    size_t rounded_bytes =
        (nbytes + HEAP_ARENA_ALIGN_BYTES - 1) & ~(size_t)(HEAP_ARENA_ALIGN_BYTES - 1);
    if (rounded_bytes > arena->chunk_bytes)
        heap_out_of_memory();
    if (arena->used_bytes + rounded_bytes > arena->chunk_bytes)
        heap_arena_next_chunk(arena);
    void *block = arena->current->bytes + arena->used_bytes;
    arena->used_bytes += rounded_bytes;
    return block;
}

/* Give up every block; the chunks stay for the blocks to come. */
static inline void heap_arena_reset(struct heap_arena *arena)
{
    heap_store(&arena->current, arena->first);
    arena->used_bytes = 0;
}

static inline void heap_arena_destroy(struct heap_arena *arena)
{
    for (struct heap_arena_chunk *chunk = arena->first; chunk != NULL;) {
        struct heap_arena_chunk *next = chunk->next;
        heap_release(chunk);
        chunk = next;
    }
    heap_release(arena);
}

#endif
