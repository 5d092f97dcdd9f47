/* tests/unit/test_thread_end.c -- what an ending thread refers to lives until its last destructor has returned. */
#include "tests/support/heap_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PATTERN = 0x1234567, CHURN = 20000 };

static pthread_key_t late_key;
static _Atomic int stage; /* 1: the destructor has begun; 2: it may go on */
static _Atomic int nintact;

static void await(int wanted)
{
    while (atomic_load(&stage) != wanted)
        sched_yield();
}

static void late_destructor(void *value)
{
    const uintptr_t *object = value;
    atomic_store(&stage, 1);
    await(2);
    atomic_fetch_add(&nintact, object[1] == PATTERN);
}

static TEAI_NOINLINE void set_specific_data(void)
{
    uintptr_t *object = tea_alloc(64);
    TEST_REQUIRE(object != NULL);
    object[1] = PATTERN;
    TEST_REQUIRE(pthread_setspecific(late_key, object) == 0);
}

static void *thread_with_specific_data(void *unused)
{
    (void)unused;
    set_specific_data();
    return NULL;
}

static void collect_and_churn(void)
{
    for (int i = 0; i < 3; i++) {
        tea_collect();
        for (int k = 0; k < CHURN; k++)
            TEST_REQUIRE(tea_alloc(64) != NULL);
    }
}

/* The collector's own key is made first, so its destructor runs before this one. */
static void specific_data_lives_while_other_destructors_run(void **state)
{
    (void)state;
    enum { ROUNDS = 5 };
    TEST_REQUIRE(tea_alloc(16) != NULL);
    assert_int_equal(pthread_key_create(&late_key, late_destructor), 0);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        atomic_store(&stage, 0);
        assert_int_equal(pthread_create(&thread, NULL, thread_with_specific_data, NULL), 0);
        await(1);
        collect_and_churn();
        atomic_store(&stage, 2);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_equal(nintact, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(specific_data_lives_while_other_destructors_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
