/* tests/bugs/test_b20_foreign_threads.c -- B20: threads made past our pthread_create() are adopted when they allocate.
 *
 * A host program's own threads call into a library that uses the collector, and the process aborts as soon as one of them
 * collects. (Reports: vlang/v #27178, bdwgc/bdwgc #333, xgo-dev/llgo PR 2461.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include <dlfcn.h>
#include <pthread.h>
#include <threads.h>

enum { OBJECT_BYTES = 64, NTHREADS = 4, NROUNDS = 20 };

static void work_on_own_stack(void)
{
    void *volatile object = NULL;
    for (int i = 0; i < NROUNDS; i++) {
        uintptr_t hidden = test_object_new(OBJECT_BYTES);
        object = test_reveal(hidden);
        test_scrub();
        test_churn(OBJECT_BYTES, 200);
        tea_collect();
        TEST_REQUIRE(test_object_is_intact(hidden, OBJECT_BYTES));
    }
    (void)object;
}

static void *posix_main(void *argument)
{
    work_on_own_stack();
    return argument;
}

static int c11_main(void *argument)
{
    (void)argument;
    work_on_own_stack();
    return 7;
}

static void skip_with_tsan(void)
{
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer wants to be told of every thread");
}

static void threads_by_the_next_pthread_create(void **state)
{
    (void)state;
    skip_with_tsan();
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    assert_non_null((void *)create);
    pthread_t threads[NTHREADS];
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(create(&threads[i], NULL, posix_main, NULL), 0);
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(test_objects_after_collect(), 0);
}

static void threads_of_c11(void **state)
{
    (void)state;
    skip_with_tsan();
    thrd_t threads[NTHREADS];
    int result;
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(thrd_create(&threads[i], c11_main, NULL), thrd_success);
    for (int i = 0; i < NTHREADS; i++) {
        assert_int_equal(thrd_join(threads[i], &result), thrd_success);
        assert_int_equal(result, 7);
    }
    assert_int_equal(test_objects_after_collect(), 0);
}

static void openmp_main(void *argument)
{
    (void)argument;
    work_on_own_stack();
}

/* What the compiler makes of a parallel region. */
static void threads_of_libgomp(void **state)
{
    (void)state;
    skip_with_tsan();
    void *libgomp = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE);
    if (libgomp == NULL)
        heap_test_skip("libgomp is not installed");
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    *(void **)&parallel = dlsym(libgomp, "GOMP_parallel");
    assert_non_null((void *)parallel);
    for (int i = 0; i < 3; i++)
        parallel(openmp_main, NULL, NTHREADS, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(threads_by_the_next_pthread_create),
        heap_test(threads_of_c11),
        heap_test(threads_of_libgomp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
