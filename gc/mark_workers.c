/* gc/mark_workers.c -- several threads mark together: claiming roots, stealing, going idle, ending.
 *
 * A mark is a sequence of rounds. The first marks from the roots; each later one looks for objects that were left grey
 * (by overflow of a work list, or by the race that mark.h describes) and marks on from those. The last round finds none.
 * Then ephemerons may add values, and the same begins again with those as roots.
 *
 * Ending a round. A marker without work of its own tries the pool and the others' queues; when that fails it counts
 * itself idle. Only a marker that is not idle makes or takes work, and it is idle only when its own lists are empty; so
 * when all are idle at once nothing is left (M4). A marker that sees work leaves the idle count before it takes any.
 *
 * Locks. None here; idle markers sleep on work_epoch, helper threads between cycles on go_epoch.
 * Callers. The thread that runs the cycle is marker 0; helper threads are the others.
 */
#include "gc/heap.h"
#include "gc/mark.h"
#include "gc/weak.h"

#include <string.h>

enum { REPAIR_CHUNK_PAGES = 1024, IDLE_SPINS = 2000, FEED_LEAST_SPANS = 4, GO_MARKERS_BITS = 8 };
_Static_assert(TEAI_MAX_MARKERS < 1 << GO_MARKERS_BITS, "the number of markers fits its part of go_epoch");

/* --- memory of the markers --- */

static struct teai_marker *marker_new(struct tea_heap *h, uint32_t index)
{
    size_t bytes = sizeof(struct teai_marker);
    struct teai_marker *m = teai_metadata_alloc(&h->metadata, &bytes);
    if (m == NULL)
        return NULL;
    m->heap = h;
    m->index = index;
    return m;
}

void teai_mark_init(struct tea_heap *h)
{
    struct teai_mark *mark = &h->mark;
    uint32_t want = h->settings.markers != 0 ? h->settings.markers : teai_platform_ncpus();
    mark->nmarkers_max = want < TEAI_MAX_MARKERS ? want : TEAI_MAX_MARKERS;
    mark->kernel = teai_scan_kernel_choose(h->settings.kernel);
    teai_work_pool_init(&mark->pool, &h->metadata);
}

static void marker_begin(struct tea_heap *h, struct teai_marker *m, bool parallel)
{
    m->tables = h->tables;
    m->kernel = h->mark.kernel;
    m->parallel = parallel;
    m->by_object = h->settings.order == TEAI_MARK_BY_OBJECT;
    m->past_end = h->settings.heap_past_end;
    m->marked_bytes = 0;
    m->nobjects_single = m->nobjects_batch = m->nspans = 0;
    m->ncandidates = 0;
    teai_span_queue_reset(&m->queue);
    /* Every span is in a queue at most once, so this many entries always fit. Without memory the old ring serves. */
    (void)teai_span_queue_reserve(&h->metadata, &m->queue, h->tables.heap_limit_bytes >> TEAI_PAGE_SHIFT);
}

void teai_mark_begin(struct tea_heap *h, uint32_t nmarkers)
{
    struct teai_mark *mark = &h->mark;
    h->tables.heap_limit_bytes = (size_t)teai_page_heap_limit(h->pages) << TEAI_PAGE_SHIFT;
    for (mark->nmarkers = 0; mark->nmarkers < nmarkers; mark->nmarkers++) {
        struct teai_marker **m = &mark->markers[mark->nmarkers];
        if (*m == NULL && (*m = marker_new(h, mark->nmarkers)) == NULL)
            break;
    }
    TEAI_CHECK(mark->nmarkers > 0); /* the first marker is made at start */
    for (uint32_t i = 0; i < mark->nmarkers; i++)
        marker_begin(h, mark->markers[i], mark->nmarkers > 1);
    mark->nroot_blocks = 0;
    mark->roots_incomplete = false;
    atomic_store_explicit(&mark->overflowed, 0, memory_order_relaxed);
}

/* --- roots --- */

