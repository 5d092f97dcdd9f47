/* tests/bugs/test_b37_fork_deadlock.c -- B37: a child of a busy threaded process never hangs on a lock that another thread
 * held. (Reports: jemalloc/jemalloc #1805, #2019, #2402; gperftools/gperftools #499; bdwgc/bdwgc #909.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"
#include "tests/support/tsan_fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NTHREADS = 8,
    /* A fork of this process and what its child does take some 45 ms; a second or so under ThreadSanitizer. */
    NFORKS = TEAI_TSAN ? 20 : (TEAI_ASAN || TEAI_DEBUG) ? 60 : 300,
    CHILD_WATCHDOG_S = 10,
    CHILD_ALLOC_BYTES = 10 << 20,
    LIST_NODES = 100
};

struct node {
    struct node *next;
    uintptr_t number;
};

static struct node *list_new(unsigned nnodes)
{
    struct node *head = NULL;
    for (unsigned i = 0; i < nnodes; i++) {
        struct node *node = tea_alloc(sizeof *node);
        TEST_REQUIRE(node != NULL);
        *node = (struct node){head, i};
        head = node;
    }
    return head;
}

static void list_check(const struct node *head, unsigned nnodes)
{
    for (; head != NULL; head = head->next)
        TEST_REQUIRE(head->number == --nnodes);
    TEST_REQUIRE(nnodes == 0);
}

static _Atomic int may_end;

/* Everything that takes a lock: refills, frees, large objects, resizing, collections, messages, malloc. */
static void *be_busy(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    while (!atomic_load_explicit(&may_end, memory_order_relaxed)) {
        struct node *list = list_new(LIST_NODES);
        random = random * 1103515245 + 12345;
        size_t bytes = 16u << (random >> 16) % 12;
        char *block = tea_alloc_leaf(bytes);
        TEST_REQUIRE(block != NULL);
        block[0] = 1;
        block = tea_realloc(block, bytes * 2);
        TEST_REQUIRE(block != NULL && block[0] == 1);
        tea_free(block);
        free(malloc(bytes));
        if (random >> 16 == 0)
            tea_collect();
        list_check(list, LIST_NODES);
    }
    return NULL;
}

static void *allocate_a_little(void *unused)
{
    (void)unused;
    list_check(list_new(LIST_NODES), LIST_NODES);
    tea_collect();
    return NULL;
}

static void child_run(const struct node *inherited)
{
    alarm(CHILD_WATCHDOG_S * (TEAI_TSAN || TEAI_ASAN ? 6 : 1));
    for (unsigned bytes = 0; bytes < CHILD_ALLOC_BYTES; bytes += LIST_NODES * (unsigned)sizeof(struct node))
        list_check(list_new(LIST_NODES), LIST_NODES);
    tea_collect();
    pthread_t thread;
    /* ThreadSanitizer takes threads of the child for those of the parent that have the same address. */
    if (!TEAI_TSAN) {
        TEST_REQUIRE(pthread_create(&thread, NULL, allocate_a_little, NULL) == 0);
        TEST_REQUIRE(pthread_join(thread, NULL) == 0);
    }
    list_check(inherited, LIST_NODES);
    test_census();
    _exit(0);
}

static void children_of_a_busy_process_end_cleanly(void **state)
{
    (void)state;
    pthread_t threads[NTHREADS];
    for (uintptr_t i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, be_busy, (void *)(i + 1)), 0);
    struct node *list = list_new(LIST_NODES);
    for (unsigned i = 0; i < NFORKS; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            child_run(list);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0)
            fail_msg("child %u: wait status 0x%x", i, (unsigned)status);
    }
    atomic_store(&may_end, 1);
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    list_check(list, LIST_NODES);
    tea_collect();
    test_census();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test_with(children_of_a_busy_process_end_cleanly, TEAI_TSAN ? "TEASPAN=markers=1" : "TEASPAN=markers=2"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
