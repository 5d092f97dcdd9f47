/* include/teaspan/root.h -- say where references live outside the heap.
 *
 * Stacks, registers, static data of the program and its libraries and thread-locals are found without
 * help. What is left is memory from mmap() or malloc() that holds the only reference to an object.
 */
#ifndef TEASPAN_ROOT_H
#define TEASPAN_ROOT_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

/* tea_root_add -- scan the words in [base, limit) in every collection from now on.
 *
 * Shape:    the range is rounded inwards to whole aligned words.
 * Errors:   TEA_ERR_INVALID if limit is below base or base is NULL; TEA_ERR_STATE if exactly this range is
 *           registered already; TEA_ERR_NOMEM. A message names the range.
 * Threads:  any. The range must stay readable until it is removed.
 */
TEA_API enum tea_status tea_root_add(const void *base, const void *limit);

/* tea_root_remove -- stop scanning a range registered with exactly these ends.
 *
 * Errors:   TEA_ERR_NOT_FOUND, with a message.
 */
TEA_API enum tea_status tea_root_remove(const void *base, const void *limit);

/* Passed to a root callback; valid during the call only. */
struct tea_root_visitor;

/* Called in every collection, with all threads stopped, to say where references are: by tea_root_visit(), any number
 * of times. Threads may have been stopped in the middle of malloc() or with any lock held, so a callback reads memory and takes
 * no lock, allocates nothing, and makes no other call of the collector, which would end the process with a message. */
typedef void (*tea_root_callback_fn)(struct tea_root_visitor *visitor, void *context);

/* tea_root_add_callback -- call fn(visitor, context) in every collection from now on.
 *
 * Errors:   TEA_ERR_INVALID if fn is NULL; TEA_ERR_STATE if it is registered already with this context;
 *           TEA_ERR_NOMEM. A message says so.
 * Threads:  any. The callback runs on whichever thread collects.
 */
TEA_API enum tea_status tea_root_add_callback(tea_root_callback_fn fn, void *context);

/* tea_root_remove_callback -- no longer call fn(visitor, context).
 *
 * Errors:   TEA_ERR_NOT_FOUND, with a message.
 */
TEA_API enum tea_status tea_root_remove_callback(tea_root_callback_fn fn, void *context);

/* tea_root_visit -- in a root callback: the words in [base, limit) may be references, now.
 *
 * Shape:    as tea_root_add(); the range must stay readable until the collection ends.
 */
TEA_API void tea_root_visit(struct tea_root_visitor *visitor, const void *base, const void *limit);

TEA_END_DECLS
#endif
