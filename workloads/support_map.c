/* workloads/support_map.c -- a hash map from texts to values of one fixed size.
 *
 * Entries stand densely in one array, in the order they were put; beside it an index of 4 bytes a place, open
 * addressing with linear probing, at most 7/8 full. Both double when they are full: the array grows in place where
 * the heap can do that, and growing the index moves no entry.
 *
 * Source. The layout: dict of PyPy and CPython. Hash: FNV-1a.
 */
#include "support_map.h"

enum { MAP_FIRST_CAPACITY = 8, MAP_FIRST_ROOM = 8 };

struct map_entry {
    const char *key;
    uint32_t key_bytes;
    uint32_t hash;
    _Alignas(8) char value[];
};

static uint32_t hash_text(struct text text)
{
    uint32_t hash = 2166136261;
    for (size_t i = 0; i < text.nbytes; i++)
        hash = (hash ^ (uint8_t)text.bytes[i]) * 16777619;
    return hash;
}

static struct map_entry *map_entry_at(const struct map *map, size_t i)
{
    return (struct map_entry *)(map->entries + i * map->entry_bytes);
}

static bool entry_matches(const struct map_entry *entry, struct text key, uint32_t hash)
{
    return entry->hash == hash && entry->key_bytes == key.nbytes &&
           memcmp(entry->key, key.bytes, key.nbytes) == 0;
}

/* The place in the index of `key`, or the empty one where it belongs. */
static uint32_t *map_find(const struct map *map, struct text key, uint32_t hash)
{
    for (size_t i = hash;; i++) {
        uint32_t *place = &map->index[i & (map->capacity - 1)];
        if (*place == 0 || entry_matches(map_entry_at(map, *place - 1), key, hash))
            return place;
    }
}

void map_init(struct map *map, size_t value_bytes)
{
    *map = (struct map){.value_bytes = value_bytes,
                        .entry_bytes = sizeof(struct map_entry) + value_bytes,
                        .room = MAP_FIRST_ROOM,
                        .capacity = MAP_FIRST_CAPACITY};
    map->entries = heap_alloc(map->room * map->entry_bytes);
    map->index = heap_alloc_leaf(map->capacity * sizeof *map->index);
}

static void map_grow_index(struct map *map)
{
    uint32_t *old = map->index;
    map->capacity *= 2;
    map->index = heap_alloc_leaf(map->capacity * sizeof *map->index);
    for (size_t n = 0; n < map->count; n++) {
        size_t i = map_entry_at(map, n)->hash;
        while (map->index[i & (map->capacity - 1)] != 0)
            i++;
        map->index[i & (map->capacity - 1)] = (uint32_t)n + 1;
    }
    heap_release(old);
}

static void map_grow_entries(struct map *map)
{
    map->room *= 2;
    map->entries = heap_realloc(map->entries, map->room * map->entry_bytes);
    size_t used = map->count * map->entry_bytes;
    memset(map->entries + used, 0, map->room * map->entry_bytes - used);
}

static struct map_entry *map_append(struct map *map, struct text key, uint32_t hash)
{
    if (map->count == map->room)
        map_grow_entries(map);
    struct map_entry *entry = map_entry_at(map, map->count++);
    heap_store(&entry->key, key.bytes);
    entry->key_bytes = (uint32_t)key.nbytes;
    entry->hash = hash;
    return entry;
}

void *map_put(struct map *map, struct text key, bool *is_new_out)
{
    uint32_t hash = hash_text(key);
    uint32_t *place = map_find(map, key, hash);
    *is_new_out = *place == 0;
    if (!*is_new_out)
        return map_entry_at(map, *place - 1)->value;
    if (map->count >= map->capacity / 8 * 7) {
        map_grow_index(map);
        place = map_find(map, key, hash);
    }
    struct map_entry *entry = map_append(map, key, hash);
    *place = (uint32_t)map->count;
    return entry->value;
}

void *map_get(const struct map *map, struct text key)
{
    uint32_t place = *map_find(map, key, hash_text(key));
    return place == 0 ? NULL : map_entry_at(map, place - 1)->value;
}

void *map_walk(const struct map *map, size_t *at, struct text *key_out)
{
    if (*at == map->count)
        return NULL;
    struct map_entry *entry = map_entry_at(map, (*at)++);
    *key_out = (struct text){entry->key, entry->key_bytes};
    return entry->value;
}

void map_destroy(struct map *map)
{
    heap_release(map->index);
    heap_release(map->entries);
    *map = (struct map){0};
}
