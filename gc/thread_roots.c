/* gc/thread_roots.c -- what a thread refers to beside its stack: thread-locals, specific data, argument and result.
 *
 * Static thread-locals. glibc carves a thread's static block and its struct pthread (with the values of the first 32 keys of
 * pthread_setspecific()) out of the top of its stack, within the bounds that pthread_getattr_np() gives: the scan of the
 * stack covers them. Of the main thread, and of one that runs on a stack of other making, the block around the thread
 * pointer is scanned; its size comes from two private symbols of glibc, where they exist.
 * musl keeps the block above the stack's bounds, and the values of all keys within 2 KiB above the thread pointer (the main
 * thread's in static data): that piece is scanned, and the block is found as dynamic ones are.
 *
 * Dynamic thread-locals. Each thread has a vector (DTV) of its blocks, by module number. The loader's interface gives the calling
 * thread's blocks only, so the vector is read:
 *   glibc  at thread pointer + 8 (x86-64) or + 0 (aarch64); elements of two words, the first the block or -1;
 *          element -1 holds the number of elements
 *   musl   at thread pointer + 8 (x86-64) or - 8 (aarch64); elements of one word, element 0 the number of elements
 * Before each stop what the vector of the collecting thread says is compared with what the loader says; if they differ the
 * layout has changed, which is reported once, and vectors are not read.
 * A thread may be stopped while it replaces its vector, and a block's module may have been unloaded and its number
 * given to a larger one. So the vector, and a byte of each page of a block outside the stack, are first read by a system call
 * that fails where a load would fault.
 *
 * Specific data of glibc beyond the first 32 keys lies in blocks from calloc(): a table of 32 pointers in struct pthread,
 * recognized by its first element, which points to the values of the first 32 keys, directly before the table.
 *
 * Locks. None; the module list belongs to the thread that holds the world.
 * Source. glibc, nptl/descr.h, sysdeps/x86_64/nptl/tls.h; musl, src/internal/pthread_impl.h.
 */
#define _GNU_SOURCE
#include "gc/thread_roots.h"

#include "gc/heap.h"
#include "gc/thread.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

enum {
    SPECIFIC_BLOCK_KEYS = 32,
    SPECIFIC_BLOCKS = 32,
    SPECIFIC_BLOCK_BYTES = SPECIFIC_BLOCK_KEYS * 2 * TEAI_WORD_BYTES,
    /* struct pthread is larger than this, on every glibc since 2.17. */
    DESCRIPTOR_LEAST_BYTES = 1600,
    MUSL_KEYS_BYTES = 2048
};

static uintptr_t word_at(uintptr_t addr)
{
    return *(const uintptr_t *)addr;
}

static bool range_holds(uintptr_t base_addr, uintptr_t limit_addr, uintptr_t addr)
{
    return addr >= base_addr && addr < limit_addr;
}

static bool is_readable(uintptr_t base_addr, uintptr_t limit_addr)
{
    size_t os_page_bytes = teai_platform_os_page_bytes();
    char byte;
    for (uintptr_t addr = base_addr; addr < limit_addr; addr = teai_round_down(addr, os_page_bytes) + os_page_bytes)
        if (teai_platform_read_memory(&byte, addr, 1) != 1)
            return false;
    return true;
}

static void add_readable_root(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr)
{
    if (is_readable(base_addr, limit_addr))
        teai_mark_add_root(h, base_addr, limit_addr, false);
}

/* --- the block around the thread pointer, where no stack holds it --- */

typedef void (*static_info_fn)(size_t *size_out, size_t *align_out);

/* Threads that start the collector at once write the same. */
static struct {
    _Atomic bool is_asked;
    _Atomic size_t block_bytes;      /* 0: unknown */
    _Atomic size_t descriptor_bytes;
} static_tls TEAI_STATE;

