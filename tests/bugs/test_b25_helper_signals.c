/* tests/bugs/test_b25_helper_signals.c -- B25: helper threads take none of the program's signals.
 *
 * The kernel may deliver a signal that is sent to the process to any thread that does not block it: a marker, say, and the
 * one thread that waits for it misses it. (Report: bdwgc/bdwgc PR 91.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NSIGNALS = 10000 };

static _Atomic bool time_is_up;
static _Atomic unsigned nreceived, nhandled;

static void handle(int signal)
{
    (void)signal;
    nhandled++;
}

static void *collect_main(void *argument)
{
    void *volatile keep = NULL;
    for (int i = 0; i < 20000; i++) {
        void **node = tea_alloc(256);
        node[0] = keep;
        keep = node;
    }
    while (!atomic_load(&time_is_up))
        tea_collect();
    return argument;
}

static void *wait_main(void *argument)
{
    sigset_t *set = argument;
    while (nreceived < NSIGNALS) {
        int signal;
        TEST_REQUIRE(sigwait(set, &signal) == 0);
        nreceived++;
    }
    return NULL;
}

static void every_signal_arrives_where_it_is_waited_for(void **state)
{
    (void)state;
    sigset_t set;
    pthread_t collector, waiter;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    signal(SIGUSR1, handle);
    signal(SIGCHLD, handle);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    assert_int_equal(pthread_create(&collector, NULL, collect_main, NULL), 0);
    assert_int_equal(pthread_create(&waiter, NULL, wait_main, &set), 0);
    while (tea_gc_count() < 3)
        usleep(1000);
    for (unsigned i = 0; i < NSIGNALS; i++) {
        assert_int_equal(kill(getpid(), i % 2 == 0 ? SIGUSR1 : SIGCHLD), 0);
        while (nreceived + nhandled <= i) /* one at a time: equal ones would merge */
            sched_yield();
    }
    assert_int_equal(pthread_join(waiter, NULL), 0);
    atomic_store(&time_is_up, true);
    assert_int_equal(pthread_join(collector, NULL), 0);
    assert_int_equal(nreceived, NSIGNALS);
    assert_int_equal(nhandled, 0);
}

static void read_line(const char *tid, const char *file, const char *key, char *out, size_t out_bytes)
{
    char path[300], line[300];
    snprintf(path, sizeof path, "/proc/self/task/%s/%s", tid, file);
    FILE *f = fopen(path, "r");
    out[0] = '\0';
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            snprintf(out, out_bytes, "%s", line + strlen(key));
    if (f != NULL)
        fclose(f);
}

static void helpers_block_all_signals(void **state)
{
    (void)state;
    pthread_t collector;
    atomic_store(&time_is_up, true);
    assert_int_equal(pthread_create(&collector, NULL, collect_main, NULL), 0);
    assert_int_equal(pthread_join(collector, NULL), 0);
    while (tea_gc_count() < 3)
        test_churn(1024, 10000);
    tea_collect();
    unsigned nhelpers = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char name[300], blocked[300];
        read_line(task->d_name, "comm", "teaspan-", name, sizeof name);
        if (name[0] == '\0')
            continue;
        read_line(task->d_name, "status", "SigBlk:", blocked, sizeof blocked);
        /* All but SIGKILL, SIGSTOP and the two that the C library keeps to itself. */
        assert_int_equal(strtoull(blocked, NULL, 16), ~0ull & ~(1ull << 8 | 1ull << 18 | 3ull << 31));
        nhelpers++;
    }
    closedir(tasks);
    assert_true(nhelpers > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(every_signal_arrives_where_it_is_waited_for),
        heap_test_with(helpers_block_all_signals, "TEASPAN=markers=3"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
