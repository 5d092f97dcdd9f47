/* workloads/support_heapwalk.c -- the objects that the heapwalk programs look at, and where they lie. */
#include "support_heapwalk.h"
#include "support_result.h"

#include <stdlib.h>
#include <string.h>

struct walk walk_new(size_t count)
{
    return (struct walk){
        .count = count,
        .objects = heap_alloc(count * sizeof(char *)),
        .pages = heap_alloc_leaf(count * sizeof(uintptr_t)),
    };
}

char *walk_new_object(size_t i)
{
    size_t nbytes = walk_object_bytes(i);
    return memset(heap_alloc_leaf(nbytes), (int)(i % 251) + 1, nbytes);
}

void walk_drop(struct walk *walk, size_t i)
{
    heap_release(walk->objects[i]);
    heap_store(&walk->objects[i], NULL);
}

static int compare_pages(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a;
    uintptr_t y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

size_t walk_spans(const struct walk *walk)
{
    size_t npages = 0;
    for (size_t i = 0; i < walk->count; i++)
        if (walk->objects[i] != NULL)
            walk->pages[npages++] = (uintptr_t)walk->objects[i] >> WALK_PAGE_SHIFT;
    qsort(walk->pages, npages, sizeof walk->pages[0], compare_pages);
    size_t nspans = 0;
    for (size_t i = 0; i < npages; i++)
        nspans += i == 0 || walk->pages[i] != walk->pages[i - 1];
    return nspans;
}

void walk_check(const struct walk *walk, size_t nkept)
{
    size_t nfound = 0;
    for (size_t i = 0; i < walk->count; i++) {
        const char *object = walk->objects[i];
        if (object == NULL)
            continue;
        nfound++;
        for (size_t at = 0; at < walk_object_bytes(i); at++)
            if ((uint8_t)object[at] != i % 251 + 1)
                workload_fail("object %zu has changed", i);
    }
    if (nfound != nkept)
        workload_fail("%zu objects are left, not %zu", nfound, nkept);
}

void walk_release(struct walk *walk)
{
    for (size_t i = 0; i < walk->count; i++)
        heap_release(walk->objects[i]);
    heap_release(walk->objects);
    heap_release(walk->pages);
}
