/* gc/trace.c -- GODEBUG=gctrace=1: Go's line for each cycle.
 *
 * Lines are said in the order of their cycles, and with no lock held: the sink is the program's, may allocate, and may
 * wait for another thread, which may wait for a cycle. So a line is queued while the world lock is held; when it is free the
 * thread says what it finds in the queue, unless another one does so already. That one then says this line as well.
 *
 * Locks. trace.lock, for the queue only.
 */
#include "gc/trace.h"

#include "gc/heap.h"

#include <string.h>

void teai_trace_init(struct teai_trace *trace)
{
    trace->lock.rank = TEAI_RANK_TRACE;
}

static size_t trace_format(const struct tea_heap *h, const struct teai_cycle_record *record, char line[TEAI_TRACE_BYTES])
{
    uint64_t cpu_ns = teai_platform_process_cpu_ns();
    struct teai_gctrace trace = {
        .cycle = atomic_load_explicit(&h->ncycles, memory_order_relaxed),
        .start_ns = record->begin_ns - h->start_ns,
        .gc_cpu_percent = cpu_ns != 0 ? (unsigned)(h->gc_cpu_ns * 100 / cpu_ns) : 0,
        .sweep_term_ns = record->stopped_ns - record->begin_ns,
        .mark_ns = record->marked_ns - record->stopped_ns,
        .mark_term_ns = record->end_ns - record->marked_ns,
        .background_cpu_ns = record->mark_cpu_ns,
        .stw_procs = teai_platform_ncpus(),
        .heap_start_bytes = record->heap_start_bytes,
        .heap_term_bytes = record->heap_start_bytes,
        .heap_marked_bytes = record->marked_bytes,
        .goal_bytes = record->goal_bytes,
        .stacks_bytes = record->stack_bytes,
        .globals_bytes = record->globals_bytes,
        .procs = teai_platform_ncpus(),
        .forced = record->forced,
    };
    return teai_gctrace_format(&trace, line, TEAI_TRACE_BYTES);
}

void teai_trace_add(struct tea_heap *h, const struct teai_cycle_record *record)
{
    struct teai_trace *trace = &h->trace;
    teai_lock_acquire(&trace->lock);
    if (trace->nlines == TEAI_TRACE_LINES) {
        trace->nlost++;
    } else {
        uint32_t at = (trace->first + trace->nlines++) % TEAI_TRACE_LINES;
        trace->nbytes[at] = (uint16_t)trace_format(h, record, trace->lines[at]);
    }
    teai_lock_release(&trace->lock);
}

/* Take the oldest line out; its length, 0 if there is none and the caller says no more. */
static size_t trace_take(struct teai_trace *trace, char line[TEAI_TRACE_BYTES], uint32_t *nlost_out)
{
    teai_lock_acquire(&trace->lock);
    size_t nbytes = 0;
    *nlost_out = 0;
    if (trace->nlines != 0) {
        nbytes = trace->nbytes[trace->first];
        memcpy(line, trace->lines[trace->first], nbytes + 1);
        trace->first = (trace->first + 1) % TEAI_TRACE_LINES;
        if (--trace->nlines == 0) {
            *nlost_out = trace->nlost;
            trace->nlost = 0;
        }
    } else {
        trace->sayer = NULL;
    }
    teai_lock_release(&trace->lock);
    return nbytes;
}

static bool trace_begin(struct teai_trace *trace, const struct tea_mutator *self)
{
    teai_lock_acquire(&trace->lock);
    bool begins = trace->sayer == NULL && trace->nlines != 0;
    if (begins)
        trace->sayer = self;
    teai_lock_release(&trace->lock);
    return begins;
}

void teai_trace_say(struct tea_heap *h, const struct tea_mutator *self)
{
    char line[TEAI_TRACE_BYTES];
    uint32_t nlost;
    size_t nbytes;
    if (!trace_begin(&h->trace, self))
        return;
    while ((nbytes = trace_take(&h->trace, line, &nlost)) != 0) {
        teai_log_text(&h->log, line, nbytes);
        if (nlost != 0)
            teai_log_line(&h->log, "teaspan: %u lines of gctrace left out: the log is slower than the collections", nlost);
    }
}

void teai_trace_after_fork(struct teai_trace *trace, const struct tea_mutator *self)
{
    if (trace->sayer != self)
        trace->sayer = NULL; /* it does not exist here */
}
