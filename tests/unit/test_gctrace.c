/* tests/unit/test_gctrace.c -- the trace line, byte for byte what Go prints. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pacer/pacer.h"

#define NELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
#define MIB ((uint64_t)1 << 20)

enum { LINE_BYTES = 512 };

static void times_are_cut_as_go_cuts_them(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {
        {0, "0"},         {999, "0"},         {1000, "0.001"},
        {7999, "0.007"},  {10000, "0.010"},   {99999, "0.099"},
        {100000, "0.10"}, {123456, "0.12"},   {999999, "0.99"},
        {1000000, "1.0"}, {9999999, "9.9"},   {10000000, "10"},
        {10999999, "10"}, {123456789, "123"}, {UINT64_MAX, "18446744073709"},
    };
    for (size_t i = 0; i < NELEMENTS(rows); i++) {
        char text[LINE_BYTES];
        size_t length = teai_gctrace_format_ms(rows[i].ns, text, sizeof text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(length, strlen(rows[i].text));
    }
}

/* The slow twin: stdio, with the decimals chosen by magnitude and the surplus digits taken off before. */
static void slow_format_ms(uint64_t ns, char *text, size_t text_bytes)
{
    if (ns < 1000)
        snprintf(text, text_bytes, "0");
    else if (ns < 100000)
        snprintf(text, text_bytes, "0.%03" PRIu64, ns / 1000);
    else if (ns < 1000000)
        snprintf(text, text_bytes, "0.%02" PRIu64, ns / 10000);
    else if (ns < 10000000)
        snprintf(text, text_bytes, "%" PRIu64 ".%" PRIu64, ns / 1000000, ns / 100000 % 10);
    else
        snprintf(text, text_bytes, "%" PRIu64, ns / 1000000);
}

static void every_time_equals_the_slow_twin(void **state)
{
    (void)state;
    for (uint64_t ns = 0; ns < 20 * 1000 * 1000; ns += 997) {
        char expected[LINE_BYTES], actual[LINE_BYTES];
        slow_format_ms(ns, expected, sizeof expected);
        teai_gctrace_format_ms(ns, actual, sizeof actual);
        assert_string_equal(actual, expected);
    }
}

static const struct teai_gctrace gos_first_cycle = {
    .cycle = 1,
    .start_ns = 2100000,
    .gc_cpu_percent = 5,
    .sweep_term_ns = 10200,
    .mark_ns = 215000,
    .mark_term_ns = 7900,
    .assist_cpu_ns = 150000,
    .background_cpu_ns = 0,
    .idle_cpu_ns = 0,
    .stw_procs = 1,
    .heap_start_bytes = 3 * MIB + 900000,
    .heap_term_bytes = 4 * MIB,
    .heap_marked_bytes = 300000,
    .goal_bytes = 4 * MIB,
    .stacks_bytes = 8192,
    .globals_bytes = 200000,
    .procs = 1,
};

static void a_line_is_the_one_that_go_printed(void **state)
{
    (void)state;
    char line[LINE_BYTES];
    size_t length = teai_gctrace_format(&gos_first_cycle, line, sizeof line);
    assert_string_equal(line,
                        "gc 1 @0.002s 5%: 0.010+0.21+0.007 ms clock, 0.010+0.15/0/0+0.007 ms cpu, "
                        "3->4->0 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 1 P");
    assert_int_equal(length, strlen(line));
}

static void every_field_stands_in_its_own_place(void **state)
{
    (void)state;
    static const struct teai_gctrace trace = {
        .cycle = 4294967295,
        .start_ns = 12345678901,
        .gc_cpu_percent = 17,
        .sweep_term_ns = 1100000,
        .mark_ns = 22000000,
        .mark_term_ns = 330000,
        .assist_cpu_ns = 44000000,
        .background_cpu_ns = 55000000,
        .idle_cpu_ns = 66000000,
        .stw_procs = 4,
        .heap_start_bytes = 71 * MIB,
        .heap_term_bytes = 82 * MIB,
        .heap_marked_bytes = 63 * MIB,
        .goal_bytes = 94 * MIB,
        .stacks_bytes = 5 * MIB,
        .globals_bytes = 6 * MIB,
        .procs = 8,
    };
    char line[LINE_BYTES];
    teai_gctrace_format(&trace, line, sizeof line);
    assert_string_equal(
        line, "gc 4294967295 @12.345s 17%: 1.1+22+0.33 ms clock, 4.4+44/55/66+1.3 ms cpu, "
              "71->82->63 MB, 94 MB goal, 5 MB stacks, 6 MB globals, 8 P");
}

