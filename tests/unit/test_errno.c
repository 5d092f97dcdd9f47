/* tests/unit/test_errno.c -- calls that succeed leave errno as it was, also when they start the collector, collect or log. */
#include "tests/support/objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MARK = 4711 };

#define LEAVES_ERRNO(call)                                                                                        \
    do {                                                                                                          \
        errno = MARK;                                                                                             \
        call;                                                                                                     \
        if (errno != MARK)                                                                                        \
            fail_msg("%s: errno is %d", #call, errno);                                                            \
    } while (0)

static void *volatile object;

static void visit_nothing(struct tea_root_visitor *visitor, void *unused)
{
    (void)visitor, (void)unused;
}

static void the_first_call_leaves_errno(void **state)
{
    (void)state;
    LEAVES_ERRNO(object = tea_alloc(100));
}

static void calls_that_succeed_leave_errno(void **state)
{
    (void)state;
    static struct test_log messages;
    static void *range[4];
    static char stack[1024];
    struct tea_fiber *fiber = NULL;
    LEAVES_ERRNO(tea_set_log_sink(test_log_sink, &messages));
    LEAVES_ERRNO(object = tea_calloc(3, 100));
    LEAVES_ERRNO(object = tea_alloc_leaf(5));
    LEAVES_ERRNO(object = tea_alloc_leaf_uninit(100000));
    LEAVES_ERRNO(object = tea_alloc_aligned(4096, 100));
    LEAVES_ERRNO(object = tea_realloc(object, 1 << 20));
    LEAVES_ERRNO(tea_free(object));
    LEAVES_ERRNO(object = tea_alloc_uncollectable(100));
    LEAVES_ERRNO(tea_free(object));
    LEAVES_ERRNO(object = tea_strdup("text"));
    LEAVES_ERRNO(tea_free(range)); /* and a message */
    LEAVES_ERRNO((void)tea_usable_bytes(object));
    LEAVES_ERRNO((void)tea_base(object));
    LEAVES_ERRNO(tea_collect());
    LEAVES_ERRNO(tea_collect_and_release());
    LEAVES_ERRNO(tea_disable());
    LEAVES_ERRNO((void)tea_enable());
    LEAVES_ERRNO((void)test_stats());
    LEAVES_ERRNO((void)tea_gc_count());
    LEAVES_ERRNO(assert_int_equal(tea_root_add(range, range + 4), TEA_OK));
    LEAVES_ERRNO(assert_int_equal(tea_root_remove(range, range + 4), TEA_OK));
    LEAVES_ERRNO(assert_int_equal(tea_root_add_callback(visit_nothing, NULL), TEA_OK));
    LEAVES_ERRNO(assert_int_equal(tea_root_remove_callback(visit_nothing, NULL), TEA_OK));
    LEAVES_ERRNO(assert_int_equal(tea_fiber_create(stack, stack + sizeof stack, NULL, &fiber), TEA_OK));
    LEAVES_ERRNO(assert_int_equal(tea_fiber_end(fiber), TEA_OK));
}

static void allocation_that_collects_leaves_errno(void **state)
{
    (void)state;
    uint32_t before = tea_gc_count();
    errno = MARK;
    for (unsigned i = 0; i < 1000000; i++)
        object = tea_alloc(100);
    assert_int_equal(errno, MARK);
    assert_true(tea_gc_count() > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(the_first_call_leaves_errno),
        heap_test(calls_that_succeed_leave_errno),
        heap_test(allocation_that_collects_leaves_errno),
        heap_test_with(allocation_that_collects_leaves_errno, "GODEBUG=gctrace=1", "TEASPAN=markers=2"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
