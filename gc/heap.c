/* gc/heap.c -- one reservation for the heap and its side tables, made ready as the heap grows.
 *
 * Layout of the reservation, each part starting at a multiple of 2 MiB:
 *
 *   objects | slot_state 1/16 | spans 1/128 | pointer_bits 1/64 | page_first 1/2048 | page_tag 1/4096 |
 *   span_grey 1/8192 | page heap state
 *
 * All of it is reserved inaccessible (not charged), and each table is made ready as a growing prefix, in step with
 * the objects: one mapping a table whatever the heap's size, and strict overcommit is charged only for
 * what is used. "Is this word a heap pointer?" is one subtraction and one compare.
 *
 * When the kernel refuses (ulimit -v, a small machine, a container) smaller reservations are tried down to
 * 32 MiB; of what it then grants a quarter is left to the program's stacks, malloc() and libraries. Source of the idea of a
 * single reservation: Go's arenas taken to their end.
 *
 * Locks. Growth runs under the page heap's lock.
 */
#include "gc/heap.h"

#include <errno.h>

enum { HEAP_PART_ALIGN = 2 << 20 };
#define HEAP_SMALLEST_BYTES ((size_t)32 << 20)
#define HEAP_LARGEST_BYTES ((size_t)1 << 40)
#define HEAP_DEFAULT_LEAST_BYTES ((size_t)64 << 30)
enum { HEAP_RAM_FACTOR = 4 };         /* address space costs nothing; fragmentation may need some */
#define HEAP_GROW_STEP_BYTES ((size_t)16 << 20)

_Static_assert(HEAP_LARGEST_BYTES >> TEAI_PAGE_SHIFT < TEAI_NO_PAGE, "page numbers fit 32 bits");

enum heap_part {
    PART_OBJECTS,
    PART_STATE,
    PART_SPANS,
    PART_POINTER_BITS,
    PART_FIRST,
    PART_TAG,
    PART_GREY,
    PART_PAGE_HEAP, /* ready as a whole, but demand-paged */
    NPARTS
};

/* Bytes of each part per page of the heap, page heap state aside. */
static const size_t heap_part_page_bytes[PART_PAGE_HEAP] = {
    [PART_OBJECTS] = TEAI_PAGE_BYTES,
    [PART_STATE] = TEAI_SLOTS_A_PAGE,
    [PART_SPANS] = sizeof(struct teai_span),
    [PART_POINTER_BITS] = TEAI_PAGE_BYTES / 64,
    [PART_FIRST] = sizeof(uint32_t),
    [PART_TAG] = sizeof(uint16_t),
    [PART_GREY] = 1,
};

/* Vector kernels gather whole words from tables of smaller elements: some bytes behind the last one are readable. */
enum { HEAP_PART_SLACK = 64 };

struct heap_layout {
    size_t offset[NPARTS];
    size_t total_bytes;
};

static struct heap_layout heap_layout_for(uint32_t max_pages)
{
    struct heap_layout layout;
    size_t at = 0;
    for (int i = 0; i < NPARTS; i++) {
        size_t bytes = i == PART_PAGE_HEAP ? teai_page_heap_state_bytes(max_pages)
                                           : max_pages * heap_part_page_bytes[i] + HEAP_PART_SLACK;
        layout.offset[i] = at;
        at += teai_round_up(bytes, HEAP_PART_ALIGN);
    }
    layout.total_bytes = at;
    return layout;
}

/* Make the first `bytes` of a part ready. Already ready memory is unharmed. */
static int heap_part_commit(const struct tea_heap *h, const struct heap_layout *layout, int part, size_t from_bytes,
                            size_t to_bytes)
{
    size_t os_page = teai_platform_os_page_bytes();
    size_t from = teai_round_down(from_bytes, os_page);
    size_t to = teai_round_up(to_bytes, os_page);
    return to > from ? teai_platform_commit(h->reservation_base + layout->offset[part] + from, to - from) : 0;
}

/* Pages [old, ready) and their side tables. */
static int heap_commit_pages(const struct tea_heap *h, uint32_t old, uint32_t ready)
{
    struct heap_layout layout = heap_layout_for(h->max_pages);
    for (int i = 0; i < PART_PAGE_HEAP; i++) {
        int error = heap_part_commit(h, &layout, i, old * heap_part_page_bytes[i],
                                     ready * heap_part_page_bytes[i] + (i == PART_OBJECTS ? 0 : HEAP_PART_SLACK));
        if (error != 0)
            return error;
    }
    return 0;
}

/* In steps, so that it is rare. Where memory is short (strict overcommit, ulimit -d) a step may be refused and what is needed
 * granted. */
