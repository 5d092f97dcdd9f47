/* include/teaspan/init.h -- start the collector with chosen settings; messages and out-of-memory handling. */
#ifndef TEASPAN_INIT_H
#define TEASPAN_INIT_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

/* Receives one message (no trailing newline). Called without locks of the collector held and with
 * every mutator running; it may allocate. `text` is valid during the call only. */
typedef void (*tea_log_fn)(const char *text, void *context);

/* Asked when `size_bytes` could not be allocated even after a full collection. Return true to have
 * the allocation tried once more (after dropping references, say), false to let it return NULL. */
typedef bool (*tea_oom_fn)(size_t size_bytes, void *context);

/* Settings for tea_init(). Fill with TEA_OPTIONS_INIT, then change what matters. Settings given here
 * win over the environment only where they are set: GC_PERCENT and MEMORY_LIMIT below. */
struct tea_options {
    size_t struct_bytes;         /* sizeof(struct tea_options), for later extension */
    int gc_percent;              /* GOGC; -1 turns proportional collection off; TEA_GC_PERCENT_DEFAULT: environment, else 100 */
    int64_t memory_limit_bytes;  /* GOMEMLIMIT; TEA_MEMORY_LIMIT_DEFAULT: environment, else no limit */
    size_t max_heap_bytes;       /* address space to reserve for objects; 0: chosen from the size of RAM */
    unsigned markers;            /* threads that mark in total, the caller included; 0: environment, else one a CPU */
    bool heap_past_end;          /* a word inside a heap object that points one past an object keeps that object */
    tea_log_fn log;              /* NULL: lines on stderr */
    void *log_context;
    tea_oom_fn oom;              /* NULL: allocation returns NULL at once */
    void *oom_context;
};

#define TEA_GC_PERCENT_DEFAULT (-2147483647 - 1)
#define TEA_MEMORY_LIMIT_DEFAULT ((int64_t)-1)
#define TEA_OPTIONS_INIT                                                                              \
    {                                                                                                 \
        sizeof(struct tea_options), TEA_GC_PERCENT_DEFAULT, TEA_MEMORY_LIMIT_DEFAULT, 0, 0, false, 0, 0, 0, 0 \
    }

/* tea_init -- start the collector before the first allocation does it.
 *
 * Shape:    `options` may be NULL for the defaults.
 * Errors:   TEA_ERR_INVALID: an option or GOMEMLIMIT is malformed (a log line names the value and what
 *           is accepted; without tea_init() a malformed GOMEMLIMIT ends the process with status 2, as in Go).
 *           TEA_ERR_STATE: the collector is already running, or another copy of this library runs one in this process (a
 *           log line names both files; allocations from this copy fail). TEA_ERR_NOMEM: no address space.
 * Threads:  any; the caller is attached.
 * Source:   settings follow Go's runtime (GOGC, GOMEMLIMIT, GODEBUG).
 */
TEA_API enum tea_status tea_init(const struct tea_options *options);

/* tea_set_log_sink -- send messages to `log` from now on; NULL restores lines on stderr.
 *
 * Threads:  any.
 */
TEA_API void tea_set_log_sink(tea_log_fn log, void *context);

/* tea_set_oom_callback -- install the function asked before an allocation fails; NULL removes it.
 *
 * Threads:  any.
 */
TEA_API void tea_set_oom_callback(tea_oom_fn oom, void *context);

TEA_END_DECLS
#endif
