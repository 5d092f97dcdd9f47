/* gc/span.h -- a run of pages cut into equal slots, and the side tables that describe the heap's pages.
 *
 * Side tables are dense arrays indexed by page (or page * 512 + slot), in the same reservation as the
 * heap. No byte of metadata lies among the objects, so marking and sweeping never touch an object that need
 * not be scanned, and a client that overruns a block cannot harm the collector's state.
 *
 * One byte a slot holds allocation and mark state together. Measured (docs/performance.md): with several
 * markers plain byte stores beat locked bits by 1.3-2.6, and one load answers "is this an object, and is
 * it reached?".
 *
 * Invariants (checked by teai_verify_heap).
 *   P1  Pages that are free have tag 0 and only FREE state bytes; state bytes past a span's last slot are FREE.
 *   P2  tag of the i-th page of a small span is span_class | i << 8; of a large one LARGE, and page_first leads to its start.
 *   P3  Outside marking, in a swept span, every state is FREE or WHITE, and nlive counts the WHITE ones.
 *   P4  State bytes of a span that is not swept are written by whoever claimed it for sweeping and nobody else.
 */
#ifndef TEAI_SPAN_H
#define TEAI_SPAN_H

#include "base/word.h"
#include "gc/page_heap.h"
#include "gc/sizeclass.h"
#include "teaspan/alloc.h"

/* What a slot's byte says. Bits: 1 handed out (or reserved for a thread), 2 reached, 4 scanned. */
enum teai_slot_state {
    TEAI_SLOT_FREE = 0,
    TEAI_SLOT_WHITE = 1, /* handed out; while marking: not reached yet */
    TEAI_SLOT_GREY = 3,  /* reached, to be scanned */
    TEAI_SLOT_BLACK = 7  /* reached and scanned, or never needs to be */
};
typedef _Atomic uint8_t teai_slot_byte;

enum teai_kind { TEAI_CONSERVATIVE = 0, TEAI_LEAF = 1, TEAI_TYPED = 2, TEAI_NKINDS = 3 };

/* Span class = size class * 3 + kind. Size classes 0 and 1 are never small spans here, which leaves room for: */
enum {
    TEAI_CLASS_NONE = 0,  /* no object on this page */
    TEAI_CLASS_LARGE = 1, /* an object with a span of its own */
    TEAI_CLASS_FIRST_SMALL = 2 * TEAI_NKINDS,
    TEAI_NSPAN_CLASSES = TEAI_NSIZE_CLASSES * TEAI_NKINDS
};
_Static_assert(TEAI_NSPAN_CLASSES <= 256, "a span class fits the low byte of a page tag");

/* Slots up to this size are found and scanned span by span, larger ones one by one. (Go: the same bound.) */
enum { TEAI_SPAN_SCAN_MAX_BYTES = 512 };

enum { TEAI_STATE_SHIFT = 9, TEAI_SLOTS_A_PAGE = 1 << TEAI_STATE_SHIFT };
_Static_assert(TEAI_PAGE_BYTES / TEAI_SLOTS_A_PAGE == 16, "the smallest slot is 16 bytes");

enum teai_span_where {
    TEAI_WHERE_NONE = 0, /* not a small span in use */
    TEAI_WHERE_CACHED,   /* lent to a thread's cache */
    TEAI_WHERE_PARTIAL,  /* on its class's list of spans that may have free slots */
    TEAI_WHERE_FULL      /* on the other list */
};

/* Span number = its first page. Most fields are written by whoever holds the span (its cache, its sweeper)
 * or, for list fields, under the lock of its central list. */
struct teai_span {
    _Alignas(64) _Atomic uint32_t sweep_gen; /* h-2: to be swept; h-1: being swept; h: swept (h: heap's sweep_gen) */
    _Atomic uint32_t nlive;     /* slots that are not FREE; at times high by what another thread just frees */
    uint32_t npages;
    uint32_t nslots;            /* 1 in a large span */
    uint32_t slot_bytes;        /* small spans */
    uint8_t span_class;         /* small spans; TEAI_CLASS_LARGE otherwise */
    uint8_t kind;
    _Atomic uint8_t where;      /* enum teai_span_where */
    _Atomic uint8_t needzero;   /* some free slot may hold old contents */
    uint32_t next, prev;        /* central list; span numbers or TEAI_NO_PAGE */
    _Atomic size_t scan_bytes;  /* large: scan this much from the start */
    union {
        const struct tea_type *type;         /* large typed */
        const struct tea_arena *arena;       /* large conservative: chunk of an arena; else NULL */
    };
    uint64_t arena_epoch;       /* contents are from this epoch of the arena */
    _Atomic uint32_t nspecials; /* records of its objects in gc/special.c's tables */
};
_Static_assert(sizeof(struct teai_span) == 64, "one cache line a span");

