/* gc/cycle.c -- the phases of a collection: off, mark, mark termination, sweep.
 *
 * A state machine, run by the thread that found a cycle due, under the world lock:
 *
 *   prepare      start helper threads; finish the sweep of the cycle before; take the loader's lock, list static data
 *   begin        stop the world; blacken leased slots, take spans and pages from the caches; phase MARK
 *   mark         list roots, mark from them (mark_workers.c)
 *   terminate    phase MARK_TERMINATION; the checker, if asked for; finalizers become due, weak pointers are cleared; new goal and trigger; everything in use is unswept
 *   end          phase OFF; restart the world; wake the sweeper, say what happened
 *
 * Marking happens with the world stopped. What marking beside the program needs lies between `begin` and
 * `terminate`: the stop ends after `begin`, and a second one precedes `terminate`.
 *
 * Invariants.
 *   Y1  A cycle begins only when every span is swept (S3) and ends with heap live = marked.
 *   Y2  phase and sweep_gen change only while the world is stopped.
 *
 * Callers. A mutator outside the runtime that holds no lock.
 * Source. Phases and their order: Go runtime, mgc.go.
 */
#include "gc/cycle.h"

#include "gc/fake_stack.h"
#include "gc/fork.h"
#include "gc/sweep.h"
#include "gc/thread.h"

/* Below this much heap waking helpers costs more than they save. */
#define CYCLE_PARALLEL_LEAST_BYTES ((uint64_t)1 << 20)

bool teai_cycle_is_due(const struct tea_heap *h)
{
    return atomic_load_explicit(&h->live_bytes, memory_order_relaxed) >=
               atomic_load_explicit(&h->trigger_bytes, memory_order_relaxed) &&
           atomic_load_explicit(&h->disable_count, memory_order_relaxed) == 0;
}

struct cycle {
    struct tea_heap *heap;
    struct tea_mutator *self;
    struct teai_cycle_record record;
    struct teai_reference_result check;
    uint64_t time_to_stop_ns;
    uint64_t cpu_begin_ns;
    uint32_t nmarkers;
    bool thread_roots_are_news;
};

static void cycle_set_phase(struct tea_heap *h, enum teai_phase phase)
{
    /* relaxed: stops order it. */
    atomic_store_explicit(&h->phase, phase, memory_order_relaxed);
}

static void cycle_begin(struct cycle *c)
{
    struct tea_heap *h = c->heap;
    c->record.begin_ns = teai_platform_now_ns();
    c->cpu_begin_ns = teai_platform_process_cpu_ns();
    c->time_to_stop_ns = teai_world_stop(h, c->self);
    c->record.stopped_ns = teai_platform_now_ns();
    c->record.heap_start_bytes = atomic_load_explicit(&h->live_bytes, memory_order_relaxed);
    for (struct tea_mutator *m = h->world.mutators; m != NULL; m = m->next) {
        teai_cache_detach_stopped(h, m);
        teai_page_cache_flush(h->pages, &m->pages);
    }
    cycle_set_phase(h, TEAI_PHASE_MARK);
}

static uint32_t cycle_markers_wanted(const struct tea_heap *h)
{
    bool small = atomic_load_explicit(&h->live_bytes, memory_order_relaxed) < CYCLE_PARALLEL_LEAST_BYTES;
    return small ? 1 : h->mark.nmarkers_max;
}

/* The stack, thread-locals and tiny block of one mutator. */
static void cycle_list_mutator(struct cycle *c, struct tea_mutator *m)
{
    struct tea_heap *h = c->heap;
    teai_mark_add_root(h, m->sp_addr, m->stack_limit_addr, false);
    teai_mark_add_root(h, m->alt_base_addr, m->alt_limit_addr, false);
    teai_fake_stack_list_roots(h, m);
    teai_thread_roots_list(h, m);
    uintptr_t tiny_addr = (uintptr_t)&m->tiny.block_addr;
    teai_mark_add_root(h, tiny_addr, tiny_addr + sizeof m->tiny.block_addr, true);
    c->record.stack_bytes += m->stack_limit_addr - m->sp_addr;
}

