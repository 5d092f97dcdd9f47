/* gc/weak.h -- weak pointers and ephemerons, as the collector sees them. */
#ifndef TEAI_WEAK_H
#define TEAI_WEAK_H

#include "platform/platform.h"

struct tea_heap;
struct teai_marker;

/* By the collector in a stop, or by who frees or moves the object, under specials.lock. `box`: struct tea_weak or tea_ephemeron. */
void teai_weak_clear(void *box);
void teai_weak_retarget(void *box, uintptr_t pointer);
void teai_ephemeron_clear(void *box);
void teai_ephemeron_retarget(void *box, uintptr_t key);

/* --- with the world stopped, while marking, no other marker active --- */

/* Shade the values of marked ephemerons whose keys are marked; returns how many it shaded. Their contents are left to the
 * marker's lists. */
uint32_t teai_ephemerons_shade(struct tea_heap *h, struct teai_marker *m);
/* The same, and mark from each value at once, again and again until nothing is added. */
uint32_t teai_ephemerons_mark(struct tea_heap *h, struct teai_marker *m);
/* fn() for each ephemeron that is not forgotten. */
void teai_ephemerons_visit_stopped(const struct tea_heap *h,
                                   void (*fn)(void *context, uintptr_t ephemeron, uintptr_t key, uintptr_t value),
                                   void *context);

#endif
