/* tests/bugs/test_trace_lines.c -- GODEBUG=gctrace=1 prints, for each collection, the line that tools for Go programs read. */
#include "tests/support/objects.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_S = 60, NFORCED = 5 };

/* Times as Go cuts them: whole milliseconds from 10 on, else two significant digits and at most three decimals. */
#define MS "(0|0\\.00[1-9]|0\\.0[1-9][0-9]|0\\.[1-9][0-9]|[1-9]\\.[0-9]|[1-9][0-9]+)"
#define MB "(0|[1-9][0-9]*)"
static const char go_line[] =
    "^gc ([1-9][0-9]*) @[0-9]+\\.[0-9]{3}s [0-9]{1,3}%: " MS "\\+" MS "\\+" MS " ms clock, " MS
    "\\+" MS "/" MS "/" MS "\\+" MS " ms cpu, " MB "->" MB "->" MB " MB, " MB " MB goal, " MB
    " MB stacks, " MB " MB globals, [1-9][0-9]* P( \\(forced\\))?$";

static int collect_by_force_and_by_need(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < NFORCED; i++)
        tea_collect();
    for (unsigned i = 0; i < 20; i++)
        test_churn(1000, 2000); /* 40 MB: some cycles at the minimum goal of 4 MiB */
    printf("%u\n", tea_gc_count());
    return 0;
}

struct trace_count {
    unsigned nlines, nforced;
    char last[512];
};

static void check_line(const regex_t *regex, const char *line, struct trace_count *count)
{
    regmatch_t match[2];
    if (regexec(regex, line, 2, match, 0) != 0)
        fail_msg("not a line of Go's: %s", line);
    count->nlines++;
    assert_int_equal(strtoul(line + match[1].rm_so, NULL, 10), count->nlines);
    count->nforced += strstr(line, " (forced)") != NULL;
}

static struct trace_count check_lines(char *text)
{
    struct trace_count count = {0};
    regex_t regex;
    assert_int_equal(regcomp(&regex, go_line, REG_EXTENDED), 0);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
        check_line(&regex, line, &count);
    regfree(&regex);
    return count;
}

static struct test_child child;

static void each_collection_prints_one_line_of_gos_form(void **state)
{
    (void)state;
    test_child_run(&child, collect_by_force_and_by_need, NULL,
                   (const char *const[]){"GODEBUG=gctrace=1", NULL}, TIMEOUT_S);
    assert_int_equal(child.exit_status, 0);
    struct trace_count count = check_lines(child.errors);
    assert_int_equal(count.nlines, strtoul(child.output, NULL, 10));
    assert_int_equal(count.nforced, NFORCED);
    assert_in_range(count.nlines, NFORCED + 3, NFORCED + 40);
}

static void without_the_setting_nothing_is_printed(void **state)
{
    (void)state;
    test_child_run(&child, collect_by_force_and_by_need, NULL, NULL, TIMEOUT_S);
    assert_int_equal(child.exit_status, 0);
    assert_string_equal(child.errors, "");
}

/* --- lines of several threads --- */

static void *collect_some(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < 200; i++) {
        test_churn(64, 100);
        tea_collect();
    }
    return NULL;
}

static int collect_by_several_threads(void *argument)
{
    (void)argument;
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        TEST_REQUIRE(pthread_create(&threads[i], NULL, collect_some, NULL) == 0);
    for (size_t i = 0; i < 3; i++)
        TEST_REQUIRE(pthread_join(threads[i], NULL) == 0);
    printf("%u\n", tea_gc_count());
    return 0;
}

static void lines_of_collections_by_several_threads_keep_apart_and_in_order(void **state)
{
    (void)state;
    test_child_run(&child, collect_by_several_threads, NULL,
                   (const char *const[]){"GODEBUG=gctrace=1", NULL}, TIMEOUT_S);
    assert_int_equal(child.exit_status, 0);
    char *end = strrchr(child.errors, '\n'); /* the text may have been cut */
    assert_non_null(end);
    end[1] = '\0';
    assert_true(check_lines(child.errors).nlines > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_collection_prints_one_line_of_gos_form),
        cmocka_unit_test(without_the_setting_nothing_is_printed),
        cmocka_unit_test(lines_of_collections_by_several_threads_keep_apart_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
