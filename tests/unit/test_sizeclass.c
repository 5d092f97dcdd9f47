/* tests/unit/test_sizeclass.c -- size classes against Go's published table and a slow, obvious lookup. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gc/page_heap.h"
#include "gc/sizeclass.h"

/* Go 1.26, internal/runtime/gc/sizeclasses.go: slot size and pages of each class. */
static const struct {
    size_t bytes;
    size_t pages;
} go_classes[] = {
    {0, 0},     {8, 1},      {16, 1},    {24, 1},    {32, 1},    {48, 1},    {64, 1},    {80, 1},
    {96, 1},    {112, 1},    {128, 1},   {144, 1},   {160, 1},   {176, 1},   {192, 1},   {208, 1},
    {224, 1},   {240, 1},    {256, 1},   {288, 1},   {320, 1},   {352, 1},   {384, 1},   {416, 1},
    {448, 1},   {480, 1},    {512, 1},   {576, 1},   {640, 1},   {704, 1},   {768, 1},   {896, 1},
    {1024, 1},  {1152, 1},   {1280, 1},  {1408, 2},  {1536, 1},  {1792, 2},  {2048, 1},  {2304, 2},
    {2688, 1},  {3072, 3},   {3200, 2},  {3456, 3},  {4096, 1},  {4864, 3},  {5376, 2},  {6144, 3},
    {6528, 4},  {6784, 5},   {6912, 6},  {8192, 1},  {9472, 7},  {9728, 6},  {10240, 5}, {10880, 4},
    {12288, 3}, {13568, 5},  {14336, 7}, {16384, 2}, {18432, 9}, {19072, 7}, {20480, 5}, {21760, 8},
    {24576, 3}, {27264, 10}, {28672, 7}, {32768, 4},
};
_Static_assert(sizeof(go_classes) / sizeof(go_classes[0]) == TEAI_NSIZE_CLASSES, "one row a class");

static void classes_have_gos_sizes_and_pages(void **state)
{
    (void)state;
    for (size_t c = 0; c < TEAI_NSIZE_CLASSES; c++) {
        assert_int_equal(teai_sizeclass_bytes[c], go_classes[c].bytes);
        assert_int_equal(teai_sizeclass_pages[c], go_classes[c].pages);
    }
}

static void slots_fill_their_span(void **state)
{
    (void)state;
    assert_int_equal(teai_sizeclass_nslots[0], 0);
    for (size_t c = 1; c < TEAI_NSIZE_CLASSES; c++)
        assert_int_equal(teai_sizeclass_nslots[c],
                         teai_sizeclass_pages[c] * TEAI_PAGE_BYTES / teai_sizeclass_bytes[c]);
}

/* The smallest class that holds the request, by C1 in gc/sizeclass.h. */
static size_t reference_class(size_t bytes)
{
    for (size_t c = 1; c < TEAI_NSIZE_CLASSES; c++) {
        bool aligned = teai_sizeclass_bytes[c] % 16 == 0;
        if (teai_sizeclass_bytes[c] >= bytes && (aligned || bytes == 24))
            if (teai_sizeclass_bytes[c] != 8)
                return c;
    }
    fail_msg("no class for %zu bytes", bytes);
    return 0;
}

static void lookup_agrees_with_a_search_for_every_small_request(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes <= TEAI_MAX_SMALL_BYTES; bytes++)
        if (teai_sizeclass_of(bytes) != reference_class(bytes))
            fail_msg("%zu bytes: class %zu, expected %zu", bytes, teai_sizeclass_of(bytes),
                     reference_class(bytes));
}

static void only_24_byte_requests_get_a_class_that_is_not_a_multiple_of_16(void **state)
{
    (void)state;
    assert_int_equal(teai_sizeclass_of(0), 2);
    assert_int_equal(teai_sizeclass_of(16), 2);
    assert_int_equal(teai_sizeclass_of(17), 4);
    assert_int_equal(teai_sizeclass_of(23), 4);
    assert_int_equal(teai_sizeclass_of(24), 3);
    assert_int_equal(teai_sizeclass_of(25), 4);
    for (size_t bytes = 0; bytes <= TEAI_MAX_SMALL_BYTES; bytes++)
        assert_true(bytes == 24 || teai_sizeclass_bytes[teai_sizeclass_of(bytes)] % 16 == 0);
}

static void slot_by_multiplication_is_slot_by_division_for_every_offset(void **state)
{
    (void)state;
    for (size_t c = 1; c < TEAI_NSIZE_CLASSES; c++) {
        uint32_t span_bytes = (uint32_t)(teai_sizeclass_pages[c] * TEAI_PAGE_BYTES);
        for (uint32_t offset = 0; offset < span_bytes; offset++)
            if (teai_sizeclass_slot(c, offset) != offset / teai_sizeclass_bytes[c])
                fail_msg("class %zu, offset %u: slot %u", c, offset,
                         teai_sizeclass_slot(c, offset));
    }
}

static void large_class_has_no_magic(void **state)
{
    (void)state;
    assert_int_equal(teai_sizeclass_magic[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_have_gos_sizes_and_pages),
        cmocka_unit_test(slots_fill_their_span),
        cmocka_unit_test(lookup_agrees_with_a_search_for_every_small_request),
        cmocka_unit_test(only_24_byte_requests_get_a_class_that_is_not_a_multiple_of_16),
        cmocka_unit_test(slot_by_multiplication_is_slot_by_division_for_every_offset),
        cmocka_unit_test(large_class_has_no_magic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
