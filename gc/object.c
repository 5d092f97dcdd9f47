/* gc/object.c -- explicit release and resizing of objects; questions about pointers.
 *
 * Freeing writes FREE over the slot's state, after everything else about the slot is settled, so that the thread that
 * allocates from the span may lease it the next moment. The span must be swept first (S2).
 *
 * Locks. A central list's when the span was full or becomes empty; the page heap's for large objects.
 */
#include "gc/alloc.h"
#include "gc/cycle.h"
#include "gc/object.h"
#include "gc/sweep.h"
#include "teaspan/alloc.h"

#include <errno.h>
#include <string.h>

/* The slot is leased and not handed out: a pointer to it is stale, left from an object freed before. Other threads' leases
 * are not looked at, so a second free of what another thread has leased since is not noticed. */
static bool slot_is_leased(const struct tea_heap *h, const struct tea_mutator *m, struct teai_slot_ref ref)
{
    const struct teai_cache *c = &m->cache[h->tables.spans[ref.span].span_class];
    uintptr_t addr = teai_slot_addr(&h->tables, ref);
    return addr >= c->cursor_addr && addr < c->limit_addr;
}

struct teai_slot_ref teai_object_find(struct tea_heap *h, const struct tea_mutator *m, uintptr_t addr)
{
    struct teai_slot_ref none = { TEAI_NO_PAGE, 0 };
    if (addr - h->tables.heap_base_addr >= (size_t)teai_page_heap_limit(h->pages) << TEAI_PAGE_SHIFT)
        return none;
    struct teai_slot_ref ref = teai_slot_find(&h->tables, addr);
    if (ref.span == TEAI_NO_PAGE)
        return none;
    teai_sweep_ensure(h, ref.span);
    ref = teai_slot_find(&h->tables, addr); /* sweeping may have deleted the span of a dead object */
    if (ref.span == TEAI_NO_PAGE ||
        teai_slot_load(teai_span_states(&h->tables, ref.span) + ref.slot) == TEAI_SLOT_FREE ||
        slot_is_leased(h, m, ref))
        return none;
    return ref;
}

/* A block of the tiny allocator may hold other objects. It is leaf, of 16 bytes. */
static bool object_may_be_tiny(const struct tea_heap *h, struct teai_slot_ref ref)
{
    return h->tables.spans[ref.span].span_class == teai_span_class_of(teai_sizeclass_of(TEAI_TINY_BYTES), TEAI_LEAF);
}

bool teai_object_starts_at(const struct tea_heap *h, struct teai_slot_ref ref, uintptr_t addr)
{
    return teai_slot_addr(&h->tables, ref) == addr || object_may_be_tiny(h, ref);
}

static void object_free_small(struct tea_heap *h, struct tea_mutator *m, struct teai_slot_ref ref)
{
    struct teai_span *s = &h->tables.spans[ref.span];
    /* Read now: with its last slot free the span may become another. */
    const uint8_t span_class = s->span_class;
    const uint32_t slot_bytes = s->slot_bytes;
    if (TEAI_POISON_FREED || h->settings.clobber_free)
        memset((void *)teai_slot_addr(&h->tables, ref), TEAI_POISON_BYTE, slot_bytes);
    atomic_store_explicit(&s->needzero, 1, memory_order_relaxed);
    /* release: pairs with states_load() in gc/cache.c: who sees the slot free sees needzero. */
    atomic_store_explicit(teai_span_states(&h->tables, ref.span) + ref.slot, TEAI_SLOT_FREE, memory_order_release);
    uint32_t nlive = atomic_fetch_sub_explicit(&s->nlive, 1, memory_order_seq_cst) - 1;
    m->freed_bytes += slot_bytes;
    atomic_fetch_add_explicit(&h->counters.class_frees[span_class], 1, memory_order_relaxed);
    teai_central_slot_freed(h, ref.span, span_class, nlive == 0);
}

static void object_free_large(struct tea_heap *h, struct tea_mutator *m, uint32_t span)
{
    struct teai_span *s = &h->tables.spans[span];
    uint64_t bytes = (uint64_t)s->npages << TEAI_PAGE_SHIFT;
    teai_slot_store(teai_span_states(&h->tables, span), TEAI_SLOT_FREE);
    atomic_store_explicit(&s->nlive, 0, memory_order_relaxed);
    m->freed_bytes += bytes;
    atomic_fetch_add_explicit(&h->counters.large_frees, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->counters.large_free_bytes, bytes, memory_order_relaxed);
    teai_span_delete(h, span);
}

