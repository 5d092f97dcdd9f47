/* tests/bugs/test_b39_helpers_after_fork.c -- B39: a child made by fork marks with helper threads of its own, and gives memory
 * back. (Reports: history of guile's finalizers.c; CollaboraOnline/online PR 8709.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODE_BYTES = 64, LIVE_NODES = 200000, CHILD_WATCHDOG_S = 120 };
#define GARBAGE_BYTES ((TEAI_ASAN || TEAI_DEBUG) ? (uint64_t)128 << 20 : (uint64_t)2 << 30)

static unsigned count_threads_named(const char *wanted)
{
    unsigned n = 0;
    DIR *tasks = opendir("/proc/self/task");
    TEST_REQUIRE(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(name, sizeof name, file) != NULL)
            n += strncmp(name, wanted, strlen(wanted)) == 0;
        fclose(file);
    }
    closedir(tasks);
    return n;
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long total, resident;
    TEST_REQUIRE(file != NULL && fscanf(file, "%lu %lu", &total, &resident) == 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

struct node {
    struct node *next;
    char rest[NODE_BYTES - sizeof(struct node *)];
};

static TEAI_NOINLINE struct node *list_new(unsigned nnodes)
{
    struct node *head = NULL;
    for (unsigned i = 0; i < nnodes; i++) {
        struct node *node = tea_alloc(sizeof *node);
        TEST_REQUIRE(node != NULL);
        node->next = head;
        head = node;
    }
    return head;
}

static unsigned list_length(const struct node *head)
{
    unsigned n = 0;
    for (; head != NULL; head = head->next)
        n++;
    return n;
}

static struct node *volatile inherited;

static TEAI_NORETURN void child_run(void)
{
    alarm(CHILD_WATCHDOG_S);
    TEST_REQUIRE(count_threads_named("teaspan-") == 0);
    uint32_t ncycles = tea_gc_count();
    for (uint64_t bytes = 0; bytes < GARBAGE_BYTES; bytes += 1000 * NODE_BYTES)
        list_new(1000);
    TEST_REQUIRE(tea_gc_count() > ncycles + 3);
    TEST_REQUIRE(list_length(inherited) == LIVE_NODES);
    TEST_REQUIRE(count_threads_named("teaspan-mark") == 1);

    /* A peak of live data, all of it dropped. */
    size_t before_bytes = resident_bytes();
    struct node *volatile peak = list_new(4 * LIVE_NODES);
    TEST_REQUIRE(list_length(peak) == 4 * LIVE_NODES);
    peak = NULL;
    test_scrub();
    tea_collect_and_release();
    TEST_REQUIRE(TEAI_ASAN || resident_bytes() < before_bytes + 4 * LIVE_NODES * NODE_BYTES / 2);
    TEST_REQUIRE(list_length(inherited) == LIVE_NODES);
    _exit(0);
}

static _Atomic int may_end;

static void *keep_collecting(void *unused)
{
    (void)unused;
    while (!atomic_load(&may_end))
        tea_collect();
    return NULL;
}

static void a_child_marks_with_its_own_helpers_and_gives_memory_back(void **state)
{
    (void)state;
    inherited = list_new(LIVE_NODES);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, keep_collecting, NULL), 0);
    while (tea_gc_count() < 3)
        usleep(1000);
    assert_int_equal(count_threads_named("teaspan-mark"), 1);
    pid_t pid = fork(); /* most likely in the middle of a cycle */
    assert_true(pid >= 0);
    if (pid == 0)
        child_run();
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    atomic_store(&may_end, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, 0);
    assert_int_equal(list_length(inherited), LIVE_NODES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test_with(a_child_marks_with_its_own_helpers_and_gives_memory_back, "TEASPAN=markers=2"),
    };
    if (TEAI_TSAN) {
        puts("skipped: ThreadSanitizer takes threads of the child for those of the parent that have the same address");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
