/* gc/init.c -- start the default heap, once, from wherever it is first needed; options, log sink, version.
 *
 * The first allocation may come from a constructor, a library, any thread. A lock admits one starter; the others wait.
 * Nothing here calls malloc or the client, except the log sink, after the heap stands.
 */
#define _GNU_SOURCE
#include "gc/init.h"

#include "gc/alloc.h"
#include "gc/cycle.h"
#include "gc/fork.h"
#include "gc/instance.h"
#include "gc/interpose.h"
#include "gc/thread.h"
#include "platform/pthread_real.h"
#include "teaspan/init.h"

#include <errno.h>
#include <string.h>

struct tea_heap teai_default_heap TEAI_STATE;

static _Atomic uint32_t init_done TEAI_STATE;
static struct teai_lock init_lock TEAI_STATE = TEAI_LOCK_INIT(TEAI_RANK_NONE);
static bool init_was_refused TEAI_STATE;
static tea_oom_fn oom_callback TEAI_STATE;
static void *oom_context TEAI_STATE;

bool teai_init_is_done(void)
{
    /* acquire: pairs with the release in init_start(): the heap is complete. */
    return atomic_load_explicit(&init_done, memory_order_acquire) != 0;
}

/* What takes locks of the loader comes first: a thread in the constructor of a library that is being loaded holds them while
 * it waits for ours. */
void teai_init_lock(void)
{
    if (!teai_init_is_done()) {
        teai_fork_watch(); /* before anything of the collector can be half made */
        teai_pthread_create_prepare();
        teai_interpose_prepare();
        teai_thread_roots_prepare();
    }
    teai_lock_acquire(&init_lock);
}

void teai_init_unlock(void)
{
    teai_lock_release(&init_lock);
}

/* --- start --- */

static int init_heap(struct tea_heap *h, const struct teai_settings *settings, size_t max_heap_bytes)
{
    h->settings = *settings;
    h->start_ns = teai_platform_now_ns();
    /* Generations start at 2, so that a zeroed span record is never taken for an unswept one's. */
    atomic_store_explicit(&h->sweep_gen, 4, memory_order_relaxed);
    atomic_store_explicit(&h->sweep.done_gen, 4, memory_order_relaxed);
    teai_log_init(&h->log);
    teai_trace_init(&h->trace);
    teai_metadata_init(&h->metadata);
    teai_class_info_init();
    for (unsigned i = 0; i < TEAI_NSPAN_CLASSES; i++)
        teai_central_init(&h->central[i]);
    int error = teai_heap_reserve(h, max_heap_bytes);
    if (error != 0)
        return error;
    teai_roots_init(&h->roots);
    teai_pins_init(&h->pins);
    teai_root_callbacks_init(&h->root_callbacks);
    teai_fibers_init(&h->fibers);
    teai_exceptions_init(&h->exceptions);
    teai_specials_init(&h->specials);
    teai_finalizers_init(h);
    teai_mark_init(h);
    teai_mark_begin(h, 1);
    teai_gc_pacer_init(h);
    teai_world_init(&h->world, settings->stop_signal);
    teai_fork_init(h);
    return 0;
}

/* With the lock free: the sink is the client's and may allocate, which may start a cycle. */
static void init_report(struct tea_heap *h, const struct teai_settings_report *report)
{
    for (unsigned i = 0; i < report->nwarnings; i++)
        teai_log_text(&h->log, report->warnings[i], strlen(report->warnings[i]));
}

static void init_apply_options(struct teai_settings *settings, const struct tea_options *options)
{
    if (options->gc_percent != TEA_GC_PERCENT_DEFAULT)
        settings->gc_percent = options->gc_percent < 0 ? -1 : options->gc_percent;
    if (options->memory_limit_bytes != TEA_MEMORY_LIMIT_DEFAULT)
        settings->memory_limit_bytes = options->memory_limit_bytes;
    if (options->markers != 0)
        settings->markers = options->markers;
    settings->heap_past_end |= options->heap_past_end;
}

/* Messages before the heap (and its sink) exist. */
static void init_say(tea_log_fn log, void *context, const char *text)
{
    if (log != NULL) {
        log(text, context);
        return;
    }
    teai_platform_stderr(text, strlen(text));
    teai_platform_stderr("\n", 1);
}

/* Why the collector was not started; empty if there is nothing to say. Said with the lock free, for the sink may call us. */
struct init_refusal {
    char text[TEAI_INSTANCE_TEXT_BYTES];
};

/* Another copy of this library runs the collector of this process: said once, refused each time. */
static bool init_is_second(struct init_refusal *refusal)
{
    if (!init_was_refused)
        init_was_refused = teai_instance_is_second(refusal->text, sizeof refusal->text);
    return init_was_refused;
}

