/* tests/unit/test_log.c -- messages: the formatter against snprintf(), cutting to fit, and where lines go. */
#include "tests/support/heap_fixture.h"

#include "gc/log.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = 256 };

/* The same arguments in both languages. */
#define assert_formats(ours, theirs, ...)                                                          \
    do {                                                                                           \
        char got[ROOM], want[ROOM];                                                                \
        size_t n = teai_format(got, sizeof got, ours, __VA_ARGS__);                                \
        snprintf(want, sizeof want, theirs, __VA_ARGS__);                                          \
        assert_string_equal(got, want);                                                            \
        assert_int_equal(n, strlen(want));                                                         \
    } while (0)

static void numbers_are_written_as_printf_writes_them(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {
        0,         1,         9, 10, 99, 100, INT32_MAX, UINT32_MAX, (uint64_t)UINT32_MAX + 1,
        INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_formats("%U", "%" PRIu64, numbers[i]);
        assert_formats("%z", "%zu", (size_t)numbers[i]);
        assert_formats("%u", "%u", (unsigned)numbers[i]);
        assert_formats("%d", "%d", (int)numbers[i]);
        assert_formats("%d", "%d", -(int)(numbers[i] & INT32_MAX));
        if (numbers[i] != 0) /* glibc writes (nil) */
            assert_formats("%p", "%p", (void *)numbers[i]);
    }
    assert_formats("%d", "%d", INT_MIN);
}

static void text_and_several_conversions_go_together(void **state)
{
    (void)state;
    assert_formats("span %u of %s: %U bytes", "span %u of %s: %" PRIu64 " bytes", 7u, "class 3",
                   (uint64_t)8192);
    assert_formats("%s%s|%s", "%s%s|%s", "", "a", "b");
    assert_formats("%d%% of %s", "%d%% of %s", 25, "all");
}

static void a_missing_string_is_named(void **state)
{
    (void)state;
    char got[ROOM];
    teai_format(got, sizeof got, "[%s]", (const char *)NULL);
    assert_string_equal(got, "[(null)]");
}

static void a_percent_sign_at_the_end_is_dropped(void **state)
{
    (void)state;
    char got[ROOM];
    assert_int_equal(teai_format(got, sizeof got, "50%"), 2);
    assert_string_equal(got, "50");
}

static void text_is_cut_to_fit_and_always_terminated(void **state)
{
    (void)state;
    for (size_t room = 1; room < 30; room++) {
        char got[40];
        memset(got, '#', sizeof got);
        size_t n = teai_format(got, room, "number %U of %s", (uint64_t)1234567890123, "many");
        assert_true(n < room);
        assert_int_equal(strlen(got), n);
        assert_memory_equal(got, "number 1234567890123 of many", n);
        assert_int_equal(got[room], '#');
    }
}

/* --- where lines go --- */

static struct test_log messages;

static void a_sink_gets_one_message_without_newline(void **state)
{
    (void)state;
    test_log_capture(&messages);
    teai_log_line(&teai_default_heap.log, "teaspan: %u of %u", 1u, 2u);
    test_log_expect(&messages, 1, "teaspan: 1 of 2");
    assert_string_equal(messages.lines[0], "teaspan: 1 of 2");
}

static void overlong_messages_are_cut(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    test_log_capture(&messages);
    teai_log_line(&teai_default_heap.log, "%s", text);
    assert_int_equal(messages.nlines, 1);
}

static struct test_child child;

static int write_lines(void *argument)
{
    const size_t *nbytes = argument;
    static char text[5000];
    memset(text, 'x', *nbytes);
    tea_set_log_sink(test_log_sink, &messages);
    tea_set_log_sink(NULL, NULL);
    teai_log_line(&teai_default_heap.log, "teaspan: first");
    teai_log_text(&teai_default_heap.log, text, *nbytes);
    return 0;
}

static void without_a_sink_each_message_is_a_line_on_stderr(void **state)
{
    (void)state;
    size_t nbytes = 100;
    test_child_run(&child, write_lines, &nbytes, NULL, 60);
    assert_int_equal(child.exit_status, 0);
    assert_string_equal(child.output, "");
    assert_int_equal(strlen(child.errors), strlen("teaspan: first\n") + nbytes + 1);
    assert_int_equal(strncmp(child.errors, "teaspan: first\nxxx", 18), 0);
    assert_int_equal(child.errors[strlen(child.errors) - 1], '\n');
}

static void an_overlong_line_on_stderr_is_cut_and_ends(void **state)
{
    (void)state;
    size_t nbytes = 4000;
    test_child_run(&child, write_lines, &nbytes, NULL, 60);
    assert_int_equal(child.exit_status, 0);
    assert_true(strlen(child.errors) > 1000 && strlen(child.errors) < nbytes);
    assert_int_equal(child.errors[strlen(child.errors) - 1], '\n');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_written_as_printf_writes_them),
        cmocka_unit_test(text_and_several_conversions_go_together),
        cmocka_unit_test(a_missing_string_is_named),
        cmocka_unit_test(a_percent_sign_at_the_end_is_dropped),
        cmocka_unit_test(text_is_cut_to_fit_and_always_terminated),
        heap_test(a_sink_gets_one_message_without_newline),
        heap_test(overlong_messages_are_cut),
        cmocka_unit_test(without_a_sink_each_message_is_a_line_on_stderr),
        cmocka_unit_test(an_overlong_line_on_stderr_is_cut_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
