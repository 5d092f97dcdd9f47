/* workloads/allocbench.c -- strings built in batches: collected, bump-allocated, or recycled.
 *
 * Every iteration makes a key, a fragment, and the fragment repeated four times by concatenation, and stores
 * the last in a map of 1,000 keys. Fragments are kept to the end of the batch of 1,000 iterations. Key and
 * value are always objects of the heap; the variants differ in where the fragments and the results between
 * the concatenations come from:
 *   default  from the heap
 *   arena    bump-allocated, released together at the end of the batch
 *   pool     recycled buffers; a collection empties the pool, as it does Go's sync.Pool
 */
#include "heap.h"
#include "support_map.h"
#include "support_result.h"

#include <inttypes.h>

enum {
    BATCH = 1000,
    KEYSPACE = 1000,
    REPEAT = 4,
    NUMBER_WIDTH = 6,
    NUMBER_LIMIT = 1000000, /* what so many digits tell apart */
    KEY_BYTES = 24,         /* a text and the number */
    FRAGMENT_BYTES = 15,    /* the same; fills one 16-byte slot in every heap */
    MAX_ALLOCS = 1000000000,
    POOL_BUFFER_BYTES = 48,
    ARENA_CHUNK_BYTES = 64 << 10
};
_Static_assert((REPEAT - 1) * FRAGMENT_BYTES <= POOL_BUFFER_BYTES,
               "a pooled buffer holds any scratch text");

static uint64_t nallocs = 200000;
static const char *variant = "default";
static const struct arg allocbench_args[] = {
    {.name = "--allocs", .kind = ARG_NUMBER, .min = 1, .max = MAX_ALLOCS, .number = &nallocs},
    {.name = "--variant", .kind = ARG_CHOICE, .choices = "default|arena|pool", .text = &variant},
};
static const struct workload allocbench = {
    "allocbench", "[--allocs N] [--variant default|arena|pool]", ARGS_OF(allocbench_args)};

/* Where scratch texts (fragments and the results in between) come from and go to. */
struct scratch {
    const char *variant;
    char *(*take)(size_t nbytes);
    void (*give)(char *bytes);
    void (*end_batch)(void);
    void (*end_run)(void);
};

static char *heap_take(size_t nbytes)
{
    return heap_alloc_leaf_uninit(nbytes);
}

static void heap_give(char *bytes)
{
    heap_release(bytes);
}

static void nothing_left(void)
{
}

static struct heap_arena *arena;

static char *arena_take(size_t nbytes)
{
    if (arena == NULL)
        arena = heap_arena_create(ARENA_CHUNK_BYTES);
    return heap_arena_alloc_uninit(arena, nbytes);
}

static void arena_give(char *bytes)
{
    (void)bytes;
}

static void arena_end_batch(void)
{
    heap_arena_reset(arena);
}

static void arena_end_run(void)
{
    heap_arena_destroy(arena);
    arena = NULL;
}

/* Buffers that wait to be used again. A collection empties the pool in two steps, as it does Go's: what waits
 * becomes the victim, which is still used, and the next collection drops what is then left of it. */
struct pool_buffers {
    size_t count;
    char *buffers[BATCH + REPEAT];
};
static struct {
    uint32_t gc_count;
    struct pool_buffers waiting[2];
    unsigned current; /* which of `waiting` is not the victim */
} pool;

static void pool_age_if_collected(void)
{
    uint32_t gc_count = heap_gc_count();
    if (pool.gc_count == gc_count)
        return;
    pool.gc_count = gc_count;
    pool.current ^= 1;
    struct pool_buffers *dropped = &pool.waiting[pool.current];
    memset(dropped->buffers, 0, dropped->count * sizeof dropped->buffers[0]);
    dropped->count = 0;
}

static char *pool_take(size_t nbytes)
{
    (void)nbytes;
    pool_age_if_collected();
    struct pool_buffers *from = &pool.waiting[pool.current];
    if (from->count == 0)
        from = &pool.waiting[pool.current ^ 1];
    if (from->count == 0)
        return heap_alloc_leaf_uninit(POOL_BUFFER_BYTES);
    char *buffer = from->buffers[--from->count];
    from->buffers[from->count] = NULL;
    return buffer;
}

static void pool_give(char *bytes)
{
    pool_age_if_collected();
    struct pool_buffers *to = &pool.waiting[pool.current];
    to->buffers[to->count++] = bytes;
}

static void pool_end_run(void)
{
    for (unsigned i = 0; i < 2; i++)
        while (pool.waiting[i].count > 0)
            heap_release(pool.waiting[i].buffers[--pool.waiting[i].count]);
}

static const struct scratch scratches[] = {
    {"default", heap_take, heap_give, nothing_left, nothing_left},
    {"arena", arena_take, arena_give, arena_end_batch, arena_end_run},
    {"pool", pool_take, pool_give, nothing_left, pool_end_run},
};

