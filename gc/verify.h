/* gc/verify.h -- walk everything and check every numbered invariant. For tests and debugging. */
#ifndef TEAI_VERIFY_H
#define TEAI_VERIFY_H

#include "gc/heap.h"

/* What the walk counted, for tests that want exact numbers. */
struct teai_heap_census {
    uint64_t nspans_small, nspans_large;
    uint64_t nslots_live;        /* handed out or leased */
    uint64_t nslots_leased;      /* leased and not handed out */
    uint64_t bytes_live;         /* of slots and large objects, leased ones included */
};

/* Stops the world, finishes sweeping before, aborts with the invariant's name on a violation. The caller is a mutator. */
void teai_verify_heap(struct tea_heap *h, struct teai_heap_census *census_out);

#endif
