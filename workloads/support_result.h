/* workloads/support_result.h -- start, time and report a run. */
#ifndef WORKLOADS_SUPPORT_RESULT_H
#define WORKLOADS_SUPPORT_RESULT_H

#include "support_args.h"

/* Reads the command line and sets the heap up. Everything below needs it done. */
void workload_start(const struct workload *workload, int argc, char **argv);

/* "NAME: MESSAGE" on stderr; the program ends with status 1. */
_Noreturn void workload_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t workload_now_ns(void); /* monotonic */

/* What the program measured; the rest of the line is found by workload_report(). */
struct workload_run {
    const char *variant; /* NULL: the workload has no variants */
    uint64_t allocs;     /* operations done; 0: the workload does not count in these */
    uint64_t run_ns;     /* build and query, without the check of the result */
};

/* The one line of result. `more` is printf-like and adds the workload's own keys. */
void workload_report(const struct workload_run *run, const char *more, ...)
    __attribute__((format(printf, 2, 3)));

#endif
