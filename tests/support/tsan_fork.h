/* tests/support/tsan_fork.h -- options for ThreadSanitizer in programs that fork while they have threads: children may have threads
 * too, and need not join those that they do not have. Included once a program.
 */
#ifndef TEST_SUPPORT_TSAN_FORK_H
#define TEST_SUPPORT_TSAN_FORK_H

#include "base/config.h"

#if TEAI_TSAN
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "die_after_fork=0:report_thread_leaks=0";
}
#endif

#endif
