/* gc/histogram.h -- how long something took, counted in buckets of an eighth of an octave. */
#ifndef TEAI_HISTOGRAM_H
#define TEAI_HISTOGRAM_H

#include "base/config.h"

enum {
    TEAI_HISTOGRAM_SUB_BITS = 3, /* buckets per octave, log2: a bucket's ends differ by 12.5 % at most */
    TEAI_HISTOGRAM_BUCKETS = (64 - TEAI_HISTOGRAM_SUB_BITS + 1) << TEAI_HISTOGRAM_SUB_BITS
};

struct teai_histogram {
    uint64_t count, max;
    uint32_t buckets[TEAI_HISTOGRAM_BUCKETS];
};

void teai_histogram_add(struct teai_histogram *histogram, uint64_t value);
/* A value that at most (1000 - per_mille) in a thousand exceed: the upper end of its bucket, or the maximum. 0: nothing counted. */
uint64_t teai_histogram_quantile(const struct teai_histogram *histogram, unsigned per_mille);

#endif
