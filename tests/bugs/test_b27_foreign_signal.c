/* tests/bugs/test_b27_foreign_signal.c -- B27: the stop signal, sent by somebody else.
 *
 * A runtime that stops threads with a signal dereferences null when a container manager sends it that signal. (Reports:
 * oven-sh/bun #43186, JuliaLang/julia #57918.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

enum { NSIGNALS = 1000, NWORKERS = 2 };

static _Atomic unsigned nplain, ninfo, last_value;
static _Atomic bool time_is_up;

static void handle_plain(int number)
{
    TEST_REQUIRE(number == SIGURG);
    nplain++;
}

static void handle_info(int number, siginfo_t *info, void *context)
{
    TEST_REQUIRE(number == SIGURG && context != NULL);
    last_value = (unsigned)info->si_value.sival_int;
    ninfo++;
}

static void *work(void *argument)
{
    while (!atomic_load(&time_is_up)) {
        test_churn(64, 1000);
        tea_collect();
    }
    return argument;
}

static pthread_t workers[NWORKERS];

static void start_workers(void)
{
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    for (int i = 0; i < NWORKERS; i++)
        TEST_REQUIRE(pthread_create(&workers[i], NULL, work, NULL) == 0);
}

static void stop_workers(void)
{
    atomic_store(&time_is_up, true);
    for (int i = 0; i < NWORKERS; i++)
        TEST_REQUIRE(pthread_join(workers[i], NULL) == 0);
}

/* By another process, at any moment; the default action of SIGURG is to be ignored, so is ours. */
static void from_another_process_to_a_program_without_a_handler(void **state)
{
    (void)state;
    start_workers();
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        for (int i = 0; i < NSIGNALS; i++) {
            kill(parent, SIGURG);
            usleep(50);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    stop_workers();
    assert_int_equal(status, 0);
}

static void each_goes_on_to_the_handler_the_program_installs(void **state)
{
    (void)state;
    start_workers();
    assert_true(signal(SIGURG, handle_plain) == SIG_DFL);
    for (unsigned i = 1; i <= NSIGNALS; i++) {
        assert_int_equal(kill(getpid(), SIGURG), 0);
        while (nplain < i)
            sched_yield();
    }
    struct sigaction action = {.sa_sigaction = handle_info, .sa_flags = SA_SIGINFO}, old;
    assert_int_equal(sigaction(SIGURG, &action, &old), 0);
    assert_true(old.sa_handler == handle_plain);
    for (unsigned i = 1; i <= NSIGNALS; i++) {
        assert_int_equal(sigqueue(getpid(), SIGURG, (union sigval){.sival_int = (int)i}), 0);
        while (ninfo < i)
            sched_yield();
        assert_int_equal(last_value, i);
    }
    assert_int_equal(sigaction(SIGURG, NULL, &old), 0);
    assert_true(old.sa_sigaction == handle_info);
    stop_workers();
    assert_int_equal(nplain, NSIGNALS); /* none of the collector's */
    assert_int_equal(ninfo, NSIGNALS);
}

static void a_handler_installed_before_the_start_is_kept(void **state)
{
    (void)state;
    signal(SIGURG, handle_plain);
    start_workers();
    for (unsigned i = 1; i <= NSIGNALS; i++) {
        /* To the process: one sent to this thread might merge with one of ours that is pending. */
        assert_int_equal(kill(getpid(), SIGURG), 0);
        while (nplain < i)
            sched_yield();
    }
    stop_workers();
    assert_int_equal(nplain, NSIGNALS);
}

static int stay_unknown(void *may_end)
{
    while (sem_wait(may_end) != 0)
        ;
    return 0;
}

static void to_a_thread_that_is_no_mutator(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer does not know C11 threads");
    sem_t may_end;
    thrd_t thread;
    sem_init(&may_end, 0, 0);
    start_workers();
    signal(SIGURG, handle_plain);
    assert_int_equal(thrd_create(&thread, stay_unknown, &may_end), thrd_success);
    for (unsigned i = 1; i <= 100; i++) {
        assert_int_equal(pthread_kill(thread, SIGURG), 0);
        while (nplain < i)
            sched_yield();
    }
    sem_post(&may_end);
    thrd_join(thread, NULL);
    stop_workers();
}

/* A signal whose default action ends the process. */
static void with_another_signal_number(void **state)
{
    (void)state;
    start_workers();
    for (int i = 0; i < NSIGNALS; i++)
        assert_int_equal(kill(getpid(), SIGPWR), 0);
    for (uint32_t n = tea_gc_count(); tea_gc_count() < n + 3;)
        sched_yield();
    stop_workers();
}

static _Atomic bool blocked_begun;

static void *block_everything(void *argument)
{
    sigset_t all, now;
    sigfillset(&all);
    TEST_REQUIRE(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0 && sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    TEST_REQUIRE(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    TEST_REQUIRE(sigismember(&now, SIGUSR1) == 1 && sigismember(&now, SIGURG) == 0);
    atomic_store(&blocked_begun, true);
    while (!atomic_load(&time_is_up))
        sched_yield();
    return argument;
}

static void a_thread_that_blocks_all_signals_still_stops(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, block_everything, NULL), 0);
    while (!atomic_load(&blocked_begun))
        sched_yield();
    for (int i = 0; i < 100; i++)
        tea_collect();
    atomic_store(&time_is_up, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* What a program's signal thread does: blocks all signals and waits for any, over and over. */
static int wait_for_any_signal(const sigset_t *all)
{
    int number = 0;
    return sigwait(all, &number) == 0 ? number : 0;
}

static int wait_for_any_signal_or_a_moment(const sigset_t *all)
{
    siginfo_t info;
    return sigtimedwait(all, &info, &(struct timespec){0, 1000 * 1000});
}

/* These wait with all signals blocked, for ever if the stop signal is. */
static int poll_with_all_blocked(const sigset_t *all)
{
    ppoll(NULL, 0, NULL, all);
    return 0;
}

static int select_with_all_blocked(const sigset_t *all)
{
    pselect(0, NULL, NULL, NULL, NULL, all);
    return 0;
}

static int suspend_with_all_blocked(const sigset_t *all)
{
    sigsuspend(all);
    return 0;
}

struct waiter {
    int (*wait)(const sigset_t *all);
    _Atomic bool begun;
    _Atomic unsigned nstop_signals;
};

static void *waiter_main(void *argument)
{
    struct waiter *waiter = argument;
    sigset_t all;
    sigfillset(&all);
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    atomic_store(&waiter->begun, true);
    while (!atomic_load(&time_is_up))
        atomic_fetch_add(&waiter->nstop_signals, waiter->wait(&all) == SIGURG);
    return NULL;
}

static void threads_that_wait_for_signals_still_stop(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer puts signals off in system calls that it does not know");
    static struct waiter waiters[] = {
        {wait_for_any_signal, false, 0},   {wait_for_any_signal_or_a_moment, false, 0},
        {poll_with_all_blocked, false, 0}, {select_with_all_blocked, false, 0},
        {suspend_with_all_blocked, false, 0},
    };
    enum { NWAITERS = sizeof waiters / sizeof waiters[0] };
    pthread_t threads[NWAITERS];
    sigset_t all;
    sigfillset(&all);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
    for (int i = 0; i < NWAITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, waiter_main, &waiters[i]), 0);
    for (int i = 0; i < NWAITERS; i++)
        while (!atomic_load(&waiters[i].begun))
            sched_yield();
    for (int i = 0; i < 100; i++)
        tea_collect();
    atomic_store(&time_is_up, true);
    tea_collect(); /* lets go those that wait until they are interrupted */
    for (int i = 0; i < NWAITERS; i++) {
        pthread_kill(threads[i], SIGTERM); /* and the one in sigwait() */
        assert_int_equal(waiters[i].nstop_signals, 0);
    }
    assert_int_equal(pthread_join(threads[0], NULL), 0);
}

/* As a library would that reaches past us. */
static void a_replaced_handler_is_put_back(void **state)
{
    (void)state;
    start_workers();
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } ignore = {SIG_IGN, 0, NULL, 0};
    assert_int_equal(syscall(SYS_rt_sigaction, SIGURG, &ignore, NULL, 8), 0);
    for (int i = 0; i < 10; i++)
        tea_collect();
    stop_workers();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(from_another_process_to_a_program_without_a_handler),
        heap_test(each_goes_on_to_the_handler_the_program_installs),
        heap_test(a_handler_installed_before_the_start_is_kept),
        heap_test(to_a_thread_that_is_no_mutator),
        heap_test_with(with_another_signal_number, "TEASPAN=signal=30"),
        heap_test(a_thread_that_blocks_all_signals_still_stops),
        heap_test(threads_that_wait_for_signals_still_stop),
        heap_test(a_replaced_handler_is_put_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
