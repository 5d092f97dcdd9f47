/* gc/special.c -- what the collector remembers about single objects, and what becomes of it when they die.
 *
 * After a mark, in the stop, in this order (as in Go):
 *   1. An unmarked object with a finalizer is kept for one more cycle: its finalizer is queued and its record removed. What
 *      it refers to is marked already, since that was a root. Its slot is GREY until step 4, which tells it from the dead.
 *   2. Weak pointers and ephemerons of unmarked objects, kept ones included, are cleared. Those that are themselves
 *      unmarked are forgotten.
 *   3. Cleanups of objects that are really dead are queued; a kept object's cleanups wait for its second death.
 *   4. Kept objects turn BLACK.
 *
 * What follows from the roots: of a chain of finalizable objects only the head is finalized, and the next one in the cycle
 * after; a finalizable object that can be reached from itself is never finalized and never freed.
 *
 * Locks. See special.h.
 */
#include "gc/special.h"

#include "gc/heap.h"
#include "gc/weak.h"

#include <string.h>

enum { SPECIAL_LEAST_CAPACITY = 64, SPECIAL_SHRINK_FACTOR = 4 };
#define SPECIAL_MOST_CAPACITY (UINT32_C(1) << 31)

void teai_specials_init(struct teai_specials *specials)
{
    specials->lock.rank = TEAI_RANK_SPECIALS;
}

/* --- a table --- */

static uint32_t *special_bucket(const struct teai_special_table *table, uintptr_t object)
{
    uint64_t hash = (uint64_t)(object >> 3) * UINT64_C(0x9e3779b97f4a7c15);
    return &table->buckets[(uint32_t)(hash >> 32) & (table->capacity - 1)];
}

/* The record at `index` or the first one behind it in its chain that is of this object. */
static uint32_t special_skip_others(const struct teai_special_table *table, uintptr_t object, uint32_t index)
{
    while (index != TEAI_NO_SPECIAL && teai_special_object(&table->records[index]) != object)
        index = table->records[index].next;
    return index;
}

uint32_t teai_special_first(const struct teai_special_table *table, uintptr_t object)
{
    return table->nrecords == 0 ? TEAI_NO_SPECIAL
                                : special_skip_others(table, object, *special_bucket(table, object));
}

uint32_t teai_special_next(const struct teai_special_table *table, uintptr_t object, uint32_t index)
{
    return special_skip_others(table, object, table->records[index].next);
}

uint32_t teai_special_find(const struct teai_special_table *table, uintptr_t object, uintptr_t pointer)
{
    uint32_t i = teai_special_first(table, object);
    while (i != TEAI_NO_SPECIAL && teai_special_pointer(&table->records[i]) != pointer)
        i = teai_special_next(table, object, i);
    return i;
}

static void special_link(struct teai_special_table *table, uint32_t index)
{
    uint32_t *bucket = special_bucket(table, teai_special_object(&table->records[index]));
    table->records[index].next = *bucket;
    *bucket = index;
}

/* The word that leads to a record: its bucket, or `next` of the one before. */
static uint32_t *special_link_to(struct teai_special_table *table, uint32_t index)
{
    uint32_t *link = special_bucket(table, teai_special_object(&table->records[index]));
    while (*link != index)
        link = &table->records[*link].next;
    return link;
}

static bool special_table_resize(struct tea_heap *h, struct teai_special_table *table, uint32_t capacity)
{
    struct teai_special_table resized = { .nrecords = table->nrecords, .capacity = capacity };
    size_t records_bytes = capacity * sizeof(struct teai_special);
    resized.mapping_bytes = records_bytes + capacity * sizeof(uint32_t);
    uint8_t *mapping = teai_metadata_alloc(&h->metadata, &resized.mapping_bytes);
    if (mapping == NULL)
        return false;
    resized.records = (struct teai_special *)(void *)mapping;
    resized.buckets = (uint32_t *)(void *)(mapping + records_bytes);
    memset(resized.buckets, 0xff, capacity * sizeof(uint32_t)); /* TEAI_NO_SPECIAL */
    if (table->nrecords != 0)
        memcpy(resized.records, table->records, table->nrecords * sizeof *table->records);
    for (uint32_t i = 0; i < resized.nrecords; i++)
        special_link(&resized, i);
    if (table->records != NULL)
        teai_metadata_free(&h->metadata, table->records, table->mapping_bytes);
    *table = resized;
    return true;
}