/* Under init_lock, not yet started. */
static enum tea_status init_start(const struct teai_settings *settings, const struct tea_options *options,
                                  struct init_refusal *refusal)
{
    struct tea_heap *h = &teai_default_heap;
    if (init_is_second(refusal))
        return TEA_ERR_STATE;
    if (init_heap(h, settings, options->max_heap_bytes) != 0)
        return TEA_ERR_NOMEM;
    teai_log_set_sink(&h->log, options->log, options->log_context);
    if (options->oom != NULL) { /* else one that was set before the start stays */
        oom_callback = options->oom;
        oom_context = options->oom_context;
    }
    /* release: pairs with teai_init_is_done(). */
    atomic_store_explicit(&init_done, 1, memory_order_release);
    return TEA_OK;
}

struct tea_heap *teai_init_default(void)
{
    if (teai_init_is_done())
        return &teai_default_heap;
    enum tea_status status = TEA_OK;
    struct teai_settings_report report;
    struct init_refusal refusal = { "" };
    report.nwarnings = 0;
    teai_init_lock();
    if (!teai_init_is_done()) {
        struct teai_settings settings;
        struct tea_options options = TEA_OPTIONS_INIT;
        teai_settings_read(&settings, &report, teai_platform_getenv);
        if (report.bad_memory_limit) {
            init_say(NULL, NULL, report.error);
            teai_platform_exit(2);
        }
        status = init_start(&settings, &options, &refusal);
    }
    teai_init_unlock();
    if (refusal.text[0] != '\0')
        init_say(NULL, NULL, refusal.text);
    if (status != TEA_OK) {
        errno = ENOMEM;
        return NULL;
    }
    init_report(&teai_default_heap, &report);
    return &teai_default_heap;
}

static enum tea_status init_check_options(const struct tea_options *options)
{
    char text[TEAI_WARNING_BYTES];
    if (options->struct_bytes != sizeof *options)
        teai_format(text, sizeof text, "teaspan: tea_init: struct_bytes is %z, want %z", options->struct_bytes,
                    sizeof *options);
    else if (options->memory_limit_bytes < 0 && options->memory_limit_bytes != TEA_MEMORY_LIMIT_DEFAULT)
        teai_format(text, sizeof text, "teaspan: tea_init: memory_limit_bytes is negative, want 0 or more, or "
                                       "TEA_MEMORY_LIMIT_DEFAULT");
    else if (options->markers > TEAI_MAX_MARKERS)
        teai_format(text, sizeof text, "teaspan: tea_init: markers is %u, want 0 to %u", options->markers,
                    (unsigned)TEAI_MAX_MARKERS);
    else
        return TEA_OK;
    init_say(options->struct_bytes == sizeof *options ? options->log : NULL, options->log_context, text);
    return TEA_ERR_INVALID;
}

enum tea_status tea_init(const struct tea_options *options)
{
    const struct tea_options defaults = TEA_OPTIONS_INIT;
    options = options != NULL ? options : &defaults;
    enum tea_status status = init_check_options(options);
    if (status != TEA_OK)
        return status;
    struct teai_settings_report report;
    struct init_refusal refusal = { "" };
    teai_init_lock();
    if (teai_init_is_done()) {
        status = TEA_ERR_STATE;
    } else {
        struct teai_settings settings;
        teai_settings_read(&settings, &report, teai_platform_getenv);
        bool overridden = options->memory_limit_bytes != TEA_MEMORY_LIMIT_DEFAULT;
        if (report.bad_memory_limit && !overridden) {
            teai_format(refusal.text, sizeof refusal.text, "%s", report.error);
            status = TEA_ERR_INVALID;
        } else {
            init_apply_options(&settings, options);
            status = init_start(&settings, options, &refusal);
        }
    }
    teai_init_unlock();
    if (refusal.text[0] != '\0')
        init_say(options->log, options->log_context, refusal.text);
    if (status != TEA_OK)
        return status;
    init_report(&teai_default_heap, &report);
    if (teai_thread_self() == NULL)
        status = TEA_ERR_NOMEM;
    return status;
}

/* --- the small parts of the interface --- */

void tea_set_log_sink(tea_log_fn log, void *context)
{
    struct tea_heap *h = teai_init_default();
    if (h != NULL)
        teai_log_set_sink(&h->log, log, context);
}

void tea_set_oom_callback(tea_oom_fn oom, void *context)
{
    teai_init_lock();
    oom_callback = oom;
    oom_context = context;
    teai_init_unlock();
}

bool teai_oom_ask(size_t size_bytes)
{
    teai_init_lock();
    tea_oom_fn oom = oom_callback;
    void *context = oom_context;
    teai_init_unlock();
    return oom != NULL && oom(size_bytes, context);
}

const char *tea_version(void)
{
    return TEA_VERSION_STRING;
}

const char *tea_status_string(enum tea_status status)
{
    switch (status) {
    case TEA_OK:
        return "ok";
    case TEA_ERR_INVALID:
        return "invalid argument or setting";
    case TEA_ERR_NOMEM:
        return "out of memory or address space";
    case TEA_ERR_STATE:
        return "not possible in the present state";
    case TEA_ERR_NOT_FOUND:
        return "not found";
    case TEA_ERR_SYSTEM:
        return "refused by the operating system";
    }
    return "unknown status";
}