static void a_forced_collection_says_so_at_the_end(void **state)
{
    (void)state;
    struct teai_gctrace trace = gos_first_cycle;
    char plain[LINE_BYTES], forced[LINE_BYTES];
    size_t plain_length = teai_gctrace_format(&trace, plain, sizeof plain);
    trace.forced = true;
    teai_gctrace_format(&trace, forced, sizeof forced);
    assert_memory_equal(forced, plain, plain_length);
    assert_string_equal(forced + plain_length, " (forced)");
}

static void without_a_goal_the_line_shows_gos_huge_one(void **state)
{
    (void)state;
    struct teai_facts facts = {.mapped_ready_bytes = 4 * MIB};
    struct teai_knobs knobs = {-1, TEAI_PACER_NO_LIMIT};
    struct teai_gctrace trace = {.goal_bytes = teai_pacer_goal(&facts, &knobs).goal_bytes};
    char line[LINE_BYTES];
    teai_gctrace_format(&trace, line, sizeof line);
    assert_non_null(strstr(line, " 8532210231537 MB goal,"));
}

static void the_longest_line_fits_into_512_bytes(void **state)
{
    (void)state;
    const struct teai_gctrace trace = {
        .cycle = UINT32_MAX,
        .start_ns = UINT64_MAX,
        .gc_cpu_percent = UINT32_MAX,
        .sweep_term_ns = UINT64_MAX,
        .mark_ns = UINT64_MAX,
        .mark_term_ns = UINT64_MAX,
        .assist_cpu_ns = UINT64_MAX,
        .background_cpu_ns = UINT64_MAX,
        .idle_cpu_ns = UINT64_MAX,
        .stw_procs = 1,
        .heap_start_bytes = UINT64_MAX,
        .heap_term_bytes = UINT64_MAX,
        .heap_marked_bytes = UINT64_MAX,
        .goal_bytes = UINT64_MAX,
        .stacks_bytes = UINT64_MAX,
        .globals_bytes = UINT64_MAX,
        .procs = UINT32_MAX,
        .forced = true,
    };
    char line[LINE_BYTES];
    size_t length = teai_gctrace_format(&trace, line, sizeof line);
    assert_true(length < LINE_BYTES - 1);
    assert_string_equal(line + length - 9, " (forced)");
}

static void a_short_buffer_gets_the_beginning_and_nothing_past_its_end(void **state)
{
    (void)state;
    char whole[LINE_BYTES];
    size_t whole_length = teai_gctrace_format(&gos_first_cycle, whole, sizeof whole);
    for (size_t room = 1; room <= whole_length; room++) {
        char cut[LINE_BYTES];
        memset(cut, '#', sizeof cut);
        assert_int_equal(teai_gctrace_format(&gos_first_cycle, cut, room), room - 1);
        assert_memory_equal(cut, whole, room - 1);
        assert_int_equal(cut[room - 1], '\0');
        assert_int_equal(cut[room], '#');
    }
}

static void no_buffer_at_all_is_left_alone(void **state)
{
    (void)state;
    char untouched = '#';
    assert_int_equal(teai_gctrace_format(&gos_first_cycle, &untouched, 0), 0);
    assert_int_equal(teai_gctrace_format_ms(1000, &untouched, 0), 0);
    assert_int_equal(untouched, '#');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_cut_as_go_cuts_them),
        cmocka_unit_test(every_time_equals_the_slow_twin),
        cmocka_unit_test(a_line_is_the_one_that_go_printed),
        cmocka_unit_test(every_field_stands_in_its_own_place),
        cmocka_unit_test(a_forced_collection_says_so_at_the_end),
        cmocka_unit_test(without_a_goal_the_line_shows_gos_huge_one),
        cmocka_unit_test(the_longest_line_fits_into_512_bytes),
        cmocka_unit_test(a_short_buffer_gets_the_beginning_and_nothing_past_its_end),
        cmocka_unit_test(no_buffer_at_all_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
