/* include/teaspan/weak.h -- refer to an object without keeping it alive; values that live as long as a key.
 *
 * Weak pointers and ephemerons are objects of the heap themselves: they are never freed by hand, and are collected when
 * nothing refers to them.
 */
#ifndef TEASPAN_WEAK_H
#define TEASPAN_WEAK_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

struct tea_weak;
struct tea_ephemeron;

/* tea_weak_create -- a weak pointer to what `pointer` points at, the start of an object or a byte inside it.
 *
 * Shape:    while the object and the weak pointer live, another call with the same address returns the same weak
 *           pointer, so they can be compared, also after the object has died.
 * Errors:   NULL with EINVAL and a message if `pointer` does not point into an object of the heap; NULL with ENOMEM.
 * Threads:  any.
 * GC:       may collect. Every collection walks all weak pointers in use. If tea_realloc() moves the object, its weak
 *           pointers follow it.
 * Source:   Go's weak.Make.
 */
TEA_API TEA_NODISCARD struct tea_weak *tea_weak_create(const void *pointer);

/* tea_weak_get -- the address given to tea_weak_create(), or NULL once the object was found dead or was freed.
 *
 * Shape:    an ordinary, strong pointer. NULL for NULL. NULL before a finalizer or cleanup of the object runs, and
 *           from then on, even if the finalizer makes the object reachable again. A tiny object (leaf, below 16 bytes) may stay as long
 *           as its neighbours.
 * Threads:  any; async-signal-safe. One load.
 * Source:   Go's weak.Pointer.Value.
 */
TEA_API TEA_NODISCARD void *tea_weak_get(const struct tea_weak *weak);

/* tea_ephemeron_create -- a pair whose value is alive for the ephemeron's sake only while its key is alive by other means.
 *
 * Shape:    the value may refer to the key, directly or not, without keeping it alive: what a table of properties of objects
 *           needs. Once the key was found dead or was freed both parts read NULL.
 *           `value` may be any pointer; `key` points to the start of an object or into it.
 * Errors:   NULL with EINVAL and a message if `key` does not point into an object of the heap; NULL with ENOMEM.
 * Threads:  any.
 * GC:       may collect. Every collection walks all ephemerons in use, more than once if values lead to keys of others.
 * Source:   Hayes, Ephemerons: a new finalization mechanism, 1997.
 */
TEA_API TEA_NODISCARD struct tea_ephemeron *tea_ephemeron_create(void *key, void *value);

/* tea_ephemeron_key, tea_ephemeron_value -- its parts, as strong pointers; NULL for NULL.
 *
 * Shape:    a reader that wants both takes the key first: while it holds that, the value stays.
 * Threads:  any; async-signal-safe.
 */
TEA_API TEA_NODISCARD void *tea_ephemeron_key(const struct tea_ephemeron *ephemeron);
TEA_API TEA_NODISCARD void *tea_ephemeron_value(const struct tea_ephemeron *ephemeron);

TEA_END_DECLS
#endif
