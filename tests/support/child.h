/* tests/support/child.h -- run a function in a child process of its own: the collector starts there afresh, with the
 * environment that the test asks for, and may end the process without ending the test. */
#ifndef TEST_SUPPORT_CHILD_H
#define TEST_SUPPORT_CHILD_H

#include "base/config.h"

enum { TEST_CHILD_TEXT_BYTES = 64 << 10 };

struct test_child {
    int exit_status;   /* or 128 + the signal that ended it; 128 + SIGALRM: it took too long */
    char output[TEST_CHILD_TEXT_BYTES];
    char errors[TEST_CHILD_TEXT_BYTES];
};

/* Run `fn(argument)` in a forked child; its result is the exit status. `environment`: NAME=VALUE strings up to NULL, set
 * in the child on top of the caller's less GOGC, GOMEMLIMIT, GODEBUG and TEASPAN. The caller must not have used the heap. */
void test_child_run(struct test_child *child, int (*fn)(void *argument), void *argument,
                    const char *const *environment, unsigned timeout_s);

/* How many lines of `text` contain `part`. */
unsigned test_count_lines(const char *text, const char *part);

/* In children and in threads, where cmocka's assertions cannot be used: say what is wrong and end the process. */
#define TEST_REQUIRE(condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            test_require_failed(__FILE__, __LINE__, #condition);                                   \
    } while (0)
TEAI_NORETURN void test_require_failed(const char *file, int line, const char *text);

#endif