static const struct scratch *scratch_find(const char *name)
{
    const struct scratch *scratch = scratches;
    while (strcmp(scratch->variant, name) != 0)
        scratch++;
    return scratch;
}

static struct text make_key(uint64_t i)
{
    char key[KEY_BYTES];
    memcpy(key, "allocbench/record/", KEY_BYTES - NUMBER_WIDTH);
    text_format_number(key + KEY_BYTES - NUMBER_WIDTH, i % KEYSPACE, NUMBER_WIDTH);
    return text_copy(key, KEY_BYTES);
}

static void format_fragment(char *out, uint64_t i)
{
    memcpy(out, "fragment-", FRAGMENT_BYTES - NUMBER_WIDTH);
    text_format_number(out + FRAGMENT_BYTES - NUMBER_WIDTH, i % NUMBER_LIMIT, NUMBER_WIDTH);
}

static struct text make_fragment(const struct scratch *scratch, uint64_t i)
{
    char *bytes = scratch->take(FRAGMENT_BYTES);
    format_fragment(bytes, i);
    return (struct text){bytes, FRAGMENT_BYTES};
}

static struct text repeat(const struct scratch *scratch, struct text fragment)
{
    struct text result = fragment;
    for (int i = 1; i < REPEAT; i++) {
        size_t nbytes = result.nbytes + fragment.nbytes;
        char *bytes = i == REPEAT - 1 ? heap_alloc_leaf_uninit(nbytes) : scratch->take(nbytes);
        struct text longer = text_join(bytes, result, fragment);
        if (i > 1)
            scratch->give((char *)result.bytes);
        result = longer;
    }
    return result;
}

static void store(struct map *map, struct text key, struct text value)
{
    bool is_new;
    struct text *slot = map_put(map, key, &is_new);
    if (!is_new) {
        text_release(key);
        text_release(*slot);
    }
    heap_store(&slot->bytes, value.bytes);
    slot->nbytes = value.nbytes;
}

static void end_batch(const struct scratch *scratch, char **kept, size_t nkept)
{
    for (size_t i = 0; i < nkept; i++)
        scratch->give(kept[i]);
    memset(kept, 0, nkept * sizeof kept[0]);
    scratch->end_batch();
}

static void run(const struct scratch *scratch, struct map *map)
{
    char **kept = heap_alloc(BATCH * sizeof kept[0]);
    size_t nkept = 0;
    for (uint64_t i = 0; i < nallocs; i++) {
        struct text key = make_key(i);
        struct text fragment = make_fragment(scratch, i);
        store(map, key, repeat(scratch, fragment));
        heap_store(&kept[nkept++], (char *)fragment.bytes);
        if (nkept == BATCH) {
            end_batch(scratch, kept, nkept);
            nkept = 0;
        }
    }
    end_batch(scratch, kept, nkept);
    heap_release(kept);
}

/* The last iteration that stored under the key of iteration i. */
static uint64_t last_with_key(uint64_t i)
{
    return i + (nallocs - 1 - i) / KEYSPACE * KEYSPACE;
}

static void check(const struct map *map)
{
    uint64_t nkeys = nallocs < KEYSPACE ? nallocs : KEYSPACE;
    if (map->count != nkeys)
        workload_fail("the map has %zu keys, not %" PRIu64, map->count, nkeys);
    for (uint64_t i = 0; i < nkeys; i++) {
        struct text key = make_key(i);
        const struct text *value = map_get(map, key);
        char fragment[FRAGMENT_BYTES];
        format_fragment(fragment, last_with_key(i));
        bool right = value != NULL && value->nbytes == REPEAT * FRAGMENT_BYTES;
        for (size_t part = 0; right && part < REPEAT; part++)
            right = memcmp(value->bytes + part * FRAGMENT_BYTES, fragment, FRAGMENT_BYTES) == 0;
        if (!right)
            workload_fail("wrong value under key %" PRIu64, i);
        text_release(key);
    }
}

static void release_all(struct map *map)
{
    struct text key;
    size_t at = 0;
    for (struct text *value; (value = map_walk(map, &at, &key)) != NULL;) {
        text_release(key);
        text_release(*value);
    }
    map_destroy(map);
}

int main(int argc, char **argv)
{
    workload_start(&allocbench, argc, argv);
    const struct scratch *scratch = scratch_find(variant);
    struct map map;
    map_init(&map, sizeof(struct text));

    uint64_t begin_ns = workload_now_ns();
    run(scratch, &map);
    uint64_t run_ns = workload_now_ns() - begin_ns;

    check(&map);
    workload_report(&(struct workload_run){.variant = variant, .allocs = nallocs, .run_ns = run_ns},
                    " keys=%zu", map.count);
    scratch->end_run();
    release_all(&map);
    return 0;
}
