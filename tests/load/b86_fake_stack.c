/* tests/load/b86_fake_stack.c -- B86: local variables that AddressSanitizer keeps in fake frames are roots. Compiled with
 * -fsanitize=address, and run with detect_stack_use_after_return=1. (Reports: bdwgc/bdwgc #789, #845.)
 */
#include "tests/load/check.h"

#include <pthread.h>
#include <stdatomic.h>

void *__asan_get_current_fake_stack(void);

enum { NOBJECTS = 10 };

/* The references are in this array only; its address goes out, so it is in memory. */
static __attribute__((noinline)) void hold(void (*meanwhile)(void), bool forget, unsigned *nalive_out)
{
    void *objects[NOBJECTS];
    uintptr_t hidden[NOBJECTS];
    for (unsigned i = 0; i < NOBJECTS; i++)
        hidden[i] = put_object(&objects[i]);
    if (forget)
        memset(objects, 0, sizeof objects);
    __asm__ volatile("" : : "r"(objects) : "memory");
    scrub();
    meanwhile();
    *nalive_out = 0;
    for (unsigned i = 0; i < NOBJECTS; i++)
        *nalive_out += is_alive(hidden[i]);
    __asm__ volatile("" : : "r"(objects) : "memory");
}

static void *collect_thread(void *unused)
{
    (void)unused;
    collect();
    return NULL;
}

static void collect_elsewhere(void)
{
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, collect_thread, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(void)
{
    unsigned nalive;
    hold(collect, false, &nalive);
    REQUIRE(__asan_get_current_fake_stack() != NULL);
    REQUIRE(nalive == NOBJECTS);
    hold(collect_elsewhere, false, &nalive);
    REQUIRE(nalive == NOBJECTS);
    /* A neighbour or two may be kept by what calls left behind. */
    hold(collect, true, &nalive);
    REQUIRE(nalive < NOBJECTS / 2);
    return 0;
}
