/* tests/load/check.h -- for programs that cannot use the archive's test support: require, hide, scrub. C and C++. */
#ifndef TEST_LOAD_CHECK_H
#define TEST_LOAD_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <teaspan/teaspan.h>

#define REQUIRE(condition)                                                              \
    do {                                                                                \
        if (!(condition)) {                                                             \
            fprintf(stderr, "%s:%d: required: %s\n", __FILE__, __LINE__, #condition);   \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

static inline uintptr_t hide(const void *pointer)
{
    return ~(uintptr_t)pointer;
}

/* Still allocated, and still the object that put_object() made. */
static __attribute__((noinline, unused)) bool is_alive(uintptr_t hidden)
{
    void *object = (void *)~hidden;
    return tea_base(object) == object && *(uintptr_t *)object == hidden;
}

static __attribute__((noinline, unused)) void scrub(void)
{
    char frame[32 << 10];
    memset(frame, 0, sizeof frame);
    __asm__ volatile("" : : "r"(frame) : "memory");
}

static __attribute__((noinline, unused)) void collect(void)
{
    scrub();
    tea_collect();
    scrub();
}

/* A reference to the middle of a new object, so that its neighbour is not kept too; the object's address, hidden. */
static __attribute__((noinline, unused)) uintptr_t put_object(void **slot)
{
    char *object = (char *)tea_alloc(64);
    REQUIRE(object != NULL);
    *(uintptr_t *)(void *)object = hide(object);
    *slot = object + 16;
    return hide(object);
}

#endif
