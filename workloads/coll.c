/* workloads/coll.c -- the two collections that most programs are made of: a map and a growing list.
 *
 *   putget  3 M puts over 50,000 text keys, each key formatted afresh, then every key read back
 *   push    3 M integers appended to a list, then summed
 *
 * What they ask of a heap. putget: many short-lived leaves (the digits, and the key unless it is new) beside a
 * map that stays. push: one array that is resized again and again; it grows as Go's slices do.
 */
#include "heap.h"
#include "support_map.h"
#include "support_result.h"

#include <inttypes.h>

enum {
    KEYSPACE = 50000,
    MAX_ALLOCS = 1000000000,
    LIST_FIRST_CAPACITY = 8,
    LIST_DOUBLE_BELOW = 256
};

static uint64_t nallocs = 3000000;
static const char *variant;
static const struct arg coll_args[] = {
    {.name = "--allocs", .kind = ARG_NUMBER, .min = 1, .max = MAX_ALLOCS, .number = &nallocs},
    {.name = "variant", .kind = ARG_CHOICE, .choices = "putget|push", .text = &variant},
};
static const struct workload coll = {"coll", "[--allocs N] putget|push", ARGS_OF(coll_args)};

static struct text make_key(uint64_t number)
{
    struct text digits = text_from_number(number);
    struct text key = text_concat(text_literal("element-"), digits);
    text_release(digits);
    return key;
}

static void put(struct map *map, uint64_t i)
{
    struct text key = make_key(i % KEYSPACE);
    bool is_new;
    uint64_t *value = map_put(map, key, &is_new);
    if (!is_new)
        text_release(key);
    *value = i;
}

static uint64_t get(const struct map *map, uint64_t i)
{
    struct text key = make_key(i);
    const uint64_t *value = map_get(map, key);
    text_release(key);
    if (value == NULL)
        workload_fail("key %" PRIu64 " is not in the map", i);
    return *value;
}

static void release_map(struct map *map)
{
    struct text key;
    for (size_t at = 0; map_walk(map, &at, &key) != NULL;)
        text_release(key);
    map_destroy(map);
}

static uint64_t putget(void)
{
    struct map map;
    map_init(&map, sizeof(uint64_t));
    for (uint64_t i = 0; i < nallocs; i++)
        put(&map, i);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < map.count; i++)
        sum += get(&map, i);
    release_map(&map);
    return sum;
}

/* Each key holds the last number put under it: together the last KEYSPACE numbers. */
static uint64_t putget_expected(void)
{
    uint64_t nkeys = nallocs < KEYSPACE ? nallocs : KEYSPACE;
    return nkeys * (2 * nallocs - nkeys - 1) / 2;
}

struct list {
    uint64_t *items;
    size_t count, capacity;
};

/* Source. Go runtime, nextslicecap: double below 256, then ever closer to 1.25 times. */
static size_t list_next_capacity(size_t capacity)
{
    if (capacity < LIST_FIRST_CAPACITY)
        return LIST_FIRST_CAPACITY;
    return capacity < LIST_DOUBLE_BELOW ? 2 * capacity
                                        : capacity + (capacity + 3 * LIST_DOUBLE_BELOW) / 4;
}

static void list_push(struct list *list, uint64_t item)
{
    if (list->count == list->capacity) {
        size_t capacity = list_next_capacity(list->capacity);
        size_t nbytes = capacity * sizeof list->items[0];
        list->items = list->items == NULL ? heap_alloc_leaf_uninit(nbytes)
                                          : heap_realloc(list->items, nbytes);
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

static uint64_t push(void)
{
    struct list list = {0};
    for (uint64_t i = 0; i < nallocs; i++)
        list_push(&list, i);
    uint64_t sum = 0;
    for (size_t i = 0; i < list.count; i++)
        sum += list.items[i];
    heap_release(list.items);
    return sum;
}

static uint64_t push_expected(void)
{
    return nallocs * (nallocs - 1) / 2;
}

int main(int argc, char **argv)
{
    workload_start(&coll, argc, argv);
    bool putting = strcmp(variant, "putget") == 0;

    uint64_t begin_ns = workload_now_ns();
    uint64_t sum = putting ? putget() : push();
    uint64_t run_ns = workload_now_ns() - begin_ns;

    uint64_t expected = putting ? putget_expected() : push_expected();
    if (sum != expected)
        workload_fail("the sum is %" PRIu64 ", not %" PRIu64, sum, expected);
    workload_report(&(struct workload_run){.variant = variant, .allocs = nallocs, .run_ns = run_ns},
                    " sum=%" PRIu64, sum);
    return 0;
}
