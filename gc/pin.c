/* gc/pin.c -- uncollectable objects: a set of addresses, roots until freed.
 *
 * A hash set with open addressing and linear probing in the collector's own memory, at most half full, rebuilt when it
 * fills. Removing closes the gap in its run of entries, so there are no marks of deletion that could use up the empty
 * slots which end every search.
 */
#include "gc/pin.h"

#include "gc/heap.h"

enum { PIN_EMPTY = 0 };

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

static void pins_count_add(struct teai_pins *pins, size_t n)
{
    /* relaxed: every writer holds the lock; teai_pins_any() takes a recent value. */
    atomic_store_explicit(&pins->nused, atomic_load_explicit(&pins->nused, memory_order_relaxed) + n, memory_order_relaxed);
}

/* There is an empty slot. */
static void pin_insert(struct teai_pins *pins, uintptr_t addr)
{
    pins->table[pin_find(pins, addr)] = addr;
    pins_count_add(pins, 1);
}

/* Empty slot `hole`: what comes after it in its run and may stand there moves up, so that no search ends too early. */
static void pin_delete(struct teai_pins *pins, size_t hole)
{
    const size_t mask = pins->nslots - 1;
    for (size_t i = (hole + 1) & mask; pins->table[i] != PIN_EMPTY; i = (i + 1) & mask) {
        size_t from_home = (i - pin_slot_for(pins, pins->table[i])) & mask;
        if (from_home < ((i - hole) & mask))
            continue;
        pins->table[hole] = pins->table[i];
        hole = i;
    }
    pins->table[hole] = PIN_EMPTY;
    pins_count_add(pins, (size_t)-1);
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
    uintptr_t *old = pins->table;
    size_t old_bytes = pins->table_bytes, old_nslots = pins->nslots;
    pins->table = table;
    pins->table_bytes = bytes;
    pins->nslots = nslots;
    for (size_t i = 0; i < old_nslots; i++)
        if (old[i] != PIN_EMPTY)
            table[pin_find(pins, old[i])] = old[i];
    if (old != NULL)
        teai_metadata_free(&h->metadata, old, old_bytes);
    return true;
}

static bool pin_add_locked(struct tea_heap *h, uintptr_t addr)
{
    struct teai_pins *pins = &h->pins;
    teai_lock_assert_held(&pins->lock);
    if ((pins->nused + 1) * 2 > pins->nslots && !pins_rebuild(h, (pins->nused + 1) * 4))
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
    pin_delete(pins, i);
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