static void cycle_list_roots(struct cycle *c)
{
    struct tea_heap *h = c->heap;
    const struct teai_range_list *lists[] = { &h->roots.static_data, &h->roots.registered, &h->exceptions.list };
    for (unsigned i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (size_t k = 0; k < lists[i]->nitems; k++)
            teai_mark_add_root(h, lists[i]->items[k].base_addr, lists[i]->items[k].limit_addr, false);
    teai_mark_add_root(h, (uintptr_t)h->pins.table, (uintptr_t)(h->pins.table + h->pins.nslots), true);
    teai_specials_list_roots_stopped(h);
    for (struct tea_mutator *m = h->world.mutators; m != NULL; m = m->next)
        cycle_list_mutator(c, m);
    c->record.stack_bytes += teai_fibers_list_roots(h);
    teai_root_callbacks_call(h, c->self);
    teai_thread_roots_list_results(h);
    c->record.globals_bytes = h->roots.static_bytes;
}

static void cycle_mark(struct cycle *c)
{
    struct tea_heap *h = c->heap;
    teai_mark_begin(h, c->nmarkers);
    cycle_list_roots(c);
    c->record.marked_bytes = teai_mark_run(h);
    c->record.marked_ns = teai_platform_now_ns();
}

static void cycle_terminate(struct cycle *c)
{
    struct tea_heap *h = c->heap;
    cycle_set_phase(h, TEAI_PHASE_MARK_TERMINATION);
    if (h->settings.check_mark)
        c->check = teai_mark_reference_compare(h);
    c->record.marked_bytes += teai_specials_end_mark_stopped(h);
    teai_sweep_begin_stopped(h);
    cycle_set_phase(h, TEAI_PHASE_OFF);
}

/* The goal that was in force is what the trace shows; then the next one is computed. */
static void cycle_commit(struct cycle *c)
{
    struct tea_heap *h = c->heap;
    teai_lock_acquire(&h->pacer_lock);
    c->record.goal_bytes = h->goal.goal_bytes;
    h->facts.marked_bytes = c->record.marked_bytes;
    h->facts.stack_scan_bytes = c->record.stack_bytes;
    h->facts.globals_scan_bytes = c->record.globals_bytes;
    h->facts.heap_alloc_bytes = c->record.heap_start_bytes;
    atomic_store_explicit(&h->live_bytes, c->record.marked_bytes, memory_order_relaxed);
    teai_lock_release(&h->pacer_lock);
    teai_gc_pacer_commit(h);
}

static void cycle_account(struct cycle *c)
{
    struct tea_heap *h = c->heap;
    uint32_t n = atomic_load_explicit(&h->ncycles, memory_order_relaxed);
    uint64_t pause_ns = c->record.end_ns - c->record.begin_ns;
    h->pause_ns[n % TEA_STATS_PAUSES] = pause_ns;
    h->pause_end_unix_ns[n % TEA_STATS_PAUSES] = h->last_gc_unix_ns = teai_platform_unix_ns();
    h->pause_total_ns += pause_ns;
    h->time_to_stop_total_ns += c->time_to_stop_ns;
    c->record.mark_cpu_ns = teai_platform_process_cpu_ns() - c->cpu_begin_ns;
    h->gc_cpu_ns += c->record.mark_cpu_ns;
    h->nforced += c->record.forced;
    /* release: pairs with tea_gc_count(). */
    atomic_store_explicit(&h->ncycles, n + 1, memory_order_release);
}

/* With the caller's registers spilled at sp_addr. */
static void cycle_stopped(uintptr_t sp_addr, void *argument)
{
    struct cycle *c = argument;
    c->self->sp_addr = sp_addr;
    c->self->alt_base_addr = c->self->alt_limit_addr = 0;
    teai_fake_stack_note(c->self);
    cycle_begin(c);
    cycle_mark(c);
    cycle_terminate(c);
    cycle_commit(c);
    c->record.end_ns = teai_platform_now_ns();
    cycle_account(c);
    teai_world_restart(c->heap);
}

static void cycle_run_held(void *argument)
{
    teai_platform_with_registers(cycle_stopped, argument);
}

static void cycle_say_check_result(const struct cycle *c)
{
    if (c->check.nmissed == 0 && c->check.nextra == 0)
        return;
    teai_log_line(&c->heap->log, "teaspan: checkmark: %U objects missed (first at %p), %U marked without need, of %U",
                  c->check.nmissed, (const void *)c->check.first_missed_addr, c->check.nextra, c->check.nreached);
    if (c->check.nmissed != 0)
        teai_fatal(__FILE__, __LINE__, "marking missed reachable objects");
}

/* With no lock held: the sink may allocate, and so need a cycle, or wait for a thread that does. */
static void cycle_say(const struct cycle *c)
{
    teai_trace_say(c->heap, c->self);
    if (c->thread_roots_are_news)
        teai_thread_roots_report(c->heap);
    cycle_say_check_result(c);
}

static void cycle_trim_specials(struct tea_heap *h, struct tea_mutator *self)
{
    teai_runtime_enter(self);
    teai_specials_trim(h);
    teai_runtime_leave(h, self);
}

void teai_cycle_run(struct tea_heap *h, struct tea_mutator *self, enum teai_cycle_reason reason)
{
    if (teai_world_gate_is_mine(h, self))
        return; /* in a fork handler that allocates: later */
    teai_fork_check(h, self);
    teai_world_acquire(h, self);
    if (reason == TEAI_CYCLE_HEAP && !teai_cycle_is_due(h)) {
        teai_world_release(h); /* another thread has just run it */
        return;
    }
    struct cycle c = { .heap = h, .self = self, .record.forced = reason == TEAI_CYCLE_FORCED,
                       .nmarkers = cycle_markers_wanted(h) };
    teai_mark_start_helpers(h, c.nmarkers);
    teai_sweep_finish(h);
    if (!teai_roots_call_held(h, cycle_run_held, &c)) {
        teai_world_release(h); /* no memory to list the roots: no cycle is better than a wrong one */
        return;
    }
    h->cycle = c.record;
    if (h->settings.gctrace)
        teai_trace_add(h, &c.record);
    c.thread_roots_are_news = teai_thread_roots_are_news(h);
    if (c.check.nmissed != 0)
        cycle_say_check_result(&c); /* the process ends with it, before anything is swept */
    if (reason == TEAI_CYCLE_HEAP)
        teai_sweep_wake(h);
    else
        teai_sweep_finish(h);
    cycle_trim_specials(h, self);
    teai_finalizers_wake(h);
    teai_world_release(h);
    cycle_say(&c);
}
