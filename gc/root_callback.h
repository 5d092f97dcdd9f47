/* gc/root_callback.h -- roots that the program itself enumerates while the world is stopped. */
#ifndef TEAI_ROOT_CALLBACK_H
#define TEAI_ROOT_CALLBACK_H

#include "platform/platform.h"
#include "teaspan/root.h"

struct tea_heap;
struct tea_mutator;

struct teai_root_callback {
    tea_root_callback_fn fn;
    void *context;
};

struct teai_root_callbacks {
    struct teai_lock lock;
    struct teai_root_callback *items;
    size_t nitems, capacity, mapping_bytes;
};

void teai_root_callbacks_init(struct teai_root_callbacks *callbacks);
/* With the world stopped, listing roots: have each callback add what it knows. `self` runs the cycle. */
void teai_root_callbacks_call(struct tea_heap *h, struct tea_mutator *self);

#endif
