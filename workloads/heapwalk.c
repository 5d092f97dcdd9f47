/* workloads/heapwalk.c -- a map of where objects lie, before and after a collection.
 *
 * Objects of 32, 64 and 128 bytes are allocated in rotation, each followed by one that is dropped at once. The
 * map has a cell for 32 bytes, 60 cells a row: A is an object of 32 bytes, Bb one of 64, Cccc one of 128, a dot
 * no object that is kept. Rows are labelled with the distance to the page of the lowest object, so that the map
 * is the same in every run; rows without an object are left out. A heap that does not move objects prints the
 * same map twice.
 */
#include "support_heapwalk.h"
#include "support_result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = 32, ROW_CELLS = 60, ROW_BYTES = CELL_BYTES * ROW_CELLS, MAX_OBJECTS = 1000000 };

static uint64_t nobjects = 240;
static const struct arg heapwalk_args[] = {
    {.name = "--objects", .kind = ARG_NUMBER, .min = 1, .max = MAX_OBJECTS, .number = &nobjects},
};
static const struct workload heapwalk = {"heapwalk", "[--objects N]", ARGS_OF(heapwalk_args)};

/* An object as the map shows it. */
struct placed {
    uintptr_t offset; /* from the page of the lowest object */
    size_t size_index;
};

struct map_row {
    uintptr_t index;
    char cells[ROW_CELLS + 1];
};

static int compare_placed(const void *a, const void *b)
{
    const struct placed *x = a;
    const struct placed *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Where the objects lie, lowest first. A leaf: it keeps no object alive. */
static struct placed *place_objects(const struct walk *walk)
{
    struct placed *placed = heap_alloc_leaf_uninit(walk->count * sizeof placed[0]);
    uintptr_t lowest = UINTPTR_MAX;
    for (size_t i = 0; i < walk->count; i++)
        if ((uintptr_t)walk->objects[i] < lowest)
            lowest = (uintptr_t)walk->objects[i];
    lowest = lowest >> WALK_PAGE_SHIFT << WALK_PAGE_SHIFT;
    for (size_t i = 0; i < walk->count; i++)
        placed[i] = (struct placed){(uintptr_t)walk->objects[i] - lowest, i % WALK_NSIZES};
    qsort(placed, walk->count, sizeof placed[0], compare_placed);
    return placed;
}

static void row_clear(struct map_row *row, uintptr_t index)
{
    row->index = index;
    memset(row->cells, '.', ROW_CELLS);
    row->cells[ROW_CELLS] = '\0';
}

static void row_print(const struct map_row *row)
{
    printf("+0x%06" PRIxPTR " %s\n", row->index * ROW_BYTES, row->cells);
}

static void map_print(const char *title, const struct placed *placed, size_t count)
{
    printf("%s\n", title);
    struct map_row row;
    row_clear(&row, placed[0].offset / ROW_BYTES);
    for (size_t i = 0; i < count; i++) {
        size_t ncells = (size_t)1 << placed[i].size_index;
        for (size_t cell = 0; cell < ncells; cell++) {
            uintptr_t at = placed[i].offset / CELL_BYTES + cell;
            if (at / ROW_CELLS != row.index) {
                row_print(&row);
                row_clear(&row, at / ROW_CELLS);
            }
            row.cells[at % ROW_CELLS] = (char)((cell == 0 ? 'A' : 'a') + placed[i].size_index);
        }
    }
    row_print(&row);
}

static char *volatile dropped_at_once;

static void walk_fill(struct walk *walk)
{
    for (size_t i = 0; i < walk->count; i++) {
        heap_store(&walk->objects[i], walk_new_object(i));
        dropped_at_once = walk_new_object(i);
        heap_release(dropped_at_once);
    }
    dropped_at_once = NULL;
}

int main(int argc, char **argv)
{
    workload_start(&heapwalk, argc, argv);

    uint64_t begin_ns = workload_now_ns();
    struct walk walk = walk_new(nobjects);
    walk_fill(&walk);
    size_t spans_before = walk_spans(&walk);
    struct placed *before = place_objects(&walk);
    heap_collect();
    struct placed *after = place_objects(&walk);
    uint64_t run_ns = workload_now_ns() - begin_ns;

    walk_check(&walk, walk.count);
    map_print("before the collection:", before, walk.count);
    map_print("after the collection:", after, walk.count);
    bool identical = memcmp(before, after, walk.count * sizeof before[0]) == 0;
    workload_report(&(struct workload_run){.allocs = nobjects, .run_ns = run_ns},
                    " maps=%s spans_before=%zu spans_after=%zu",
                    identical ? "identical" : "different", spans_before, walk_spans(&walk));
    heap_release(before);
    heap_release(after);
    walk_release(&walk);
    return 0;
}
