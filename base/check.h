/* base/check.h -- the assert strengths: always on, and debug builds only.
 *
 * TEAI_CHECK   where silence would mean corruption: on in every build.
 * TEAI_ASSERT  freely, in debug builds.
 * (Whole-structure walkers are teai_verify_*, gc/verify.h.)
 */
#ifndef TEAI_BASE_CHECK_H
#define TEAI_BASE_CHECK_H

#include "base/config.h"

/* Writes "teaspan: fatal: FILE:LINE: TEXT" to stderr with a stack buffer and aborts. platform/linux.c. */
TEAI_NORETURN void teai_fatal(const char *file, int line, const char *text);

#define TEAI_CHECK(condition)                                                                         \
    do {                                                                                              \
        if (TEAI_UNLIKELY(!(condition)))                                                              \
            teai_fatal(__FILE__, __LINE__, "check failed: " #condition);                              \
    } while (0)

#define TEAI_ASSERT(condition)                                                                        \
    do {                                                                                              \
        if (TEAI_DEBUG && TEAI_UNLIKELY(!(condition)))                                                \
            teai_fatal(__FILE__, __LINE__, "assertion failed: " #condition);                          \
    } while (0)

#endif