/* A thread that only frees what others allocate comes by no refill, which would settle the account. */
enum { FREED_SETTLE_BYTES = 64 << 10 };

static void object_free(struct tea_heap *h, struct tea_mutator *m, struct teai_slot_ref ref)
{
    if (teai_pins_any(&h->pins))
        teai_pin_remove(h, teai_slot_addr(&h->tables, ref));
    if (atomic_load_explicit(&h->tables.spans[ref.span].nspecials, memory_order_relaxed) != 0)
        teai_specials_drop(h, teai_slot_addr(&h->tables, ref));
    if (h->tables.spans[ref.span].span_class == TEAI_CLASS_LARGE)
        object_free_large(h, m, ref.span);
    else
        object_free_small(h, m, ref);
    if (m->freed_bytes >= FREED_SETTLE_BYTES)
        teai_thread_settle_freed(h, m);
}

void teai_report_bad_pointer(struct tea_heap *h, const char *call, const void *pointer, bool inside)
{
    teai_log_line(&h->log, "teaspan: %s: %p %s; ignored", call, pointer,
                  inside ? "points inside an object, not at its start" : "is not an allocated object of this heap");
}

void tea_free(void *object)
{
    if (object == NULL)
        return;
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return;
    struct tea_heap *h = m->heap;
    uintptr_t addr = (uintptr_t)object;
    int saved_errno = errno;
    teai_runtime_enter(m);
    struct teai_slot_ref ref = teai_object_find(h, m, addr);
    bool found = ref.span != TEAI_NO_PAGE;
    bool starts = found && teai_object_starts_at(h, ref, addr);
    if (starts && !object_may_be_tiny(h, ref))
        object_free(h, m, ref);
    teai_runtime_leave(h, m);
    if (!starts)
        teai_report_bad_pointer(h, "tea_free", object, found);
    errno = saved_errno;
}

/* --- resizing --- */

struct resize {
    struct tea_heap *heap;
    struct tea_mutator *mutator;
    struct teai_slot_ref ref;
    uintptr_t addr;
    size_t old_bytes;     /* usable at addr */
    enum teai_kind kind;
    const struct tea_type *type;
};

/* Bytes of the object that hold nothing from now on: a later growth finds them zero, and a scan no stale reference. */
static void resize_clear(const struct resize *r, size_t from_bytes, size_t to_bytes)
{
    if (r->kind != TEAI_LEAF)
        memset((void *)(r->addr + from_bytes), 0, to_bytes - from_bytes);
}

static bool resize_grow_large(struct resize *r, uint32_t npages)
{
    struct tea_heap *h = r->heap;
    struct teai_span *s = &h->tables.spans[r->ref.span];
    size_t new_bytes = (size_t)npages << TEAI_PAGE_SHIFT;
    bool zeroed = false;
    teai_runtime_enter(r->mutator);
    teai_sweep_ensure(h, r->ref.span); /* or a sweeper reads the span's length as it changes */
    bool grown = teai_span_extend_large(h, r->ref.span, npages, &zeroed);
    if (grown) {
        atomic_fetch_add_explicit(&h->live_bytes, new_bytes - r->old_bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&h->counters.large_alloc_bytes, new_bytes - r->old_bytes, memory_order_relaxed);
    }
    teai_runtime_leave(h, r->mutator);
    if (!grown)
        return false;
    /* Scanned only once clear; the clear can be long and is outside the runtime. */
    if (!zeroed)
        resize_clear(r, r->old_bytes, new_bytes);
    if (r->kind != TEAI_LEAF)
        atomic_store_explicit(&s->scan_bytes, new_bytes, memory_order_relaxed);
    return true;
}

static void resize_shrink_large(struct resize *r, uint32_t npages)
{
    struct tea_heap *h = r->heap;
    struct teai_span *s = &h->tables.spans[r->ref.span];
    size_t new_bytes = (size_t)npages << TEAI_PAGE_SHIFT;
    teai_runtime_enter(r->mutator);
    teai_sweep_ensure(h, r->ref.span); /* as in resize_grow_large() */
    if (r->kind != TEAI_LEAF)
        atomic_store_explicit(&s->scan_bytes, new_bytes, memory_order_relaxed);
    teai_span_shrink_large(h, r->ref.span, npages);
    r->mutator->freed_bytes += r->old_bytes - new_bytes;
    atomic_fetch_add_explicit(&h->counters.large_free_bytes, r->old_bytes - new_bytes, memory_order_relaxed);
    teai_runtime_leave(h, r->mutator);
}