/* The side tables. All are committed together as the heap grows (gc/heap.c). */
struct teai_tables {
    uintptr_t heap_base_addr;
    size_t heap_limit_bytes;        /* pages ever used end here; read by markers while the world is stopped */
    _Atomic uint16_t *page_tag;     /* span class | page within span << 8 */
    teai_slot_byte *slot_state;     /* page << 9 + slot */
    _Atomic uint8_t *span_grey;     /* first page of a span: enum teai_grey, gc/mark.h */
    _Atomic uint32_t *page_first;   /* pages of large spans: first page */
    struct teai_span *spans;        /* by first page */
    uint8_t *pointer_bits;          /* typed spans: one bit a word, so one byte a 64-byte line */
};

struct tea_heap;

TEAI_INLINE uint32_t teai_page_of(const struct teai_tables *t, uintptr_t addr)
{
    return (uint32_t)((addr - t->heap_base_addr) >> TEAI_PAGE_SHIFT);
}

TEAI_INLINE uintptr_t teai_page_addr(const struct teai_tables *t, uint32_t page)
{
    return t->heap_base_addr + ((uintptr_t)page << TEAI_PAGE_SHIFT);
}

TEAI_INLINE teai_slot_byte *teai_span_states(const struct teai_tables *t, uint32_t span)
{
    return t->slot_state + ((size_t)span << TEAI_STATE_SHIFT);
}

TEAI_INLINE uint8_t teai_slot_load(const teai_slot_byte *slot)
{
    return atomic_load_explicit(slot, memory_order_relaxed);
}

TEAI_INLINE void teai_slot_store(teai_slot_byte *slot, uint8_t state)
{
    atomic_store_explicit(slot, state, memory_order_relaxed);
}

TEAI_INLINE uint8_t teai_span_class_of(size_t sizeclass, enum teai_kind kind)
{
    return (uint8_t)(sizeclass * TEAI_NKINDS + (size_t)kind);
}

TEAI_INLINE bool teai_span_is_swept(const struct teai_span *s, uint32_t heap_gen)
{
    /* acquire: pairs with the release in sweep_finish(): we see the states it wrote. */
    return atomic_load_explicit(&s->sweep_gen, memory_order_acquire) == heap_gen;
}

/* What the marker needs to know of a span class, in 12 bytes. Filled at start; zero for NONE and LARGE. */
struct teai_class_info {
    uint32_t magic;      /* slot = (offset in span * magic) >> 32 */
    uint32_t slot_bytes;
    uint16_t nslots;
    bool is_leaf : 1, is_typed : 1;
    bool is_span_scanned : 1; /* not leaf, and of at most TEAI_SPAN_SCAN_MAX_BYTES */
};
extern struct teai_class_info teai_class_info[256];
void teai_class_info_init(void);

/* Where a pointer leads. */
struct teai_slot_ref {
    uint32_t span;       /* TEAI_NO_PAGE: no object there */
    uint32_t slot;
};

/* The slot that `addr` points into, whatever its state; span is TEAI_NO_PAGE outside spans in use. */
struct teai_slot_ref teai_slot_find(const struct teai_tables *t, uintptr_t addr);
uintptr_t teai_slot_addr(const struct teai_tables *t, struct teai_slot_ref ref);
size_t teai_slot_bytes(const struct teai_tables *t, struct teai_slot_ref ref);

/* Take pages from the page heap for a small span of this class, swept, with all slots free. TEAI_NO_PAGE: no memory. */
uint32_t teai_span_new_small(struct tea_heap *h, struct teai_page_cache *pages, uint8_t span_class);
/* A large span; *zeroed_out: contents read zero. Not visible to the marker until teai_span_publish_large(). */
uint32_t teai_span_new_large(struct tea_heap *h, uint32_t npages, uint32_t align_pages, enum teai_kind kind, bool *zeroed_out);
void teai_span_publish_large(struct tea_heap *h, uint32_t span);
/* Lengthen a large span in place; false: pages behind it are taken. */
bool teai_span_extend_large(struct tea_heap *h, uint32_t span, uint32_t npages, bool *zeroed_out);
/* Shorten a large span in place; the tail pages return to the page heap. */
void teai_span_shrink_large(struct tea_heap *h, uint32_t span, uint32_t npages);
/* Give a span without live slots back to the page heap. The caller has taken it off every list. */
void teai_span_delete(struct tea_heap *h, uint32_t span);

#endif