static bool root_blocks_grow(struct tea_heap *h)
{
    struct teai_mark *mark = &h->mark;
    size_t bytes = mark->root_blocks_bytes != 0 ? mark->root_blocks_bytes * 2 : teai_platform_os_page_bytes();
    struct teai_root_block *blocks = teai_metadata_alloc(&h->metadata, &bytes);
    if (blocks == NULL)
        return false;
    if (mark->root_blocks != NULL) {
        memcpy(blocks, mark->root_blocks, mark->nroot_blocks * sizeof *blocks);
        teai_metadata_free(&h->metadata, mark->root_blocks, mark->root_blocks_bytes);
    }
    mark->root_blocks = blocks;
    mark->root_blocks_bytes = bytes;
    mark->root_blocks_capacity = bytes / sizeof *blocks;
    return true;
}

void teai_mark_add_root(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr, bool exact)
{
    struct teai_mark *mark = &h->mark;
    base_addr = teai_round_up(base_addr, TEAI_WORD_BYTES);
    limit_addr = teai_round_down(limit_addr, TEAI_WORD_BYTES);
    while (base_addr < limit_addr) {
        uintptr_t end = limit_addr - base_addr > TEAI_ROOT_BLOCK_BYTES ? base_addr + TEAI_ROOT_BLOCK_BYTES : limit_addr;
        struct teai_root_block block = { base_addr, end, exact };
        if (mark->nroot_blocks < mark->root_blocks_capacity || root_blocks_grow(h)) {
            mark->root_blocks[mark->nroot_blocks++] = block;
        } else {
            /* No memory to list it: scan it now. */
            mark->roots_incomplete = true;
            teai_mark_root_block(mark->markers[0], block);
        }
        base_addr = end;
    }
}

/* --- work within a round --- */

static bool round_claim_root(struct teai_mark *mark, struct teai_root_block *block_out)
{
    if (mark->root_limit == 0)
        return false;
    uint64_t i = atomic_fetch_add_explicit(&mark->next_root_block, 1, memory_order_relaxed);
    if (i >= mark->root_limit)
        return false;
    *block_out = mark->root_blocks[i];
    return true;
}

static bool round_repair_some(struct teai_mark *mark, struct teai_marker *m)
{
    if (mark->repair_limit_page == 0)
        return false;
    uint32_t from = atomic_fetch_add_explicit(&mark->repair_page, REPAIR_CHUNK_PAGES, memory_order_relaxed);
    if (from >= mark->repair_limit_page)
        return false;
    uint32_t left = mark->repair_limit_page - from;
    uint32_t n = teai_mark_repair_pages(m, from, from + (left < REPAIR_CHUNK_PAGES ? left : REPAIR_CHUNK_PAGES));
    if (n != 0)
        atomic_fetch_add_explicit(&mark->nrepaired, n, memory_order_relaxed);
    return true;
}

static bool marker_steal(struct teai_mark *mark, struct teai_marker *m)
{
    if (teai_work_fetch(&mark->pool, &m->objects))
        return true;
    for (uint32_t i = 1; i < mark->nmarkers; i++) {
        struct teai_marker *victim = mark->markers[(m->index + i) % mark->nmarkers];
        if (teai_span_queue_steal(&m->queue, &victim->queue) != 0)
            return true;
    }
    return false;
}

static bool round_has_visible_work(const struct teai_mark *mark)
{
    if (atomic_load_explicit(&mark->pool.nfull, memory_order_relaxed) != 0)
        return true;
    for (uint32_t i = 0; i < mark->nmarkers; i++)
        if (teai_span_queue_public(&mark->markers[i]->queue) != 0)
            return true;
    return false;
}

static void round_wake(struct teai_mark *mark, uint32_t nwaiters)
{
    atomic_fetch_add_explicit(&mark->work_epoch, 1, memory_order_seq_cst);
    teai_platform_futex_wake(&mark->work_epoch, nwaiters);
}

void teai_mark_feed_idle(struct teai_marker *m)
{
    struct teai_mark *mark = &m->heap->mark;
    if (teai_span_queue_public(&m->queue) >= FEED_LEAST_SPANS || teai_work_share(&mark->pool, &m->objects))
        round_wake(mark, 1);
}

static bool round_is_over(const struct teai_mark *mark)
{
    return atomic_load_explicit(&mark->nidle, memory_order_seq_cst) == mark->nmarkers;
}

