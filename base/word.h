/* base/word.h -- read a word of client memory that a mutator may be writing. */
#ifndef TEAI_BASE_WORD_H
#define TEAI_BASE_WORD_H

#include "base/config.h"

enum { TEAI_WORD_BYTES = sizeof(uintptr_t) };

/* A client word as it is now. Relaxed: either the old or the new value will do, since a mutator that is
 * running while we read is tracked by other means (a barrier, page tracking, or it is stopped). */
TEAI_NO_SANITIZE TEAI_INLINE uintptr_t teai_word_load(const uintptr_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

TEAI_INLINE size_t teai_round_up(size_t value, size_t multiple_pow2)
{
    return (value + multiple_pow2 - 1) & ~(multiple_pow2 - 1);
}

TEAI_INLINE size_t teai_round_down(size_t value, size_t multiple_pow2)
{
    return value & ~(multiple_pow2 - 1);
}

#endif