void teai_thread_roots_prepare(void)
{
    /* acquire: pairs with the release below. */
    if (atomic_load_explicit(&static_tls.is_asked, memory_order_acquire))
        return;
    static_info_fn info;
    *(void **)&info = dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info");
    const uint32_t *descriptor_bytes = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
    if (info != NULL && descriptor_bytes != NULL) {
        size_t bytes, align;
        info(&bytes, &align);
        atomic_store_explicit(&static_tls.block_bytes, bytes, memory_order_relaxed);
        atomic_store_explicit(&static_tls.descriptor_bytes, *descriptor_bytes, memory_order_relaxed);
    }
    atomic_store_explicit(&static_tls.is_asked, true, memory_order_release);
}

static void list_static_block(struct tea_heap *h, const struct tea_mutator *m)
{
    uintptr_t tp = m->thread_pointer_addr;
    /* relaxed: written before the heap stood. */
    size_t descriptor = atomic_load_explicit(&static_tls.descriptor_bytes, memory_order_relaxed);
    size_t block = atomic_load_explicit(&static_tls.block_bytes, memory_order_relaxed);
    if (!TEAI_GLIBC) {
        uintptr_t page_end = teai_round_down(tp, teai_platform_os_page_bytes()) + teai_platform_os_page_bytes();
        teai_mark_add_root(h, tp, page_end, false);
        if (page_end < tp + MUSL_KEYS_BYTES)
            add_readable_root(h, page_end, tp + MUSL_KEYS_BYTES);
    } else if (block == 0 && TEAI_X86_64) {
        add_readable_root(h, tp, tp + DESCRIPTOR_LEAST_BYTES);
    } else if (TEAI_X86_64) {
        /* The descriptor is at the thread pointer and counted in the block's size, the thread-locals lie below. */
        add_readable_root(h, tp + descriptor - block, tp + descriptor);
    } else {
        add_readable_root(h, tp - descriptor, tp + block);
    }
}

static bool block_is_in_stack(const struct tea_mutator *m)
{
    return range_holds(m->sp_addr, m->stack_limit_addr, m->thread_pointer_addr);
}

/* --- the vector of blocks --- */

enum {
    VECTOR_ELEMENT_BYTES = TEAI_GLIBC ? 2 * TEAI_WORD_BYTES : TEAI_WORD_BYTES,
    VECTOR_COUNT_OFFSET = TEAI_GLIBC ? -2 * TEAI_WORD_BYTES : 0,
    VECTOR_POINTER_OFFSET = TEAI_X86_64 ? TEAI_WORD_BYTES : TEAI_GLIBC ? 0 : -TEAI_WORD_BYTES
};

/* The block of a module, of the thread with this thread pointer; 0: none yet. */
static uintptr_t vector_block(uintptr_t thread_pointer_addr, size_t module_id)
{
    uintptr_t vector = word_at(thread_pointer_addr + (uintptr_t)VECTOR_POINTER_OFFSET);
    uintptr_t count, block;
    if (teai_platform_read_memory(&count, vector + (uintptr_t)VECTOR_COUNT_OFFSET, sizeof count) != sizeof count ||
        module_id > count)
        return 0;
    if (teai_platform_read_memory(&block, vector + module_id * VECTOR_ELEMENT_BYTES, sizeof block) != sizeof block)
        return 0;
    return block == UINTPTR_MAX ? 0 : block;
}

static void list_dynamic_blocks(struct tea_heap *h, const struct tea_mutator *m)
{
    const struct teai_tls_modules *modules = &h->roots.tls_modules;
    for (size_t i = 0; i < modules->nitems && !modules->layout_is_wrong; i++) {
        uintptr_t block = vector_block(m->thread_pointer_addr, modules->items[i].id);
        if (block != 0 && !range_holds(m->sp_addr, m->stack_limit_addr, block))
            add_readable_root(h, block, block + modules->items[i].size_bytes);
    }
}

/* --- specific data --- */

/* Where in struct pthread the table of blocks is; 0: not found. The same for all threads. */
static uintptr_t specific_find_table(uintptr_t thread_pointer_addr)
{
    uintptr_t first = TEAI_X86_64 ? thread_pointer_addr : thread_pointer_addr - DESCRIPTOR_LEAST_BYTES;
    uintptr_t limit = first + DESCRIPTOR_LEAST_BYTES - SPECIFIC_BLOCKS * TEAI_WORD_BYTES;
    for (uintptr_t addr = first + SPECIFIC_BLOCK_BYTES; addr < limit; addr += TEAI_WORD_BYTES)
        if (word_at(addr) == addr - SPECIFIC_BLOCK_BYTES)
            return addr;
    return 0;
}

