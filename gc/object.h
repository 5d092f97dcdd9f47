/* gc/object.h -- which object a client's pointer means. */
#ifndef TEAI_OBJECT_H
#define TEAI_OBJECT_H

#include "gc/heap.h"

struct tea_mutator;

/* The allocated object that `addr` points into, its span swept. span is TEAI_NO_PAGE if there is none. Inside the runtime. */
struct teai_slot_ref teai_object_find(struct tea_heap *h, const struct tea_mutator *m, uintptr_t addr);
/* `addr` is where an object starts: its slot's start, or any byte of a block of tiny objects. */
bool teai_object_starts_at(const struct tea_heap *h, struct teai_slot_ref ref, uintptr_t addr);
/* A call was given a pointer that is not the start of an object: say so. `inside`: it points into one. Outside the runtime. */
void teai_report_bad_pointer(struct tea_heap *h, const char *call, const void *pointer, bool inside);

#endif
