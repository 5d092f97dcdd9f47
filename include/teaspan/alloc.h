/* include/teaspan/alloc.h -- allocate, resize and release objects; ask about pointers.
 *
 * Every object has one of three kinds:
 *   conservative  every word may hold a reference (tea_alloc and most others)
 *   leaf          holds no references, never scanned (Go's noscan)
 *   typed         a bitmap says which words hold references
 * A pointer to any byte of an object keeps it alive, wherever that pointer is found. A pointer to one
 * byte past the end does so from registers, stacks, thread-locals, static data and registered roots.
 */
#ifndef TEASPAN_ALLOC_H
#define TEASPAN_ALLOC_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

/* No larger object can be asked for; requests above it fail with ENOMEM. */
#define TEA_MAX_OBJECT_BYTES ((size_t)1 << 46)

/* Layout of a typed object: which of its words hold references. Must stay valid, unchanged, for as long
 * as an object of this type lives (usually a static const). */
struct tea_type {
    size_t size_bytes;              /* of one element; a multiple of sizeof(void *), not 0 */
    size_t nwords;                  /* words that `pointer_words` describes; words after it hold no reference */
    const uint64_t *pointer_words;  /* bit i%64 of element i/64: word i holds a reference */
};

/* tea_alloc -- a new object, zeroed, every word of which may hold a reference.
 *
 * Shape:    the first byte, aligned to 16 (8 for a request of exactly 24 bytes). A request of 0 bytes
 *           gets a distinct object of the smallest size.
 * Units:    size_bytes in bytes; rounded up to its size class, so tea_usable_bytes() may report more.
 * Errors:   NULL with errno ENOMEM when a full collection, then the out-of-memory callback, did not make
 *           room, or size_bytes is above TEA_MAX_OBJECT_BYTES. Aborts only if the heap is found corrupt.
 * Threads:  any; an unknown thread is attached here. No lock while its cached run of slots has room;
 *           otherwise may lock, sweep or collect. Not async-signal-safe.
 * GC:       may collect. The object is alive while a reference to it can be found.
 * Source:   Go runtime, mallocgc; per-thread caches by size: tcmalloc; runs of free slots: Immix.
 */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(1) void *tea_alloc(size_t size_bytes);

/* tea_calloc -- tea_alloc(count * size_bytes), with the product checked.
 *
 * Errors:   NULL with ENOMEM if the product overflows; else as tea_alloc().
 */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(1, 2) void *tea_calloc(size_t count, size_t size_bytes);

/* tea_alloc_leaf -- a new zeroed object that will never hold references; it is never scanned.
 *
 * Requests below 16 bytes may share a 16-byte block with other small leaves (Go's tiny allocator): such a
 * block is reclaimed when no part of it is referenced any more.
 */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(1) void *tea_alloc_leaf(size_t size_bytes);

/* tea_alloc_leaf_uninit -- as tea_alloc_leaf(), contents unspecified: for buffers that are filled at once. */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(1) void *tea_alloc_leaf_uninit(size_t size_bytes);

/* tea_alloc_typed -- `count` consecutive elements of `type`, zeroed; only words that the type names are
 * looked at by the collector.
 *
 * Errors:   NULL with ENOMEM as tea_alloc() and when count * size overflows; NULL with EINVAL for a type whose
 *           size is 0 or not a multiple of a word, or whose bitmap describes more words than it has.
 */
TEA_API TEA_NODISCARD TEA_MALLOC void *tea_alloc_typed(const struct tea_type *type, size_t count);

/* tea_alloc_aligned -- a conservative zeroed object whose address is a multiple of `alignment_bytes`.
 *
 * Errors:   NULL with EINVAL if the alignment is not a power of two or above 1 MiB; else as tea_alloc().
 */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(2) void *tea_alloc_aligned(size_t alignment_bytes, size_t size_bytes);

/* tea_alloc_uncollectable -- a conservative zeroed object that stays until tea_free(), referenced or not.
 * Its contents are scanned: it is a root. */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(1) void *tea_alloc_uncollectable(size_t size_bytes);

/* tea_realloc -- change the size of an object, keeping its kind; the old block is freed at once if it moved.
 *
 * Shape:    returns the object's (new) first byte; bytes beyond the old contents are zero (unspecified for
 *           leaf objects). Large objects grow in place where the pages behind them are free.
 *           tea_realloc(NULL, n) is tea_alloc(n); tea_realloc(p, 0) frees p and returns NULL.
 * Errors:   NULL with ENOMEM, the old object untouched; NULL with EINVAL and a message if `object` is not the
 *           start of an object.
 */
TEA_API TEA_NODISCARD TEA_ALLOC_SIZE(2) void *tea_realloc(void *object, size_t size_bytes);

/* tea_reallocarray -- tea_realloc(object, count * size_bytes), with the product checked. */
TEA_API TEA_NODISCARD TEA_ALLOC_SIZE(2, 3) void *tea_reallocarray(void *object, size_t count, size_t size_bytes);

/* tea_free -- give an object back now instead of when it is found unreachable. Never needed.
 *
 * Shape:    NULL does nothing. A tiny object (leaf, below 16 bytes) is accepted and left to the collector.
 * Errors:   a pointer that is not the start of an allocated object: one message naming it, heap untouched.
 * Threads:  any; the object may have been allocated by another.
 */
TEA_API void tea_free(void *object);

/* tea_strdup, tea_strndup -- a leaf copy of a string (of at most `max_bytes` bytes of it), NUL-terminated.
 * Errors as tea_alloc_leaf(). */
TEA_API TEA_NODISCARD TEA_MALLOC char *tea_strdup(const char *text);
TEA_API TEA_NODISCARD TEA_MALLOC char *tea_strndup(const char *text, size_t max_bytes);

/* tea_memdup -- a conservative copy of `size_bytes` bytes. */
TEA_API TEA_NODISCARD TEA_MALLOC TEA_ALLOC_SIZE(2) void *tea_memdup(const void *bytes, size_t size_bytes);

/* tea_usable_bytes -- how many bytes may be used at `object`: at least what was asked for.
 *
 * Shape:    0 if `object` is not the start of an allocated object. For a tiny object: from it to the end of
 *           its 16-byte block, which later tiny objects may share (so do not write beyond what was asked).
 * Threads:  any.
 */
TEA_API size_t tea_usable_bytes(const void *object);

/* tea_base -- the start of the allocated object that `pointer` points into, or NULL. */
TEA_API void *tea_base(const void *pointer);

/* tea_is_heap_pointer -- whether `pointer` points into an allocated object of the collector's heap. */
TEA_API bool tea_is_heap_pointer(const void *pointer);

TEA_END_DECLS
#endif
