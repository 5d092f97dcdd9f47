/* tests/unit/test_init.c -- starting the collector: options, what wins over what, what is refused and how it is said. */
#include "tests/support/heap_fixture.h"

#include "gc/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;
static struct test_log messages;
static struct test_child child;

static struct tea_options options_with_log(void)
{
    struct tea_options options = TEA_OPTIONS_INIT;
    options.log = test_log_sink;
    options.log_context = &messages;
    return options;
}

/* --- starting --- */

static void the_first_allocation_starts_the_collector(void **state)
{
    (void)state;
    assert_int_equal(tea_gc_count(), 0);
    assert_non_null(tea_alloc(100));
    assert_int_equal(tea_init(NULL), TEA_ERR_STATE);
}

static void starting_by_hand_uses_the_defaults(void **state)
{
    (void)state;
    assert_int_equal(tea_init(NULL), TEA_OK);
    assert_int_equal(h->knobs.gc_percent, 100);
    assert_true(h->knobs.memory_limit_bytes == INT64_MAX);
    assert_non_null(teai_self); /* the caller is attached */
    assert_int_equal(tea_init(NULL), TEA_ERR_STATE);
}

static void options_are_taken(void **state)
{
    (void)state;
    struct tea_options options = options_with_log();
    options.gc_percent = 37;
    options.memory_limit_bytes = 300 << 20;
    options.markers = 3;
    options.heap_past_end = true;
    options.max_heap_bytes = (size_t)100 << 20;
    assert_int_equal(tea_init(&options), TEA_OK);
    assert_int_equal(tea_set_gc_percent(100), 37);
    assert_int_equal(tea_set_memory_limit(-1), 300 << 20);
    assert_int_equal(test_stats().markers, 3);
    assert_true(h->settings.heap_past_end);
    assert_in_range(h->max_pages, (100 << 20) / TEAI_PAGE_BYTES, (104 << 20) / TEAI_PAGE_BYTES);
    assert_int_equal(messages.nlines, 0);
}

static void options_win_over_the_environment_where_they_are_set(void **state)
{
    (void)state;
    struct tea_options options = TEA_OPTIONS_INIT;
    options.gc_percent = 37;
    assert_int_equal(tea_init(&options), TEA_OK);
    assert_int_equal(h->knobs.gc_percent, 37);
    assert_int_equal(h->knobs.memory_limit_bytes, 200 << 20);
    assert_int_equal(h->mark.nmarkers_max, 2);
}

static void any_negative_percent_means_off(void **state)
{
    (void)state;
    struct tea_options options = TEA_OPTIONS_INIT;
    options.gc_percent = -5;
    assert_int_equal(tea_init(&options), TEA_OK);
    assert_int_equal(tea_set_gc_percent(100), -1);
}

static void a_small_heap_is_rounded_up_to_what_works(void **state)
{
    (void)state;
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = 1;
    assert_int_equal(tea_init(&options), TEA_OK);
    for (int i = 0; i < 100000; i++)
        assert_non_null(tea_alloc(100));
    test_census();
}

static void too_large_a_heap_is_made_smaller(void **state)
{
    (void)state;
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = SIZE_MAX / 2;
    assert_int_equal(tea_init(&options), TEA_OK);
    assert_non_null(tea_alloc(100));
}

/* --- refusals --- */

static void wrong_options_are_refused_with_a_message_and_can_be_corrected(void **state)
{
    (void)state;
    struct tea_options wrong = options_with_log();
    wrong.memory_limit_bytes = -2;
    assert_int_equal(tea_init(&wrong), TEA_ERR_INVALID);
    test_log_expect(&messages, 1, "memory_limit_bytes is negative");
    wrong = options_with_log();
    wrong.markers = TEAI_MAX_MARKERS + 1;
    assert_int_equal(tea_init(&wrong), TEA_ERR_INVALID);
    test_log_expect(&messages, 2, "markers is 65, want 0 to 64");
    wrong.markers = TEAI_MAX_MARKERS;
    assert_int_equal(tea_init(&wrong), TEA_OK);
    assert_int_equal(h->mark.nmarkers_max, TEAI_MAX_MARKERS);
}

static int init_with_wrong_size(void *argument)
{
    (void)argument;
    struct tea_options options = options_with_log();
    options.struct_bytes--;
    return tea_init(&options) == TEA_ERR_INVALID ? 0 : 1;
}

static void options_of_another_version_are_refused_on_stderr(void **state)
{
    (void)state;
    test_child_run(&child, init_with_wrong_size, NULL, NULL, 60);
    assert_int_equal(child.exit_status, 0);
    assert_non_null(strstr(child.errors, "teaspan: tea_init: struct_bytes is "));
}

static void a_malformed_memory_limit_is_refused_by_init(void **state)
{
    (void)state;
    struct tea_options options = options_with_log();
    assert_int_equal(tea_init(&options), TEA_ERR_INVALID);
    test_log_expect(&messages, 1, "malformed GOMEMLIMIT=lots");
    test_log_expect(&messages, 1, "KiB, MiB, GiB or TiB");
    options.memory_limit_bytes = 100 << 20; /* given in its stead */
    assert_int_equal(tea_init(&options), TEA_OK);
    assert_int_equal(tea_set_memory_limit(-1), 100 << 20);
}

static int allocate_one(void *argument)
{
    (void)argument;
    return tea_alloc(100) != NULL ? 0 : 1;
}

