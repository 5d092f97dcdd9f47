/* gc/pin.c -- uncollectable objects: a set of addresses, roots until freed.
 *
 * A hash set with open addressing and linear probing in the collector's own memory, at most half full (deleted
 * entries included), rebuilt when it fills.
 */
#include "gc/pin.h"

#include "gc/heap.h"

enum { PIN_EMPTY = 0, PIN_DELETED = 1 }; /* objects are 8-byte aligned, so neither is an address */

void teai_pins_init(struct teai_pins *pins)
{
    pins->lock.rank = TEAI_RANK_PINS;
}

static size_t pin_slot_for(const struct teai_pins *pins, uintptr_t addr)
{
    uint64_t hash = (uint64_t)(addr >> 3) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 20) & (pins->nslots - 1);
}

static size_t pin_find(const struct teai_pins *pins, uintptr_t addr)
{
    size_t i = pin_slot_for(pins, addr);
    while (pins->table[i] != addr && pins->table[i] != PIN_EMPTY)
        i = (i + 1) & (pins->nslots - 1);
    return i;
}

/* The address is not in the table, and there is an empty slot. */
static void pin_insert(struct teai_pins *pins, uintptr_t addr)
{
    size_t i = pin_slot_for(pins, addr);
    while (pins->table[i] > PIN_DELETED)
        i = (i + 1) & (pins->nslots - 1);
    pins->ndeleted -= pins->table[i] == PIN_DELETED;
    pins->table[i] = addr;
    pins->nused++;
}

static bool pins_rebuild(struct tea_heap *h, size_t least_slots)
{
    struct teai_pins *pins = &h->pins;
    size_t nslots = teai_platform_os_page_bytes() / sizeof(uintptr_t);
    while (nslots < least_slots)
        nslots *= 2;
    size_t bytes = nslots * sizeof(uintptr_t);
    uintptr_t *table = teai_metadata_alloc(&h->metadata, &bytes);
    if (table == NULL)
        return false;
    struct teai_pins old = *pins;
    pins->table = table;
    pins->table_bytes = bytes;
    pins->nslots = nslots;
    pins->nused = pins->ndeleted = 0;
    for (size_t i = 0; i < old.nslots; i++)
        if (old.table[i] > PIN_DELETED)
            pin_insert(pins, old.table[i]);
    if (old.table != NULL)
        teai_metadata_free(&h->metadata, old.table, old.table_bytes);
    return true;
}

static bool pin_add_locked(struct tea_heap *h, uintptr_t addr)
{
    struct teai_pins *pins = &h->pins;
    teai_lock_assert_held(&pins->lock);
    if ((pins->nused + pins->ndeleted + 1) * 2 > pins->nslots && !pins_rebuild(h, (pins->nused + 1) * 4))
        return false;
    pin_insert(pins, addr);
    return true;
}

static bool pin_remove_locked(struct teai_pins *pins, uintptr_t addr)
{
    if (pins->nused == 0)
        return false;
    size_t i = pin_find(pins, addr);
    if (pins->table[i] != addr)
        return false;
    pins->table[i] = PIN_DELETED;
    pins->ndeleted++;
    pins->nused--;
    return true;
}

bool teai_pin_add(struct tea_heap *h, uintptr_t addr)
{
    teai_lock_acquire(&h->pins.lock);
    bool added = pin_add_locked(h, addr);
    teai_lock_release(&h->pins.lock);
    return added;
}

bool teai_pin_remove(struct tea_heap *h, uintptr_t addr)
{
    teai_lock_acquire(&h->pins.lock);
    bool removed = pin_remove_locked(&h->pins, addr);
    teai_lock_release(&h->pins.lock);
    return removed;
}

bool teai_pin_replace(struct tea_heap *h, uintptr_t old_addr, uintptr_t new_addr)
{
    teai_lock_acquire(&h->pins.lock);
    bool removed = pin_remove_locked(&h->pins, old_addr);
    if (removed)
        pin_insert(&h->pins, new_addr); /* a slot has just become free */
    teai_lock_release(&h->pins.lock);
    return removed;
}

void teai_pins_visit_stopped(const struct teai_pins *pins, void (*fn)(void *context, uintptr_t addr), void *context)
{
    for (size_t i = 0; i < pins->nslots; i++)
        if (pins->table[i] > PIN_DELETED)
            fn(context, pins->table[i]);
}
