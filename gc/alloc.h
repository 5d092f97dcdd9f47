/* gc/alloc.h -- allocation by kind, for the public interface and for what is built on it. */
#ifndef TEAI_ALLOC_H
#define TEAI_ALLOC_H

#include "gc/thread.h"

struct teai_request {
    size_t size_bytes;
    enum teai_kind kind;
    bool zero;                    /* always true but for leaf objects */
    size_t align_bytes;           /* 0: that of the size */
    const struct tea_type *type;  /* typed */
};

/* NULL with errno set. */
void *teai_alloc(const struct teai_request *request);
/* The layout of a small typed object, for every element in it. */
void teai_alloc_set_pointer_bits(struct tea_heap *h, uintptr_t object, size_t slot_bytes, const struct tea_type *type);
/* Ask the client's callback; gc/init.c. */
bool teai_oom_ask(size_t size_bytes);

#endif
