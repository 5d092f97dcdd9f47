/* gc/pin.h -- uncollectable objects: a set of addresses, roots until freed. */
#ifndef TEAI_PIN_H
#define TEAI_PIN_H

#include "platform/platform.h"

struct tea_heap;

struct teai_pins {
    struct teai_lock lock;
    uintptr_t *table;      /* open addressing; 0: empty, 1: deleted */
    size_t table_bytes;    /* of the mapping */
    size_t nslots, nused, ndeleted;
};

void teai_pins_init(struct teai_pins *pins);
bool teai_pin_add(struct tea_heap *h, uintptr_t addr);      /* false: no memory */
bool teai_pin_remove(struct tea_heap *h, uintptr_t addr);   /* false: was not pinned */
bool teai_pin_replace(struct tea_heap *h, uintptr_t old_addr, uintptr_t new_addr); /* false: old was not pinned */
/* With the world stopped: fn(addr) for each. */
void teai_pins_visit_stopped(const struct teai_pins *pins, void (*fn)(void *context, uintptr_t addr), void *context);

#endif
