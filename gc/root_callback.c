/* gc/root_callback.c -- roots that the program itself enumerates while the world is stopped.
 *
 * Threads may be stopped inside malloc() or with any lock held, so a callback may read memory and call tea_root_visit(), and
 * that is all. The thread that calls it counts as inside the runtime meanwhile: another call of the collector ends the
 * process with a message, before it could hang or harm the heap.
 *
 * Locks. callbacks.lock, taken inside the runtime; the list does not change during a stop.
 */
#include "gc/root_callback.h"

#include "gc/heap.h"
#include "gc/thread.h"

#include <string.h>

struct tea_root_visitor {
    struct tea_heap *heap;
};

void teai_root_callbacks_init(struct teai_root_callbacks *callbacks)
{
    callbacks->lock.rank = TEAI_RANK_ROOTS;
}

void tea_root_visit(struct tea_root_visitor *visitor, const void *base, const void *limit)
{
    teai_mark_add_root(visitor->heap, (uintptr_t)base, (uintptr_t)limit, false);
}

void teai_root_callbacks_call(struct tea_heap *h, struct tea_mutator *self)
{
    struct tea_root_visitor visitor = { h };
    int was_in_runtime = self->in_runtime;
    self->in_runtime = 1;
    atomic_signal_fence(memory_order_seq_cst);
    for (size_t i = 0; i < h->root_callbacks.nitems; i++)
        h->root_callbacks.items[i].fn(&visitor, h->root_callbacks.items[i].context);
    atomic_signal_fence(memory_order_seq_cst);
    self->in_runtime = was_in_runtime;
}

/* --- the list --- */

static bool callbacks_grow_locked(struct tea_heap *h)
{
    struct teai_root_callbacks *list = &h->root_callbacks;
    size_t bytes = list->mapping_bytes != 0 ? list->mapping_bytes * 2 : teai_platform_os_page_bytes();
    struct teai_root_callback *items = teai_metadata_alloc(&h->metadata, &bytes);
    if (items == NULL)
        return false;
    if (list->items != NULL) {
        memcpy(items, list->items, list->nitems * sizeof *items);
        teai_metadata_free(&h->metadata, list->items, list->mapping_bytes);
    }
    list->items = items;
    list->mapping_bytes = bytes;
    list->capacity = bytes / sizeof *items;
    return true;
}

static size_t callbacks_find(const struct teai_root_callbacks *list, tea_root_callback_fn fn, const void *context)
{
    size_t i = 0;
    while (i < list->nitems && (list->items[i].fn != fn || list->items[i].context != context))
        i++;
    return i;
}

static enum tea_status callbacks_add_locked(struct tea_heap *h, struct teai_root_callback callback)
{
    struct teai_root_callbacks *list = &h->root_callbacks;
    if (callback.fn == NULL)
        return TEA_ERR_INVALID;
    if (callbacks_find(list, callback.fn, callback.context) < list->nitems)
        return TEA_ERR_STATE;
    if (list->nitems == list->capacity && !callbacks_grow_locked(h))
        return TEA_ERR_NOMEM;
    list->items[list->nitems++] = callback;
    return TEA_OK;
}

static enum tea_status callbacks_remove_locked(struct tea_heap *h, struct teai_root_callback callback)
{
    struct teai_root_callbacks *list = &h->root_callbacks;
    size_t i = callbacks_find(list, callback.fn, callback.context);
    if (i == list->nitems)
        return TEA_ERR_NOT_FOUND;
    list->items[i] = list->items[--list->nitems];
    return TEA_OK;
}

static const char *callback_why_not(enum tea_status status)
{
    switch (status) {
    case TEA_ERR_INVALID:
        return "there is no function";
    case TEA_ERR_STATE:
        return "this function is registered already with this context";
    case TEA_ERR_NOT_FOUND:
        return "this function is not registered with this context";
    default:
        return "no memory to list it";
    }
}

static enum tea_status callbacks_change(const char *call, struct teai_root_callback callback,
                                        enum tea_status (*change_locked)(struct tea_heap *, struct teai_root_callback))
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    struct tea_heap *h = m->heap;
    teai_runtime_enter(m);
    teai_lock_acquire(&h->root_callbacks.lock);
    enum tea_status status = change_locked(h, callback);
    teai_lock_release(&h->root_callbacks.lock);
    teai_runtime_leave(h, m);
    if (status != TEA_OK)
        teai_log_line(&h->log, "teaspan: %s: %s; ignored", call, callback_why_not(status));
    return status;
}

enum tea_status tea_root_add_callback(tea_root_callback_fn fn, void *context)
{
    return callbacks_change("tea_root_add_callback", (struct teai_root_callback){ fn, context }, callbacks_add_locked);
}

enum tea_status tea_root_remove_callback(tea_root_callback_fn fn, void *context)
{
    return callbacks_change("tea_root_remove_callback", (struct teai_root_callback){ fn, context },
                            callbacks_remove_locked);
}