static int heap_grow(void *context, uint32_t npages, uint32_t *npages_ready_out)
{
    struct tea_heap *h = context;
    uint32_t old = *npages_ready_out;
    uint64_t step = HEAP_GROW_STEP_BYTES >> TEAI_PAGE_SHIFT;
    if (step < old / 8)
        step = old / 8;
    uint64_t want = ((uint64_t)npages + step - 1) / step * step;
    uint32_t ready = want < h->max_pages ? (uint32_t)want : h->max_pages;
    int error = heap_commit_pages(h, old, ready);
    if (error != 0) {
        ready = npages;
        error = heap_commit_pages(h, old, ready);
    }
    if (error == 0)
        *npages_ready_out = ready;
    return error;
}

/* Addresses of the parts, once the reservation stands. */
static int heap_place_parts(struct tea_heap *h, const struct heap_layout *layout)
{
    uint8_t *base = h->reservation_base;
    struct teai_tables *t = &h->tables;
    t->heap_base_addr = (uintptr_t)base + layout->offset[PART_OBJECTS];
    t->slot_state = (teai_slot_byte *)(base + layout->offset[PART_STATE]);
    t->spans = (struct teai_span *)(base + layout->offset[PART_SPANS]);
    t->pointer_bits = base + layout->offset[PART_POINTER_BITS];
    t->page_first = (_Atomic uint32_t *)(base + layout->offset[PART_FIRST]);
    t->page_tag = (_Atomic uint16_t *)(base + layout->offset[PART_TAG]);
    t->span_grey = (_Atomic uint8_t *)(base + layout->offset[PART_GREY]);
    int error = heap_part_commit(h, layout, PART_PAGE_HEAP, 0, teai_page_heap_state_bytes(h->max_pages));
    if (error != 0)
        return error;
    h->pages = teai_page_heap_init(base + layout->offset[PART_PAGE_HEAP], h->max_pages,
                                   (uint8_t *)t->heap_base_addr, heap_grow, h);
    return 0;
}

static size_t heap_default_bytes(void)
{
    uint64_t want = teai_platform_ram_bytes() * HEAP_RAM_FACTOR;
    if (want < HEAP_DEFAULT_LEAST_BYTES)
        want = HEAP_DEFAULT_LEAST_BYTES;
    return want < HEAP_LARGEST_BYTES ? (size_t)want : HEAP_LARGEST_BYTES;
}

static bool heap_try_reserve(struct tea_heap *h, size_t heap_bytes)
{
    h->max_pages = (uint32_t)(heap_bytes >> TEAI_PAGE_SHIFT);
    struct heap_layout layout = heap_layout_for(h->max_pages);
    h->reservation_base = teai_platform_reserve(layout.total_bytes, HEAP_PART_ALIGN);
    if (h->reservation_base == NULL)
        return false;
    h->reservation_bytes = layout.total_bytes;
    if (heap_place_parts(h, &layout) == 0)
        return true;
    teai_platform_unreserve(h->reservation_base, h->reservation_bytes);
    return false;
}

static size_t heap_quarter_less(size_t heap_bytes)
{
    return teai_round_down(heap_bytes / 4 * 3, (size_t)TEAI_CHUNK_PAGES << TEAI_PAGE_SHIFT);
}

/* Address space is short: leave some. If even less is refused now, another thread has taken it: the caller goes on. */
static bool heap_reserve_less(struct tea_heap *h, size_t granted_bytes)
{
    size_t less = heap_quarter_less(granted_bytes);
    if (less < HEAP_SMALLEST_BYTES)
        return true;
    teai_platform_unreserve(h->reservation_base, h->reservation_bytes);
    return heap_try_reserve(h, less);
}

int teai_heap_reserve(struct tea_heap *h, size_t max_bytes)
{
    size_t want = max_bytes != 0 ? max_bytes : heap_default_bytes();
    want = want > HEAP_LARGEST_BYTES ? HEAP_LARGEST_BYTES : want;
    want = teai_round_up(want, (size_t)TEAI_CHUNK_PAGES << TEAI_PAGE_SHIFT);
    want = want < HEAP_SMALLEST_BYTES ? HEAP_SMALLEST_BYTES : want;
    if (heap_try_reserve(h, want))
        return 0;
    /* By quarters: a limit such as ulimit -v is met closely without many tries. */
    while ((want = heap_quarter_less(want)) >= HEAP_SMALLEST_BYTES)
        if (heap_try_reserve(h, want) && heap_reserve_less(h, want))
            return 0;
    return ENOMEM;
}

uint64_t teai_heap_table_bytes(const struct tea_heap *h)
{
    uint64_t page_bytes = 0;
    for (int i = PART_OBJECTS + 1; i < PART_PAGE_HEAP; i++)
        if (i != PART_POINTER_BITS) /* touched by typed spans only */
            page_bytes += heap_part_page_bytes[i];
    return page_bytes * teai_page_heap_limit(h->pages);
}
