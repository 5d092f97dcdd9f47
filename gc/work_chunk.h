/* gc/work_chunk.h -- grey objects of more than 512 bytes, and oblets: stacks made of chunks that markers share.
 *
 * A marker works on one private chunk and keeps one spare, so that it does not go to the pool back and
 * forth at a boundary; full chunks beyond that go to the pool, where any marker takes them.
 * (Source of the two-chunk hysteresis: Go's work buffers.)
 */
#ifndef TEAI_WORK_CHUNK_H
#define TEAI_WORK_CHUNK_H

#include "gc/metadata.h"

enum { TEAI_WORK_CHUNK_BYTES = 2048 };
struct teai_work_chunk {
    struct teai_work_chunk *next;
    uint64_t nentries;
    uintptr_t entries[TEAI_WORK_CHUNK_BYTES / 8 - 2];
};
enum { TEAI_WORK_CHUNK_ENTRIES = TEAI_WORK_CHUNK_BYTES / 8 - 2 };
_Static_assert(sizeof(struct teai_work_chunk) == TEAI_WORK_CHUNK_BYTES, "chunks tile their blocks");

struct teai_work_pool {
    struct teai_lock lock;
    struct teai_work_chunk *full;          /* with entries */
    struct teai_work_chunk *empty;
    struct teai_work_block *blocks;        /* what the chunks were cut from */
    _Atomic uint32_t nfull;
    uint64_t bytes, peak_bytes;            /* of blocks */
    uint64_t limit_bytes;                  /* refuse to grow beyond */
    struct teai_metadata *metadata;
};

struct teai_work_stack {
    struct teai_work_chunk *active, *spare;
};

void teai_work_pool_init(struct teai_work_pool *pool, struct teai_metadata *md);
/* Owner: push; false: no memory, the entry is not on the list. */
bool teai_work_push(struct teai_work_pool *pool, struct teai_work_stack *stack, uintptr_t entry);
/* Owner: pop from its own chunks only. */
bool teai_work_pop(struct teai_work_stack *stack, uintptr_t *entry_out);
/* Take a chunk from the pool into an empty stack. */
bool teai_work_fetch(struct teai_work_pool *pool, struct teai_work_stack *stack);
/* Others are idle: publish what is not needed at once. True if something was. */
bool teai_work_share(struct teai_work_pool *pool, struct teai_work_stack *stack);
bool teai_work_is_empty(const struct teai_work_stack *stack);
/* Return the (empty) chunks of a stack; free blocks beyond `keep_bytes` when no chunk is in use. */
void teai_work_stack_release(struct teai_work_pool *pool, struct teai_work_stack *stack);
void teai_work_pool_trim(struct teai_work_pool *pool, uint64_t keep_bytes);

#endif
