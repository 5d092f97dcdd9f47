/* tests/unit/test_settings.c -- every setting of the environment: accepted, refused with a reason, and the last one wins. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gc/settings.h"
#include "pacer/pacer.h"

#include <string.h>

#define NELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* --- an environment of the test's own --- */

static const char *const *environment; /* NAME, VALUE, ..., NULL */

static const char *get_setting(const char *name)
{
    for (const char *const *pair = environment; *pair != NULL; pair += 2)
        if (strcmp(pair[0], name) == 0)
            return pair[1];
    return NULL;
}

static struct teai_settings settings;
static struct teai_settings_report report;

static void read_environment(const char *const *pairs)
{
    environment = pairs;
    memset(&settings, 0xa5, sizeof settings);
    memset(&report, 0xa5, sizeof report);
    teai_settings_read(&settings, &report, get_setting);
}

#define read_settings(...) read_environment((const char *const[]){__VA_ARGS__, NULL})

static void expect_warnings(unsigned n)
{
    if (report.nwarnings != n)
        fail_msg("%u warnings, expected %u; the first: %s", report.nwarnings, n,
                 report.nwarnings != 0 ? report.warnings[0] : "(none)");
    assert_false(report.bad_memory_limit);
}

static void expect_warning(unsigned i, const char *text)
{
    assert_true(report.nwarnings > i);
    if (strstr(report.warnings[i], text) == NULL)
        fail_msg("warning: %s; expected: %s", report.warnings[i], text);
}

/* --- defaults --- */

static void expect_defaults(void)
{
    expect_warnings(0);
    assert_int_equal(settings.gc_percent, 100);
    assert_int_equal(settings.memory_limit_bytes, TEAI_PACER_NO_LIMIT);
    assert_int_equal(settings.markers, 0);
    assert_int_equal(settings.order, TEAI_MARK_BY_SPAN);
    assert_int_equal(settings.kernel, TEAI_KERNEL_AUTO);
    assert_false(settings.gctrace || settings.check_mark || settings.clobber_free ||
                 settings.heap_past_end);
    assert_int_equal(settings.stress, 0);
    assert_int_equal(settings.stop_signal, 0);
}

static void an_empty_environment_gives_the_defaults(void **state)
{
    (void)state;
    read_environment((const char *const[]){NULL});
    expect_defaults();
}

static void empty_settings_give_the_defaults(void **state)
{
    (void)state;
    read_settings("GOGC", "", "GOMEMLIMIT", "", "GODEBUG", "", "TEASPAN", "");
    expect_defaults();
    read_settings("GODEBUG", ",,,", "TEASPAN", ",,");
    expect_defaults();
}

/* --- Go's names --- */

static void gogc_and_gomemlimit_mean_what_they_mean_in_go(void **state)
{
    (void)state;
    read_settings("GOGC", "50", "GOMEMLIMIT", "200MiB");
    expect_warnings(0);
    assert_int_equal(settings.gc_percent, 50);
    assert_int_equal(settings.memory_limit_bytes, 200 << 20);
    read_settings("GOGC", "off", "GOMEMLIMIT", "off");
    expect_warnings(0);
    assert_int_equal(settings.gc_percent, -1);
    assert_int_equal(settings.memory_limit_bytes, TEAI_PACER_NO_LIMIT);
}

static void a_malformed_gogc_is_reported_with_what_is_accepted(void **state)
{
    (void)state;
    read_settings("GOGC", "fifty");
    expect_warnings(1);
    assert_int_equal(settings.gc_percent, 100);
    assert_string_equal(
        report.warnings[0],
        "teaspan: GOGC=fifty ignored: want a whole number of per cent, or off; using 100");
}

static void a_malformed_gomemlimit_is_an_error_with_what_is_accepted(void **state)
{
    (void)state;
    read_settings("GOMEMLIMIT", "lots");
    assert_true(report.bad_memory_limit);
    assert_string_equal(
        report.error,
        "teaspan: malformed GOMEMLIMIT=lots: want a number of bytes with an optional suffix "
        "B, KiB, MiB, GiB or TiB, or off");
    assert_int_equal(settings.memory_limit_bytes, TEAI_PACER_NO_LIMIT);
}

