/* tests/bugs/test_b70_address_limit.c -- B70: a program starts and runs where address space is short.
 *
 * The large reservation that the heap would like must not keep hello-world from starting under `ulimit -v`. (Reports:
 * JuliaLang/julia #10390, symmetryinvestments/symgc #37, GrapheneOS/hardened_malloc #235, golang/go #28081.)
 */
#include "tests/support/objects.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

enum { MB = 1000 * 1000, MIB = 1 << 20 };

static void limit_address_space(size_t bytes)
{
    if (TEAI_ASAN || TEAI_TSAN)
        heap_test_skip("sanitizers reserve terabytes of address space for themselves");
    struct rlimit limit = {bytes, bytes};
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

struct node {
    struct node *next;
    uint64_t number;
    uint64_t payload[6];
};

static struct node *list_of(size_t nbytes)
{
    struct node *head = NULL;
    for (size_t i = 0; i < nbytes / sizeof *head; i++) {
        struct node *node = tea_alloc(sizeof *node);
        TEST_REQUIRE(node != NULL);
        node->next = head;
        node->number = i;
        head = node;
    }
    return head;
}

static void list_check(const struct node *head, size_t nbytes)
{
    for (size_t i = nbytes / sizeof *head; i-- > 0; head = head->next)
        TEST_REQUIRE(head->number == i);
    TEST_REQUIRE(head == NULL);
}

static void hello_and_100_mib_of_live_data_run_in_400_mb(void **state)
{
    (void)state;
    limit_address_space((size_t)400 * MB);
    struct node *head = list_of((size_t)100 * MIB);
    tea_collect();
    list_check(head, (size_t)100 * MIB);
    teai_verify_heap(&teai_default_heap, NULL);
}

static void hello_runs_in_100_mb(void **state)
{
    (void)state;
    limit_address_space((size_t)100 * MB);
    for (int i = 0; i < 20; i++) {
        struct node *head = list_of((size_t)2 * MIB);
        tea_collect();
        list_check(head, (size_t)2 * MIB);
    }
}

static void a_program_without_room_for_the_smallest_heap_is_told(void **state)
{
    (void)state;
    limit_address_space((size_t)30 * MB);
    errno = 0;
    const void *object = tea_alloc(16);
    assert_null(object);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(tea_init(NULL), TEA_ERR_NOMEM);
}

static void *return_argument(void *argument)
{
    return argument;
}

static void such_a_program_has_threads_all_the_same(void **state)
{
    (void)state;
    limit_address_space((size_t)30 * MB);
    assert_null(tea_alloc(16));
    pthread_attr_t small_stack;
    pthread_t thread;
    int argument;
    void *result;
    pthread_attr_init(&small_stack);
    assert_int_equal(pthread_attr_setstacksize(&small_stack, 64 << 10), 0);
    assert_int_equal(pthread_create(&thread, &small_stack, return_argument, &argument), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &argument);
}

static void running_out_of_address_space_is_a_refusal(void **state)
{
    (void)state;
    limit_address_space((size_t)400 * MB);
    static struct node *head; /* a root: the list is live to the end */
    uint64_t n = 0;
    for (;;) {
        struct node *node = tea_alloc(sizeof *node + 4096);
        if (node == NULL)
            break;
        node->next = head;
        node->number = n++;
        head = node;
    }
    assert_int_equal(errno, ENOMEM);
    assert_in_range(n, (size_t)100 * MIB / 4096, (size_t)400 * MB / 4096);
    for (const struct node *node = head; node != NULL; node = node->next)
        assert_int_equal(node->number, --n);
    teai_verify_heap(&teai_default_heap, NULL);
}

static void address_space_costs_no_memory_before_use(void **state)
{
    (void)state;
    assert_non_null(tea_alloc(16));
    struct tea_stats stats = test_stats();
    assert_in_range(stats.sys_bytes, 1, (uint64_t)32 * MIB);
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    if (!TEAI_ASAN && !TEAI_TSAN)
        assert_in_range(usage.ru_maxrss, 1, 32 << 10); /* KiB */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(hello_and_100_mib_of_live_data_run_in_400_mb),
        heap_test(hello_runs_in_100_mb),
        heap_test(a_program_without_room_for_the_smallest_heap_is_told),
        heap_test(such_a_program_has_threads_all_the_same),
        heap_test(running_out_of_address_space_is_a_refusal),
        heap_test(address_space_costs_no_memory_before_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
