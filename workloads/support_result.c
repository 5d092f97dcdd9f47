/* workloads/support_result.c -- start, time and report a run.
 *
 * The line, for every heap and Go alike:
 *   NAME: variant=V allocs=N peak_rss=NKB ms=N gc_cycles=N alloc_bytes=N alloc_objects=N, then the workload's own
 */
#include "support_result.h"
#include "heap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static const char *workload_name = "workload";

void workload_start(const struct workload *workload, int argc, char **argv)
{
    workload_name = workload->name;
    args_parse(workload, argc, argv);
    heap_init();
}

_Noreturn void workload_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", workload_name);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

uint64_t workload_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static long peak_rss_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

void workload_report(const struct workload_run *run, const char *more, ...)
{
    struct heap_totals totals = heap_totals();
    printf("%s:", workload_name);
    if (run->variant != NULL)
        printf(" variant=%s", run->variant);
    if (run->allocs != 0)
        printf(" allocs=%" PRIu64, run->allocs);
    printf(" peak_rss=%ldKB ms=%" PRIu64 " gc_cycles=%" PRIu32 " alloc_bytes=%" PRIu64
           " alloc_objects=%" PRIu64,
           peak_rss_kb(), (run->run_ns + 500000) / 1000000, heap_gc_count(), totals.bytes,
           totals.objects);
    va_list args;
    va_start(args, more);
    vprintf(more, args);
    va_end(args);
    putchar('\n');
    if (fflush(stdout) != 0)
        workload_fail("cannot write the result");
}
