/* gc/mark.h -- shade and drain: finding everything reachable, span by span (Green Tea).
 *
 * Problem. Visiting objects in the order pointers lead to them misses the cache once an object. Here the
 * unit of work is the span: a pointer found makes its object grey and queues the object's span; a queue in
 * FIFO order gives spans time to gather grey objects, which are then scanned together in address order.
 *
 * Invariants.
 *   M1  A grey object of at most 512 bytes lies in a span whose span_grey is not NONE and which is queued, or it is
 *       found by the repair sweep that ends every parallel mark.
 *   M2  A grey larger object is on a work list, or found by the repair sweep.
 *   M3  A state only ever goes WHITE -> GREY -> BLACK, except that with several markers a late plain store may take
 *       BLACK back to GREY: the object is then scanned twice, never missed.
 *   M4  Marking ends when all markers are idle at once, no list holds work and the repair sweep finds no grey object.
 *
 * With several markers there is no locked operation per object: states are plain byte stores. What can go wrong
 * is that marker A's store of GREY is still in its store buffer when marker B, having taken the span off the queue
 * and cleared span_grey, reads the states, while A read span_grey before it was cleared and so did not queue the
 * span again. The repair sweep finds such objects (M1).
 *
 * Source. Go 1.26 Green Tea (span queue, one-mark path, oblets); byte states and repair sweep: measured.
 */
#ifndef TEAI_MARK_H
#define TEAI_MARK_H

#include "gc/settings.h"
#include "gc/span.h"
#include "gc/root.h"
#include "gc/span_queue.h"
#include "gc/work_chunk.h"

enum teai_grey { TEAI_GREY_NONE = 0, TEAI_GREY_ONE = 1, TEAI_GREY_MANY = 2 };

enum {
    TEAI_OBLET_BYTES = 128 << 10,
    TEAI_ROOT_BLOCK_BYTES = 64 << 10,
    TEAI_CANDIDATES = 2048,            /* words that may be pointers, gathered before they are looked up */
    TEAI_CANDIDATES_FLUSH = 1024,
    TEAI_MAX_MARKERS = 64
};

struct teai_marker;

/* A piece of root memory. `exact`: its words are addresses of objects that the collector itself wrote; otherwise a word that
 * points one past an object keeps that object too. */
struct teai_root_block {
    uintptr_t base_addr, limit_addr;
    bool exact;
};

/* Scans words of objects and looks up the words found; one per kind of CPU, gc/scan_kernel*.c.
 * `filter`: append offsets (word - heap base) of those words in [base, base + nwords) that lie in the heap to `out`;
 * returns how many; `out` has room for nwords + 8. `filter_typed`: of those that the pointer bitmap names. `filter_slots`: the
 * same for the slots of a span whose bits are set in `grey`, each scanned by its kind; `out` has room for a span of one page
 * or one slot. `resolve`: shade each candidate; `offsets` has room for 8 more, and may be written. */
struct teai_scan_kernel {
    const char *name;
    size_t (*filter)(const struct teai_tables *t, uintptr_t base_addr, size_t nwords, uint64_t *out);
    size_t (*filter_typed)(const struct teai_tables *t, uintptr_t base_addr, size_t nwords, uint64_t *out);
    size_t (*filter_slots)(const struct teai_tables *t, uintptr_t span_addr, const struct teai_class_info *info,
                           const uint64_t *grey, uint64_t *out);
    /* Turn the GREY states among slots [0, nslots) BLACK; bit i%64 of element i/64 of `grey_out`: slot i was grey. */
    unsigned (*take_grey)(teai_slot_byte *states, uint32_t nslots, uint64_t *grey_out);
    void (*resolve)(struct teai_marker *m, uint64_t *offsets, size_t noffsets);
    /* Whether any state among n (multiple of 64) is GREY. */
    bool (*any_grey)(const teai_slot_byte *states, size_t n);
};
extern const struct teai_scan_kernel teai_scan_kernel_portable;
extern const struct teai_scan_kernel teai_scan_kernel_avx2;   /* these only on x86-64, when the CPU has it */
extern const struct teai_scan_kernel teai_scan_kernel_avx512;
const struct teai_scan_kernel *teai_scan_kernel_choose(enum teai_kernel_choice choice);

/* One marking thread. */
struct teai_marker {
    _Alignas(64) struct teai_tables tables;   /* a copy: the hot loop reads it all the time */
    const struct teai_scan_kernel *kernel;
    struct tea_heap *heap;
    bool parallel;                 /* several markers in this cycle */
    bool by_object;                /* object order, for comparison */
    bool past_end;                 /* words in the heap may point one past an object */
    uint32_t index;
    uint32_t start_epoch;          /* rounds before this are none of its helper thread's */
    uint64_t marked_bytes;         /* of objects this marker made grey or black */
    uint64_t nobjects_single, nobjects_batch, nspans; /* for gctrace=2 and tests */
    struct teai_work_stack objects;
    struct teai_span_queue queue;
    size_t ncandidates;
    uint64_t candidates[TEAI_CANDIDATES + 16];
};

