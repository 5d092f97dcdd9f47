/* gc/sizeclass.h -- from a request in bytes to its size class, and what a span of that class looks like.
 *
 * Objects of up to 32 KiB are cut from spans of equal slots, in Go's 68 size classes (class 0: large objects,
 * which have a span each). Slots fill their span: no metadata lies in it, no object has a header.
 *
 * Invariants (checked by tests/unit/test_sizeclass.c for every request and every offset).
 *   C1  A request of up to 16 bytes gets 16 bytes, one of exactly 24 gets 24, any other the smallest class that
 *       holds it and is a multiple of 16. So every object of 16 bytes or more but those of 24 is aligned
 *       to 16, and class 1 (8 bytes) is never used.
 *   C2  teai_sizeclass_slot() is offset / slot size, for every offset in a span.
 *
 * Source. Sizes and the multiplication in place of a division: Go runtime, internal/runtime/gc/sizeclasses.go;
 * tools/gen_sizeclass.py has the criteria and computes the tables.
 */
#ifndef TEAI_SIZECLASS_H
#define TEAI_SIZECLASS_H

#include "base/check.h"

enum { TEAI_NSIZE_CLASSES = 68, TEAI_MAX_SMALL_BYTES = 32768 };

/* The lookup tables: one entry for 16 bytes up to 1024, one for 128 bytes above. */
enum {
    TEAI_SIZECLASS_SMALL_MAX_BYTES = 1024,
    TEAI_SIZECLASS_SMALL_SHIFT = 4,
    TEAI_SIZECLASS_WIDE_SHIFT = 7,
    TEAI_SIZECLASS_SMALL_ENTRIES =
        (TEAI_SIZECLASS_SMALL_MAX_BYTES >> TEAI_SIZECLASS_SMALL_SHIFT) + 1,
    TEAI_SIZECLASS_WIDE_ENTRIES =
        ((TEAI_MAX_SMALL_BYTES - TEAI_SIZECLASS_SMALL_MAX_BYTES) >> TEAI_SIZECLASS_WIDE_SHIFT) + 1
};

/* The one class that is not a multiple of 16 and is used; only requests of exactly its size get it (C1). */
enum { TEAI_SIZECLASS_24 = 3, TEAI_SIZECLASS_24_BYTES = 24 };

/* By size class; all are 0 for class 0. */
extern const uint16_t teai_sizeclass_bytes[TEAI_NSIZE_CLASSES];  /* of a slot */
extern const uint8_t teai_sizeclass_pages[TEAI_NSIZE_CLASSES];   /* of a span */
extern const uint16_t teai_sizeclass_nslots[TEAI_NSIZE_CLASSES]; /* in a span */
extern const uint32_t teai_sizeclass_magic[TEAI_NSIZE_CLASSES];  /* 2^32 / slot bytes, rounded up */

/* By request: ceil(bytes / 16), and ceil((bytes - 1024) / 128). */
extern const uint8_t teai_sizeclass_small[TEAI_SIZECLASS_SMALL_ENTRIES];
extern const uint8_t teai_sizeclass_wide[TEAI_SIZECLASS_WIDE_ENTRIES];

/* The class of a request of at most TEAI_MAX_SMALL_BYTES, 0 included. */
TEAI_INLINE size_t teai_sizeclass_of(size_t bytes)
{
    TEAI_ASSERT(bytes <= TEAI_MAX_SMALL_BYTES);
    if (TEAI_LIKELY(bytes <= TEAI_SIZECLASS_SMALL_MAX_BYTES)) {
        if (bytes == TEAI_SIZECLASS_24_BYTES)
            return TEAI_SIZECLASS_24;
        return teai_sizeclass_small[(bytes + (1 << TEAI_SIZECLASS_SMALL_SHIFT) - 1) >>
                                    TEAI_SIZECLASS_SMALL_SHIFT];
    }
    size_t above = bytes - TEAI_SIZECLASS_SMALL_MAX_BYTES;
    return teai_sizeclass_wide[(above + (1 << TEAI_SIZECLASS_WIDE_SHIFT) - 1) >>
                               TEAI_SIZECLASS_WIDE_SHIFT];
}

/* The slot that holds the byte at `offset_bytes` of a span; past the last slot: any number from nslots on (C2). */
TEAI_INLINE uint32_t teai_sizeclass_slot(size_t sizeclass, uint32_t offset_bytes)
{
    return (uint32_t)(((uint64_t)offset_bytes * teai_sizeclass_magic[sizeclass]) >> 32);
}

#endif
