/* workloads/support_map.c -- a hash map from texts to values of one fixed size.
 *
 * Open addressing with linear probing in one table, hash and key length kept in the entry: a table of 24 bytes
 * an entry for 8-byte values, as dense as Go's. It doubles when 7/8 full. Growing fills a fresh table; the old
 * one is garbage, or is released.
 *
 * Source. Hash: FNV-1a.
 */
#include "support_map.h"

enum { MAP_FIRST_CAPACITY = 8 };

struct map_entry {
    const char *key; /* NULL: the entry is free */
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

/* The entry of `key`, or the free one where it belongs. */
static struct map_entry *map_find(const struct map *map, struct text key, uint32_t hash)
{
    for (size_t i = hash;; i++) {
        struct map_entry *entry = map_entry_at(map, i & (map->capacity - 1));
        if (entry->key == NULL || entry_matches(entry, key, hash))
            return entry;
    }
}

static void map_set_capacity(struct map *map, size_t capacity)
{
    map->capacity = capacity;
    map->entries = heap_alloc(capacity * map->entry_bytes);
}

void map_init(struct map *map, size_t value_bytes)
{
    *map = (struct map){.value_bytes = value_bytes,
                        .entry_bytes = sizeof(struct map_entry) + value_bytes};
    map_set_capacity(map, MAP_FIRST_CAPACITY);
}

static void map_move_entry(struct map *map, const struct map_entry *from)
{
    struct map_entry *to = map_find(map, (struct text){from->key, from->key_bytes}, from->hash);
    heap_store(&to->key, from->key);
    to->key_bytes = from->key_bytes;
    to->hash = from->hash;
    heap_store_range(to->value, from->value, map->value_bytes);
}

static void map_grow(struct map *map)
{
    struct map old = *map;
    map_set_capacity(map, 2 * old.capacity);
    for (size_t i = 0; i < old.capacity; i++)
        if (map_entry_at(&old, i)->key != NULL)
            map_move_entry(map, map_entry_at(&old, i));
    heap_release(old.entries);
}

void *map_put(struct map *map, struct text key, bool *is_new_out)
{
    uint32_t hash = hash_text(key);
    struct map_entry *entry = map_find(map, key, hash);
    *is_new_out = entry->key == NULL;
    if (!*is_new_out)
        return entry->value;
    if (map->count >= map->capacity / 8 * 7) {
        map_grow(map);
        entry = map_find(map, key, hash);
    }
    heap_store(&entry->key, key.bytes);
    entry->key_bytes = (uint32_t)key.nbytes;
    entry->hash = hash;
    map->count++;
    return entry->value;
}

void *map_get(const struct map *map, struct text key)
{
    struct map_entry *entry = map_find(map, key, hash_text(key));
    return entry->key == NULL ? NULL : entry->value;
}

void *map_walk(const struct map *map, size_t *at, struct text *key_out)
{
    while (*at < map->capacity) {
        struct map_entry *entry = map_entry_at(map, (*at)++);
        if (entry->key != NULL) {
            *key_out = (struct text){entry->key, entry->key_bytes};
            return entry->value;
        }
    }
    return NULL;
}

void map_destroy(struct map *map)
{
    heap_release(map->entries);
    *map = (struct map){0};
}
