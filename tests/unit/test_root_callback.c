/* tests/unit/test_root_callback.c -- root callbacks: what they visit lives, what they no longer visit dies, wrong use is named. */
#include "tests/support/objects.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { OBJECT_BYTES = 32 };

/* References that are stored in malloc's memory. */
struct table {
    void **words;
    size_t nwords;
    unsigned ncalls;
};

static void visit_table(struct tea_root_visitor *visitor, void *context)
{
    struct table *table = context;
    tea_root_visit(visitor, table->words, table->words + table->nwords);
    table->ncalls++;
}

static struct table table_new(void)
{
    struct table table = {calloc(100, sizeof(void *)), 100, 0};
    assert_non_null(table.words);
    return table;
}

static void what_a_callback_visits_is_alive(void **state)
{
    (void)state;
    struct table table = table_new();
    uintptr_t hidden = test_object_new(OBJECT_BYTES);
    table.words[99] = test_reveal(hidden);
    assert_int_equal(tea_root_add_callback(visit_table, &table), TEA_OK);
    test_collect();
    assert_int_equal(table.ncalls, 1);
    assert_true(test_object_is_intact(hidden, OBJECT_BYTES));
    table.words[99] = NULL;
    test_collect();
    assert_false(test_is_alive(hidden));
    assert_int_equal(tea_root_remove_callback(visit_table, &table), TEA_OK);
    test_collect();
    assert_int_equal(table.ncalls, 2);
    free(table.words);
}

static struct table many[1000];

static void many_callbacks_are_each_called_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(tea_root_add_callback(visit_table, &many[i]), TEA_OK);
    assert_int_equal(tea_root_remove_callback(visit_table, &many[7]), TEA_OK);
    tea_collect();
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(many[i].ncalls, i != 7);
}

static struct test_log messages;

static void wrong_registrations_are_named(void **state)
{
    (void)state;
    struct table table = {0};
    test_log_capture(&messages);
    assert_int_equal(tea_root_add_callback(NULL, &table), TEA_ERR_INVALID);
    test_log_expect(&messages, 1, "no function");
    assert_int_equal(tea_root_add_callback(visit_table, &table), TEA_OK);
    assert_int_equal(tea_root_add_callback(visit_table, &table), TEA_ERR_STATE);
    test_log_expect(&messages, 2, "registered already");
    assert_int_equal(tea_root_remove_callback(visit_table, &table), TEA_OK);
    assert_int_equal(tea_root_remove_callback(visit_table, &table), TEA_ERR_NOT_FOUND);
    test_log_expect(&messages, 3, "not registered");
}

/* --- calls from where none is allowed end the process, with a message --- */

static void free_in_callback(struct tea_root_visitor *visitor, void *object)
{
    (void)visitor;
    tea_free(object);
}

static int collect_with_bad_callback(void *unused)
{
    (void)unused;
    TEST_REQUIRE(tea_root_add_callback(free_in_callback, tea_alloc(OBJECT_BYTES)) == TEA_OK);
    tea_collect();
    return 0;
}

static void say_nothing(const char *text, void *unused)
{
    (void)text, (void)unused;
}

/* Enters the runtime, and does no harm where it may: what it frees is no object. */
static void free_in_handler(int number)
{
    (void)number;
    static char no_object[16];
    tea_free(no_object);
}

/* Nearly always inside the runtime, sooner or later when the timer's signal comes. */
static int interrupt_the_runtime(void *unused)
{
    (void)unused;
    static void *range[4];
    tea_set_log_sink(say_nothing, NULL);
    tea_collect(); /* this thread is known */
    TEST_REQUIRE(signal(SIGUSR1, free_in_handler) != SIG_ERR);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec often = {{0, 50000}, {0, 50000}};
    TEST_REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    TEST_REQUIRE(timer_settime(timer, 0, &often, NULL) == 0);
    for (;;) { /* until the message, or the time limit */
        TEST_REQUIRE(tea_root_add(range, range + 4) == TEA_OK);
        TEST_REQUIRE(tea_root_remove(range, range + 4) == TEA_OK);
    }
}

static void expect_abort(int (*run)(void *))
{
    static struct test_child child;
    test_child_run(&child, run, NULL, NULL, 30);
    assert_int_equal(child.exit_status, 128 + SIGABRT);
    assert_int_equal(test_count_lines(child.errors, "the collector was called while this thread is inside it"), 1);
}

static void a_callback_that_calls_the_collector_ends_the_process(void **state)
{
    (void)state;
    expect_abort(collect_with_bad_callback);
}

static void a_signal_handler_that_calls_the_collector_inside_the_runtime_ends_the_process(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        skip(); /* it holds signals back while a thread runs its own code only */
    expect_abort(interrupt_the_runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(what_a_callback_visits_is_alive),
        heap_test_with(what_a_callback_visits_is_alive, "GODEBUG=gccheckmark=1"),
        heap_test(many_callbacks_are_each_called_once),
        heap_test(wrong_registrations_are_named),
        cmocka_unit_test(a_callback_that_calls_the_collector_ends_the_process),
        cmocka_unit_test(a_signal_handler_that_calls_the_collector_inside_the_runtime_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