static void godebug_turns_each_of_its_switches_on_and_off(void **state)
{
    (void)state;
    read_settings("GODEBUG", "gctrace=1,gccheckmark=1,clobberfree=1");
    expect_warnings(0);
    assert_true(settings.gctrace && settings.check_mark && settings.clobber_free);
    read_settings("GODEBUG", "gctrace=1,clobberfree=2,gctrace=0");
    assert_false(settings.gctrace || settings.check_mark);
    assert_true(settings.clobber_free);
}

static void what_godebug_means_for_a_go_program_is_ignored(void **state)
{
    (void)state;
    read_settings("GODEBUG",
                  "madvdontneed=1,gctrace,inittrace=1,gctrace=x,http2client=0,=,gctrace=");
    expect_defaults();
}

/* --- our own --- */

static void each_key_of_teaspan_is_read(void **state)
{
    (void)state;
    read_settings("TEASPAN", "gogc=50");
    assert_int_equal(settings.gc_percent, 50);
    read_settings("TEASPAN", "memlimit=8MiB");
    assert_int_equal(settings.memory_limit_bytes, 8 << 20);
    read_settings("TEASPAN", "markers=64");
    assert_int_equal(settings.markers, 64);
    read_settings("TEASPAN", "marker=object");
    assert_int_equal(settings.order, TEAI_MARK_BY_OBJECT);
    read_settings("TEASPAN", "marker=span");
    assert_int_equal(settings.order, TEAI_MARK_BY_SPAN);
    read_settings("TEASPAN", "kernel=portable");
    assert_int_equal(settings.kernel, TEAI_KERNEL_PORTABLE);
    read_settings("TEASPAN", "kernel=avx2");
    assert_int_equal(settings.kernel, TEAI_KERNEL_AVX2);
    read_settings("TEASPAN", "kernel=avx512");
    assert_int_equal(settings.kernel, TEAI_KERNEL_AVX512);
    read_settings("TEASPAN", "kernel=auto");
    assert_int_equal(settings.kernel, TEAI_KERNEL_AUTO);
    read_settings("TEASPAN", "mode=stw");
    expect_defaults();
    read_settings("TEASPAN", "mode=auto");
    expect_defaults();
    read_settings("TEASPAN", "stress=1000");
    assert_int_equal(settings.stress, 1000);
    read_settings("TEASPAN", "signal=12");
    assert_int_equal(settings.stop_signal, 12);
    read_settings("TEASPAN", "pastend=1");
    assert_true(settings.heap_past_end);
}

static void several_keys_go_together(void **state)
{
    (void)state;
    read_settings("TEASPAN", "gogc=25,markers=2,marker=object,stress=7");
    expect_warnings(0);
    assert_int_equal(settings.gc_percent, 25);
    assert_int_equal(settings.markers, 2);
    assert_int_equal(settings.order, TEAI_MARK_BY_OBJECT);
    assert_int_equal(settings.stress, 7);
}

static void the_last_of_equal_keys_wins(void **state)
{
    (void)state;
    read_settings("TEASPAN", "markers=2,gogc=10,markers=3,gogc=20,marker=object,marker=span");
    expect_warnings(0);
    assert_int_equal(settings.markers, 3);
    assert_int_equal(settings.gc_percent, 20);
    assert_int_equal(settings.order, TEAI_MARK_BY_SPAN);
}

static void teaspans_keys_override_gos_names(void **state)
{
    (void)state;
    read_settings("GOGC", "50", "GOMEMLIMIT", "1GiB", "TEASPAN", "gogc=200,memlimit=64MiB");
    assert_int_equal(settings.gc_percent, 200);
    assert_int_equal(settings.memory_limit_bytes, 64 << 20);
}

static void unknown_keys_are_named_beside_the_known_ones(void **state)
{
    (void)state;
    read_settings("TEASPAN", "colour=red,gogc=50,GOGC=7,flavour");
    expect_warnings(3);
    expect_warning(0, "unknown key colour");
    expect_warning(1, "unknown key GOGC");
    expect_warning(2, "unknown key flavour");
    static const char *const known[] = {"gogc", "memlimit", "markers", "marker", "kernel",
                                        "mode", "stress",   "signal",  "pastend"};
    for (size_t i = 0; i < NELEMENTS(known); i++)
        expect_warning(0, known[i]);
    assert_int_equal(settings.gc_percent, 50);
}

