/* gc/init.c -- start the default heap, once, from wherever it is first needed; options, log sink, version.
 *
 * The first allocation may come from a constructor, a library, any thread. A lock admits one starter; the others wait.
 * Nothing here calls malloc or the client, except the log sink, after the heap stands.
 */
#include "gc/init.h"

#include "gc/alloc.h"
#include "gc/cycle.h"
#include "gc/sweep.h"
#include "gc/thread.h"
#include "teaspan/init.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

struct tea_heap teai_default_heap TEAI_STATE;

static _Atomic uint32_t init_done TEAI_STATE;
static struct teai_lock init_lock TEAI_STATE = TEAI_LOCK_INIT(TEAI_RANK_NONE);
static tea_oom_fn oom_callback TEAI_STATE;
static void *oom_context TEAI_STATE;

static bool init_is_done(void)
{
    /* acquire: pairs with the release in init_start(): the heap is complete. */
    return atomic_load_explicit(&init_done, memory_order_acquire) != 0;
}

/* --- fork: the child has one thread and none of our helpers --- */

static void fork_in_child(void)
{
    struct tea_heap *h = &teai_default_heap;
    teai_sweep_after_fork(h);
    teai_mark_after_fork(h);
    struct tea_mutator *self = teai_self;
    teai_lock_release(&h->world.threads_lock);
    h->world.mutators = self;
    h->world.nmutators = self != NULL;
    if (self != NULL) {
        self->tid = teai_platform_thread_id();
        self->next = self->prev = NULL;
    }
    teai_world_release(h);
}

static void fork_prepare(void)
{
    struct tea_heap *h = &teai_default_heap;
    struct tea_mutator *self = teai_thread_self();
    teai_world_acquire(h, self);
    /* No sweeper is inside a span and no mutator inside the runtime while the child's memory is copied. */
    teai_sweep_finish(h);
    teai_world_stop(h, self);
}

static void fork_in_parent(void)
{
    teai_world_restart(&teai_default_heap);
    teai_world_release(&teai_default_heap);
}

static void fork_in_child_restart(void)
{
    atomic_fetch_add_explicit(&teai_default_heap.world.stop_epoch, 1, memory_order_seq_cst);
    fork_in_child();
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
    teai_metadata_init(&h->metadata);
    teai_class_info_init();
    for (unsigned i = 0; i < TEAI_NSPAN_CLASSES; i++)
        teai_central_init(&h->central[i]);
    int error = teai_heap_reserve(h, max_heap_bytes);
    if (error != 0)
        return error;
    teai_roots_init(&h->roots);
    teai_pins_init(&h->pins);
    teai_mark_init(h);
    teai_mark_begin(h, 1);
    teai_gc_pacer_init(h);
    teai_world_init(&h->world, settings->stop_signal);
    pthread_atfork(fork_prepare, fork_in_parent, fork_in_child_restart);
    return 0;
}

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

/* Under init_lock, not yet started. */
static enum tea_status init_start(const struct teai_settings *settings, const struct teai_settings_report *report,
                                  const struct tea_options *options)
{
    struct tea_heap *h = &teai_default_heap;
    if (init_heap(h, settings, options->max_heap_bytes) != 0)
        return TEA_ERR_NOMEM;
    teai_log_set_sink(&h->log, options->log, options->log_context);
    if (options->oom != NULL) { /* else one that was set before the start stays */
        oom_callback = options->oom;
        oom_context = options->oom_context;
    }
    /* release: pairs with init_is_done(). */
    atomic_store_explicit(&init_done, 1, memory_order_release);
    init_report(h, report);
    return TEA_OK;
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

struct tea_heap *teai_init_default(void)
{
    if (init_is_done())
        return &teai_default_heap;
    enum tea_status status = TEA_OK;
    teai_lock_acquire(&init_lock);
    if (!init_is_done()) {
        struct teai_settings settings;
        struct teai_settings_report report;
        struct tea_options options = TEA_OPTIONS_INIT;
        teai_settings_read(&settings, &report, teai_platform_getenv);
        if (report.bad_memory_limit) {
            init_say(NULL, NULL, report.error);
            teai_platform_exit(2);
        }
        status = init_start(&settings, &report, &options);
    }
    teai_lock_release(&init_lock);
    if (status != TEA_OK) {
        errno = ENOMEM;
        return NULL;
    }
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
    teai_lock_acquire(&init_lock);
    if (init_is_done()) {
        status = TEA_ERR_STATE;
    } else {
        struct teai_settings settings;
        struct teai_settings_report report;
        teai_settings_read(&settings, &report, teai_platform_getenv);
        bool overridden = options->memory_limit_bytes != TEA_MEMORY_LIMIT_DEFAULT;
        if (report.bad_memory_limit && !overridden) {
            init_say(options->log, options->log_context, report.error);
            status = TEA_ERR_INVALID;
        } else {
            init_apply_options(&settings, options);
            status = init_start(&settings, &report, options);
        }
    }
    teai_lock_release(&init_lock);
    if (status == TEA_OK && teai_thread_self() == NULL)
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
    teai_lock_acquire(&init_lock);
    oom_callback = oom;
    oom_context = context;
    teai_lock_release(&init_lock);
}

bool teai_oom_ask(size_t size_bytes)
{
    teai_lock_acquire(&init_lock);
    tea_oom_fn oom = oom_callback;
    void *context = oom_context;
    teai_lock_release(&init_lock);
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