static void idle_sleep(struct teai_mark *mark)
{
    /* seq_cst: pairs with round_wake(): either we see the work or the end, or the waker sees us sleeping. */
    atomic_fetch_add_explicit(&mark->nsleeping, 1, memory_order_seq_cst);
    uint32_t epoch = atomic_load_explicit(&mark->work_epoch, memory_order_seq_cst);
    if (!round_is_over(mark) && !round_has_visible_work(mark))
        teai_platform_futex_wait(&mark->work_epoch, epoch);
    atomic_fetch_sub_explicit(&mark->nsleeping, 1, memory_order_seq_cst);
}

/* No work was found. True: the round is over; false: try again. */
static bool marker_idle(struct teai_mark *mark)
{
    if (atomic_fetch_add_explicit(&mark->nidle, 1, memory_order_seq_cst) + 1 == mark->nmarkers) {
        round_wake(mark, UINT32_MAX);
        return true;
    }
    for (unsigned spins = 0;; spins++) {
        if (round_is_over(mark))
            return true;
        if (round_has_visible_work(mark)) {
            atomic_fetch_sub_explicit(&mark->nidle, 1, memory_order_seq_cst);
            return false;
        }
        if (spins < IDLE_SPINS)
            teai_platform_pause();
        else
            idle_sleep(mark);
    }
}

static void marker_run_round(struct teai_mark *mark, struct teai_marker *m)
{
    struct teai_root_block block;
    while (round_claim_root(mark, &block)) {
        teai_mark_root_block(m, block);
        teai_mark_drain(m);
    }
    while (round_repair_some(mark, m))
        teai_mark_drain(m);
    do
        teai_mark_drain(m);
    while (marker_steal(mark, m) || !marker_idle(mark));
}

/* --- helper threads --- */


/* go_epoch holds the round's number and how many markers take part, so that a helper that is late never mixes two rounds. */
static uint32_t go_word(uint32_t round, uint32_t nmarkers)
{
    return round << GO_MARKERS_BITS | nmarkers;
}

static void helper_main(void *argument)
{
    struct teai_marker *m = argument;
    struct teai_mark *mark = &m->heap->mark;
    uint32_t seen = m->start_epoch;
    for (;;) {
        /* acquire: pairs with round_run(). */
        uint32_t go = atomic_load_explicit(&mark->go_epoch, memory_order_acquire);
        if (go == seen) {
            teai_platform_futex_wait(&mark->go_epoch, go);
            continue;
        }
        seen = go;
        if (m->index >= go % (1u << GO_MARKERS_BITS))
            continue;
        marker_run_round(mark, m);
        /* release: our counts and states are seen by round_run(). */
        if (atomic_fetch_sub_explicit(&mark->nhelpers_running, 1, memory_order_acq_rel) == 1)
            teai_platform_futex_wake(&mark->nhelpers_running, 1);
    }
}

static bool helper_start(struct tea_heap *h, uint32_t index)
{
    struct teai_mark *mark = &h->mark;
    struct teai_marker **m = &mark->markers[index];
    if (*m == NULL && (*m = marker_new(h, index)) == NULL)
        return false;
    (*m)->start_epoch = atomic_load_explicit(&mark->go_epoch, memory_order_relaxed);
    return teai_platform_helper_start("teaspan-mark", helper_main, *m) == 0;
}

void teai_mark_start_helpers(struct tea_heap *h, uint32_t nmarkers)
{
    struct teai_mark *mark = &h->mark;
    while (mark->nhelpers_started + 1 < nmarkers && helper_start(h, mark->nhelpers_started + 1))
        mark->nhelpers_started++;
}

static void round_run(struct tea_heap *h)
{
    struct teai_mark *mark = &h->mark;
    uint32_t nhelpers = mark->nmarkers - 1;
    atomic_store_explicit(&mark->nidle, 0, memory_order_relaxed);
    atomic_store_explicit(&mark->nhelpers_running, nhelpers, memory_order_relaxed);
    if (nhelpers != 0) {
        /* release: the round's set-up is seen by helper_main(). */
        atomic_store_explicit(&mark->go_epoch, go_word(++mark->round, mark->nmarkers), memory_order_release);
        teai_platform_futex_wake(&mark->go_epoch, UINT32_MAX);
    }
    marker_run_round(mark, mark->markers[0]);
    uint32_t running;
    while ((running = atomic_load_explicit(&mark->nhelpers_running, memory_order_acquire)) != 0)
        teai_platform_futex_wait(&mark->nhelpers_running, running);
}

