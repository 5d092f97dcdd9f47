/* gc/exception.c -- C++ exception objects are roots while they are in flight.
 *
 * Problem. `throw` puts its operand into memory that the C++ library takes from malloc(), where no scan looks. While the stack is
 * unwound, and in a handler that catches by reference, that may be the only place that refers to an object.
 *
 * The shared library comes before the C++ library in symbol lookup, so both sides of an exception's life pass through
 * gc/exception_names.c and are noted here. Few exceptions live at once, and the last is usually the first to go, so a list
 * searched from its end will do.
 *
 * Locks. exceptions.lock, inside the runtime.
 */
#include "gc/exception.h"

#include "gc/heap.h"
#include "gc/init.h"
#include "gc/thread.h"

#include <errno.h>

void teai_exceptions_init(struct teai_exceptions *exceptions)
{
    exceptions->lock.rank = TEAI_RANK_ROOTS;
}

void teai_exception_add(const void *object, size_t size_bytes)
{
    int saved_errno = errno;
    struct tea_mutator *m = teai_init_is_done() ? teai_thread_self() : NULL;
    if (m != NULL) {
        struct teai_exceptions *exceptions = &m->heap->exceptions;
        struct teai_range range = { (uintptr_t)object, (uintptr_t)object + size_bytes };
        teai_runtime_enter(m);
        teai_lock_acquire(&exceptions->lock);
        /* Without memory for the list it is scanned no more than without us. */
        (void)teai_range_list_add(m->heap, &exceptions->list, range);
        teai_lock_release(&exceptions->lock);
        teai_runtime_leave(m->heap, m);
    }
    errno = saved_errno;
}

static void exception_remove_locked(struct teai_range_list *list, uintptr_t object_addr)
{
    for (size_t i = list->nitems; i-- > 0;)
        if (list->items[i].base_addr == object_addr) {
            list->items[i] = list->items[--list->nitems];
            return;
        }
}

void teai_exception_remove(const void *object)
{
    int saved_errno = errno;
    struct tea_mutator *m = teai_init_is_done() ? teai_thread_self() : NULL;
    if (m != NULL) {
        struct teai_exceptions *exceptions = &m->heap->exceptions;
        teai_runtime_enter(m);
        teai_lock_acquire(&exceptions->lock);
        exception_remove_locked(&exceptions->list, (uintptr_t)object);
        teai_lock_release(&exceptions->lock);
        teai_runtime_leave(m->heap, m);
    }
    errno = saved_errno;
}
