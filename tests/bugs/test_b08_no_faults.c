/* tests/bugs/test_b08_no_faults.c -- B08: starting, and finding stacks and data, reads nothing that is not there: no SIGSEGV and no
 * SIGBUS is ever delivered. (Reports: bdwgc/bdwgc #409, #432.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void *allocate_and_collect(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < 10000; i++)
        TEST_REQUIRE(tea_alloc(100) != NULL);
    tea_collect();
    return NULL;
}

static TEAI_NORETURN void traced_run(void)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    raise(SIGSTOP); /* the tracer asks to see our threads too */
    pthread_t thread;
    TEST_REQUIRE(pthread_create(&thread, NULL, allocate_and_collect, NULL) == 0);
    allocate_and_collect(NULL);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
    _exit(0);
}

/* Let the thread that stopped go on, with the signal it stopped for unless that was for the tracer. */
static void trace_continue(pid_t tid, int status)
{
    bool for_tracer = WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGTRAP;
    ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)(for_tracer ? 0 : WSTOPSIG(status)));
}

static void nothing_faults(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        traced_run();
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSTOPPED(status)) {
        print_message("skipped: tracing is not allowed here\n");
        skip();
    }
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)), 0);
    trace_continue(pid, status);
    unsigned nsignals = 0;
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        assert_true(tid > 0);
        if (tid == pid && !WIFSTOPPED(status))
            break;
        if (!WIFSTOPPED(status))
            continue;
        if (WSTOPSIG(status) == SIGSEGV || WSTOPSIG(status) == SIGBUS)
            fail_msg("thread %d: %s", (int)tid, WSTOPSIG(status) == SIGSEGV ? "SIGSEGV" : "SIGBUS");
        nsignals += WSTOPSIG(status) == SIGURG;
        trace_continue(tid, status);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    print_message("%u stop signals seen\n", nsignals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