/* The marking side of the heap object. */
struct teai_mark {
    struct teai_marker *markers[TEAI_MAX_MARKERS];
    uint32_t nmarkers_max;             /* as configured */
    uint32_t nmarkers;                 /* in this cycle */
    const struct teai_scan_kernel *kernel;
    struct teai_work_pool pool;
    _Atomic uint32_t overflowed;       /* a list could not grow: the repair sweep finds the rest */
    uint64_t noverflows;
    uint64_t worklist_peak_bytes;

    /* termination (mark_workers.c) */
    _Alignas(64) _Atomic uint32_t nidle;
    _Atomic uint32_t work_epoch;       /* futex of idle markers */
    _Atomic uint32_t nsleeping;
    _Atomic uint32_t go_epoch;         /* futex of helper threads between cycles; see go_word() */
    uint32_t round;
    _Atomic uint32_t nhelpers_running; /* futex of the caller waiting for them */
    uint32_t nhelpers_started;

    /* this cycle's roots, in blocks that markers claim */
    struct teai_root_block *root_blocks;
    bool roots_incomplete;             /* some were scanned at once, without being listed */
    size_t nroot_blocks, root_blocks_capacity, root_blocks_bytes;
    _Atomic uint64_t next_root_block;
    uint64_t root_limit;               /* blocks to claim in this round; 0 in repair rounds */
    _Atomic uint32_t repair_page;      /* next page of the repair sweep */
    uint32_t repair_limit_page;        /* 0 in the round that marks from the roots */
    _Atomic uint32_t nrepaired;
    uint64_t nrepair_rounds, nrepaired_total;
};

void teai_mark_init(struct tea_heap *h);
/* A new cycle with `nmarkers` markers, the world stopped: lists empty, counts zero. */
void teai_mark_begin(struct tea_heap *h, uint32_t nmarkers);
/* Before the stop, since it takes locks of the C library and the loader: have the threads for so many markers. */
void teai_mark_start_helpers(struct tea_heap *h, uint32_t nmarkers);
/* Add the words of [base, limit) as roots (see struct teai_root_block). */
void teai_mark_add_root(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr, bool exact);
/* Mark everything reachable from the roots added; returns bytes marked. */
uint64_t teai_mark_run(struct tea_heap *h);
/* Shade the object that `addr` points into (a pointer known to the collector itself). */
void teai_mark_shade(struct teai_marker *m, uintptr_t addr);
/* Shade what the object that starts at `object` refers to, but not the object itself. */
void teai_mark_contents(struct teai_marker *m, uintptr_t object);
/* Forget helper threads after fork. */
void teai_mark_after_fork(struct tea_heap *h);

/* Steps, for mark_workers.c and the kernels. */
void teai_mark_drain(struct teai_marker *m);
void teai_mark_root_block(struct teai_marker *m, struct teai_root_block block);
/* Find grey objects among the spans that start in pages [from, to) and scan them; returns the spans that had some. */
uint32_t teai_mark_repair_pages(struct teai_marker *m, uint32_t from, uint32_t to);
/* Shade the object at heap offset `offset`, the portable way. */
void teai_mark_offset(struct teai_marker *m, uint64_t offset);
/* Shade a small object whose state is WHITE. */
void teai_mark_small(struct teai_marker *m, uint8_t span_class, uint32_t span, uint32_t slot, teai_slot_byte *state);

/* Shade the small object at this index of slot_state if it is WHITE still. A slot's number is below 512 in every span, so the
 * index gives span and slot. Inline for the usual case: the span is queued already, for more than one object. */
TEAI_INLINE void teai_mark_state_index(struct teai_marker *m, uint64_t state_index, uint8_t span_class)
{
    const struct teai_tables *t = &m->tables;
    teai_slot_byte *state = t->slot_state + state_index;
    if (teai_slot_load(state) != TEAI_SLOT_WHITE)
        return;
    uint32_t span = (uint32_t)(state_index >> TEAI_STATE_SHIFT);
    const struct teai_class_info info = teai_class_info[span_class];
    /* relaxed: if the span is being taken off its queue just now, the repair sweep finds the object (M1). */
    if (TEAI_LIKELY(info.is_span_scanned && !m->by_object &&
                    atomic_load_explicit(&t->span_grey[span], memory_order_relaxed) == TEAI_GREY_MANY)) {
        teai_slot_store(state, TEAI_SLOT_GREY);
        m->marked_bytes += info.slot_bytes;
        return;
    }
    teai_mark_small(m, span_class, span, (uint32_t)(state_index & (TEAI_SLOTS_A_PAGE - 1)), state);
}
void teai_mark_large(struct teai_marker *m, uint32_t page);
/* Other markers sleep for want of work: make some of ours reachable for them and wake one. */
void teai_mark_feed_idle(struct teai_marker *m);

#endif
