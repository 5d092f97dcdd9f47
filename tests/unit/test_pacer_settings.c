/* tests/unit/test_pacer_settings.c -- every form of GOGC and GOMEMLIMIT that Go accepts, and those it refuses. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "pacer/pacer.h"

#define NELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

enum { UNTOUCHED = 12345 };

struct gogc_row {
    const char *text;
    int32_t percent;
};

static void assert_gogc_rows(const struct gogc_row *rows, size_t nrows, bool well_formed)
{
    for (size_t i = 0; i < nrows; i++) {
        int32_t percent = UNTOUCHED;
        bool accepted = teai_pacer_parse_gogc(rows[i].text, &percent);
        if (accepted != well_formed || percent != rows[i].percent)
            fail_msg("GOGC=\"%s\": accepted %d, percent %d",
                     rows[i].text ? rows[i].text : "(unset)", accepted, percent);
    }
}

static void gogc_accepts_off_and_every_int32(void **state)
{
    (void)state;
    static const struct gogc_row rows[] = {
        {"off", -1},
        {"100", 100},
        {"0", 0},
        {"1", 1},
        {"+50", 50},
        {"050", 50},
        {"-0", 0},
        {"2147483647", INT32_MAX},
        {"00000000000000000000000000007", 7},
    };
    assert_gogc_rows(rows, NELEMENTS(rows), true);
}

static void gogc_unset_or_empty_is_100(void **state)
{
    (void)state;
    static const struct gogc_row rows[] = {{NULL, 100}, {"", 100}};
    assert_gogc_rows(rows, NELEMENTS(rows), true);
}

static void gogc_negative_means_off(void **state)
{
    (void)state;
    static const struct gogc_row rows[] = {{"-1", -1}, {"-5", -1}, {"-2147483648", -1}};
    assert_gogc_rows(rows, NELEMENTS(rows), true);
}

static void gogc_malformed_is_100(void **state)
{
    (void)state;
    static const struct gogc_row rows[] = {
        {"OFF", 100},
        {"Off", 100},
        {"off ", 100},
        {" 50", 100},
        {"50 ", 100},
        {"50%", 100},
        {"1e3", 100},
        {"1.5", 100},
        {"0x10", 100},
        {"1_000", 100},
        {"+", 100},
        {"-", 100},
        {"+-5", 100},
        {"--5", 100},
        {"5-", 100},
        {"2147483648", 100},
        {"-2147483649", 100},
        {"9223372036854775808", 100},
        {"18446744073709551716", 100},
        {"\t7", 100},
        {"ten", 100},
    };
    assert_gogc_rows(rows, NELEMENTS(rows), false);
}

struct limit_row {
    const char *text;
    int64_t bytes;
};

static void assert_limit_rows(const struct limit_row *rows, size_t nrows)
{
    for (size_t i = 0; i < nrows; i++) {
        int64_t bytes = UNTOUCHED;
        bool accepted = teai_pacer_parse_memory_limit(rows[i].text, &bytes);
        if (!accepted || bytes != rows[i].bytes)
            fail_msg("GOMEMLIMIT=\"%s\": accepted %d, %lld bytes",
                     rows[i].text ? rows[i].text : "(unset)", accepted, (long long)bytes);
    }
}

static void memory_limit_unset_empty_or_off_is_no_limit(void **state)
{
    (void)state;
    static const struct limit_row rows[] = {
        {NULL, TEAI_PACER_NO_LIMIT},
        {"", TEAI_PACER_NO_LIMIT},
        {"off", TEAI_PACER_NO_LIMIT},
    };
    assert_limit_rows(rows, NELEMENTS(rows));
}

static void memory_limit_accepts_plain_byte_counts(void **state)
{
    (void)state;
    static const struct limit_row rows[] = {
        {"0", 0},
        {"010", 10},
        {"+7", 7},
        {"-0", 0},
        {"100B", 100},
        {"+100B", 100},
        {"-0B", 0},
        {"8388608", 8388608},
        {"9223372036854775807", INT64_MAX},
        {"9223372036854775807B", INT64_MAX},
    };
    assert_limit_rows(rows, NELEMENTS(rows));
}

static void memory_limit_accepts_the_four_binary_units(void **state)
{
    (void)state;
    static const struct limit_row rows[] = {
        {"5KiB", 5 << 10},
        {"8MiB", 8 << 20},
        {"+7MiB", 7 << 20},
        {"2GiB", (int64_t)2 << 30},
        {"1TiB", (int64_t)1 << 40},
        {"0TiB", 0},
        {"8388607TiB", (int64_t)8388607 << 40},
        {"9007199254740991KiB", (int64_t)9007199254740991 << 10},
        {"8589934591GiB", (int64_t)8589934591 << 30},
    };
    assert_limit_rows(rows, NELEMENTS(rows));
}

static void memory_limit_refuses_what_go_refuses(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "-7",
        "-7B",
        "-1KiB",
        "1GB",
        "1gib",
        "1.5GiB",
        "1 GiB",
        "1GiB ",
        " 1GiB",
        "5iB",
        "5KB",
        "5Ki",
        "5K",
        "5b",
        "0x10",
        "1_000",
        "KiB",
        "iB",
        "B",
        "i",
        "+",
        "-",
        "+B",
        "-KiB",
        "+-5",
        "1KiBB",
        "1KKiB",
        "1PiB",
        "OFF",
        "unlimited",
        "1e9",
        "8388608TiB",
        "9007199254740992KiB",
        "8589934592GiB",
        "9223372036854775808",
        "9223372036854775808B",
        "18446744073709551616",
        "99999999999999999999999999TiB",
        "5 B",
        "5\tKiB",
    };
    for (size_t i = 0; i < NELEMENTS(texts); i++) {
        int64_t bytes = UNTOUCHED;
        if (teai_pacer_parse_memory_limit(texts[i], &bytes))
            fail_msg("GOMEMLIMIT=\"%s\" was accepted as %lld bytes", texts[i], (long long)bytes);
        assert_int_equal(bytes, UNTOUCHED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gogc_accepts_off_and_every_int32),
        cmocka_unit_test(gogc_unset_or_empty_is_100),
        cmocka_unit_test(gogc_negative_means_off),
        cmocka_unit_test(gogc_malformed_is_100),
        cmocka_unit_test(memory_limit_unset_empty_or_off_is_no_limit),
        cmocka_unit_test(memory_limit_accepts_plain_byte_counts),
        cmocka_unit_test(memory_limit_accepts_the_four_binary_units),
        cmocka_unit_test(memory_limit_refuses_what_go_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