static bool special_table_grow(struct tea_heap *h, struct teai_special_table *table)
{
    if (table->capacity == SPECIAL_MOST_CAPACITY)
        return false;
    return special_table_resize(h, table, table->capacity != 0 ? table->capacity * 2 : SPECIAL_LEAST_CAPACITY);
}

static void special_table_trim(struct tea_heap *h, struct teai_special_table *table)
{
    uint32_t capacity = table->capacity;
    while (capacity > SPECIAL_LEAST_CAPACITY && table->nrecords < capacity / SPECIAL_SHRINK_FACTOR)
        capacity /= 2;
    if (capacity != table->capacity)
        (void)special_table_resize(h, table, capacity); /* without memory for less it stays as it is */
}

/* --- records --- */

static _Atomic uint32_t *special_count_of(const struct tea_heap *h, uintptr_t object)
{
    return &h->tables.spans[teai_slot_find(&h->tables, object).span].nspecials;
}

static size_t specials_callable(const struct teai_specials *specials)
{
    return (size_t)specials->tables[TEAI_SPECIAL_FINALIZER].nrecords + specials->tables[TEAI_SPECIAL_CLEANUP].nrecords;
}

bool teai_special_add(struct tea_heap *h, enum teai_special_kind kind, const struct teai_special *record)
{
    struct teai_specials *specials = &h->specials;
    struct teai_special_table *table = &specials->tables[kind];
    bool is_callable = kind == TEAI_SPECIAL_FINALIZER || kind == TEAI_SPECIAL_CLEANUP;
    if (is_callable && !teai_due_reserve(h, &specials->due, teai_due_count(&specials->due) + specials_callable(specials) + 1))
        return false;
    if (table->nrecords == table->capacity && !special_table_grow(h, table))
        return false;
    uint32_t index = table->nrecords++;
    table->records[index] = *record;
    special_link(table, index);
    /* relaxed: read by who frees the object, which this registration precedes. */
    atomic_fetch_add_explicit(special_count_of(h, teai_special_object(record)), 1, memory_order_relaxed);
    return true;
}

void teai_special_remove(struct tea_heap *h, enum teai_special_kind kind, uint32_t index)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    struct teai_special *removed = &table->records[index];
    uint32_t last = table->nrecords - 1;
    atomic_fetch_sub_explicit(special_count_of(h, teai_special_object(removed)), 1, memory_order_relaxed);
    *special_link_to(table, index) = removed->next;
    if (index != last) {
        *special_link_to(table, last) = index;
        *removed = table->records[last];
    }
    /* The table may be a root (S7). */
    table->records[last] = (struct teai_special){ .hidden_object = 0 };
    table->nrecords = last;
}

/* The object that a weak pointer or ephemeron leads to is gone. */
static void special_clear(enum teai_special_kind kind, const struct teai_special *record)
{
    if (kind == TEAI_SPECIAL_WEAK)
        teai_weak_clear(record->argument);
    else if (kind == TEAI_SPECIAL_EPHEMERON)
        teai_ephemeron_clear(record->argument);
}

static void specials_drop_kind(struct tea_heap *h, enum teai_special_kind kind, uintptr_t object)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    uint32_t i;
    while ((i = teai_special_first(table, object)) != TEAI_NO_SPECIAL) {
        special_clear(kind, &table->records[i]);
        teai_special_remove(h, kind, i);
    }
}

void teai_specials_drop(struct tea_heap *h, uintptr_t object)
{
    teai_lock_acquire(&h->specials.lock);
    for (unsigned kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++)
        specials_drop_kind(h, kind, object);
    teai_lock_release(&h->specials.lock);
}

/* --- moving --- */

struct special_move {
    uintptr_t object, from, to;
    size_t nbytes, to_bytes;
};

static void special_move_one(struct tea_heap *h, enum teai_special_kind kind, uint32_t index,
                             const struct special_move *move)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    struct teai_special *record = &table->records[index];
    size_t offset = teai_special_pointer(record) - move->from;
    if (offset >= move->to_bytes) { /* in the part that was cut off */
        special_clear(kind, record);
        teai_special_remove(h, kind, index);
        return;
    }
    *special_link_to(table, index) = record->next;
    atomic_fetch_sub_explicit(special_count_of(h, move->object), 1, memory_order_relaxed);
    record->hidden_object = ~move->to;
    record->hidden_pointer = ~(move->to + offset);
    special_link(table, index);
    atomic_fetch_add_explicit(special_count_of(h, move->to), 1, memory_order_relaxed);
    if (kind == TEAI_SPECIAL_WEAK)
        teai_weak_retarget(record->argument, move->to + offset);
    else if (kind == TEAI_SPECIAL_EPHEMERON)
        teai_ephemeron_retarget(record->argument, move->to + offset);
    h->specials.cleanups_moved |= kind == TEAI_SPECIAL_CLEANUP;
}

