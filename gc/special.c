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

/* What names a record among all: numbers of cleanups start at 1, the others have none. */
static uintptr_t special_name(const struct teai_special *record)
{
    return record->id != 0 ? (uintptr_t)record->id : record->pointer;
}

static uintptr_t special_key(const struct teai_special *record, enum teai_special_index index)
{
    return index == TEAI_SPECIAL_BY_OBJECT ? record->object : special_name(record);
}

static uint32_t *special_bucket(const struct teai_special_table *table, enum teai_special_index index, uintptr_t key)
{
    uint64_t hash = (uint64_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return &table->buckets[index][(uint32_t)(hash >> 32) & (table->capacity - 1)];
}

uint32_t teai_special_find(const struct teai_special_table *table, uintptr_t name)
{
    if (table->nrecords == 0)
        return TEAI_NO_SPECIAL;
    uint32_t i = *special_bucket(table, TEAI_SPECIAL_BY_NAME, name);
    while (i != TEAI_NO_SPECIAL && special_name(&table->records[i]) != name)
        i = table->records[i].links[TEAI_SPECIAL_BY_NAME].next;
    return i;
}

/* Some record of the object, for one after another to be removed or moved away. */
static uint32_t special_find_any(const struct teai_special_table *table, uintptr_t object)
{
    if (table->nrecords == 0)
        return TEAI_NO_SPECIAL;
    uint32_t i = *special_bucket(table, TEAI_SPECIAL_BY_OBJECT, object);
    while (i != TEAI_NO_SPECIAL && table->records[i].object != object)
        i = table->records[i].links[TEAI_SPECIAL_BY_OBJECT].next;
    return i;
}

/* Let the record before (or the bucket) and the one behind lead to `to`, the new number of record `i`, or past it. */
static void special_relink(struct teai_special_table *table, uint32_t i, enum teai_special_index index, uint32_t to)
{
    const struct teai_special *record = &table->records[i];
    uint32_t next = record->links[index].next, prev = record->links[index].prev;
    bool is_leaving = to == TEAI_NO_SPECIAL;
    uint32_t *from = prev != TEAI_NO_SPECIAL ? &table->records[prev].links[index].next
                                             : special_bucket(table, index, special_key(record, index));
    *from = is_leaving ? next : to;
    if (next != TEAI_NO_SPECIAL)
        table->records[next].links[index].prev = is_leaving ? prev : to;
}

static void special_link(struct teai_special_table *table, uint32_t i)
{
    for (unsigned index = 0; index < TEAI_NSPECIAL_INDEXES; index++) {
        struct teai_special *record = &table->records[i];
        uint32_t *bucket = special_bucket(table, index, special_key(record, index));
        record->links[index].next = *bucket;
        record->links[index].prev = TEAI_NO_SPECIAL;
        if (*bucket != TEAI_NO_SPECIAL)
            table->records[*bucket].links[index].prev = i;
        *bucket = i;
    }
}

static void special_unlink(struct teai_special_table *table, uint32_t i)
{
    for (unsigned index = 0; index < TEAI_NSPECIAL_INDEXES; index++)
        special_relink(table, i, index, TEAI_NO_SPECIAL);
}

enum { SPECIAL_RECORD_BYTES = sizeof(struct teai_special) + sizeof(void *) + TEAI_NSPECIAL_INDEXES * sizeof(uint32_t) };

static bool special_table_alloc(struct tea_heap *h, struct teai_special_table *table, uint32_t capacity)
{
    *table = (struct teai_special_table){ .capacity = capacity, .mapping_bytes = (size_t)capacity * SPECIAL_RECORD_BYTES };
    table->records = teai_metadata_alloc(&h->metadata, &table->mapping_bytes);
    if (table->records == NULL)
        return false;
    table->arguments = (void **)(void *)(table->records + capacity);
    uint32_t *buckets = (uint32_t *)(void *)(table->arguments + capacity);
    for (unsigned index = 0; index < TEAI_NSPECIAL_INDEXES; index++)
        table->buckets[index] = buckets + (size_t)index * capacity;
    memset(buckets, 0xff, TEAI_NSPECIAL_INDEXES * capacity * sizeof *buckets); /* TEAI_NO_SPECIAL */
    return true;
}

static bool special_table_resize(struct tea_heap *h, struct teai_special_table *table, uint32_t capacity)
{
    struct teai_special_table resized;
    if (!special_table_alloc(h, &resized, capacity))
        return false;
    if (table->nrecords != 0) {
        memcpy(resized.records, table->records, table->nrecords * sizeof *table->records);
        memcpy(resized.arguments, table->arguments, table->nrecords * sizeof *table->arguments);
    }
    for (; resized.nrecords < table->nrecords; resized.nrecords++)
        special_link(&resized, resized.nrecords);
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

/* As many calls as can become due before more is registered. */
static size_t specials_due_most(const struct teai_specials *specials)
{
    return teai_due_count(&specials->due) + specials->tables[TEAI_SPECIAL_FINALIZER].nrecords +
           specials->tables[TEAI_SPECIAL_CLEANUP].nrecords;
}

bool teai_special_add(struct tea_heap *h, enum teai_special_kind kind, const struct teai_special *record, void *argument)
{
    struct teai_specials *specials = &h->specials;
    struct teai_special_table *table = &specials->tables[kind];
    bool is_callable = kind == TEAI_SPECIAL_FINALIZER || kind == TEAI_SPECIAL_CLEANUP;
    if (is_callable && !teai_due_reserve(h, &specials->due, specials_due_most(specials) + 1))
        return false;
    if (table->nrecords == table->capacity && !special_table_grow(h, table))
        return false;
    uint32_t i = table->nrecords++;
    table->records[i] = *record;
    table->arguments[i] = argument;
    special_link(table, i);
    /* relaxed: read by who frees the object, which this registration precedes. */
    atomic_fetch_add_explicit(special_count_of(h, record->object), 1, memory_order_relaxed);
    return true;
}

void teai_special_remove(struct tea_heap *h, enum teai_special_kind kind, uint32_t i)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    uint32_t last = table->nrecords - 1;
    atomic_fetch_sub_explicit(special_count_of(h, table->records[i].object), 1, memory_order_relaxed);
    special_unlink(table, i);
    if (i != last) {
        for (unsigned index = 0; index < TEAI_NSPECIAL_INDEXES; index++)
            special_relink(table, last, index, i);
        table->records[i] = table->records[last];
        table->arguments[i] = table->arguments[last];
    }
    table->arguments[last] = NULL; /* S7 */
    table->nrecords = last;
}

/* The object that a weak pointer or ephemeron leads to is gone. */
static void special_clear(enum teai_special_kind kind, void *box)
{
    if (kind == TEAI_SPECIAL_WEAK)
        teai_weak_clear(box);
    else if (kind == TEAI_SPECIAL_EPHEMERON)
        teai_ephemeron_clear(box);
}

static void specials_drop_kind(struct tea_heap *h, enum teai_special_kind kind, uintptr_t object)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    uint32_t i;
    while ((i = special_find_any(table, object)) != TEAI_NO_SPECIAL) {
        special_clear(kind, table->arguments[i]);
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

static void special_move(struct tea_heap *h, enum teai_special_kind kind, uint32_t i, const struct teai_special_move *move)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    struct teai_special *record = &table->records[i];
    size_t offset = record->pointer - move->from;
    if (offset >= move->to_bytes) { /* in the part that was cut off */
        special_clear(kind, table->arguments[i]);
        teai_special_remove(h, kind, i);
        return;
    }
    special_unlink(table, i);
    atomic_fetch_sub_explicit(special_count_of(h, record->object), 1, memory_order_relaxed);
    record->object = move->to;
    record->pointer = move->to + offset;
    atomic_fetch_add_explicit(special_count_of(h, record->object), 1, memory_order_relaxed);
    special_link(table, i);
    if (kind == TEAI_SPECIAL_WEAK)
        teai_weak_retarget(table->arguments[i], record->pointer);
    else if (kind == TEAI_SPECIAL_EPHEMERON)
        teai_ephemeron_retarget(table->arguments[i], record->pointer);
}

/* Records of other tiny objects of the same slot stay behind. */
static void special_move_tiny(struct tea_heap *h, enum teai_special_kind kind, const struct teai_special_move *move)
{
    struct teai_special_table *table = &h->specials.tables[kind];
    for (uint32_t i = special_find_any(table, move->object); i != TEAI_NO_SPECIAL;) {
        uint32_t next = table->records[i].links[TEAI_SPECIAL_BY_OBJECT].next;
        if (table->records[i].object == move->object && table->records[i].pointer == move->from)
            special_move(h, kind, i, move);
        i = next;
    }
}

void teai_specials_move(struct tea_heap *h, const struct teai_special_move *move)
{
    teai_lock_acquire(&h->specials.lock);
    for (unsigned kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++) {
        uint32_t i;
        if (move->is_tiny)
            special_move_tiny(h, kind, move);
        else
            while ((i = special_find_any(&h->specials.tables[kind], move->object)) != TEAI_NO_SPECIAL)
                special_move(h, kind, i, move);
    }
    teai_lock_release(&h->specials.lock);
}

void teai_specials_trim(struct tea_heap *h)
{
    struct teai_specials *specials = &h->specials;
    teai_lock_acquire(&specials->lock);
    for (unsigned kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++)
        special_table_trim(h, &specials->tables[kind]);
    if (specials->due.capacity != 0)
        teai_due_trim(h, &specials->due, specials_due_most(specials));
    teai_lock_release(&specials->lock);
}

/* --- roots --- */

static void specials_list_table(struct tea_heap *h, const struct teai_special_table *table)
{
    teai_mark_add_root(h, (uintptr_t)table->arguments, (uintptr_t)(table->arguments + table->nrecords), true); /* S7 */
}

void teai_specials_visit_finalizable_stopped(const struct tea_heap *h, void (*fn)(void *context, uintptr_t object),
                                             void *context)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_FINALIZER];
    for (uint32_t i = 0; i < table->nrecords; i++)
        fn(context, table->records[i].object);
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
        if (special_is_black(h, record->object)) {
            i++;
            continue;
        }
        struct teai_due due = { .object = (void *)record->pointer, .argument = table->arguments[i],
                                .finalizer = record->finalizer };
        teai_due_put(&h->specials.due, &due);
        teai_slot_store(special_state(h, record->object), TEAI_SLOT_GREY);
        teai_special_remove(h, TEAI_SPECIAL_FINALIZER, i);
    }
}

