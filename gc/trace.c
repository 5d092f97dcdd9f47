/* gc/trace.c -- GODEBUG=gctrace=1: Go's line for each cycle. */
#include "gc/cycle.h"

void teai_trace_cycle(struct tea_heap *h, const struct teai_cycle_record *record)
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
    char line[512];
    size_t n = teai_gctrace_format(&trace, line, sizeof line);
    teai_log_text(&h->log, line, n);
}
