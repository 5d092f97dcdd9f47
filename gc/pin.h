/* gc/pin.h -- uncollectable objects: a set of addresses, roots until freed. */
#ifndef TEAI_PIN_H
#define TEAI_PIN_H

#include "platform/platform.h"

struct tea_heap;

struct teai_pins {
    struct teai_lock lock;
    uintptr_t *table;      /* open addressing; 0: empty */
    size_t table_bytes;    /* of the mapping */
    size_t nslots;
    _Atomic size_t nused;
};

void teai_pins_init(struct teai_pins *pins);
bool teai_pin_add(struct tea_heap *h, uintptr_t addr);      /* false: no memory */
bool teai_pin_remove(struct tea_heap *h, uintptr_t addr);   /* false: was not pinned */
bool teai_pin_replace(struct tea_heap *h, uintptr_t old_addr, uintptr_t new_addr); /* false: old was not pinned */

/* Whether any object is pinned. Without the lock: who asks about an object has it from a thread that had pinned it before. */
TEAI_INLINE bool teai_pins_any(const struct teai_pins *pins)
{
    return atomic_load_explicit(&pins->nused, memory_order_relaxed) != 0;
}

#endif
