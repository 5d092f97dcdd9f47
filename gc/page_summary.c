/* gc/page_summary.c -- radix tree over chunks: the lowest run of free pages in O(log n).
 *
 * Search. Entries are visited from left to right, carrying how many pages right before the next
 * entry are free. The lowest run that begins so far is
 *   - the carried pages plus those at the start of this entry, if they are enough: it begins
 *     before this entry;
 *   - else one inside this entry, if its longest run is enough: descend, nothing to its left will
 *     do;
 *   - else what this entry leaves to carry: its free end, or all of it on top of what was carried.
 * A search that starts after a chunk goes through the rest of that chunk's node, then the rest of
 * its parent's node, and so on up, and at most once down again: it touches at most two nodes (of
 * eight entries) a level.
 */
#include "gc/page_summary.h"

/* Pages under one entry of a level. */
static uint32_t level_pages(uint32_t level)
{
    return (uint32_t)TEAI_CHUNK_PAGES << (level * TEAI_SUMMARY_FANOUT_SHIFT);
}

static uint32_t max_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Nodes above `nentries` entries. */
static uint32_t parents_of(uint32_t nentries)
{
    return (nentries + TEAI_SUMMARY_FANOUT - 1) >> TEAI_SUMMARY_FANOUT_SHIFT;
}

/* Entries a level has room for: whole nodes, so that a node can be read without looking where its
 * level ends. */
static size_t level_bytes(uint32_t nentries)
{
    return (size_t)parents_of(nentries) * TEAI_SUMMARY_FANOUT * sizeof(struct teai_free_runs);
}

size_t teai_summary_bytes(uint32_t nchunks)
{
    size_t bytes = level_bytes(nchunks);
    for (uint32_t n = nchunks; n > 1; n = parents_of(n))
        bytes += level_bytes(parents_of(n));
    return bytes;
}

void teai_summary_init(struct teai_summary_tree *tree, void *memory, uint32_t nchunks)
{
    uint8_t *at = memory;
    tree->nlevels = 0;
    for (uint32_t n = nchunks;; n = parents_of(n)) {
        TEAI_CHECK(tree->nlevels < TEAI_SUMMARY_MAX_LEVELS);
        tree->levels[tree->nlevels++] = (struct teai_free_runs *)at;
        at += level_bytes(n);
        if (n <= 1)
            break;
    }
}

/* Free pages at the start of a node: of its full entries and of the one that ends them. */
static uint32_t node_start(const struct teai_free_runs *entries, uint32_t entry_pages)
{
    uint32_t start = 0, i = 0;
    for (; i < TEAI_SUMMARY_FANOUT && entries[i].start == entry_pages; i++)
        start += entry_pages;
    return i < TEAI_SUMMARY_FANOUT ? start + entries[i].start : start;
}

/* What the entry `index` of a level above the leaves must be. */
static struct teai_free_runs node_sum(const struct teai_summary_tree *tree, uint32_t level,
                                      uint32_t index)
{
    const struct teai_free_runs *entries =
        &tree->levels[level - 1][(size_t)index * TEAI_SUMMARY_FANOUT];
    const uint32_t entry_pages = level_pages(level - 1);
    struct teai_free_runs sum = {node_start(entries, entry_pages), 0, 0};
    for (uint32_t i = 0; i < TEAI_SUMMARY_FANOUT; i++) {
        const struct teai_free_runs *e = &entries[i];
        sum.longest = max_of(sum.longest, max_of(e->longest, sum.end + e->start));
        sum.end = e->start == entry_pages ? sum.end + entry_pages : e->end;
    }
    return sum;
}

static bool runs_equal(struct teai_free_runs a, struct teai_free_runs b)
{
    return a.start == b.start && a.longest == b.longest && a.end == b.end;
}

/* Store an entry; whether that changed it. */
static bool summary_store(struct teai_free_runs *entry, struct teai_free_runs sum)
{
    bool changed = !runs_equal(*entry, sum);
    *entry = sum;
    return changed;
}

