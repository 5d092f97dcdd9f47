/* gc/exception.h -- C++ exception objects are roots while they are in flight. */
#ifndef TEAI_EXCEPTION_H
#define TEAI_EXCEPTION_H

#include "gc/root.h"

struct teai_exceptions {
    struct teai_lock lock;
    struct teai_range_list list;
};

void teai_exceptions_init(struct teai_exceptions *exceptions);
/* An exception object has been allocated; it is about to be freed. Does nothing before the collector has started. */
void teai_exception_add(const void *object, size_t size_bytes);
void teai_exception_remove(const void *object);

#endif
