/* gc/root_api.c -- the public calls that register root ranges. */
#include "gc/root.h"

#include "gc/heap.h"
#include "gc/thread.h"
#include "teaspan/root.h"

static void root_report(struct tea_heap *h, const char *call, const void *base, const void *limit, enum tea_status status)
{
    const char *why = status == TEA_ERR_STATE       ? "is registered already"
                      : status == TEA_ERR_NOT_FOUND ? "is not registered"
                      : status == TEA_ERR_NOMEM     ? "cannot be listed: no memory"
                                                    : "is not a range: want base <= limit, base not NULL";
    teai_log_line(&h->log, "teaspan: %s: [%p, %p) %s; ignored", call, base, limit, why);
}

enum tea_status tea_root_add(const void *base, const void *limit)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    enum tea_status status = TEA_ERR_INVALID;
    if (base != NULL && (uintptr_t)base <= (uintptr_t)limit) {
        teai_runtime_enter(m);
        status = teai_root_add(m->heap, (uintptr_t)base, (uintptr_t)limit);
        teai_runtime_leave(m->heap, m);
    }
    if (status != TEA_OK)
        root_report(m->heap, "tea_root_add", base, limit, status);
    return status;
}

enum tea_status tea_root_remove(const void *base, const void *limit)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    teai_runtime_enter(m);
    enum tea_status status = teai_root_remove(m->heap, (uintptr_t)base, (uintptr_t)limit);
    teai_runtime_leave(m->heap, m);
    if (status != TEA_OK)
        root_report(m->heap, "tea_root_remove", base, limit, status);
    return status;
}