static void list_specific_blocks(struct tea_heap *h, const struct tea_mutator *m)
{
    uintptr_t table = TEAI_GLIBC ? specific_find_table(m->thread_pointer_addr) : 0;
    for (unsigned i = 1; table != 0 && i < SPECIFIC_BLOCKS; i++) {
        uintptr_t block = word_at(table + i * TEAI_WORD_BYTES);
        if (block != 0)
            add_readable_root(h, block, block + SPECIFIC_BLOCK_BYTES);
    }
}

/* --- the list of modules --- */

static bool modules_grow(struct tea_heap *h, struct teai_tls_modules *modules)
{
    size_t bytes = modules->mapping_bytes != 0 ? modules->mapping_bytes * 2 : teai_platform_os_page_bytes();
    struct teai_tls_module *items = teai_metadata_alloc(&h->metadata, &bytes);
    if (items == NULL)
        return false;
    if (modules->items != NULL) {
        memcpy(items, modules->items, modules->nitems * sizeof *items);
        teai_metadata_free(&h->metadata, modules->items, modules->mapping_bytes);
    }
    modules->items = items;
    modules->mapping_bytes = bytes;
    modules->capacity = bytes / sizeof *items;
    return true;
}

static void modules_check_layout(struct tea_heap *h, const struct dl_phdr_info *info)
{
    struct teai_tls_modules *modules = &h->roots.tls_modules;
    uintptr_t told = (uintptr_t)info->dlpi_tls_data;
    if (told == 0 || modules->layout_is_wrong)
        return;
    uintptr_t found = vector_block(teai_platform_thread_pointer(), info->dlpi_tls_modid);
    modules->layout_is_wrong = found != 0 && found != told;
}

bool teai_thread_roots_note_module(struct tea_heap *h, const struct dl_phdr_info *info, size_t info_bytes)
{
    struct teai_tls_modules *modules = &h->roots.tls_modules;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type != PT_TLS || info_bytes < offsetof(struct dl_phdr_info, dlpi_tls_data) + sizeof info->dlpi_tls_data)
            continue;
        if (modules->nitems == modules->capacity && !modules_grow(h, modules))
            return false;
        modules->items[modules->nitems++] = (struct teai_tls_module){ info->dlpi_tls_modid, ph->p_memsz };
        modules_check_layout(h, info);
    }
    return true;
}

bool teai_thread_roots_are_news(struct tea_heap *h)
{
    struct teai_tls_modules *modules = &h->roots.tls_modules;
    bool are_news = modules->layout_is_wrong && !modules->layout_is_reported;
    modules->layout_is_reported |= are_news;
    return are_news;
}

void teai_thread_roots_report(struct tea_heap *h)
{
    teai_log_line(&h->log, "teaspan: this C library keeps thread-locals in an unknown way: those of libraries loaded at run "
                           "time are not scanned");
}

/* --- all of it --- */

void teai_thread_roots_list(struct tea_heap *h, const struct tea_mutator *m)
{
    teai_mark_add_root(h, (uintptr_t)&m->start_argument, (uintptr_t)(&m->start_argument + 1), false);
    teai_mark_add_root(h, (uintptr_t)&m->result, (uintptr_t)(&m->result + 1), false);
    teai_mark_add_root(h, (uintptr_t)m->blocked_words, (uintptr_t)(m->blocked_words + m->nblocked_words), false);
    if (m->thread_pointer_addr == 0)
        return;
    if (!block_is_in_stack(m))
        list_static_block(h, m);
    list_dynamic_blocks(h, m);
    list_specific_blocks(h, m);
}

void teai_thread_roots_list_results(struct tea_heap *h)
{
    for (const struct tea_mutator *m = h->world.ended; m != NULL; m = m->next)
        teai_mark_add_root(h, (uintptr_t)&m->result, (uintptr_t)(&m->result + 1), false);
}
