/* workloads/support_map.h -- a hash map from texts to values of one fixed size.
 *
 * The map owns its table only. Keys and what values refer to belong to the caller, who therefore hears whether
 * a key is new and may walk all entries to release them.
 */
#ifndef WORKLOADS_SUPPORT_MAP_H
#define WORKLOADS_SUPPORT_MAP_H

#include "support_text.h"

struct map_entry; /* key, then the value */

struct map {
    char *entries;      /* room * entry_bytes, in the order of entry; an object of the heap */
    uint32_t *index;    /* by hash: number of the entry plus one, 0 for none; a leaf object of the heap */
    size_t value_bytes;
    size_t entry_bytes;
    size_t room;        /* entries there is memory for */
    size_t capacity;    /* of the index; a power of two */
    size_t count;
};

/* Values have `value_bytes`, a multiple of 8, and may hold references. */
void map_init(struct map *map, size_t value_bytes);
/* The value of `key`; entered, with a zeroed value, if it is new. Valid until the next map_put(). */
void *map_put(struct map *map, struct text key, bool *is_new_out);
/* The value of `key`, or NULL. */
void *map_get(const struct map *map, struct text key);
/* The value of the entry at position `*at` or later, and its key; NULL at the end. Start with *at = 0. */
void *map_walk(const struct map *map, size_t *at, struct text *key_out);
/* Gives up the table. */
void map_destroy(struct map *map);

#endif
