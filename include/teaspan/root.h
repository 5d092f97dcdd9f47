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

TEA_END_DECLS
#endif