/* Start over after each: moving or removing one changes the chains. */
static void special_move_kind(struct tea_heap *h, enum teai_special_kind kind, const struct special_move *move)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    uint32_t i = teai_special_first(table, move->object);
    while (i != TEAI_NO_SPECIAL)
        if (teai_special_pointer(&table->records[i]) - move->from < move->nbytes) {
            special_move_one(h, kind, i, move);
            i = teai_special_first(table, move->object);
        } else {
            i = teai_special_next(table, move->object, i);
        }
}

void teai_specials_move(struct tea_heap *h, uintptr_t object, uintptr_t from, size_t nbytes, uintptr_t to, size_t to_bytes)
{
    struct special_move move = { .object = object, .from = from, .to = to, .nbytes = nbytes, .to_bytes = to_bytes };
    teai_lock_acquire(&h->specials.lock);
    for (unsigned kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++)
        special_move_kind(h, kind, &move);
    teai_lock_release(&h->specials.lock);
}

void teai_specials_trim(struct tea_heap *h)
{
    struct teai_specials *specials = &h->specials;
    teai_lock_acquire(&specials->lock);
    for (unsigned kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++)
        special_table_trim(h, &specials->tables[kind]);
    if (specials->due.capacity != 0)
        teai_due_trim(h, &specials->due, teai_due_count(&specials->due) + specials_callable(specials));
    teai_lock_release(&specials->lock);
}

/* --- roots --- */

static void specials_list_table(struct tea_heap *h, const struct teai_special_table *table)
{
    teai_mark_add_root(h, (uintptr_t)table->records, (uintptr_t)(table->records + table->nrecords), true); /* S7 */
}

void teai_specials_visit_finalizable_stopped(const struct tea_heap *h, void (*fn)(void *context, uintptr_t object),
                                             void *context)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_FINALIZER];
    for (uint32_t i = 0; i < table->nrecords; i++)
        fn(context, teai_special_object(&table->records[i]));
}

static void specials_mark_contents(void *marker, uintptr_t object)
{
    teai_mark_contents(marker, object);
}

void teai_specials_list_roots_stopped(struct tea_heap *h)
{
    specials_list_table(h, &h->specials.tables[TEAI_SPECIAL_FINALIZER]);
    specials_list_table(h, &h->specials.tables[TEAI_SPECIAL_CLEANUP]);
    teai_due_list_roots_stopped(h, &h->specials.due);
    teai_specials_visit_finalizable_stopped(h, specials_mark_contents, h->mark.markers[0]);
}

/* --- after the mark --- */

static teai_slot_byte *special_state(const struct tea_heap *h, uintptr_t addr)
{
    struct teai_slot_ref ref = teai_slot_find(&h->tables, addr);
    return teai_span_states(&h->tables, ref.span) + ref.slot;
}

static bool special_is_white(const struct tea_heap *h, uintptr_t addr)
{
    return teai_slot_load(special_state(h, addr)) == TEAI_SLOT_WHITE;
}

static bool special_is_black(const struct tea_heap *h, uintptr_t addr)
{
    return teai_slot_load(special_state(h, addr)) == TEAI_SLOT_BLACK;
}

static void specials_end_finalizers(struct tea_heap *h)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_FINALIZER];
    for (uint32_t i = 0; i < table->nrecords;) {
        const struct teai_special *record = &table->records[i];
        if (special_is_black(h, teai_special_object(record))) {
            i++;
            continue;
        }
        struct teai_due due = { .object = (void *)teai_special_pointer(record), .argument = record->argument,
                                .finalizer = record->finalizer };
        teai_due_put(&h->specials.due, &due);
        teai_slot_store(special_state(h, teai_special_object(record)), TEAI_SLOT_GREY);
        teai_special_remove(h, TEAI_SPECIAL_FINALIZER, i);
    }
}

