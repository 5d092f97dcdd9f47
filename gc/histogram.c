/* gc/histogram.c -- how long something took, counted in buckets of an eighth of an octave.
 *
 * Values below 8 have a bucket each; above, the leading one and the three bits behind it name the bucket, so that quantiles
 * are exact to an eighth over the whole range of 64 bits.
 *
 * Locks. The owner's; nothing here is atomic.
 */
#include "gc/histogram.h"

enum { SUB_BUCKETS = 1 << TEAI_HISTOGRAM_SUB_BITS };

static unsigned histogram_bucket(uint64_t value)
{
    if (value < SUB_BUCKETS)
        return (unsigned)value;
    unsigned shift = 63 - (unsigned)__builtin_clzll(value) - TEAI_HISTOGRAM_SUB_BITS;
    return (shift << TEAI_HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

static uint64_t histogram_bucket_last(unsigned bucket)
{
    if (bucket < 2 * SUB_BUCKETS)
        return bucket;
    unsigned shift = (bucket >> TEAI_HISTOGRAM_SUB_BITS) - 1;
    uint64_t first = (uint64_t)(SUB_BUCKETS + bucket % SUB_BUCKETS) << shift;
    return first + ((UINT64_C(1) << shift) - 1);
}

void teai_histogram_add(struct teai_histogram *histogram, uint64_t value)
{
    histogram->buckets[histogram_bucket(value)]++;
    histogram->count++;
    if (value > histogram->max)
        histogram->max = value;
}

uint64_t teai_histogram_quantile(const struct teai_histogram *histogram, unsigned per_mille)
{
    uint64_t rank = (histogram->count * per_mille + 999) / 1000, seen = 0;
    for (unsigned i = 0; rank != 0 && i < TEAI_HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen < rank)
            continue;
        uint64_t last = histogram_bucket_last(i);
        return last < histogram->max ? last : histogram->max;
    }
    return histogram->max;
}
