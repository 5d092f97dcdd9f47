/* workloads/support_heapwalk_free.c -- drop nine objects in ten and see what the tenth keeps from being reused.
 *
 * Spans are counted as pages of 8 KiB that hold at least one object of ours. Copies are made while the old
 * objects are still there, so that they do not fill the gaps between them.
 */
#include "support_heapwalk_free.h"
#include "support_heapwalk.h"
#include "support_result.h"

#include <inttypes.h>
#include <string.h>

enum { KEEP_ONE_IN = 10, MAX_OBJECTS = 100000000 };

static uint64_t nobjects = 50000;
static const struct arg heapwalk_free_args[] = {
    {.name = "--objects", .kind = ARG_NUMBER, .min = 1, .max = MAX_OBJECTS, .number = &nobjects},
};

static struct walk walk_filled(size_t count)
{
    struct walk walk = walk_new(count);
    for (size_t i = 0; i < count; i++)
        heap_store(&walk.objects[i], walk_new_object(i));
    return walk;
}

static void drop_most(struct walk *walk)
{
    for (size_t i = 0; i < walk->count; i++)
        if (i % KEEP_ONE_IN != 0)
            walk_drop(walk, i);
}

static void copy_survivors_drop_all(struct walk *walk)
{
    char **copies = heap_alloc(walk->count * sizeof copies[0]);
    for (size_t i = 0; i < walk->count; i += KEEP_ONE_IN) {
        char *copy = heap_alloc_leaf_uninit(walk_object_bytes(i));
        heap_store(&copies[i], memcpy(copy, walk->objects[i], walk_object_bytes(i)));
    }
    for (size_t i = 0; i < walk->count; i++)
        walk_drop(walk, i);
    heap_release(walk->objects);
    walk->objects = copies;
}

int heapwalk_free_main(const char *name, bool copy_survivors, int argc, char **argv)
{
    struct workload workload = {name, "[--objects N]", ARGS_OF(heapwalk_free_args)};
    workload_start(&workload, argc, argv);

    uint64_t begin_ns = workload_now_ns();
    struct walk walk = walk_filled(nobjects);
    size_t spans_before = walk_spans(&walk);
    struct heap_footprint before = heap_footprint();
    if (copy_survivors)
        copy_survivors_drop_all(&walk);
    else
        drop_most(&walk);
    heap_collect();
    struct heap_footprint after = heap_footprint();
    size_t spans_after = walk_spans(&walk);
    uint64_t run_ns = workload_now_ns() - begin_ns;

    size_t nkept = (nobjects + KEEP_ONE_IN - 1) / KEEP_ONE_IN;
    walk_check(&walk, nkept);
    workload_report(&(struct workload_run){.allocs = nobjects, .run_ns = run_ns},
                    " kept=%zu spans_before=%zu spans_after=%zu inuse_before=%" PRIu64
                    " inuse_after=%" PRIu64 " idle_before=%" PRIu64 " idle_after=%" PRIu64
                    " released_before=%" PRIu64 " released_after=%" PRIu64,
                    nkept, spans_before, spans_after, before.inuse_bytes, after.inuse_bytes,
                    before.idle_bytes, after.idle_bytes, before.released_bytes,
                    after.released_bytes);
    walk_release(&walk);
    return 0;
}