static void values_that_are_not_accepted_change_nothing_and_are_explained(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"markers=0", "want 1 to 64"},
        {"markers=65", "want 1 to 64"},
        {"markers=-1", "want 1 to 64"},
        {"markers=two", "want 1 to 64"},
        {"markers=", "want 1 to 64"},
        {"markers", "want 1 to 64"},
        {"markers=4294967297", "want 1 to 64"},
        {"markers=18446744073709551618", "want 1 to 64"},
        {"marker=queue", "want span or object"},
        {"kernel=sse", "want auto, portable"},
        {"mode=now", "want auto or stw"},
        {"stress=1.5", "want 0 (off) or a number of refills"},
        {"stress=2147483648", "want 0 (off) or a number of refills"},
        {"stress=4294967297", "want 0 (off) or a number of refills"},
        {"signal=9", "want the number of a signal that can be caught"},
        {"signal=19", "want the number of a signal that can be caught"},
        {"signal=65", "want the number of a signal that can be caught"},
        {"signal=7",
         "want the number of a signal that can be caught"}, /* a fault of the thread that gets it */
        {"signal=33", "want the number of a signal that can be caught"}, /* the C library's */
        {"pastend=2", "want 0 or 1"},
    };
    for (size_t i = 0; i < NELEMENTS(rows); i++) {
        read_settings("TEASPAN", rows[i][0]);
        expect_warnings(1);
        expect_warning(0, rows[i][1]);
        report.nwarnings = 0;
        expect_defaults();
    }
}

static void a_refused_value_is_named_with_its_key(void **state)
{
    (void)state;
    read_settings("TEASPAN", "markers=many");
    assert_string_equal(report.warnings[0], "teaspan: TEASPAN markers=many ignored: want 1 to 64");
    read_settings("TEASPAN", "gogc=1.5");
    assert_string_equal(
        report.warnings[0],
        "teaspan: TEASPAN gogc=1.5 ignored: want a whole number of per cent, or off; using 100");
    read_settings("TEASPAN", "memlimit=5 apples");
    assert_true(report.bad_memory_limit);
    assert_non_null(strstr(report.error, "TEASPAN memlimit=5 apples"));
}

static void more_warnings_than_are_kept_do_no_harm(void **state)
{
    (void)state;
    read_settings("TEASPAN", "a,b,c,d,e,f,g,h,i,j,k,l,gogc=50");
    expect_warnings(TEAI_SETTINGS_MAX_WARNINGS);
    expect_warning(0, "unknown key a ");
    expect_warning(TEAI_SETTINGS_MAX_WARNINGS - 1, "unknown key l ");
    assert_int_equal(settings.gc_percent, 50);
}

static void overlong_text_is_cut_and_refused(void **state)
{
    (void)state;
    static char text[4000];
    memset(text, 'x', sizeof text - 1);
    read_settings("TEASPAN", text);
    expect_warnings(1);
    memcpy(text, "markers=", 8);
    read_settings("TEASPAN", text);
    expect_warnings(1);
    read_settings("GOGC", text);
    expect_warnings(1);
    assert_true(strlen(report.warnings[0]) < TEAI_WARNING_BYTES);
    read_settings("GOMEMLIMIT", text);
    assert_true(report.bad_memory_limit);
    read_settings("GODEBUG", text);
    expect_defaults();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_environment_gives_the_defaults),
        cmocka_unit_test(empty_settings_give_the_defaults),
        cmocka_unit_test(gogc_and_gomemlimit_mean_what_they_mean_in_go),
        cmocka_unit_test(a_malformed_gogc_is_reported_with_what_is_accepted),
        cmocka_unit_test(a_malformed_gomemlimit_is_an_error_with_what_is_accepted),
        cmocka_unit_test(godebug_turns_each_of_its_switches_on_and_off),
        cmocka_unit_test(what_godebug_means_for_a_go_program_is_ignored),
        cmocka_unit_test(each_key_of_teaspan_is_read),
        cmocka_unit_test(several_keys_go_together),
        cmocka_unit_test(the_last_of_equal_keys_wins),
        cmocka_unit_test(teaspans_keys_override_gos_names),
        cmocka_unit_test(unknown_keys_are_named_beside_the_known_ones),
        cmocka_unit_test(values_that_are_not_accepted_change_nothing_and_are_explained),
        cmocka_unit_test(a_refused_value_is_named_with_its_key),
        cmocka_unit_test(more_warnings_than_are_kept_do_no_harm),
        cmocka_unit_test(overlong_text_is_cut_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
