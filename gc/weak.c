/* gc/weak.c -- weak pointers and ephemerons: what they point at does not live because of them.
 *
 * Both are boxes in the heap: leaf objects, so that marking does not follow what they hold, and a record in the tables of
 * special.h leads from the object to its boxes. The record does not keep a box alive.
 *
 * Invariants.
 *   W1  A box holds a plain address, and reading it is one load. A thread that is stopped has either not read it, and will
 *       find it cleared if the object died, or holds the address in a register, which is a root.
 *   W2  As long as object and box live, one weak pointer is all there is for one address.
 *   W3  When marking ends, the value of every marked ephemeron with a marked key is marked.
 *   W4  A box has 16 bytes, like blocks of tiny objects. tea_free() leaves those to the collector, so no record ever
 *       leads to a box that is gone.
 *
 * Ephemerons. Values found in one pass may lead to keys that an earlier one passed over, so passes are repeated until one
 * finds nothing. The first leaves its work to all markers. The later ones, which most programs do not need, are made by
 * one marker, forwards and backwards in turn, marking from each value at once: a chain of ephemerons in either order takes
 * one pass, one in random order as many as it has changes of direction.
 *
 * While marking runs beside the program a weak read must shade what it returns, and registration what it roots.
 *
 * Source. Boxes canonical by address: Go's weak.Pointer. Ephemerons: Hayes, Ephemerons: a new finalization mechanism, 1997.
 */
#include "gc/weak.h"

#include "gc/cache.h"
#include "gc/object.h"
#include "gc/thread.h"
#include "teaspan/weak.h"

#include <errno.h>

struct tea_weak {
    _Atomic uintptr_t target;
    uintptr_t unused;
};

struct tea_ephemeron {
    _Atomic uintptr_t key, value;
};
_Static_assert(sizeof(struct tea_weak) == TEAI_TINY_BYTES && sizeof(struct tea_ephemeron) == TEAI_TINY_BYTES, "W4");

/* --- boxes --- */

/* relaxed throughout: stops order what the collector writes; client threads hand boxes to each other by their own means. */

void teai_weak_clear(void *box)
{
    struct tea_weak *weak = box;
    atomic_store_explicit(&weak->target, 0, memory_order_relaxed);
}

void teai_weak_retarget(void *box, uintptr_t pointer)
{
    struct tea_weak *weak = box;
    atomic_store_explicit(&weak->target, pointer, memory_order_relaxed);
}

void teai_ephemeron_clear(void *box)
{
    struct tea_ephemeron *ephemeron = box;
    atomic_store_explicit(&ephemeron->key, 0, memory_order_relaxed);
    atomic_store_explicit(&ephemeron->value, 0, memory_order_relaxed);
}

void teai_ephemeron_retarget(void *box, uintptr_t key)
{
    struct tea_ephemeron *ephemeron = box;
    atomic_store_explicit(&ephemeron->key, key, memory_order_relaxed);
}

/* --- ephemerons while marking --- */

static bool mark_has_reached(const struct tea_heap *h, uintptr_t addr)
{
    struct teai_slot_ref ref = teai_slot_find(&h->tables, addr);
    uint8_t state = teai_slot_load(teai_span_states(&h->tables, ref.span) + ref.slot);
    return state == TEAI_SLOT_GREY || state == TEAI_SLOT_BLACK;
}

/* True: the value was shaded just now. */
static bool ephemeron_shade(struct tea_heap *h, struct teai_marker *m, const struct teai_special_table *table, uint32_t i)
{
    struct teai_special *record = &table->records[i];
    const struct tea_ephemeron *ephemeron = table->arguments[i];
    if (record->is_resolved || !mark_has_reached(h, (uintptr_t)ephemeron) || !mark_has_reached(h, record->object))
        return false;
    record->is_resolved = true;
    teai_mark_shade(m, atomic_load_explicit(&ephemeron->value, memory_order_relaxed));
    return true;
}

uint32_t teai_ephemerons_shade(struct tea_heap *h, struct teai_marker *m)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_EPHEMERON];
    uint32_t nshaded = 0;
    for (uint32_t i = 0; i < table->nrecords; i++)
        nshaded += ephemeron_shade(h, m, table, i);
    return nshaded;
}

static uint32_t ephemerons_mark_pass(struct tea_heap *h, struct teai_marker *m, bool backwards)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_EPHEMERON];
    uint32_t nshaded = 0;
    for (uint32_t i = 0; i < table->nrecords; i++) {
        if (!ephemeron_shade(h, m, table, backwards ? table->nrecords - 1 - i : i))
            continue;
        nshaded++;
        teai_mark_drain(m);
    }
    return nshaded;
}

uint32_t teai_ephemerons_mark(struct tea_heap *h, struct teai_marker *m)
{
    uint32_t nshaded = 0, now;
    bool backwards = false;
    do {
        now = ephemerons_mark_pass(h, m, backwards);
        nshaded += now;
        backwards = !backwards;
    } while (now != 0);
    return nshaded;
}

