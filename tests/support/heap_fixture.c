/* tests/support/heap_fixture.c -- a fresh heap for each test, references that the collector does not see, counts. */
#include "tests/support/heap_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- a test with a heap of its own --- */

enum { HEAP_TEST_TIMEOUT_S = 110, HEAP_TEST_SKIPPED = 77 };

static int heap_test_child(void *argument)
{
    const struct heap_test *test = argument;
    const struct CMUnitTest tests[] = {{"(in the child)", test->run, NULL, NULL, NULL}};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

void heap_test_run(void **state)
{
    static struct test_child child;
    struct heap_test *test = *state;
    test_child_run(&child, heap_test_child, test, test->environment, HEAP_TEST_TIMEOUT_S);
    if (child.exit_status == 0)
        return;
    fputs(child.output, stdout); /* print_message() would cut it */
    fputs(child.errors, stdout);
    fflush(stdout);
    if (child.exit_status == HEAP_TEST_SKIPPED)
        skip();
    fail_msg("the test's process ended with status %d", child.exit_status);
}

void heap_test_skip(const char *reason)
{
    printf("skipped: %s\n", reason);
    fflush(NULL);
    _exit(HEAP_TEST_SKIPPED);
}

/* --- what the collector does not see --- */

struct apart_call {
    void (*function)(void *argument);
    void *argument;
};

static void *apart_main(void *argument)
{
    struct apart_call *call = argument;
    call->function(call->argument);
    return NULL;
}

void test_apart(void (*function)(void *argument), void *argument)
{
    struct apart_call call = {function, argument};
    pthread_t thread;
    TEST_REQUIRE(pthread_create(&thread, NULL, apart_main, &call) == 0);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
}

/* More than the collector's own calls use. Not instrumented: a sanitizer's frame has parts that are not ours to clear. */
enum { SCRUB_BYTES = 24 << 10 };

TEAI_NOINLINE TEAI_NO_SANITIZE void test_scrub_stack(void)
{
    volatile uintptr_t below[SCRUB_BYTES / sizeof(uintptr_t)];
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++)
        below[i] = 0;
    (void)below[0];
}

static TEAI_NOINLINE bool is_alive(uintptr_t hidden)
{
    void *object = test_reveal(hidden);
    return tea_base(object) == object;
}

bool test_is_alive(uintptr_t hidden)
{
    bool alive = is_alive(hidden);
    test_scrub_stack();
    return alive;
}

/* --- counts --- */

struct tea_stats test_stats(void)
{
    struct tea_stats stats = {.struct_bytes = sizeof stats};
    TEST_REQUIRE(tea_stats_read(&stats) == TEA_OK);
    return stats;
}

/* Apart, so that the large record is not part of a frame while a collection scans it. */
static TEAI_NOINLINE uint64_t objects_now(void)
{
    return test_stats().heap_objects;
}

uint64_t test_objects_after_collect(void)
{
    test_scrub_stack();
    tea_collect();
    return objects_now();
}

struct teai_heap_census test_census(void)
{
    struct teai_heap_census census;
    teai_verify_heap(&teai_default_heap, &census);
    return census;
}

uint64_t test_census_objects(void)
{
    struct teai_heap_census census = test_census();
    return census.nslots_live - census.nslots_leased + census.nspans_large;
}

/* --- memory --- */

bool test_all_bytes(const void *object, uint8_t byte, size_t nbytes)
{
    const uint8_t *bytes = object;
    return nbytes == 0 || (bytes[0] == byte && memcmp(bytes, bytes + 1, nbytes - 1) == 0);
}

/* --- messages --- */

void test_log_sink(const char *text, void *context)
{
    struct test_log *log = context;
    if (log->nlines < TEST_LOG_LINES)
        snprintf(log->lines[log->nlines], TEST_LOG_LINE_BYTES, "%s", text);
    log->nlines++;
}

void test_log_capture(struct test_log *log)
{
    memset(log, 0, sizeof *log);
    tea_set_log_sink(test_log_sink, log);
}

void test_log_expect(const struct test_log *log, unsigned nlines, const char *text)
{
    if (log->nlines != nlines)
        fail_msg("%u messages, expected %u; the last: %s", log->nlines, nlines,
                 log->nlines != 0 ? log->lines[log->nlines - 1] : "(none)");
    const char *last = log->lines[nlines - 1];
    if (strstr(last, text) == NULL || strchr(last, '\n') != NULL)
        fail_msg("message: %s; expected: %s", last, text);
}
