/* tests/bugs/test_b24_loader_lock.c -- B24: no hang with threads that start, load libraries, open files and spawn programs.
 *
 * A stopped thread may hold a lock of the C library or the loader that a starting thread, or the collector, then needs.
 * (Reports: bdwgc/bdwgc #250, snazzy-d/sdc PR 411.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 4 };

static _Atomic bool time_is_up;
static _Atomic uint64_t nrounds[8];

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)info, (void)size;
    ++*(int *)context;
    return 0;
}

static void load_and_unload(void)
{
    void *module = dlopen(TEST_MODULE_THREAD_LOCAL, RTLD_NOW);
    TEST_REQUIRE(module != NULL);
    TEST_REQUIRE(dlsym(module, "module_slot") != NULL);
    int nobjects = 0;
    dl_iterate_phdr(look_at_object, &nobjects);
    TEST_REQUIRE(dlclose(module) == 0);
}

static void *allocate_a_little(void *argument)
{
    TEST_REQUIRE(tea_alloc(64) != NULL);
    return argument;
}

static void create_and_join(void)
{
    pthread_t thread;
    TEST_REQUIRE(pthread_create(&thread, NULL, allocate_a_little, NULL) == 0);
    TEST_REQUIRE(pthread_join(thread, NULL) == 0);
}

static void use_malloc_and_stdio(void)
{
    void *volatile block = malloc(100000);
    free(block);
    FILE *file = fopen("/dev/null", "w");
    TEST_REQUIRE(file != NULL);
    fprintf(file, "%d", 1);
    fclose(file);
}

static char *const true_arguments[] = {"true", NULL};
static char *const no_environment[] = {NULL};

static void spawn_and_wait(void)
{
    pid_t pid;
    int status;
    TEST_REQUIRE(posix_spawnp(&pid, "true", NULL, NULL, true_arguments, no_environment) == 0);
    TEST_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
}

static void vfork_and_wait(void)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        execve("/bin/true", true_arguments, no_environment);
        _exit(1);
    }
    TEST_REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void run_system(void)
{
    TEST_REQUIRE(system("true") == 0);
}

static void collect(void)
{
    test_churn(64, 1000);
    tea_collect();
}

static void (*const activities[])(void) = {
    load_and_unload, create_and_join, use_malloc_and_stdio, spawn_and_wait, vfork_and_wait, run_system, collect,
};
enum { NACTIVITIES = sizeof activities / sizeof activities[0] };

static void *activity_main(void *index)
{
    size_t i = (size_t)index;
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    while (!atomic_load(&time_is_up)) {
        activities[i]();
        atomic_fetch_add(&nrounds[i], 1);
    }
    return NULL;
}

static void everything_at_once(void **state)
{
    (void)state;
    pthread_t threads[NACTIVITIES];
    for (size_t i = 0; i < NACTIVITIES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, activity_main, (void *)i), 0);
    nanosleep(&(struct timespec){SECONDS, 0}, NULL);
    atomic_store(&time_is_up, true);
    for (size_t i = 0; i < NACTIVITIES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(nrounds[i] > 0);
    }
}

static void *load_and_unload_until_stopped(void *unused)
{
    while (!atomic_load(&time_is_up)) {
        load_and_unload();
        atomic_fetch_add(&nrounds[0], 1);
    }
    return unused;
}

/* Nothing else, so that loads and collections meet often: a library's data is gone when it is unloaded, and the collector
 * must not have it listed as roots then. */
static void collections_one_after_the_other_while_a_library_comes_and_goes(void **state)
{
    (void)state;
    enum { COLLECTIONS = 500 };
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer holds the stop signal back in dlopen(), so the loader's lock is not held in a stop");
    pthread_t loader;
    assert_int_equal(pthread_create(&loader, NULL, load_and_unload_until_stopped, NULL), 0);
    for (int i = 0; i < COLLECTIONS; i++)
        tea_collect();
    atomic_store(&time_is_up, true);
    assert_int_equal(pthread_join(loader, NULL), 0);
    assert_true(nrounds[0] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(everything_at_once),
        heap_test(collections_one_after_the_other_while_a_library_comes_and_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
