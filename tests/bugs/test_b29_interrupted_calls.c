/* tests/bugs/test_b29_interrupted_calls.c -- B29: system calls do not fail with EINTR because of collections.
 *
 * Calls that the kernel can restart are restarted; of those that it never restarts (nanosleep, poll, epoll_wait) none is
 * interrupted in a blocking region. (Report: Ravenbrook/mps #9.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 2, COLLECTIONS_A_SECOND = 100 };

static _Atomic unsigned nentered;
static int empty_pipe[2], listening, connected[2], locked_file;
static pid_t sleeping_child;
static sem_t never_posted;
static char lock_path[] = "/tmp/teaspan-b29-XXXXXX";

static long call_read(void)
{
    char byte;
    return read(empty_pipe[0], &byte, 1);
}

static long call_recv(void)
{
    char byte;
    return recv(connected[0], &byte, 1, 0);
}

static long call_accept(void)
{
    int fd = accept(listening, NULL, NULL);
    return fd < 0 ? -1 : 0;
}

static long call_wait4(void)
{
    int status;
    return wait4(sleeping_child, &status, 0, NULL) == sleeping_child ? 0 : -1;
}

static long call_flock(void)
{
    int fd = open(lock_path, O_RDWR);
    return flock(fd, LOCK_EX);
}

static long call_sem_wait(void)
{
    return sem_wait(&never_posted);
}

static const struct timespec run_time = {SECONDS, 0};

static long call_nanosleep(void)
{
    return nanosleep(&run_time, NULL);
}

static long call_poll(void)
{
    struct pollfd fd = {.fd = empty_pipe[1] + 100000, .events = POLLIN};
    fd.fd = -1;
    return poll(&fd, 1, SECONDS * 1000);
}

static long call_epoll_wait(void)
{
    struct epoll_event event;
    int fd = epoll_create1(0);
    long result = epoll_wait(fd, &event, 1, SECONDS * 1000);
    close(fd);
    return result;
}

static const struct parked_call {
    const char *name;
    long (*call)(void);
    bool blocking_region; /* the kernel never restarts it */
} parked_calls[] = {
    {"read", call_read, false},         {"recv", call_recv, false},   {"accept", call_accept, false},
    {"wait4", call_wait4, false},       {"flock", call_flock, false}, {"sem_wait", call_sem_wait, false},
    {"nanosleep", call_nanosleep, true}, {"poll", call_poll, true},    {"epoll_wait", call_epoll_wait, true},
};
enum { NCALLS = sizeof parked_calls / sizeof parked_calls[0] };

static void *park(void *argument)
{
    const struct parked_call *parked = argument;
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    if (parked->blocking_region)
        TEST_REQUIRE(tea_blocking_enter() == TEA_OK);
    nentered++;
    if (parked->call() < 0) {
        fprintf(stderr, "%s: %s\n", parked->name, errno == EINTR ? "interrupted" : "failed");
        return argument;
    }
    if (parked->blocking_region)
        TEST_REQUIRE(tea_blocking_leave() == TEA_OK);
    return NULL;
}

static struct sockaddr_un socket_address(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "teaspan-b29-%d", (int)getpid()); /* abstract */
    return address;
}

static void prepare(void)
{
    TEST_REQUIRE(pipe(empty_pipe) == 0 && sem_init(&never_posted, 0, 0) == 0);
    TEST_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, connected) == 0);
    struct sockaddr_un address = socket_address();
    listening = socket(AF_UNIX, SOCK_STREAM, 0);
    TEST_REQUIRE(bind(listening, (struct sockaddr *)&address, sizeof address) == 0 && listen(listening, 1) == 0);
    locked_file = mkstemp(lock_path);
    TEST_REQUIRE(flock(locked_file, LOCK_EX) == 0);
    sleeping_child = fork();
    if (sleeping_child == 0) {
        pause();
        _exit(0);
    }
}

/* End what would never end. */
static void release(void)
{
    struct sockaddr_un address = socket_address();
    TEST_REQUIRE(write(empty_pipe[1], "x", 1) == 1 && write(connected[1], "x", 1) == 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    TEST_REQUIRE(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    kill(sleeping_child, SIGKILL);
    flock(locked_file, LOCK_UN);
    sem_post(&never_posted);
    unlink(lock_path);
}

static void parked_threads_see_no_collection(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer puts signals off in system calls that it does not know");
    pthread_t threads[NCALLS];
    void *failed;
    unsigned nfailed = 0;
    prepare();
    for (int i = 0; i < NCALLS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, park, (void *)&parked_calls[i]), 0);
    while (nentered < NCALLS)
        sched_yield();
    for (int i = 0; i < SECONDS * COLLECTIONS_A_SECOND; i++) {
        tea_collect();
        nanosleep(&(struct timespec){0, 1000000000 / COLLECTIONS_A_SECOND}, NULL);
    }
    release();
    for (int i = 0; i < NCALLS; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        nfailed += failed != NULL;
    }
    assert_int_equal(nfailed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(parked_threads_see_no_collection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
