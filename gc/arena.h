/* gc/arena.h -- what the marker knows of arenas: a chunk's contents count only in the arena's present epoch. */
#ifndef TEAI_ARENA_H
#define TEAI_ARENA_H

#include "teaspan/arena.h"

/* The start of each chunk. Chunks form a list in the order of use; the chain is scanned always, contents by epoch. */
struct teai_arena_chunk {
    struct teai_arena_chunk *next;
    size_t chunk_bytes;   /* header included */
    size_t dirty_bytes;   /* bytes beyond are zero */
    size_t reserved_;
};

/* An uncollectable object; `first` keeps the chunks alive. */
struct tea_arena {
    struct teai_arena_chunk *first, *current;
    /* Free part of the current chunk, from its start. Not addresses: the one of the end would keep what lies behind alive. */
    size_t cursor_bytes, limit_bytes;
    uint64_t epoch;                     /* grows by one a reset */
    size_t chunk_bytes;
    size_t used_before_bytes;           /* handed out in chunks before the current one */
    size_t reserved_bytes;
};

#endif