static void specials_end_weak(struct tea_heap *h)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_WEAK];
    for (uint32_t i = 0; i < table->nrecords;) {
        const struct teai_special *record = &table->records[i];
        bool target_lives = special_is_black(h, record->object);
        if (target_lives && !special_is_white(h, (uintptr_t)table->arguments[i])) {
            i++;
            continue;
        }
        if (!target_lives)
            teai_weak_clear(table->arguments[i]);
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
        if (special_is_black(h, record->object) && special_is_black(h, (uintptr_t)table->arguments[i])) {
            i++;
            continue;
        }
        teai_ephemeron_clear(table->arguments[i]);
        teai_special_remove(h, TEAI_SPECIAL_EPHEMERON, i);
    }
}

static void specials_end_cleanups(struct tea_heap *h)
{
    const struct teai_special_table *table = &h->specials.tables[TEAI_SPECIAL_CLEANUP];
    for (uint32_t i = 0; i < table->nrecords;) {
        const struct teai_special *record = &table->records[i];
        if (!special_is_white(h, record->object)) {
            i++;
            continue;
        }
        struct teai_due due = { .argument = table->arguments[i], .cleanup = record->cleanup };
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
        uintptr_t object = table->records[i].object;
        struct teai_slot_ref ref = teai_slot_find(&h->tables, object);
        TEAI_CHECK(ref.span != TEAI_NO_PAGE && teai_slot_addr(&h->tables, ref) == object);         /* S4 */
        TEAI_CHECK(teai_slot_load(teai_span_states(&h->tables, ref.span) + ref.slot) != TEAI_SLOT_FREE); /* S4 */
        TEAI_CHECK(teai_special_find(table, special_name(&table->records[i])) != TEAI_NO_SPECIAL);
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
    TEAI_CHECK(specials_due_most(&h->specials) <= h->specials.due.capacity); /* S6 */
}
