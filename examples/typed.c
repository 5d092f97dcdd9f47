/* examples/typed.c -- typed objects: a bitmap says which words hold references.
 *
 * A conservative object keeps alive whatever any of its words happens to point at; a typed one only what its reference
 * fields do. Here an integer field holds the address of an object, as a hash or a file offset may by chance: the
 * object must not be kept by it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <teaspan/teaspan.h>

enum { NRECORDS = 10000 };

struct record {
    struct record *next; /* word 0: a reference */
    uint64_t number;     /* word 1: an integer, whatever its value */
    char *text;          /* word 2: a reference */
};

#define WORD_OF(type, field) (offsetof(type, field) / sizeof(void *))
#define REFERENCE(type, field) (UINT64_C(1) << WORD_OF(type, field))

static const uint64_t record_references[] = {REFERENCE(struct record, next) |
                                             REFERENCE(struct record, text)};

static const struct tea_type record_type = {
    .size_bytes = sizeof(struct record),
    .nwords = sizeof(struct record) / sizeof(void *),
    .pointer_words = record_references,
};

/* The complement of an address is no reference to any scan. */
static uintptr_t hide(const void *pointer)
{
    return ~(uintptr_t)pointer;
}

static void write_text(char *text, size_t text_bytes, int i)
{
    snprintf(text, text_bytes, "record number %d", i);
}

static bool is_text(const char *text, int i)
{
    char expected[32];
    write_text(expected, sizeof expected, i);
    return strcmp(text, expected) == 0;
}

/* Still an object, and not a younger one in the same place. */
static bool is_kept(uintptr_t hidden, int i)
{
    const char *text = (const char *)~hidden;
    return tea_is_heap_pointer(text) && is_text(text, i);
}

/* A record that refers to a text, and whose number is the address of a second text that nothing refers to. */
static struct record *record_new(struct record *next, int i, uintptr_t *hidden_other)
{
    char text[32];
    write_text(text, sizeof text, i);
    struct record *r = tea_alloc_typed(&record_type, 1);
    char *other = tea_strdup(text);
    if (r == NULL || other == NULL || (r->text = tea_strdup(text)) == NULL)
        return NULL;
    r->next = next;
    r->number = (uintptr_t)other;
    *hidden_other = hide(other);
    return r;
}

int main(void)
{
    static uintptr_t others[NRECORDS];
    struct record *list = NULL;
    for (int i = 0; i < NRECORDS; i++)
        if ((list = record_new(list, i, &others[i])) == NULL)
            return 1;
    tea_collect();

    int nintact = 0, nothers = 0;
    for (const struct record *r = list; r != NULL; r = r->next)
        nintact += is_text(r->text, NRECORDS - 1 - nintact);
    for (int i = 0; i < NRECORDS; i++)
        nothers += is_kept(others[i], i);
    /* The stack is scanned conservatively: an address left in it may keep an object or two. */
    bool are_others_dead = nothers < NRECORDS / 100;
    printf("objects named by references: %d of %d intact\n", nintact, NRECORDS);
    printf("objects named by integers: %s\n", are_others_dead ? "collected" : "kept");
    return nintact == NRECORDS && are_others_dead ? 0 : 1;
}
