/* workloads/support_heapwalk.h -- the objects that the heapwalk programs look at, and where they lie. */
#ifndef WORKLOADS_SUPPORT_HEAPWALK_H
#define WORKLOADS_SUPPORT_HEAPWALK_H

#include "heap.h"

enum { WALK_SMALLEST_BYTES = 32, WALK_NSIZES = 3, WALK_PAGE_SHIFT = 13 };

/* Leaf objects of 32, 64 and 128 bytes in rotation, each filled with a pattern of its own. */
struct walk {
    size_t count;
    char **objects;   /* NULL where the object was dropped */
    uintptr_t *pages; /* scratch for walk_spans(): a leaf, so that it keeps no object alive */
};

static inline size_t walk_object_bytes(size_t i)
{
    return (size_t)WALK_SMALLEST_BYTES << i % WALK_NSIZES;
}

/* Room for `count` objects, all NULL. */
struct walk walk_new(size_t count);
char *walk_new_object(size_t i);
/* Forget object i; a program that must free it does. */
void walk_drop(struct walk *walk, size_t i);
/* Pages of 8 KiB, the size of a small span, that hold at least one object. */
size_t walk_spans(const struct walk *walk);
/* Ends the program if an object does not hold its pattern, or fewer than `nkept` are there. */
void walk_check(const struct walk *walk, size_t nkept);
void walk_release(struct walk *walk);

#endif
