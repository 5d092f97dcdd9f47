/* examples/hash_map.c -- a growing hash map from words to counts.
 *
 * What a collector saves here: growing makes a new table and forgets the old one, a key is copied when it is first seen,
 * and nobody has to know who owns either.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <teaspan/teaspan.h>

struct entry {
    const char *word; /* NULL: empty */
    size_t count;
};

struct map {
    struct entry *entries;
    size_t capacity; /* a power of two */
    size_t used;
};

static uint64_t hash_of(const char *word)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (; *word != '\0'; word++)
        hash = (hash ^ (unsigned char)*word) * UINT64_C(1099511628211);
    return hash;
}

/* Where `word` is, or the empty entry where it belongs. There is always an empty one. */
static struct entry *find(const struct map *map, const char *word)
{
    size_t i = hash_of(word) & (map->capacity - 1);
    while (map->entries[i].word != NULL && strcmp(map->entries[i].word, word) != 0)
        i = (i + 1) & (map->capacity - 1);
    return &map->entries[i];
}

static bool grow(struct map *map)
{
    struct map larger = {.capacity = map->capacity != 0 ? map->capacity * 2 : 8, .used = map->used};
    larger.entries = tea_calloc(larger.capacity, sizeof *larger.entries);
    if (larger.entries == NULL)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].word != NULL)
            *find(&larger, map->entries[i].word) = map->entries[i];
    *map = larger; /* the old table is garbage from here on */
    return true;
}

static bool count_word(struct map *map, const char *word)
{
    if (map->used * 2 >= map->capacity && !grow(map))
        return false;
    struct entry *entry = find(map, word);
    if (entry->word == NULL) {
        if ((entry->word = tea_strdup(word)) == NULL)
            return false;
        map->used++;
    }
    entry->count++;
    return true;
}

static size_t count_of(const struct map *map, const char *word)
{
    const struct entry *entry = find(map, word);
    return entry->word != NULL ? entry->count : 0;
}

/* Word i is the number of times that 2 divides i: half of them are "word0", a quarter "word1", and so on. */
static bool count_generated_words(struct map *map, uint32_t nwords)
{
    char word[32];
    for (uint32_t i = 1; i <= nwords; i++) {
        snprintf(word, sizeof word, "word%d", __builtin_ctz(i));
        if (!count_word(map, word))
            return false;
        snprintf(word, sizeof word, "once%u", i);
        if (!count_word(map, word))
            return false;
    }
    return true;
}

int main(void)
{
    enum { NWORDS_LOG2 = 17, NWORDS = 1 << NWORDS_LOG2 };
    struct map map = {0};
    if (!count_generated_words(&map, NWORDS))
        return 1;
    tea_collect();

    bool is_right = map.used == NWORDS + NWORDS_LOG2 + 1 && count_of(&map, "once12345") == 1;
    for (int i = 0; i < NWORDS_LOG2; i++) {
        char word[32];
        snprintf(word, sizeof word, "word%d", i);
        is_right = is_right && count_of(&map, word) == (size_t)NWORDS >> (i + 1);
    }
    printf("%zu different words\n", map.used);
    for (int i = 0; i < 3; i++) {
        char word[32];
        snprintf(word, sizeof word, "word%d", i);
        printf("%s: %zu\n", word, count_of(&map, word));
    }
    printf("counts are %s\n", is_right ? "right" : "wrong");
    return is_right ? 0 : 1;
}