/* Worth moving only to a slot at most half as large. What belongs to a tiny object is not known: it always moves. */
static bool resize_small_in_place(struct resize *r, size_t size_bytes)
{
    bool stays = size_bytes <= r->old_bytes &&
                 (r->old_bytes <= 2 * TEAI_TINY_BYTES || size_bytes > r->old_bytes / 2) &&
                 !object_may_be_tiny(r->heap, r->ref);
    if (stays)
        resize_clear(r, size_bytes, r->old_bytes);
    return stays;
}

/* Large objects change size where they are when they can. */
static bool resize_large_in_place(struct resize *r, size_t size_bytes)
{
    uint64_t npages = (size_bytes + TEAI_PAGE_BYTES - 1) >> TEAI_PAGE_SHIFT;
    uint64_t old_npages = r->old_bytes >> TEAI_PAGE_SHIFT;
    if (npages <= old_npages) {
        if (npages < old_npages && size_bytes <= TEAI_MAX_SMALL_BYTES)
            return false;
        resize_clear(r, size_bytes, (size_t)npages << TEAI_PAGE_SHIFT);
        if (npages < old_npages)
            resize_shrink_large(r, (uint32_t)npages);
        return true;
    }
    if (npages > r->heap->max_pages)
        return false;
    if (teai_cycle_is_due(r->heap))
        teai_cycle_run(r->heap, r->mutator, TEAI_CYCLE_HEAP);
    return resize_grow_large(r, (uint32_t)npages);
}

static bool resize_in_place(struct resize *r, size_t size_bytes)
{
    bool is_large = r->heap->tables.spans[r->ref.span].span_class == TEAI_CLASS_LARGE;
    return is_large ? resize_large_in_place(r, size_bytes) : resize_small_in_place(r, size_bytes);
}

/* A small typed object does not remember its type: in the copy the old words keep their bits, the words gained are
 * scanned conservatively. */
static void *resize_move_small_typed(struct resize *r, size_t size_bytes)
{
    static const uint64_t every_word[1] = { 1 };
    static const struct tea_type conservative = { sizeof(void *), 1, every_word };
    struct teai_request request = { .size_bytes = size_bytes, .kind = TEAI_TYPED, .zero = true, .type = &conservative };
    uintptr_t copy = (uintptr_t)teai_alloc(&request);
    if (copy == 0 || size_bytes > TEAI_MAX_SMALL_BYTES)
        return (void *)copy;
    /* The fresh object's words are all pointers so far; its bits are copied from the old one's. */
    const uint8_t *bits = r->heap->tables.pointer_bits;
    size_t from = (r->addr - r->heap->tables.heap_base_addr) / TEAI_WORD_BYTES;
    size_t to = (copy - r->heap->tables.heap_base_addr) / TEAI_WORD_BYTES;
    size_t nwords = (r->old_bytes < size_bytes ? r->old_bytes : size_bytes) / TEAI_WORD_BYTES;
    for (size_t i = 0; i < nwords; i++)
        if (!(__atomic_load_n(&bits[(from + i) / 8], __ATOMIC_RELAXED) >> ((from + i) % 8) & 1))
            __atomic_fetch_and(&r->heap->tables.pointer_bits[(to + i) / 8], (uint8_t)~(1u << ((to + i) % 8)),
                               __ATOMIC_RELAXED);
    return (void *)copy;
}

static void *resize_alloc_copy(struct resize *r, size_t size_bytes)
{
    if (r->kind == TEAI_TYPED && r->type == NULL)
        return resize_move_small_typed(r, size_bytes);
    return teai_alloc(&(struct teai_request){ .size_bytes = size_bytes, .kind = r->kind, .zero = r->kind != TEAI_LEAF,
                                              .type = r->type });
}

/* Finalizers and the like follow the object; of a block of tiny objects only what belongs to this one. */
static void resize_move_specials(const struct resize *r, struct teai_slot_ref ref, uintptr_t copy, size_t size_bytes)
{
    struct tea_heap *h = r->heap;
    if (atomic_load_explicit(&h->tables.spans[ref.span].nspecials, memory_order_relaxed) != 0)
        teai_specials_move(h, &(struct teai_special_move){ .object = teai_slot_addr(&h->tables, ref), .from = r->addr,
                                                           .to = copy, .to_bytes = size_bytes,
                                                           .is_tiny = object_may_be_tiny(h, ref) });
}