static bool update_leaves(struct teai_summary_tree *tree, const uint64_t *in_use, uint32_t first,
                          uint32_t last)
{
    bool changed = false;
    for (uint32_t i = first; i <= last; i++)
        changed |= summary_store(&tree->levels[0][i],
                                 teai_chunk_summarise(&in_use[(size_t)i * TEAI_CHUNK_WORDS]));
    return changed;
}

static bool update_nodes(struct teai_summary_tree *tree, uint32_t level, uint32_t first,
                         uint32_t last)
{
    bool changed = false;
    for (uint32_t i = first; i <= last; i++)
        changed |= summary_store(&tree->levels[level][i], node_sum(tree, level, i));
    return changed;
}

void teai_summary_update(struct teai_summary_tree *tree, const uint64_t *in_use,
                         uint32_t first_chunk, uint32_t last_chunk)
{
    /* A page in the middle of a chunk often changes none of its three numbers: nothing above then.
     * */
    bool changed = update_leaves(tree, in_use, first_chunk, last_chunk);
    for (uint32_t level = 1; changed && level < tree->nlevels; level++) {
        first_chunk >>= TEAI_SUMMARY_FANOUT_SHIFT;
        last_chunk >>= TEAI_SUMMARY_FANOUT_SHIFT;
        changed = update_nodes(tree, level, first_chunk, last_chunk);
    }
}

/* A search on its way: the next entry to visit, and the free pages right before it. */
struct summary_walk {
    uint32_t level;
    uint32_t index;
    uint32_t run;
};

enum walk_result { WALK_FOUND, WALK_INSIDE, WALK_NODE_DONE };

/* Visit entries up to the end of the node that w->index is in (the head of this file). */
static enum walk_result walk_node(const struct teai_summary_tree *tree, struct summary_walk *w,
                                  uint32_t npages)
{
    const uint32_t entry_pages = level_pages(w->level);
    do {
        const struct teai_free_runs *e = &tree->levels[w->level][w->index];
        if (w->run + e->start >= npages)
            return WALK_FOUND;
        if (e->longest >= npages)
            return WALK_INSIDE;
        w->run = e->start == entry_pages ? w->run + entry_pages : e->end;
        w->index++;
    } while (w->index % TEAI_SUMMARY_FANOUT != 0);
    return WALK_NODE_DONE;
}

/* From an entry known to hold a run, down to where the run begins. What is free right before the
 * entry is free right before the first of its children. */
static struct teai_summary_hit walk_end(const struct teai_summary_tree *tree, struct summary_walk w,
                                        enum walk_result result, uint32_t npages)
{
    while (result == WALK_INSIDE && w.level > 0) {
        w.level--;
        w.index <<= TEAI_SUMMARY_FANOUT_SHIFT;
        result = walk_node(tree, &w, npages);
        TEAI_CHECK(result != WALK_NODE_DONE);
    }
    bool inside_chunk = result == WALK_INSIDE;
    uint32_t entry_page = w.index * level_pages(w.level);
    return (struct teai_summary_hit){inside_chunk, inside_chunk ? entry_page : entry_page - w.run};
}

struct teai_summary_hit teai_summary_find_after(const struct teai_summary_tree *tree,
                                                uint32_t chunk, uint32_t run, uint32_t npages)
{
    struct summary_walk w = {0, chunk + 1, run};
    /* Not the top: its one entry covers `chunk`, nothing comes after it. */
    for (; w.level + 1 < tree->nlevels; w.level++, w.index >>= TEAI_SUMMARY_FANOUT_SHIFT) {
        if (w.index % TEAI_SUMMARY_FANOUT == 0)
            continue; /* the node ended with the entry before */
        enum walk_result result = walk_node(tree, &w, npages);
        if (result != WALK_NODE_DONE)
            return walk_end(tree, w, result, npages);
    }
    return (struct teai_summary_hit){false, TEAI_NO_PAGE};
}
