/* gc/thread_api.c -- the public calls of threads: attach, detach, blocking regions. */
#include "gc/handshake.h"
#include "gc/heap.h"
#include "gc/init.h"
#include "gc/thread.h"
#include "teaspan/thread.h"

enum tea_status tea_thread_attach(void)
{
    return teai_thread_self() != NULL ? TEA_OK : TEA_ERR_NOMEM;
}

static enum tea_status thread_report(const char *call, const char *why)
{
    struct tea_heap *h = teai_init_default();
    if (h != NULL)
        teai_log_line(&h->log, "teaspan: %s: thread %d %s; ignored", call, teai_platform_thread_id(), why);
    return TEA_ERR_STATE;
}

enum tea_status tea_thread_detach(void)
{
    struct tea_mutator *m = teai_self;
    if (m == NULL)
        return thread_report("tea_thread_detach", "is not attached");
    if (m->blocking_depth != 0)
        return thread_report("tea_thread_detach", "is in a blocking region");
    teai_thread_detached(m->pthread); /* its result is no longer ours to keep */
    teai_thread_detach(m->heap, m);
    return TEA_OK;
}

TEAI_NOINLINE enum tea_status tea_blocking_enter(void)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    if (m->blocking_depth++ == 0) {
        /* Above the saved frame pointer and the return address the caller's frame begins. */
        uintptr_t frame_addr = (uintptr_t)__builtin_frame_address(0) + 2 * sizeof(void *);
        teai_blocking_enter(m, frame_addr);
    }
    return TEA_OK;
}

enum tea_status tea_blocking_leave(void)
{
    struct tea_mutator *m = teai_self;
    if (m == NULL || m->blocking_depth == 0)
        return thread_report("tea_blocking_leave", "is in no blocking region");
    if (--m->blocking_depth == 0)
        teai_blocking_leave(m);
    return TEA_OK;
}

void *tea_call_blocking(void *(*fn)(void *argument), void *argument)
{
    bool entered = tea_blocking_enter() == TEA_OK;
    void *result = fn(argument);
    if (entered)
        tea_blocking_leave();
    return result;
}
