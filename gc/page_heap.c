/* gc/page_heap.c -- which pages are free, in use, given back; lends runs of pages to spans.
 *
 * Problem. Spans need runs of 1 to millions of pages. Lowest-addressed fit keeps what lives long
 * together at the bottom, and the top free, where whole stretches can be given back to the OS.
 *
 * How. One bitmap says which pages are in use, a second which are dirty: lent at some time since
 * they last were fresh. A run whose pages are all clean needs no zeroing. Over the first lies a
 * tree of summaries (gc/page_summary.h) that finds the lowest fit in O(log n). Two short cuts come
 * before the tree: no page below `hint` is free, and if a run fits into the hint's chunk, no chunk
 * further up can have a lower one.
 *
 * Growth. When nothing fits, the heap is made just so much longer that the free pages at its end,
 * together with new ones, make up the run: the end of the heap never becomes a hole. The callback
 * may make more ready than that.
 *
 * Releasing (gc/page_release.c) marks free pages in use while it drops the lock around the system
 * call. An allocation that finds no room and cannot grow waits until such pages are back before it
 * gives up.
 *
 * Invariants: gc/page_heap_state.h. Slow twin: tests/property/test_page_heap_random.c.
 *
 * Locks and atomics. One lock, of rank TEAI_RANK_PAGE_HEAP, held for a few hundred nanoseconds, or
 * for the system calls of growth. Counts are read without it.
 *
 * Callers. gc/span.c, by way of gc/page_cache.c for small spans; the scavenger. Never a signal
 * handler.
 *
 * Source. Go runtime, mpagealloc.go (facts and figures; the code is our own).
 */
#include "gc/page_heap_state.h"

#include "base/word.h"

enum { STATE_ALIGN_BYTES = 64 }; /* a chunk's bits share a cache line */

/* --- searching --- */

static const uint64_t *heap_chunk_in_use(const struct teai_page_heap *ph, uint32_t chunk)
{
    return &ph->in_use[(size_t)chunk * TEAI_CHUNK_WORDS];
}

/* The lowest run of `npages` at or after page `from`. */
static uint32_t heap_find_from(const struct teai_page_heap *ph, uint32_t from, uint32_t npages)
{
    if (from >= ph->limit)
        return TEAI_NO_PAGE;
    uint32_t chunk = from / TEAI_CHUNK_PAGES, bit = from % TEAI_CHUNK_PAGES;
    const struct teai_free_runs *leaf = &ph->tree.levels[0][chunk];
    if (leaf->longest >= npages) {
        uint32_t found = teai_chunk_find_clear(heap_chunk_in_use(ph, chunk), bit, npages);
        if (found < TEAI_CHUNK_PAGES)
            return chunk * TEAI_CHUNK_PAGES + found;
    }
    uint32_t after_from = TEAI_CHUNK_PAGES - bit;
    uint32_t run = leaf->end < after_from ? leaf->end : after_from;
    struct teai_summary_hit hit = teai_summary_find_after(&ph->tree, chunk, run, npages);
    if (!hit.inside_chunk)
        return hit.page;
    return hit.page +
           teai_chunk_find_clear(heap_chunk_in_use(ph, hit.page / TEAI_CHUNK_PAGES), 0, npages);
}

/* The lowest run that starts at a multiple of `align_pages`. What begins unaligned is given up for
 * what is left of it behind the next multiple, so this takes a search for each run that only seems
 * to fit: for rare requests. */
static uint32_t heap_find_aligned(const struct teai_page_heap *ph, uint32_t npages,
                                  uint32_t align_pages)
{
    for (uint32_t from = ph->hint;;) {
        uint32_t found = heap_find_from(ph, from, npages);
        if (found == TEAI_NO_PAGE || (found & (align_pages - 1)) == 0)
            return found;
        from = (uint32_t)teai_round_up(found, align_pages);
    }
}

static uint32_t heap_find_locked(struct teai_page_heap *ph, uint32_t npages, uint32_t align_pages)
{
    uint32_t found = heap_find_aligned(ph, npages, align_pages);
    if (npages == 1 && align_pages == 1)
        ph->hint = found == TEAI_NO_PAGE ? ph->limit : found; /* P3: it is the lowest free page */
    return found;
}

/* --- marking --- */