static void *resize_move(struct resize *r, size_t size_bytes)
{
    void *copy = resize_alloc_copy(r, size_bytes);
    if (copy == NULL)
        return NULL;
    /* memmove: the new place of a tiny object may be in the block of the old, of which all to its end is copied. */
    memmove(copy, (void *)r->addr, r->old_bytes < size_bytes ? r->old_bytes : size_bytes);
    struct tea_heap *h = r->heap;
    teai_runtime_enter(r->mutator);
    if (teai_pins_any(&h->pins))
        teai_pin_replace(h, r->addr, (uintptr_t)copy);
    struct teai_slot_ref ref = teai_object_find(h, r->mutator, r->addr); /* swept meanwhile, perhaps */
    TEAI_CHECK(ref.span != TEAI_NO_PAGE); /* else another thread has freed it while it was resized */
    resize_move_specials(r, ref, (uintptr_t)copy, size_bytes);
    if (!object_may_be_tiny(h, ref))
        object_free(h, r->mutator, ref);
    teai_runtime_leave(h, r->mutator);
    return copy;
}

/* Find the object and what is needed to resize it. False: not an object's start. */
static bool resize_begin(struct resize *r, void *object, bool *inside_out)
{
    struct tea_heap *h = r->heap;
    r->addr = (uintptr_t)object;
    teai_runtime_enter(r->mutator);
    r->ref = teai_object_find(h, r->mutator, r->addr);
    bool found = r->ref.span != TEAI_NO_PAGE;
    bool starts = found && teai_object_starts_at(h, r->ref, r->addr);
    if (starts) {
        const struct teai_span *s = &h->tables.spans[r->ref.span];
        r->kind = s->kind;
        r->type = s->span_class == TEAI_CLASS_LARGE && s->kind == TEAI_TYPED ? s->type : NULL;
        r->old_bytes = teai_slot_addr(&h->tables, r->ref) + teai_slot_bytes(&h->tables, r->ref) - r->addr;
    }
    teai_runtime_leave(h, r->mutator);
    *inside_out = found;
    return starts;
}

void *tea_realloc(void *object, size_t size_bytes)
{
    if (object == NULL)
        return tea_alloc(size_bytes);
    if (size_bytes == 0) {
        tea_free(object);
        return NULL;
    }
    if (size_bytes > TEA_MAX_OBJECT_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    struct resize r = { .mutator = teai_thread_self() };
    if (r.mutator == NULL)
        return NULL;
    r.heap = r.mutator->heap;
    bool inside;
    if (!resize_begin(&r, object, &inside)) {
        teai_report_bad_pointer(r.heap, "tea_realloc", object, inside);
        errno = EINVAL;
        return NULL;
    }
    return resize_in_place(&r, size_bytes) ? object : resize_move(&r, size_bytes);
}

void *tea_reallocarray(void *object, size_t count, size_t size_bytes)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size_bytes, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return tea_realloc(object, bytes);
}

/* --- questions --- */

/* Where the object starts that `pointer` points into, and how many bytes it has from there; 0 if none. */
static uintptr_t object_query(const void *pointer, size_t *bytes_from_pointer_out, bool *starts_out)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return 0;
    struct tea_heap *h = m->heap;
    uintptr_t addr = (uintptr_t)pointer, base = 0;
    teai_runtime_enter(m);
    struct teai_slot_ref ref = teai_object_find(h, m, addr);
    if (ref.span != TEAI_NO_PAGE) {
        base = teai_slot_addr(&h->tables, ref);
        *bytes_from_pointer_out = base + teai_slot_bytes(&h->tables, ref) - addr;
        *starts_out = teai_object_starts_at(h, ref, addr);
    }
    teai_runtime_leave(h, m);
    return base;
}

size_t tea_usable_bytes(const void *object)
{
    size_t bytes = 0;
    bool starts = false;
    object_query(object, &bytes, &starts);
    return starts ? bytes : 0;
}

void *tea_base(const void *pointer)
{
    size_t bytes;
    bool starts;
    return (void *)object_query(pointer, &bytes, &starts);
}

bool tea_is_heap_pointer(const void *pointer)
{
    return tea_base(pointer) != NULL;
}