/* --- a whole mark --- */

static void mark_run_work(struct tea_heap *h, uint64_t nroot_blocks)
{
    struct teai_mark *mark = &h->mark;
    mark->root_limit = nroot_blocks;
    mark->repair_limit_page = 0;
    atomic_store_explicit(&mark->next_root_block, 0, memory_order_relaxed);
    round_run(h);
    mark->root_limit = 0;
}

/* True: grey objects were found (and marking went on from them), or lists overflowed again. */
static bool mark_run_repair(struct tea_heap *h)
{
    struct teai_mark *mark = &h->mark;
    atomic_store_explicit(&mark->overflowed, 0, memory_order_relaxed);
    atomic_store_explicit(&mark->nrepaired, 0, memory_order_relaxed);
    atomic_store_explicit(&mark->repair_page, 0, memory_order_relaxed);
    mark->repair_limit_page = (uint32_t)(h->tables.heap_limit_bytes >> TEAI_PAGE_SHIFT);
    round_run(h);
    mark->nrepair_rounds++;
    uint32_t nrepaired = atomic_load_explicit(&mark->nrepaired, memory_order_relaxed);
    mark->nrepaired_total += nrepaired;
    return nrepaired != 0 || atomic_load_explicit(&mark->overflowed, memory_order_relaxed) != 0;
}

/* Mark from the first `nroot_blocks` roots and from what the markers' lists hold, and repair until nothing is grey. */
static void mark_run_to_end(struct tea_heap *h, uint64_t nroot_blocks)
{
    struct teai_mark *mark = &h->mark;
    mark_run_work(h, nroot_blocks);
    bool repair = mark->nmarkers > 1;
    while (repair || atomic_load_explicit(&mark->overflowed, memory_order_relaxed) != 0) {
        mark->noverflows += atomic_load_explicit(&mark->overflowed, memory_order_relaxed);
        if (!mark_run_repair(h))
            break;
        repair = true;
    }
}

static void mark_record_worklists(struct teai_mark *mark)
{
    uint64_t bytes = mark->pool.peak_bytes;
    for (uint32_t i = 0; i < mark->nmarkers; i++)
        bytes += mark->markers[i]->queue.ring_bytes;
    if (bytes > mark->worklist_peak_bytes)
        mark->worklist_peak_bytes = bytes;
    mark->pool.peak_bytes = 0;
}

enum { WORK_POOL_KEEP_BYTES = 1 << 20 };

uint64_t teai_mark_run(struct tea_heap *h)
{
    struct teai_mark *mark = &h->mark;
    if (mark->nmarkers > mark->nhelpers_started + 1)
        mark->nmarkers = mark->nhelpers_started + 1; /* the system gave no more threads */
    if (mark->nmarkers == 1)
        mark->markers[0]->parallel = false;
    mark_run_to_end(h, mark->nroot_blocks);
    /* The first pass over the ephemerons leaves its work to all markers, later ones find little (gc/weak.c). */
    for (uint32_t nshaded = teai_ephemerons_shade(h, mark->markers[0]); nshaded != 0;
         nshaded = teai_ephemerons_mark(h, mark->markers[0]))
        mark_run_to_end(h, 0);
    uint64_t marked_bytes = 0;
    for (uint32_t i = 0; i < mark->nmarkers; i++) {
        marked_bytes += mark->markers[i]->marked_bytes;
        teai_work_stack_release(&mark->pool, &mark->markers[i]->objects);
    }
    mark_record_worklists(mark);
    teai_work_pool_trim(&mark->pool, WORK_POOL_KEEP_BYTES);
    return marked_bytes;
}

void teai_mark_after_fork(struct tea_heap *h)
{
    h->mark.nhelpers_started = 0;
}
