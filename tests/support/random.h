/* tests/support/random.h -- random numbers whose seed is printed, and set by TEA_SEED. */
#ifndef TEST_SUPPORT_RANDOM_H
#define TEST_SUPPORT_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct test_random {
    uint64_t state;
};

/* From the environment's TEA_SEED, else from the clock. */
static inline struct test_random test_random_start(const char *test_name)
{
    const char *given = getenv("TEA_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("%s: TEA_SEED=%llu\n", test_name, (unsigned long long)seed);
    fflush(stdout);
    return (struct test_random){seed};
}

/* Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (2014). */
static inline uint64_t test_random_next(struct test_random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* From 0 to limit - 1. */
static inline uint32_t test_random_below(struct test_random *r, uint32_t limit)
{
    return (uint32_t)((test_random_next(r) >> 32) * limit >> 32);
}

/* From 1 to limit, small numbers much more often than large ones. */
static inline uint32_t test_random_skewed(struct test_random *r, uint32_t limit)
{
    return 1 + test_random_below(r, 1 + test_random_below(r, 1 + test_random_below(r, limit)));
}

#endif
