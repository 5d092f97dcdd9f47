/* gc/special.h -- what the collector remembers about single objects: finalizers, cleanups, weak pointers, ephemerons.
 *
 * One table a kind. Records are found by object (its slot's start), for when that is freed or moved, and by what names one
 * record: the client's pointer, or a cleanup's number. An object may have any number of them. An object without records costs nothing, and a span
 * knows how many its objects have, so that freeing one without records looks at one word.
 *
 * Invariants (S4 and S6 checked by teai_verify_specials).
 *   S4  Every record's object is handed out: its state is not FREE. nspecials of its span counts its records.
 *   S5  After a mark, before the world restarts, the records of objects found dead are dealt with (special.c). So nothing
 *       remains for sweeping to do, and no thread ever sees a weak pointer to an object that is being swept.
 *   S6  The queue of due calls has room for every finalizer and cleanup that is registered: none is lost for want of memory.
 *   S7  Arguments stand in an array of their own, behind the last record's it is zero: it can be a root as it is.
 *
 * Locks. specials.lock, taken inside the runtime; with the world stopped nobody holds it and it is not taken.
 *
 * Source. Specials: Go runtime, mheap.go. Go handles them when a span is swept; here it is done in the stop, which needs no
 * window in which weak reads must wait. The cost is a walk over all records in each stop. When marking runs beside the program, the
 * stop need look only at records whose objects a walk near the end of the mark found white.
 */
#ifndef TEAI_SPECIAL_H
#define TEAI_SPECIAL_H

#include "gc/due.h"
#include "gc/span.h"

enum teai_special_kind {
    TEAI_SPECIAL_FINALIZER,
    TEAI_SPECIAL_CLEANUP,
    TEAI_SPECIAL_WEAK,
    TEAI_SPECIAL_EPHEMERON, /* of its key */
    TEAI_NSPECIAL_KINDS
};

enum teai_special_index { TEAI_SPECIAL_BY_OBJECT, TEAI_SPECIAL_BY_NAME, TEAI_NSPECIAL_INDEXES };
enum { TEAI_NO_SPECIAL = UINT32_MAX };

struct teai_special {
    uintptr_t object;        /* start of the slot */
    uintptr_t pointer;       /* into it, as the client gave it */
    uint64_t id;             /* cleanup */
    union {
        tea_finalizer_fn finalizer;
        tea_cleanup_fn cleanup;
        bool is_resolved;    /* ephemeron: its value was reached in this mark */
    };
    struct {
        uint32_t next, prev; /* records of the same bucket */
    } links[TEAI_NSPECIAL_INDEXES];
};

/* Records stand densely, numbered from 0; chains that start in buckets lead to them. One mapping holds all. */
struct teai_special_table {
    struct teai_special *records;
    void **arguments;        /* finalizer, cleanup: the client's; weak: struct tea_weak; ephemeron: struct tea_ephemeron */
    uint32_t *buckets[TEAI_NSPECIAL_INDEXES];
    uint32_t nrecords, capacity; /* capacity: 0 or a power of two, also the number of buckets of an index */
    size_t mapping_bytes;
};

struct teai_specials {
    struct teai_lock lock;
    struct teai_special_table tables[TEAI_NSPECIAL_KINDS];
    struct teai_due_queue due;
    uint64_t last_cleanup_id;
};

struct tea_heap;
struct teai_marker;

void teai_specials_init(struct teai_specials *specials);

/* --- with specials.lock held --- */

/* The record for this pointer (a cleanup: of this number), or one of them; TEAI_NO_SPECIAL if there is none. */
uint32_t teai_special_find(const struct teai_special_table *table, uintptr_t name);
/* False: no memory. Finalizers and cleanups get room in the queue too (S6). */
bool teai_special_add(struct tea_heap *h, enum teai_special_kind kind, const struct teai_special *record, void *argument);
/* The last record takes the place and number of the removed one. */
void teai_special_remove(struct tea_heap *h, enum teai_special_kind kind, uint32_t index);

/* --- takes the lock; inside the runtime --- */

/* The object is freed by the client: weak pointers to it are cleared, all records dropped, nothing is called. */
void teai_specials_drop(struct tea_heap *h, uintptr_t object);
/* What starts at `from` was copied to the new object at `to`, of `to_bytes` bytes. */
struct teai_special_move {
    uintptr_t object;        /* the old slot's start */
    uintptr_t from, to;
    size_t to_bytes;
    bool is_tiny;            /* the old slot may hold other objects */
};
/* The object's records follow it. Weak pointers beyond the new end are cleared. */
void teai_specials_move(struct tea_heap *h, const struct teai_special_move *move);
/* Give back memory when most records are gone. */
void teai_specials_trim(struct tea_heap *h);

/* --- with the world stopped --- */

/* Before marking: contexts, arguments and due calls are roots, and so is what finalizable objects refer to. */
void teai_specials_list_roots_stopped(struct tea_heap *h);
void teai_specials_visit_finalizable_stopped(const struct tea_heap *h, void (*fn)(void *context, uintptr_t object),
                                             void *context);
/* After marking, before sweeping (S5). Returns the bytes of the objects kept for their finalizers. */
uint64_t teai_specials_end_mark_stopped(struct tea_heap *h);
void teai_verify_specials(const struct tea_heap *h);

#endif