static void a_malformed_memory_limit_ends_the_process_as_in_go(void **state)
{
    (void)state;
    test_child_run(&child, allocate_one, NULL, (const char *const[]){"GOMEMLIMIT=lots", NULL}, 60);
    assert_int_equal(child.exit_status, 2);
    assert_string_equal(
        child.errors,
        "teaspan: malformed GOMEMLIMIT=lots: want a number of bytes with an optional suffix B, "
        "KiB, MiB, GiB or TiB, or off\n");
}

static void a_malformed_gogc_is_said_and_the_program_runs(void **state)
{
    (void)state;
    test_child_run(&child, allocate_one, NULL, (const char *const[]){"GOGC=fifty", NULL}, 60);
    assert_int_equal(child.exit_status, 0);
    assert_string_equal(
        child.errors,
        "teaspan: GOGC=fifty ignored: want a whole number of per cent, or off; using 100\n");
}

static void warnings_about_the_environment_go_to_the_sink_of_the_options(void **state)
{
    (void)state;
    struct tea_options options = options_with_log();
    assert_int_equal(tea_init(&options), TEA_OK);
    assert_int_equal(messages.nlines, 2);
    assert_non_null(strstr(messages.lines[0], "TEASPAN markers=none ignored"));
    assert_non_null(strstr(messages.lines[1], "unknown key colour"));
}

static void a_sound_environment_says_nothing(void **state)
{
    (void)state;
    test_child_run(&child, allocate_one, NULL,
                   (const char *const[]){"GOGC=50", "GOMEMLIMIT=1GiB", "GODEBUG=madvdontneed=1",
                                         "TEASPAN=markers=1", NULL},
                   60);
    assert_int_equal(child.exit_status, 0);
    assert_string_equal(child.errors, "");
    assert_string_equal(child.output, "");
}

/* --- many first allocations at once --- */

enum { NTHREADS = 8 };
static pthread_barrier_t barrier;

static void *allocate_first(void *argument)
{
    pthread_barrier_wait(&barrier);
    void *object = tea_alloc(100);
    *(bool *)argument = object != NULL && tea_base(object) == object;
    return NULL;
}

static void several_threads_may_start_it_at_once(void **state)
{
    (void)state;
    pthread_t threads[NTHREADS];
    bool done[NTHREADS] = {false};
    pthread_barrier_init(&barrier, NULL, NTHREADS);
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_first, &done[i]), 0);
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < NTHREADS; i++)
        assert_true(done[i]);
    assert_int_equal(test_stats().mallocs, NTHREADS);
}

/* --- the trace --- */

static int collect_three_times(void *argument)
{
    (void)argument;
    for (int i = 0; i < 3; i++)
        tea_collect();
    return 0;
}

static void gctrace_writes_a_line_a_cycle(void **state)
{
    (void)state;
    test_child_run(&child, collect_three_times, NULL,
                   (const char *const[]){"GODEBUG=gctrace=1", NULL}, 60);
    assert_int_equal(child.exit_status, 0);
    assert_int_equal(test_count_lines(child.errors, "gc "), 3);
    assert_int_equal(strncmp(child.errors, "gc 1 @", 6), 0);
    assert_non_null(strstr(child.errors, "\ngc 3 @"));
    assert_int_equal(test_count_lines(child.errors, "(forced)"), 3);
}

/* --- texts --- */

static void the_library_is_of_the_headers_version(void **state)
{
    (void)state;
    assert_string_equal(tea_version(), TEA_VERSION_STRING);
    char want[32];
    snprintf(want, sizeof want, "%d.%d.%d", TEA_VERSION_MAJOR, TEA_VERSION_MINOR,
             TEA_VERSION_PATCH);
    assert_string_equal(tea_version(), want);
}

static void each_status_has_a_text_of_its_own(void **state)
{
    (void)state;
    static const enum tea_status statuses[] = {TEA_OK,        TEA_ERR_INVALID,   TEA_ERR_NOMEM,
                                               TEA_ERR_STATE, TEA_ERR_NOT_FOUND, TEA_ERR_SYSTEM};
    enum { N = sizeof statuses / sizeof statuses[0] };
    for (int i = 0; i < N; i++) {
        assert_string_not_equal(tea_status_string(statuses[i]), "unknown status");
        for (int k = 0; k < i; k++)
            assert_string_not_equal(tea_status_string(statuses[i]), tea_status_string(statuses[k]));
    }
    assert_string_equal(tea_status_string((enum tea_status)4711), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(the_first_allocation_starts_the_collector),
        heap_test(starting_by_hand_uses_the_defaults),
        heap_test(options_are_taken),
        heap_test_with(options_win_over_the_environment_where_they_are_set, "GOGC=50",
                       "GOMEMLIMIT=200MiB", "TEASPAN=markers=2"),
        heap_test(any_negative_percent_means_off),
        heap_test(a_small_heap_is_rounded_up_to_what_works),
        heap_test(too_large_a_heap_is_made_smaller),
        heap_test(wrong_options_are_refused_with_a_message_and_can_be_corrected),
        cmocka_unit_test(options_of_another_version_are_refused_on_stderr),
        heap_test_with(a_malformed_memory_limit_is_refused_by_init, "GOMEMLIMIT=lots"),
        cmocka_unit_test(a_malformed_memory_limit_ends_the_process_as_in_go),
        cmocka_unit_test(a_malformed_gogc_is_said_and_the_program_runs),
        heap_test_with(warnings_about_the_environment_go_to_the_sink_of_the_options,
                       "TEASPAN=markers=none,colour=red"),
        cmocka_unit_test(a_sound_environment_says_nothing),
        heap_test(several_threads_may_start_it_at_once),
        cmocka_unit_test(gctrace_writes_a_line_a_cycle),
        cmocka_unit_test(the_library_is_of_the_headers_version),
        cmocka_unit_test(each_status_has_a_text_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