static void specials_end_weak(struct tea_heap *h)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_WEAK];
    for (uint32_t i = 0; i < table->nrecords;) {
        const struct teai_special *record = &table->records[i];
        bool target_lives = special_is_black(h, teai_special_object(record));
        if (target_lives && !special_is_white(h, (uintptr_t)record->argument)) {
            i++;
            continue;
        }
        if (!target_lives)
            teai_weak_clear(record->argument);
        teai_special_remove(h, TEAI_SPECIAL_WEAK, i);
    }
}

/* An ephemeron that is kept for a finalizer of its own was not reached by marking, so its value was not either. */
static void specials_end_ephemerons(struct tea_heap *h)
{
    struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_EPHEMERON];
    for (uint32_t i = 0; i < table->nrecords;) {
        struct teai_special *record = &table->records[i];
        record->is_resolved = false;
        if (special_is_black(h, teai_special_object(record)) && special_is_black(h, (uintptr_t)record->argument)) {
            i++;
            continue;
        }
        teai_ephemeron_clear(record->argument);
        teai_special_remove(h, TEAI_SPECIAL_EPHEMERON, i);
    }
}

static void specials_end_cleanups(struct tea_heap *h)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_CLEANUP];
    for (uint32_t i = 0; i < table->nrecords;) {
        const struct teai_special *record = &table->records[i];
        if (!special_is_white(h, teai_special_object(record))) {
            i++;
            continue;
        }
        struct teai_due due = { .argument = record->argument, .cleanup = record->cleanup };
        teai_due_put(&h->specials.due, &due);
        teai_special_remove(h, TEAI_SPECIAL_CLEANUP, i);
    }
}

/* Several finalizers may belong to one slot of tiny objects. */
static uint64_t specials_blacken_kept(struct tea_heap *h, size_t first_due)
{
    uint64_t kept_bytes = 0;
    for (size_t i = first_due; i < teai_due_count(&h->specials.due); i++) {
        uintptr_t object = (uintptr_t)teai_due_at(&h->specials.due, i)->object;
        if (object == 0 || special_is_black(h, object))
            continue;
        teai_slot_store(special_state(h, object), TEAI_SLOT_BLACK);
        kept_bytes += teai_slot_bytes(&h->tables, teai_slot_find(&h->tables, object));
    }
    return kept_bytes;
}

uint64_t teai_specials_end_mark_stopped(struct tea_heap *h)
{
    size_t first_due = teai_due_count(&h->specials.due);
    specials_end_finalizers(h);
    specials_end_weak(h);
    specials_end_ephemerons(h);
    specials_end_cleanups(h);
    return specials_blacken_kept(h, first_due);
}

/* --- checks --- */

static void verify_special_table(const struct tea_heap *h, const struct teai_special_table *table)
{
    for (uint32_t i = 0; i < table->nrecords; i++) {
        uintptr_t object = teai_special_object(&table->records[i]);
        struct teai_slot_ref ref = teai_slot_find(&h->tables, object);
        TEAI_CHECK(ref.span != TEAI_NO_PAGE && teai_slot_addr(&h->tables, ref) == object);         /* S4 */
        TEAI_CHECK(teai_slot_load(teai_span_states(&h->tables, ref.span) + ref.slot) != TEAI_SLOT_FREE); /* S4 */
        TEAI_CHECK(teai_special_find(table, object, teai_special_pointer(&table->records[i])) != TEAI_NO_SPECIAL);
    }
}

static uint64_t specials_counted_by_spans(const struct tea_heap *h)
{
    uint64_t n = 0;
    uint32_t npages = teai_page_heap_limit(h->pages);
    for (uint32_t page = 0; page < npages; page++)
        if (teai_slot_find(&h->tables, teai_page_addr(&h->tables, page)).span == page)
            n += atomic_load_explicit(&h->tables.spans[page].nspecials, memory_order_relaxed);
    return n;
}

void teai_verify_specials(const struct tea_heap *h)
{
    uint64_t nrecords = 0;
    for (unsigned kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++) {
        verify_special_table(h, &h->specials.tables[kind]);
        nrecords += h->specials.tables[kind].nrecords;
    }
    TEAI_CHECK(specials_counted_by_spans(h) == nrecords);                                               /* S4 */
    TEAI_CHECK(teai_due_count(&h->specials.due) + specials_callable(&h->specials) <= h->specials.due.capacity);   /* S6 */
}
