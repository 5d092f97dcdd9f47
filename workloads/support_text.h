/* workloads/support_text.h -- counted strings on the heap under comparison, as Go has them.
 *
 * A text is a pointer and a length, passed by value; its bytes are a leaf object, or lie inside one when the
 * text is a part of another. No NUL ends it, so texts cost the same bytes as Go's strings.
 */
#ifndef WORKLOADS_SUPPORT_TEXT_H
#define WORKLOADS_SUPPORT_TEXT_H

#include "heap.h"

#include <string.h>

struct text {
    const char *bytes;
    size_t nbytes;
};

enum { TEXT_MAX_DIGITS = 20 };

/* Decimal digits of `number` at `out`, with zeros in front up to `width`; returns how many. */
size_t text_format_number(char *out, uint64_t number, unsigned width);

/* New texts. */
struct text text_copy(const char *bytes, size_t nbytes);
struct text text_concat(struct text a, struct text b);
struct text text_from_number(uint64_t number);

static inline struct text text_literal(const char *literal)
{
    return (struct text){literal, strlen(literal)};
}

static inline void text_release(struct text text)
{
    heap_release((char *)text.bytes);
}

/* Both parts at `out`, which has room for them. */
static inline struct text text_join(char *out, struct text a, struct text b)
{
    memcpy(out, a.bytes, a.nbytes);
    memcpy(out + a.nbytes, b.bytes, b.nbytes);
    return (struct text){out, a.nbytes + b.nbytes};
}

#endif
