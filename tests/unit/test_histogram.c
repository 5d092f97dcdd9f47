/* tests/unit/test_histogram.c -- durations in buckets: quantiles against a sorted list, extremes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gc/histogram.h"
#include "support/random.h"

static void nothing_counted_is_zero(void **state)
{
    (void)state;
    static struct teai_histogram h;
    assert_int_equal(teai_histogram_quantile(&h, 500), 0);
    assert_int_equal(teai_histogram_quantile(&h, 1000), 0);
}

static void small_and_extreme_values_are_exact(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 7, 8, 15, 16, UINT64_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct teai_histogram *h = calloc(1, sizeof *h);
        teai_histogram_add(h, values[i]);
        assert_true(teai_histogram_quantile(h, 500) == values[i]);
        assert_true(h->max == values[i]);
        free(h);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void quantiles_are_exact_to_an_eighth(void **state)
{
    (void)state;
    enum { N = 5000 };
    static uint64_t values[N];
    static struct teai_histogram h;
    struct test_random random = test_random_start("histogram");
    memset(&h, 0, sizeof h);
    for (int i = 0; i < N; i++) {
        values[i] = test_random_next(&random) >> test_random_below(&random, 64);
        teai_histogram_add(&h, values[i]);
    }
    qsort(values, N, sizeof values[0], compare);
    static const unsigned per_milles[] = {1, 100, 500, 900, 990, 1000};
    for (size_t i = 0; i < sizeof per_milles / sizeof per_milles[0]; i++) {
        uint64_t exact = values[(N * per_milles[i] + 999) / 1000 - 1];
        uint64_t found = teai_histogram_quantile(&h, per_milles[i]);
        assert_true(found >= exact && found - exact <= exact / 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_counted_is_zero),
        cmocka_unit_test(small_and_extreme_values_are_exact),
        cmocka_unit_test(quantiles_are_exact_to_an_eighth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
