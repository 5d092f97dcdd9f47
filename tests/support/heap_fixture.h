/* tests/support/heap_fixture.h -- a fresh heap for each test, references that the collector does not see, counts.
 *
 * The collector has one heap a process, and its settings are read once. So a heap test runs in a child process: its
 * heap is new, its environment is its own, and a crash or a hang is one test's failure and not the program's.
 *
 * Stacks and registers are roots, so whatever a test has held in a local variable may stay alive for no visible
 * reason. What must die exactly is therefore made by test_apart(), on a thread whose stack is gone afterwards,
 * and remembered only as test_hide() gives it.
 */
#ifndef TEST_SUPPORT_HEAP_FIXTURE_H
#define TEST_SUPPORT_HEAP_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gc/verify.h"
#include "teaspan/teaspan.h"
#include "tests/support/child.h"

/* --- a test with a heap of its own --- */

struct heap_test {
    void (*run)(void **state);
    const char *environment[5]; /* NAME=VALUE, up to NULL */
};

/* Rows for cmocka's table. What follows the function is its environment, as string literals. */
#define heap_test(function) heap_test_row(#function, function, NULL)
#define heap_test_with(function, ...)                                                              \
    heap_test_row(#function " with " #__VA_ARGS__, function, __VA_ARGS__)
#define heap_test_row(name, function, ...)                                                         \
    {                                                                                              \
        name, heap_test_run, NULL, NULL, &(struct heap_test)                                       \
        {                                                                                          \
            function,                                                                              \
            {                                                                                      \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }

void heap_test_run(void **state);
/* In a heap test: end it here as skipped. */
TEAI_NORETURN void heap_test_skip(const char *reason);

/* --- what the collector does not see --- */

static inline uintptr_t test_hide(const void *pointer)
{
    return ~(uintptr_t)pointer;
}

static inline void *test_reveal(uintptr_t hidden)
{
    return (void *)~hidden;
}

/* A reference to the second word of an object, which keeps that object and no other: the address of its first byte,
 * in a root, keeps the object before it as well. */
static inline void *test_inner(void *object)
{
    return (char *)object + sizeof(void *);
}

static inline void *test_outer(void *inner)
{
    return (char *)inner - sizeof(void *);
}

/* Run `function` on a thread of its own, to its end. */
void test_apart(void (*function)(void *argument), void *argument);
/* The object is still allocated. Leaves no reference to it behind. */
bool test_is_alive(uintptr_t hidden);
/* Overwrite what calls of the past left below the caller's frame. */
void test_scrub_stack(void);

/* --- counts --- */

struct tea_stats test_stats(void);
/* A full collection, then heap_objects. */
uint64_t test_objects_after_collect(void);
/* teai_verify_heap(). */
struct teai_heap_census test_census(void);
/* Objects handed out: what the census finds, less what caches have leased. */
uint64_t test_census_objects(void);

/* --- memory --- */

bool test_all_bytes(const void *object, uint8_t byte, size_t nbytes);

/* --- messages --- */

enum { TEST_LOG_LINES = 32, TEST_LOG_LINE_BYTES = 512 };
struct test_log {
    unsigned nlines; /* the first TEST_LOG_LINES of them are kept */
    char lines[TEST_LOG_LINES][TEST_LOG_LINE_BYTES];
};
/* A tea_log_fn; the context is a struct test_log. */
void test_log_sink(const char *text, void *context);
/* Messages go to `log` from now on. */
void test_log_capture(struct test_log *log);
/* There have been `nlines` messages, and the last is one line that contains `text`. */
void test_log_expect(const struct test_log *log, unsigned nlines, const char *text);

#endif
