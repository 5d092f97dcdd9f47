/* pacer/pacer.h -- when to collect and how far the heap may grow: Go's decisions as pure functions.
 *
 * Facts in, decision out: no lock, no clock, no OS, no global, so that the collector, the unit tests and
 * the simulator link the same object. Bytes are uint64_t; "no goal" is UINT64_MAX.
 *
 * Source. Go 1.26 runtime, mgcpacer.go: constants and formulas of the functions named below.
 */
#ifndef TEAI_PACER_H
#define TEAI_PACER_H

#include "base/config.h"

#define TEAI_PACER_HEAP_MINIMUM_BYTES ((uint64_t)4 << 20)     /* at GOGC=100; scaled by GOGC */
#define TEAI_PACER_NO_LIMIT INT64_MAX

/* The two knobs. */
struct teai_knobs {
    int32_t gc_percent;          /* -1: off */
    int64_t memory_limit_bytes;  /* TEAI_PACER_NO_LIMIT: none */
};

/* What the heap looks like when a goal is computed. */
struct teai_facts {
    uint64_t marked_bytes;       /* found reachable by the last cycle */
    uint64_t stack_scan_bytes;   /* scanned in the last cycle */
    uint64_t globals_scan_bytes; /* static data of the program */
    uint64_t runway_bytes;       /* from cons/mark; 0 in stop-the-world mode */
    uint64_t min_trigger_bytes;  /* 0 when sweeping is done */
    /* for the memory limit */
    uint64_t mapped_ready_bytes; /* all memory we hold from the OS */
    uint64_t heap_free_bytes;    /* free pages not released */
    uint64_t heap_alloc_bytes;   /* objects allocated and not freed */
};

struct teai_goal {
    uint64_t goal_bytes;
    uint64_t trigger_bytes;
    bool from_memory_limit;      /* GOMEMLIMIT, not GOGC, set the goal; false when both are off */
};

/* Smallest goal that GOGC sets: 4 MiB * gc_percent / 100; UINT64_MAX when off. */
uint64_t teai_pacer_heap_minimum_bytes(int32_t gc_percent);
/* Goal from GOGC alone (Go: commit); UINT64_MAX when off. */
uint64_t teai_pacer_percent_goal_bytes(const struct teai_facts *facts, int32_t gc_percent);
/* Goal from GOMEMLIMIT alone (Go: memoryLimitHeapGoal); memory_limit_bytes >= 0. Without a limit still a number, as in Go. */
uint64_t teai_pacer_limit_goal_bytes(const struct teai_facts *facts, int64_t memory_limit_bytes);
/* Both, and the trigger (Go: heapGoalInternal, trigger). In stop-the-world mode runway and min_trigger are 0, and the
 * sequence of cycles is that of Go with GODEBUG=gcstoptheworld=2 on one CPU. */
struct teai_goal teai_pacer_goal(const struct teai_facts *facts, const struct teai_knobs *knobs);

/* GOGC as Go reads it (Go: readGOGC). NULL or "" -> 100, "off" and negative numbers -> -1. True if well-formed;
 * *percent_out is always set (100 when malformed; the caller may warn). */
bool teai_pacer_parse_gogc(const char *text, int32_t *percent_out);
/* GOMEMLIMIT as Go reads it (Go: readGOMEMLIMIT). NULL, "" or "off" -> no limit. False if malformed, *limit_out untouched. */
bool teai_pacer_parse_memory_limit(const char *text, int64_t *limit_bytes_out);

/* --- Go's trace line (Go: mgc.go, gcMarkTermination) --- */
struct teai_gctrace {
    uint32_t cycle;
    uint64_t start_ns;            /* since the process's start */
    unsigned gc_cpu_percent;
    uint64_t sweep_term_ns, mark_ns, mark_term_ns; /* a, b, c: wall clock */
    uint64_t assist_cpu_ns, background_cpu_ns, idle_cpu_ns;
    unsigned stw_procs;           /* a and c are multiplied by it */
    uint64_t heap_start_bytes, heap_term_bytes, heap_marked_bytes;
    uint64_t goal_bytes;
    uint64_t stacks_bytes, globals_bytes;
    unsigned procs;
    bool forced;
};
/* Go's rendering of ns as ms: cut, never rounded, to two significant digits (Go: fmtNSAsMS). NUL-terminated; returns the
 * length written. What does not fit is cut off. */
size_t teai_gctrace_format_ms(uint64_t ns, char *buffer, size_t buffer_bytes);
/* The whole line without newline; returns its length (buffer_bytes of 512 is enough). */
size_t teai_gctrace_format(const struct teai_gctrace *trace, char *buffer, size_t buffer_bytes);

#endif
