/* gc/settings.h -- what the environment asks for: GOGC, GOMEMLIMIT, GODEBUG, TEASPAN. */
#ifndef TEAI_SETTINGS_H
#define TEAI_SETTINGS_H

#include "base/config.h"

enum teai_marker_order { TEAI_MARK_BY_SPAN = 0, TEAI_MARK_BY_OBJECT };
enum teai_kernel_choice { TEAI_KERNEL_AUTO = 0, TEAI_KERNEL_PORTABLE, TEAI_KERNEL_AVX2, TEAI_KERNEL_AVX512 };

struct teai_settings {
    int32_t gc_percent;
    int64_t memory_limit_bytes;
    uint32_t markers;                 /* 0: one a CPU */
    enum teai_marker_order order;
    enum teai_kernel_choice kernel;
    bool gctrace;
    bool check_mark;                  /* GODEBUG=gccheckmark=1: compare each mark with the reference marker */
    bool clobber_free;                /* GODEBUG=clobberfree=1 */
    bool heap_past_end;
    uint32_t stress;                  /* a collection at every Nth refill; 0: off */
    bool finalize_on_demand;          /* no thread runs finalizers and cleanups */
    int stop_signal;                  /* 0: the default */
};

enum { TEAI_SETTINGS_MAX_WARNINGS = 8, TEAI_WARNING_BYTES = 200 };
/* What was wrong, kept until there is a sink to say it to. */
struct teai_settings_report {
    unsigned nwarnings;
    char warnings[TEAI_SETTINGS_MAX_WARNINGS][TEAI_WARNING_BYTES];
    bool bad_memory_limit;            /* fatal, as in Go; the first warning says so */
    char error[TEAI_WARNING_BYTES];
};

/* Read the environment. `get` is getenv-like, so that tests can pass their own. */
typedef const char *(*teai_getenv_fn)(const char *name);
void teai_settings_read(struct teai_settings *settings, struct teai_settings_report *report, teai_getenv_fn get);

#endif