/* Bring the summaries over [first, first + n) in line with in_use (P2). */
static void heap_resummarise(struct teai_page_heap *ph, uint32_t first, uint32_t n)
{
    teai_summary_update(&ph->tree, ph->in_use, first / TEAI_CHUNK_PAGES,
                        (first + n - 1) / TEAI_CHUNK_PAGES);
}

static void count_add(_Atomic uint32_t *count, uint32_t n)
{
    /* relaxed: every writer holds the lock; readers without it take any recent value. */
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* `n` pages, of which `ndirty` were dirty, went from free to in use; the last of them right below
 * `limit`. */
static void heap_count_taken(struct teai_page_heap *ph, uint32_t n, uint32_t ndirty, uint32_t limit)
{
    count_add(&ph->in_use_pages, n);
    count_add(&ph->free_ready_pages, -ndirty);
    count_add(&ph->free_released_pages, ndirty - n);
    /* release: pairs with teai_page_heap_limit(), so that who sees a page below it finds its side
     * tables ready. */
    if (limit > atomic_load_explicit(&ph->used_limit, memory_order_relaxed))
        atomic_store_explicit(&ph->used_limit, limit, memory_order_release);
}

/* `n` pages, of which `ndirty` are dirty, went from in use to free; the lowest is `first`. */
static void heap_count_given(struct teai_page_heap *ph, uint32_t n, uint32_t ndirty, uint32_t first)
{
    count_add(&ph->in_use_pages, -n);
    count_add(&ph->free_ready_pages, ndirty);
    count_add(&ph->free_released_pages, n - ndirty);
    if (first < ph->hint)
        ph->hint = first;
}

/* [first, first + n) go from free to in use; how many of them were clean. */
static uint32_t heap_take(struct teai_page_heap *ph, uint32_t first, uint32_t n)
{
    uint32_t ndirty = teai_bits_count(ph->dirty, first, n);
    teai_bits_set(ph->in_use, first, n);
    teai_bits_set(ph->dirty, first, n);
    heap_resummarise(ph, first, n);
    heap_count_taken(ph, n, ndirty, first + n);
    if (first == ph->hint)
        ph->hint = first + n;
    return n - ndirty;
}

static void heap_give(struct teai_page_heap *ph, uint32_t first, uint32_t n)
{
    teai_bits_clear(ph->in_use, first, n);
    heap_resummarise(ph, first, n);
    heap_count_given(ph, n, n, first);
}

uint64_t teai_page_heap_take_word_locked(struct teai_page_heap *ph, uint32_t word, uint64_t pages)
{
    teai_lock_assert_held(&ph->lock);
    TEAI_ASSERT(pages != 0 && (ph->in_use[word] & pages) == 0);
    uint64_t clean = pages & ~ph->dirty[word];
    ph->in_use[word] |= pages;
    ph->dirty[word] |= pages;
    heap_resummarise(ph, word * 64, 64);
    heap_count_taken(ph, (uint32_t)__builtin_popcountll(pages),
                     (uint32_t)__builtin_popcountll(pages & ~clean),
                     word * 64 + 64 - (uint32_t)__builtin_clzll(pages));
    if (ph->hint / 64 == word && ph->in_use[word] == UINT64_MAX)
        ph->hint = word * 64 + 64 < ph->limit ? word * 64 + 64 : ph->limit;
    return clean;
}

void teai_page_heap_give_word_locked(struct teai_page_heap *ph, uint32_t word, uint64_t pages,
                                     uint64_t clean)
{
    teai_lock_assert_held(&ph->lock);
    TEAI_CHECK((ph->in_use[word] & pages) == pages && (clean & ~pages) == 0);
    ph->in_use[word] &= ~pages;
    ph->dirty[word] &= ~clean;
    heap_resummarise(ph, word * 64, 64);
    heap_count_given(ph, (uint32_t)__builtin_popcountll(pages),
                     (uint32_t)__builtin_popcountll(pages & ~clean),
                     word * 64 + (uint32_t)__builtin_ctzll(pages));
}

/* --- growing --- */

/* Close off the pages of the limit's chunk that the heap does not have (P1). */
static void heap_set_fence(struct teai_page_heap *ph)
{
    uint32_t rest = -ph->limit % TEAI_CHUNK_PAGES;
    teai_bits_set(ph->in_use, ph->limit, rest);
}

static void heap_clear_fence(struct teai_page_heap *ph)
{
    uint32_t rest = -ph->limit % TEAI_CHUNK_PAGES;
    teai_bits_clear(ph->in_use, ph->limit, rest);
}

/* Have at least `npages` pages. */
static bool heap_grow_to(struct teai_page_heap *ph, uint64_t npages)
{
    if (npages > ph->max_pages)
        return false;
    uint32_t old_limit = ph->limit, ready = old_limit;
    if (ph->grow(ph->grow_context, (uint32_t)npages, &ready) != 0)
        return false;
    TEAI_CHECK(ready >= npages && ready <= ph->max_pages);
    heap_clear_fence(ph);
    ph->limit = ready;
    heap_set_fence(ph);
    heap_resummarise(ph, old_limit, ready - old_limit);
    count_add(&ph->free_released_pages, ready - old_limit);
    return true;
}

/* Where the free pages at the end of the heap begin. */
static uint32_t heap_free_tail(const struct teai_page_heap *ph)
{
    uint32_t tail = ph->limit;
    while (tail > 0) {
        uint32_t word = (tail - 1) / 64, nbits = tail - word * 64;
        uint64_t used = ph->in_use[word] << (64 - nbits);
        if (used != 0)
            return tail - (uint32_t)__builtin_clzll(used);
        tail -= nbits;
    }
    return tail;
}

/* Make room for a run that does not fit: in the free tail and behind it. */
static bool heap_grow_for(struct teai_page_heap *ph, uint32_t npages, uint32_t align_pages)
{
    uint64_t first = teai_round_up(heap_free_tail(ph), align_pages);
    return heap_grow_to(ph, first + npages);
}

/* Let a release that is under way finish. False: there is none. */
static bool heap_wait_for_release(struct teai_page_heap *ph)
{
    if (ph->nreleases == 0)
        return false;
    teai_lock_release(&ph->lock);
    teai_platform_yield();
    teai_lock_acquire(&ph->lock);
    return true;
}

uint32_t teai_page_heap_find_or_grow_locked(struct teai_page_heap *ph, uint32_t npages,
                                            uint32_t align_pages)
{
    teai_lock_assert_held(&ph->lock);
    uint32_t found;
    do
        found = heap_find_locked(ph, npages, align_pages);
    while (found == TEAI_NO_PAGE &&
           (heap_grow_for(ph, npages, align_pages) || heap_wait_for_release(ph)));
    return found;
}

/* --- the interface --- */

static uint32_t heap_nchunks(uint32_t max_pages)
{
    return (uint32_t)(((uint64_t)max_pages + TEAI_CHUNK_PAGES - 1) / TEAI_CHUNK_PAGES);
}

static size_t heap_bitmap_bytes(uint32_t max_pages)
{
    return (size_t)heap_nchunks(max_pages) * TEAI_CHUNK_PAGES / 8;
}

size_t teai_page_heap_state_bytes(uint32_t max_pages)
{
    return teai_round_up(sizeof(struct teai_page_heap), STATE_ALIGN_BYTES) +
           2 * heap_bitmap_bytes(max_pages) + teai_summary_bytes(heap_nchunks(max_pages));
}

struct teai_page_heap *teai_page_heap_init(void *state, uint32_t max_pages, uint8_t *heap_base,
                                           teai_page_heap_grow_fn grow, void *grow_context)
{
    TEAI_CHECK(max_pages > 0 && max_pages < TEAI_NO_PAGE / 2 &&
               (uintptr_t)state % STATE_ALIGN_BYTES == 0);
    struct teai_page_heap *ph = state;
    uint8_t *bitmaps = (uint8_t *)state + teai_round_up(sizeof *ph, STATE_ALIGN_BYTES);
    size_t os_page_bytes = teai_platform_os_page_bytes();
    ph->lock.rank = TEAI_RANK_PAGE_HEAP;
    ph->max_pages = max_pages;
    ph->release_unit_pages =
        os_page_bytes > TEAI_PAGE_BYTES ? (uint32_t)(os_page_bytes / TEAI_PAGE_BYTES) : 1;
    ph->heap_base = heap_base;
    ph->grow = grow;
    ph->grow_context = grow_context;
    ph->in_use = (uint64_t *)bitmaps;
    ph->dirty = (uint64_t *)(bitmaps + heap_bitmap_bytes(max_pages));
    teai_summary_init(&ph->tree, bitmaps + 2 * heap_bitmap_bytes(max_pages),
                      heap_nchunks(max_pages));
    return ph;
}

/* Take what a search found, if it found anything. */
static uint32_t heap_take_found(struct teai_page_heap *ph, uint32_t found, uint32_t npages,
                                bool *zeroed_out, uint32_t *fresh_pages_out)
{
    if (found == TEAI_NO_PAGE)
        return found;
    uint32_t nfresh = heap_take(ph, found, npages);
    *zeroed_out = nfresh == npages;
    if (fresh_pages_out != NULL)
        *fresh_pages_out = nfresh;
    return found;
}

static uint32_t heap_alloc(struct teai_page_heap *ph, uint32_t npages, uint32_t align_pages,
                           bool *zeroed_out, uint32_t *fresh_pages_out)
{
    TEAI_ASSERT(npages > 0);
    teai_lock_acquire(&ph->lock);
    uint32_t found = teai_page_heap_find_or_grow_locked(ph, npages, align_pages);
    found = heap_take_found(ph, found, npages, zeroed_out, fresh_pages_out);
    teai_lock_release(&ph->lock);
    return found;
}

uint32_t teai_page_heap_alloc(struct teai_page_heap *ph, uint32_t npages, bool *zeroed_out,
                              uint32_t *fresh_pages_out)
{
    return heap_alloc(ph, npages, 1, zeroed_out, fresh_pages_out);
}

uint32_t teai_page_heap_alloc_aligned(struct teai_page_heap *ph, uint32_t npages,
                                      uint32_t align_pages, bool *zeroed_out)
{
    TEAI_ASSERT(align_pages > 0 && (align_pages & (align_pages - 1)) == 0);
    return heap_alloc(ph, npages, align_pages, zeroed_out, NULL);
}

uint32_t teai_page_heap_alloc_no_grow(struct teai_page_heap *ph, uint32_t npages, bool *zeroed_out)
{
    TEAI_ASSERT(npages > 0);
    teai_lock_acquire(&ph->lock);
    uint32_t found = heap_take_found(ph, heap_find_locked(ph, npages, 1), npages, zeroed_out, NULL);
    teai_lock_release(&ph->lock);
    return found;
}

/* Whether the heap has the pages [first, limit) free, or could by growing, which it then does. */
static bool heap_clear_way(struct teai_page_heap *ph, uint32_t first, uint64_t limit)
{
    uint32_t present_limit = limit < ph->limit ? (uint32_t)limit : ph->limit;
    if (teai_bits_count(ph->in_use, first, present_limit - first) > 0)
        return false;
    return limit <= ph->limit || heap_grow_to(ph, limit);
}

bool teai_page_heap_extend(struct teai_page_heap *ph, uint32_t first_page, uint32_t npages,
                           uint32_t nmore, bool *zeroed_out)
{
    TEAI_ASSERT(nmore > 0);
    uint32_t first_more = first_page + npages;
    teai_lock_acquire(&ph->lock);
    TEAI_ASSERT(first_more <= ph->limit &&
                teai_bits_count(ph->in_use, first_page, npages) == npages);
    bool extended = heap_clear_way(ph, first_more, (uint64_t)first_more + nmore);
    if (extended)
        heap_take_found(ph, first_more, nmore, zeroed_out, NULL);
    teai_lock_release(&ph->lock);
    return extended;
}

void teai_page_heap_free(struct teai_page_heap *ph, uint32_t first_page, uint32_t npages)
{
    teai_lock_acquire(&ph->lock);
    TEAI_CHECK(npages > 0 && npages <= ph->limit && first_page <= ph->limit - npages);
    TEAI_CHECK(teai_bits_count(ph->in_use, first_page, npages) == npages); /* else freed twice */
    heap_give(ph, first_page, npages);
    teai_lock_release(&ph->lock);
}

struct teai_page_counts teai_page_heap_counts(const struct teai_page_heap *ph)
{
    /* relaxed: the three may be of different moments; a caller that needs their sum exact stops the
     * world. */
    return (struct teai_page_counts){
        .in_use = atomic_load_explicit(&ph->in_use_pages, memory_order_relaxed),
        .free_ready = atomic_load_explicit(&ph->free_ready_pages, memory_order_relaxed),
        .free_released = atomic_load_explicit(&ph->free_released_pages, memory_order_relaxed),
    };
}

uint32_t teai_page_heap_limit(const struct teai_page_heap *ph)
{
    /* acquire: pairs with the release in heap_count_taken(). */
    return atomic_load_explicit(&ph->used_limit, memory_order_acquire);
}
