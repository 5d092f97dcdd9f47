/* gc/cache.h -- the run of free slots each thread allocates from, per span class.
 *
 * Problem. Allocation must cost a few instructions, without locks or atomics, and the collector must know
 * at a stop which slots were handed out, though it may interrupt a thread between any two instructions.
 *
 * A cache leases a *run*: consecutive free slots of one span. Leasing marks them handed out in the side
 * table and zeroes them at once; allocating then only moves a cursor. In a fresh or emptied span the run is the
 * whole span, in a fragmented one the runs are short and found by a scan of the state bytes.
 *
 * Invariants.
 *   C1  Slots in [cursor, limit) of a cache are not FREE; nobody but its thread turns them into objects.
 *   C2  At a stop the collector blackens those slots: they are neither scanned nor swept. It never moves the
 *       cursor, so a thread stopped between reading and storing it goes on correctly.
 *   C3  A cache's span is taken from it at a stop, its run is not.
 */
#ifndef TEAI_CACHE_H
#define TEAI_CACHE_H

#include "gc/span.h"

struct teai_cache {
    uintptr_t cursor_addr, limit_addr;  /* the leased run */
    uint32_t slot_bytes;
    bool zero_each;                     /* leaf slots that hold old contents: cleared one by one when asked for */
    bool is_counted;                    /* heap live counts the run: until the next cycle, which starts it from what is marked */
    uint32_t span;                      /* where the next run comes from; TEAI_NO_PAGE: none */
    uint32_t next_slot;                 /* slots of it before this one were looked at */
    uint64_t nleased;                   /* slots ever leased by this cache */
};

/* The current 16-byte block for leaf objects below 16 bytes (source: Go's tiny allocator). */
struct teai_tiny {
    uintptr_t block_addr;               /* 0: none */
    uint32_t used_bytes;
    uint64_t nallocs;
};
enum { TEAI_TINY_BYTES = 16 };

struct tea_mutator;
struct tea_heap;

void teai_cache_init(struct teai_cache *cache, uint8_t span_class);
/* Lease another run; false: no memory. Slots taken over are counted in heap live. Caller is in the runtime. */
bool teai_cache_refill(struct tea_heap *h, struct tea_mutator *m, uint8_t span_class);
/* Give back the run and the span; the caller's own caches only. */
void teai_cache_flush(struct tea_heap *h, struct tea_mutator *m, uint8_t span_class);
/* With the world stopped: take the spans, blacken the runs (C2); heap live will be counted anew. */
void teai_cache_detach_stopped(struct tea_heap *h, struct tea_mutator *m);
/* Slots leased and not handed out. */
TEAI_INLINE uint64_t teai_cache_unused_slots(const struct teai_cache *c)
{
    return (c->limit_addr - c->cursor_addr) / c->slot_bytes;
}

#endif
