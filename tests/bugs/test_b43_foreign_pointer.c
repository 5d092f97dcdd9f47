/* tests/bugs/test_b43_foreign_pointer.c -- B43: a pointer from another allocator is named and left alone, and its owner can still
 * free it. (Reports: gperftools/gperftools #1066; microsoft/mimalloc #846, #244, PR 1285.)
 */
#include "tests/support/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct test_log messages;
static char pool[4096]; /* of a second allocator in the program */

static void expect_left_alone(void *pointer)
{
    unsigned nlines = messages.nlines;
    tea_free(pointer);
    test_log_expect(&messages, nlines + 1, "tea_free");
    errno = 0;
    void *moved = tea_realloc(pointer, 100);
    assert_null(moved);
    assert_int_equal(errno, EINVAL);
    test_log_expect(&messages, nlines + 2, "tea_realloc");
    assert_int_equal(tea_usable_bytes(pointer), 0);
    assert_null(tea_base(pointer));
    assert_false(tea_is_heap_pointer(pointer));
    assert_int_equal(messages.nlines, nlines + 2);
}

static void pointers_of_other_allocators_are_left_alone(void **state)
{
    (void)state;
    char *before = strdup("from before the collector has started");
    test_log_capture(&messages);
    char *after = strdup("from after it has started");
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(before != NULL && after != NULL && mapped != MAP_FAILED);
    struct tea_stats stats_before = test_stats();
    expect_left_alone(before);
    expect_left_alone(after);
    expect_left_alone(mapped);
    expect_left_alone(pool + 64);
    struct tea_stats stats_after = test_stats();
    assert_int_equal(stats_after.heap_objects, stats_before.heap_objects);
    assert_string_equal(before, "from before the collector has started");
    assert_string_equal(after, "from after it has started");
    free(before);
    free(after);
    munmap(mapped, 4096);
    test_collect();
    test_census();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(pointers_of_other_allocators_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
