/* gc/root.h -- where references live outside the heap: static data, thread-locals, registered ranges. */
#ifndef TEAI_ROOT_H
#define TEAI_ROOT_H

#include "gc/thread_roots.h"
#include "platform/platform.h"
#include "teaspan/base.h"

struct tea_heap;

struct teai_range {
    uintptr_t base_addr, limit_addr;
};

/* A growable list of ranges in the collector's own memory. */
struct teai_range_list {
    struct teai_range *items;
    size_t nitems, capacity, mapping_bytes;
};

struct teai_roots {
    struct teai_lock lock;
    struct teai_range_list registered;
    struct teai_range_list static_data;   /* of this cycle; rebuilt before each stop */
    uint64_t static_bytes;
    struct teai_tls_modules tls_modules;  /* of this cycle, likewise */
};

void teai_roots_init(struct teai_roots *roots);
enum tea_status teai_root_add(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr);
enum tea_status teai_root_remove(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr);
/* List the writable data of the program and its libraries, less the collector's own, and where their thread-locals are; then
 * run fn(argument), with the loader's lock held since before the listing. fn stops the world and restarts it. False: no memory
 * for the list, nothing was run. */
bool teai_roots_call_held(struct tea_heap *h, void (*fn)(void *argument), void *argument);

bool teai_range_list_add(struct tea_heap *h, struct teai_range_list *list, struct teai_range range);

#endif
