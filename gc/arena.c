/* gc/arena.c -- bump allocation with release of everything at once; contents are scanned.
 *
 * An arena is an uncollectable object that leads to a chain of chunks, each a large conservative object. The chain stays
 * when the arena is reset; what tells old contents from new is the epoch: a chunk written in an earlier epoch
 * than the arena's has no contents to the marker. Of a chunk of this epoch the marker scans up to scan_bytes, which
 * every allocation moves. So a reset is O(1) and keeps nothing alive.
 *
 * Invariants.
 *   A1  Chunks before `current` in the chain and `current` itself carry the arena's epoch; those behind an older one.
 *   A2  scan_bytes of a chunk of this epoch is the offset of the end of its last block.
 *   A3  Bytes at and beyond a chunk's dirty_bytes are zero.
 *
 * Locks. None: one thread at a time uses an arena. Its fields are read by the marker while that thread is stopped.
 */
#include "gc/arena.h"

#include "gc/alloc.h"
#include "gc/cycle.h"
#include "teaspan/alloc.h"

#include <errno.h>
#include <string.h>

enum { ARENA_ALIGN_BYTES = 16, ARENA_DEFAULT_CHUNK_BYTES = 64 << 10 };
_Static_assert(sizeof(struct teai_arena_chunk) % ARENA_ALIGN_BYTES == 0, "blocks behind the header are aligned");
_Static_assert((size_t)ARENA_DEFAULT_CHUNK_BYTES > TEAI_MAX_SMALL_BYTES, "a chunk has a span of its own");

static struct teai_span *chunk_span(const struct teai_arena_chunk *chunk)
{
    struct teai_tables *t = &teai_default_heap.tables;
    return &t->spans[teai_page_of(t, (uintptr_t)chunk)];
}

/* The chunk belongs to the present epoch, with nothing in it yet. */
static void chunk_open(struct tea_arena *arena, struct teai_arena_chunk *chunk)
{
    struct teai_span *s = chunk_span(chunk);
    /* The order does not matter to the marker, which runs while this thread is stopped: scan_bytes first makes any point safe. */
    atomic_store_explicit(&s->scan_bytes, sizeof *chunk, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    s->arena_epoch = arena->epoch;
    arena->current = chunk;
    arena->cursor_bytes = sizeof *chunk;
    arena->limit_bytes = chunk->chunk_bytes;
}

static struct teai_arena_chunk *chunk_new(struct tea_arena *arena, size_t least_bytes)
{
    size_t bytes = least_bytes + sizeof(struct teai_arena_chunk);
    bytes = teai_round_up(bytes < arena->chunk_bytes ? arena->chunk_bytes : bytes, TEAI_PAGE_BYTES);
    struct teai_arena_chunk *chunk = tea_alloc(bytes);
    if (chunk == NULL)
        return NULL;
    chunk->chunk_bytes = bytes;
    chunk->dirty_bytes = sizeof *chunk;
    struct teai_span *s = chunk_span(chunk);
    s->arena_epoch = arena->epoch - 1;
    s->arena = arena;
    arena->reserved_bytes += bytes;
    return chunk;
}

/* Behind the current chunk, before those left from earlier epochs. */
static void arena_insert_chunk(struct tea_arena *arena, struct teai_arena_chunk *chunk)
{
    struct teai_arena_chunk **link = arena->current != NULL ? &arena->current->next : &arena->first;
    chunk->next = *link;
    *link = chunk;
}

static size_t arena_used_in_current(const struct tea_arena *arena)
{
    return arena->current == NULL ? 0 : arena->cursor_bytes - sizeof *arena->current;
}

/* Blocks before the current chunk are complete: remember how far it was written. */
static void arena_close_current(struct tea_arena *arena)
{
    struct teai_arena_chunk *chunk = arena->current;
    if (chunk == NULL)
        return;
    if (arena->cursor_bytes > chunk->dirty_bytes)
        chunk->dirty_bytes = arena->cursor_bytes;
}

static bool arena_next_chunk(struct tea_arena *arena, size_t least_bytes)
{
    arena->used_before_bytes += arena_used_in_current(arena);
    arena_close_current(arena);
    struct teai_arena_chunk *next = arena->current != NULL ? arena->current->next : arena->first;
    if (next == NULL || next->chunk_bytes < least_bytes + sizeof *next) {
        next = chunk_new(arena, least_bytes);
        if (next == NULL) {
            arena->used_before_bytes -= arena_used_in_current(arena);
            return false;
        }
        arena_insert_chunk(arena, next);
    }
    chunk_open(arena, next);
    return true;
}

struct tea_arena *tea_arena_create(size_t chunk_bytes)
{
    if (chunk_bytes > TEA_MAX_OBJECT_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    struct tea_arena *arena = tea_alloc_uncollectable(sizeof *arena);
    if (arena == NULL)
        return NULL;
    arena->chunk_bytes = chunk_bytes < ARENA_DEFAULT_CHUNK_BYTES ? ARENA_DEFAULT_CHUNK_BYTES : chunk_bytes;
    arena->epoch = 1;
    return arena;
}

void *tea_arena_alloc_uninit(struct tea_arena *arena, size_t size_bytes)
{
    if (size_bytes > TEA_MAX_OBJECT_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    size_t bytes = teai_round_up(size_bytes != 0 ? size_bytes : 1, ARENA_ALIGN_BYTES);
    if (arena->limit_bytes - arena->cursor_bytes < bytes && !arena_next_chunk(arena, bytes))
        return NULL;
    uint8_t *block = (uint8_t *)arena->current + arena->cursor_bytes;
    arena->cursor_bytes += bytes;
    /* relaxed: read by the marker while this thread is stopped. */
    atomic_store_explicit(&chunk_span(arena->current)->scan_bytes, arena->cursor_bytes, memory_order_relaxed);
    return block;
}

void *tea_arena_alloc(struct tea_arena *arena, size_t size_bytes)
{
    uint8_t *block = tea_arena_alloc_uninit(arena, size_bytes);
    if (block == NULL)
        return NULL;
    uint8_t *chunk = (uint8_t *)arena->current;
    size_t from = (size_t)(block - chunk), dirty = arena->current->dirty_bytes;
    if (from < dirty)
        memset(block, 0, (dirty < arena->cursor_bytes ? dirty : arena->cursor_bytes) - from);
    return block;
}

void tea_arena_reset(struct tea_arena *arena)
{
    arena_close_current(arena);
    arena->epoch++;
    arena->current = NULL;
    arena->cursor_bytes = arena->limit_bytes = 0;
    arena->used_before_bytes = 0;
}

void tea_arena_destroy(struct tea_arena *arena)
{
    if (arena == NULL)
        return;
    for (struct teai_arena_chunk *chunk = arena->first; chunk != NULL;) {
        struct teai_arena_chunk *next = chunk->next;
        tea_free(chunk);
        chunk = next;
    }
    tea_free(arena);
}

size_t tea_arena_used_bytes(const struct tea_arena *arena)
{
    return arena->used_before_bytes + arena_used_in_current(arena);
}

size_t tea_arena_reserved_bytes(const struct tea_arena *arena)
{
    return arena->reserved_bytes;
}
