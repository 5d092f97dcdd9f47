/* include/teaspan/arena.h -- bump allocation with release of everything at once; contents are scanned. */
#ifndef TEASPAN_ARENA_H
#define TEASPAN_ARENA_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

struct tea_arena;

/* tea_arena_create -- an empty arena.
 *
 * Shape:    lives until tea_arena_destroy(); what its blocks refer to stays alive until they are reset.
 *           A block must not be used after the arena was reset or destroyed.
 * Units:    chunk_bytes: memory is taken in pieces of at least this size; 0: 64 KiB.
 * Errors:   NULL with ENOMEM.
 * Threads:  any, but one thread at a time may use an arena.
 */
TEA_API TEA_NODISCARD struct tea_arena *tea_arena_create(size_t chunk_bytes);

/* tea_arena_alloc -- a zeroed block of the arena, aligned to 16, every word of which may hold a reference.
 * tea_arena_alloc_uninit -- the same, contents unspecified until written; write all of it before the next
 *           allocation of any kind, or stale words in it may keep dead objects alive.
 *
 * Errors:   NULL with ENOMEM.
 */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(2) void *tea_arena_alloc(struct tea_arena *arena, size_t size_bytes);
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(2) void *tea_arena_alloc_uninit(struct tea_arena *arena, size_t size_bytes);

/* tea_arena_reset -- release every block, in O(1); memory is kept for the blocks to come. */
TEA_API void tea_arena_reset(struct tea_arena *arena);

/* tea_arena_destroy -- release every block and the arena. NULL does nothing. */
TEA_API void tea_arena_destroy(struct tea_arena *arena);

/* tea_arena_used_bytes, tea_arena_reserved_bytes -- bytes handed out since the last reset; bytes of chunks held. */
TEA_API size_t tea_arena_used_bytes(const struct tea_arena *arena);
TEA_API size_t tea_arena_reserved_bytes(const struct tea_arena *arena);

TEA_END_DECLS
#endif
