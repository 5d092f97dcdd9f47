/* workloads/support_random.h -- a small generator of random numbers; examples/go has the same.
 *
 * Source. splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
 */
#ifndef WORKLOADS_SUPPORT_RANDOM_H
#define WORKLOADS_SUPPORT_RANDOM_H

#include <stdint.h>

struct rng {
    uint64_t state; /* any seed will do */
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* A number below `limit`, which is below 2^32. */
static inline uint32_t rng_below(struct rng *rng, uint32_t limit)
{
    return (uint32_t)((rng_next(rng) >> 32) * limit >> 32);
}

#endif
