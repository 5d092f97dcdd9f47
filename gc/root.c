/* gc/root.c -- where references live outside the heap: static data, thread-locals, registered ranges.
 *
 * Static data. Before each stop the loader is asked for the writable segments of the program and its libraries.
 * Parts made read-only after relocation (RELRO) hold no references to objects and are left out. So is the
 * collector's own data: the section teaspan_state, wherever the library was linked in, because a reference in
 * a work list or table would keep dead objects alive. In builds with a sanitizer its run-time library's is, too.
 *
 * A library must not be unmapped between the listing and the end of the marking, nor one be loaded and filled with references
 * between the listing and the stop. So the world is stopped, marked and restarted within a callback of dl_iterate_phdr(),
 * while glibc holds the lock under which libraries come and go. (musl does not hold it, but never unmaps a library; there one
 * that is loaded just before a stop is scanned from the next cycle on.)
 *
 * Locks. roots.lock for the registered ranges. The loader's lock is taken before the world is stopped, and after the world
 * lock.
 */
#define _GNU_SOURCE
#include "gc/root.h"

#include "gc/heap.h"

#include <link.h>
#include <string.h>

extern char __start_teaspan_state[] __attribute__((visibility("hidden")));
extern char __stop_teaspan_state[] __attribute__((visibility("hidden")));

void teai_roots_init(struct teai_roots *roots)
{
    roots->lock.rank = TEAI_RANK_ROOTS;
}

static bool range_list_grow(struct tea_heap *h, struct teai_range_list *list)
{
    size_t bytes = list->mapping_bytes != 0 ? list->mapping_bytes * 2 : teai_platform_os_page_bytes();
    struct teai_range *items = teai_metadata_alloc(&h->metadata, &bytes);
    if (items == NULL)
        return false;
    if (list->nitems != 0)
        memcpy(items, list->items, list->nitems * sizeof *items);
    if (list->items != NULL)
        teai_metadata_free(&h->metadata, list->items, list->mapping_bytes);
    list->items = items;
    list->mapping_bytes = bytes;
    list->capacity = bytes / sizeof *items;
    return true;
}

bool teai_range_list_add(struct tea_heap *h, struct teai_range_list *list, struct teai_range range)
{
    if (list->nitems == list->capacity && !range_list_grow(h, list))
        return false;
    list->items[list->nitems++] = range;
    return true;
}

/* --- registered ranges --- */

static size_t range_list_find(const struct teai_range_list *list, struct teai_range range)
{
    size_t i = 0;
    while (i < list->nitems &&
           (list->items[i].base_addr != range.base_addr || list->items[i].limit_addr != range.limit_addr))
        i++;
    return i;
}

enum tea_status teai_root_add(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr)
{
    struct teai_range range = { base_addr, limit_addr };
    struct teai_roots *roots = &h->roots;
    enum tea_status status = TEA_OK;
    teai_lock_acquire(&roots->lock);
    if (range_list_find(&roots->registered, range) < roots->registered.nitems)
        status = TEA_ERR_STATE;
    else if (!teai_range_list_add(h, &roots->registered, range))
        status = TEA_ERR_NOMEM;
    teai_lock_release(&roots->lock);
    return status;
}

enum tea_status teai_root_remove(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr)
{
    struct teai_range range = { base_addr, limit_addr };
    struct teai_range_list *list = &h->roots.registered;
    teai_lock_acquire(&h->roots.lock);
    size_t i = range_list_find(list, range);
    bool found = i < list->nitems;
    if (found)
        list->items[i] = list->items[--list->nitems];
    teai_lock_release(&h->roots.lock);
    return found ? TEA_OK : TEA_ERR_NOT_FOUND;
}

/* --- static data and thread-locals --- */

struct snapshot {
    struct tea_heap *heap;
    bool complete;
};

static void snapshot_add(struct snapshot *snap, uintptr_t base_addr, uintptr_t limit_addr)
{
    base_addr = teai_round_up(base_addr, TEAI_WORD_BYTES);
    limit_addr = teai_round_down(limit_addr, TEAI_WORD_BYTES);
    if (base_addr >= limit_addr)
        return;
    struct teai_range range = { base_addr, limit_addr };
    if (!teai_range_list_add(snap->heap, &snap->heap->roots.static_data, range))
        snap->complete = false;
    snap->heap->roots.static_bytes += limit_addr - base_addr;
}

/* [base, limit) without [hole_base, hole_limit). */
static void snapshot_add_around(struct snapshot *snap, struct teai_range range, struct teai_range hole)
{
    if (hole.limit_addr <= range.base_addr || hole.base_addr >= range.limit_addr) {
        snapshot_add(snap, range.base_addr, range.limit_addr);
        return;
    }
    snapshot_add(snap, range.base_addr, hole.base_addr);
    snapshot_add(snap, hole.limit_addr, range.limit_addr);
}

static struct teai_range object_relro(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t base = info->dlpi_addr + ph->p_vaddr;
        if (ph->p_type == PT_GNU_RELRO)
            return (struct teai_range){ base, base + ph->p_memsz };
    }
    return (struct teai_range){ 0, 0 };
}

/* A sanitizer's run-time library: up to 50 MB, and addresses of the program's accesses are kept in them. */
static bool object_is_sanitizer(const struct dl_phdr_info *info)
{
    static const char *const names[] = { "/libasan.so.", "/libtsan.so.", "/libubsan.so." };
    if (!TEAI_ASAN && !TEAI_TSAN)
        return false;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strstr(info->dlpi_name, names[i]) != NULL)
            return true;
    return false;
}

static int snapshot_object(struct dl_phdr_info *info, size_t size, void *context)
{
    struct snapshot *snap = context;
    if (object_is_sanitizer(info))
        return 0;
    struct teai_range own = { (uintptr_t)__start_teaspan_state, (uintptr_t)__stop_teaspan_state };
    struct teai_range relro = object_relro(info);
    if (!teai_thread_roots_note_module(snap->heap, info, size))
        snap->complete = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        uintptr_t base = info->dlpi_addr + ph->p_vaddr;
        struct teai_range range = { base, base + ph->p_memsz };
        if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_W))
            continue;
        if (relro.base_addr >= range.base_addr && relro.base_addr < range.limit_addr)
            range.base_addr = relro.limit_addr; /* RELRO is the start of its segment */
        snapshot_add_around(snap, range, own);
    }
    return 0;
}

/* False: no memory. */
static bool roots_snapshot(struct tea_heap *h)
{
    struct snapshot snap = { h, true };
    h->roots.static_data.nitems = 0;
    h->roots.static_bytes = 0;
    h->roots.tls_modules.nitems = 0;
    dl_iterate_phdr(snapshot_object, &snap);
    return snap.complete;
}

struct held_call {
    struct tea_heap *heap;
    void (*fn)(void *argument);
    void *argument;
    bool made;
};

/* For the first object, whichever it is; the lock is recursive. */
static int held_call_make(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)info, (void)size;
    struct held_call *call = context;
    if (roots_snapshot(call->heap)) {
        call->fn(call->argument);
        call->made = true;
    }
    return 1; /* enough */
}

bool teai_roots_call_held(struct tea_heap *h, void (*fn)(void *argument), void *argument)
{
    struct held_call call = { h, fn, argument, false };
    if (!TEAI_TSAN)
        dl_iterate_phdr(held_call_make, &call);
    else
        /* ThreadSanitizer holds the stop signal back from a thread that waits for the loader's lock: it must be free. */
        (void)held_call_make(NULL, 0, &call);
    return call.made;
}
