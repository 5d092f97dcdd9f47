/* gc/slot_runs.h -- runs of consecutive set bits: grey slots that are scanned as one range of words. */
#ifndef TEAI_SLOT_RUNS_H
#define TEAI_SLOT_RUNS_H

#include "base/config.h"

struct teai_slot_run {
    uint32_t start, length;
};

/* Take the lowest run out of `*bits`, which is not 0. */
TEAI_INLINE struct teai_slot_run teai_slot_run_take(uint64_t *bits)
{
    uint32_t start = (uint32_t)__builtin_ctzll(*bits);
    uint64_t from_start = ~(*bits >> start);
    uint32_t length = from_start == 0 ? 64 : (uint32_t)__builtin_ctzll(from_start);
    length = length > 64 - start ? 64 - start : length;
    *bits = start + length == 64 ? 0 : *bits & (~UINT64_C(0) << (start + length));
    return (struct teai_slot_run){ start, length };
}

#endif