void teai_ephemerons_visit_stopped(const struct tea_heap *h,
                                   void (*fn)(void *context, uintptr_t ephemeron, uintptr_t key, uintptr_t value),
                                   void *context)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_EPHEMERON];
    for (uint32_t i = 0; i < table->nrecords; i++) {
        const struct tea_ephemeron *ephemeron = table->arguments[i];
        fn(context, (uintptr_t)ephemeron, atomic_load_explicit(&ephemeron->key, memory_order_relaxed),
           atomic_load_explicit(&ephemeron->value, memory_order_relaxed));
    }
}

/* --- making them --- */

enum box_result { BOX_MADE, BOX_NO_OBJECT, BOX_NO_MEMORY };

/* Under specials.lock. */
static bool box_register(struct tea_heap *h, enum teai_special_kind kind, uintptr_t object, uintptr_t pointer, void *box)
{
    struct teai_special record = { .object = object, .pointer = pointer };
    return teai_special_add(h, kind, &record, box);
}

/* The weak pointer for `pointer`, or `fresh` made into it. *weak_out: NULL if there is none and `fresh` is NULL. */
static enum box_result weak_find_or_add(struct tea_mutator *m, uintptr_t pointer, struct tea_weak *fresh,
                                        struct tea_weak **weak_out)
{
    struct tea_heap *h = m->heap;
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_WEAK];
    enum box_result result = BOX_NO_OBJECT;
    teai_runtime_enter(m);
    struct teai_slot_ref ref = teai_object_find(h, m, pointer);
    if (ref.span != TEAI_NO_PAGE) {
        uintptr_t object = teai_slot_addr(&h->tables, ref);
        result = BOX_MADE;
        teai_lock_acquire(&h->specials.lock);
        uint32_t i = teai_special_find(table, pointer);
        if (i != TEAI_NO_SPECIAL)
            *weak_out = table->arguments[i];
        else if (fresh != NULL && !box_register(h, TEAI_SPECIAL_WEAK, object, pointer, fresh))
            result = BOX_NO_MEMORY;
        else
            *weak_out = fresh;
        teai_lock_release(&h->specials.lock);
    }
    teai_runtime_leave(h, m);
    return result;
}

static void *box_failed(struct tea_heap *h, const char *call, const void *pointer, enum box_result result)
{
    if (result == BOX_NO_OBJECT)
        teai_report_bad_pointer(h, call, pointer, false);
    errno = result == BOX_NO_OBJECT ? EINVAL : ENOMEM;
    return NULL;
}

struct tea_weak *tea_weak_create(const void *pointer)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return NULL;
    struct tea_weak *weak = NULL;
    enum box_result result = weak_find_or_add(m, (uintptr_t)pointer, NULL, &weak);
    if (result == BOX_MADE && weak == NULL) {
        struct tea_weak *fresh = tea_alloc_leaf(sizeof *fresh);
        if (fresh == NULL)
            return NULL;
        teai_weak_retarget(fresh, (uintptr_t)pointer);
        result = weak_find_or_add(m, (uintptr_t)pointer, fresh, &weak);
    }
    tea_keep_alive(pointer);
    return result == BOX_MADE ? weak : box_failed(m->heap, "tea_weak_create", pointer, result);
}

void *tea_weak_get(const struct tea_weak *weak)
{
    return weak != NULL ? (void *)atomic_load_explicit(&weak->target, memory_order_relaxed) : NULL; /* W1 */
}

static enum box_result ephemeron_add(struct tea_mutator *m, uintptr_t key, struct tea_ephemeron *ephemeron)
{
    struct tea_heap *h = m->heap;
    enum box_result result = BOX_NO_OBJECT;
    teai_runtime_enter(m);
    struct teai_slot_ref ref = teai_object_find(h, m, key);
    if (ref.span != TEAI_NO_PAGE) {
        teai_lock_acquire(&h->specials.lock);
        bool added = box_register(h, TEAI_SPECIAL_EPHEMERON, teai_slot_addr(&h->tables, ref), key, ephemeron);
        result = added ? BOX_MADE : BOX_NO_MEMORY;
        teai_lock_release(&h->specials.lock);
    }
    teai_runtime_leave(h, m);
    return result;
}

struct tea_ephemeron *tea_ephemeron_create(void *key, void *value)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return NULL;
    struct tea_ephemeron *ephemeron = tea_alloc_leaf(sizeof *ephemeron);
    if (ephemeron == NULL)
        return NULL;
    atomic_store_explicit(&ephemeron->key, (uintptr_t)key, memory_order_relaxed);
    atomic_store_explicit(&ephemeron->value, (uintptr_t)value, memory_order_relaxed);
    enum box_result result = ephemeron_add(m, (uintptr_t)key, ephemeron);
    tea_keep_alive(key);
    tea_keep_alive(value);
    return result == BOX_MADE ? ephemeron : box_failed(m->heap, "tea_ephemeron_create", key, result);
}

void *tea_ephemeron_key(const struct tea_ephemeron *ephemeron)
{
    return ephemeron != NULL ? (void *)atomic_load_explicit(&ephemeron->key, memory_order_relaxed) : NULL;
}

void *tea_ephemeron_value(const struct tea_ephemeron *ephemeron)
{
    return ephemeron != NULL ? (void *)atomic_load_explicit(&ephemeron->value, memory_order_relaxed) : NULL;
}
