/* gc/metadata.c -- memory for the collector's own records: from the OS, counted, never a root.
 *
 * Few and large pieces (rings, chunk blocks, thread records), so each is a mapping of its own. Mappings are
 * outside the program's data and outside every stack: no scan finds them.
 *
 * Locks and atomics. `bytes` is a relaxed counter; no lock.
 */
#include "gc/metadata.h"

#include "base/word.h"

void teai_metadata_init(struct teai_metadata *md)
{
    atomic_store_explicit(&md->bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&md->deny_after, UINT32_MAX, memory_order_relaxed);
}

/* Tests deny memory after a number of grants, to see that the collector gets by without. */
static bool metadata_denied(struct teai_metadata *md)
{
    uint32_t left = atomic_load_explicit(&md->deny_after, memory_order_relaxed);
    if (TEAI_LIKELY(left == UINT32_MAX))
        return false;
    if (left == 0)
        return true;
    atomic_store_explicit(&md->deny_after, left - 1, memory_order_relaxed);
    return false;
}

void *teai_metadata_alloc(struct teai_metadata *md, size_t *bytes)
{
    size_t os_page = teai_platform_os_page_bytes();
    size_t rounded = teai_round_up(*bytes, os_page);
    if (metadata_denied(md))
        return NULL;
    void *base = teai_platform_reserve(rounded, os_page);
    if (base == NULL)
        return NULL;
    if (teai_platform_commit(base, rounded) != 0) {
        teai_platform_unreserve(base, rounded);
        return NULL;
    }
    *bytes = rounded;
    atomic_fetch_add_explicit(&md->bytes, rounded, memory_order_relaxed);
    return base;
}

void teai_metadata_free(struct teai_metadata *md, void *base, size_t bytes)
{
    teai_platform_unreserve(base, bytes);
    atomic_fetch_sub_explicit(&md->bytes, bytes, memory_order_relaxed);
}
