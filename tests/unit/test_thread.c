/* tests/unit/test_thread.c -- what a thread keeps alive from before it runs until it is joined; blocking regions; wrong calls. */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include "gc/heap.h"
#include "gc/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OBJECT_BYTES = 64 };

static void churn_and_collect(void)
{
    for (int i = 0; i < 3; i++) {
        test_churn(OBJECT_BYTES, 500);
        test_collect();
    }
}

static void new_object(void *hidden)
{
    *(uintptr_t *)hidden = test_object_new(OBJECT_BYTES);
}

static uintptr_t object_made_apart(void)
{
    uintptr_t hidden;
    test_apart(new_object, &hidden);
    return hidden;
}

/* --- argument and result --- */

static _Atomic uint32_t may_run;
static uintptr_t seen_argument;

static void *hide_argument(void *argument)
{
    seen_argument = test_hide(argument);
    TEST_REQUIRE(test_object_is_intact(seen_argument, OBJECT_BYTES));
    return NULL;
}

/* Whenever the collection comes: the argument arrives whole. */
static void an_argument_is_a_root_before_the_thread_runs(void **state)
{
    (void)state;
    enum { NTHREADS = 50 };
    for (int i = 0; i < NTHREADS; i++) {
        pthread_t thread;
        uintptr_t hidden = object_made_apart();
        assert_int_equal(pthread_create(&thread, NULL, hide_argument, test_reveal(hidden)), 0);
        test_scrub();
        tea_collect();
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(seen_argument == hidden);
    }
}

/* The same without luck: a listed record whose thread has not begun. */
static void an_argument_in_a_record_is_a_root(void **state)
{
    (void)state;
    uintptr_t hidden = object_made_apart();
    struct tea_heap *h = teai_self->heap;
    size_t bytes = sizeof(struct tea_mutator);
    struct tea_mutator *m = teai_metadata_alloc(&h->metadata, &bytes);
    assert_non_null(m);
    m->heap = h;
    m->start_argument = test_reveal(hidden);
    atomic_store(&m->state, TEAI_MUTATOR_BLOCKED);
    for (unsigned i = TEAI_CLASS_FIRST_SMALL; i < TEAI_NSPAN_CLASSES; i++)
        teai_cache_init(&m->cache[i], (uint8_t)i);
    m->next = h->world.mutators;
    m->next->prev = m;
    h->world.mutators = m;
    churn_and_collect();
    assert_true(test_object_is_intact(hidden, OBJECT_BYTES));
    m->start_argument = NULL;
    churn_and_collect();
    assert_false(test_object_is_intact(hidden, OBJECT_BYTES));
}

static void *return_object(void *hidden)
{
    new_object(hidden);
    return test_reveal(*(uintptr_t *)hidden);
}

static TEAI_NOINLINE void exit_nested(void *result)
{
    pthread_exit(result);
}

static void *exit_with_object(void *hidden)
{
    new_object(hidden);
    exit_nested(test_reveal(*(uintptr_t *)hidden));
    return NULL;
}

static void wait_until_ended(void)
{
    struct teai_world *w = &teai_default_heap.world;
    for (;;) {
        teai_lock_acquire(&w->threads_lock);
        bool ended = w->ended != NULL;
        teai_lock_release(&w->threads_lock);
        if (ended)
            return;
        sched_yield();
    }
}

static unsigned count_ended(void)
{
    struct teai_world *w = &teai_default_heap.world;
    unsigned n = 0;
    teai_lock_acquire(&w->threads_lock);
    for (struct tea_mutator *m = w->ended; m != NULL; m = m->next)
        n++;
    teai_lock_release(&w->threads_lock);
    return n;
}

static unsigned count_mutators(void)
{
    struct teai_world *w = &teai_default_heap.world;
    teai_lock_acquire(&w->threads_lock);
    unsigned n = w->nmutators;
    teai_lock_release(&w->threads_lock);
    return n;
}

static void result_is_a_root_until_joined(void *(*start)(void *))
{
    static uintptr_t hidden;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start, &hidden), 0);
    wait_until_ended();
    churn_and_collect();
    assert_true(test_object_is_intact(hidden, OBJECT_BYTES));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count_ended(), 0);
    churn_and_collect();
    assert_false(test_object_is_intact(hidden, OBJECT_BYTES));
}

static void a_returned_object_lives_until_the_join(void **state)
{
    (void)state;
    result_is_a_root_until_joined(return_object);
}

static void an_object_given_to_pthread_exit_lives_until_the_join(void **state)
{
    (void)state;
    result_is_a_root_until_joined(exit_with_object);
}

static void results_of_detached_threads_are_not_kept(void **state)
{
    (void)state;
    static uintptr_t hidden;
    pthread_t thread;
    pthread_attr_t detached;
    assert_int_equal(pthread_create(&thread, NULL, return_object, &hidden), 0);
    wait_until_ended();
    assert_int_equal(pthread_detach(thread), 0);
    assert_int_equal(count_ended(), 0);
    assert_int_equal(pthread_attr_init(&detached), 0);
    assert_int_equal(pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED), 0);
    assert_int_equal(pthread_create(&thread, &detached, return_object, &hidden), 0);
    while (count_mutators() > 1)
        sched_yield();
    assert_int_equal(count_ended(), 0);
    pthread_attr_destroy(&detached);
}

static void timed_joins_forget_the_result_when_they_succeed(void **state)
{
    (void)state;
    static uintptr_t hidden;
    pthread_t thread;
    void *result;
    struct timespec past = {0, 0};
    assert_int_equal(pthread_create(&thread, NULL, return_object, &hidden), 0);
    int error;
    while ((error = pthread_timedjoin_np(thread, &result, &past)) == ETIMEDOUT)
        sched_yield();
    assert_int_equal(error, 0);
    assert_int_equal(count_ended(), 0);
    assert_int_equal(pthread_create(&thread, NULL, return_object, &hidden), 0);
    while ((error = pthread_tryjoin_np(thread, &result)) == EBUSY)
        sched_yield();
    assert_int_equal(error, 0);
    assert_true(result == test_reveal(hidden));
    assert_int_equal(count_ended(), 0);
}

/* --- specific data and late thread-locals --- */

enum { NKEYS = 200 };
static pthread_key_t keys[NKEYS];
static uintptr_t key_hidden[NKEYS];
static sem_t holding, may_end;

static TEAI_NOINLINE void fill_keys(void)
{
    for (int i = 0; i < NKEYS; i++) {
        key_hidden[i] = test_object_new(OBJECT_BYTES);
        TEST_REQUIRE(pthread_setspecific(keys[i], test_reveal(key_hidden[i])) == 0);
    }
}

static unsigned count_intact(const uintptr_t *hidden, unsigned n)
{
    unsigned nintact = 0;
    for (unsigned i = 0; i < n; i++)
        nintact += test_object_is_intact(hidden[i], OBJECT_BYTES);
    return nintact;
}

static void *hold_keys(void *argument)
{
    fill_keys();
    test_scrub();
    sem_post(&holding);
    sem_wait(&may_end);
    return argument;
}

static void make_keys(void)
{
    tea_thread_attach(); /* the collector's own key is one of the first */
    for (int i = 0; i < NKEYS; i++)
        TEST_REQUIRE(pthread_key_create(&keys[i], NULL) == 0);
}

static void specific_data_of_the_initial_thread_are_roots(void **state)
{
    (void)state;
    make_keys();
    fill_keys();
    churn_and_collect();
    assert_int_equal(count_intact(key_hidden, NKEYS), NKEYS);
    for (int i = 0; i < NKEYS; i++)
        pthread_setspecific(keys[i], NULL);
    churn_and_collect();
    assert_int_equal(count_intact(key_hidden, NKEYS), 0);
}

static void specific_data_are_roots_until_the_thread_ends(void **state)
{
    (void)state;
    make_keys();
    pthread_t thread;
    sem_init(&holding, 0, 0);
    sem_init(&may_end, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_keys, NULL), 0);
    sem_wait(&holding);
    churn_and_collect();
    assert_int_equal(count_intact(key_hidden, NKEYS), NKEYS);
    sem_post(&may_end);
    assert_int_equal(pthread_join(thread, NULL), 0);
    churn_and_collect();
    assert_int_equal(count_intact(key_hidden, NKEYS), 0);
}

enum { NLATE = 3 };
static const size_t late_slots[NLATE] = {0, 1500, 2999};
static void **(*module_slot)(size_t i);
static uintptr_t late_hidden[2][NLATE];

static TEAI_NOINLINE void fill_late(uintptr_t *hidden)
{
    for (int i = 0; i < NLATE; i++) {
        hidden[i] = test_object_new(OBJECT_BYTES);
        *module_slot(late_slots[i]) = test_reveal(hidden[i]);
    }
}

static void *hold_late(void *argument)
{
    fill_late(late_hidden[1]);
    test_scrub();
    sem_post(&holding);
    sem_wait(&may_end);
    return argument;
}

static void thread_locals_of_a_library_loaded_late_are_roots_of_every_thread(void **state)
{
    (void)state;
    tea_collect();
    void *module = dlopen(TEST_MODULE_THREAD_LOCAL, RTLD_NOW);
    if (module == NULL)
        fail_msg("%s", dlerror());
    *(void **)&module_slot = dlsym(module, "module_slot");
    assert_non_null((void *)module_slot);
    pthread_t thread;
    sem_init(&holding, 0, 0);
    sem_init(&may_end, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_late, NULL), 0);
    sem_wait(&holding);
    fill_late(late_hidden[0]);
    churn_and_collect();
    assert_int_equal(count_intact(late_hidden[0], NLATE), NLATE);
    assert_int_equal(count_intact(late_hidden[1], NLATE), NLATE);
    test_apart((void (*)(void *))churn_and_collect, NULL); /* a thread without such a block collects */
    assert_int_equal(count_intact(late_hidden[0], NLATE), NLATE);
    sem_post(&may_end);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < NLATE; i++)
        *module_slot(late_slots[i]) = NULL;
    churn_and_collect();
    assert_int_equal(count_intact(late_hidden[0], NLATE), 0);
    assert_int_equal(count_intact(late_hidden[1], NLATE), 0);
    assert_false(teai_default_heap.roots.tls_modules.layout_is_wrong);
}

/* --- blocking regions --- */

static uintptr_t blocked_hidden;
static _Atomic int blocked_seen;

/* The object is in a register that calls preserve. What is called in the region saves it below the frame that entered, where no
 * scan looks: the copy in the thread's record keeps the object. */
static void *block_with_object(void *argument)
{
    void *object = test_reveal(test_object_new(OBJECT_BYTES));
    blocked_hidden = test_hide(object);
    __asm__ volatile("" : "+r"(object));
    test_scrub();
    TEST_REQUIRE(tea_blocking_enter() == TEA_OK && tea_blocking_enter() == TEA_OK);
    sem_post(&holding);
    while (sem_wait(&may_end) != 0)
        ;
    TEST_REQUIRE(tea_blocking_leave() == TEA_OK && tea_blocking_leave() == TEA_OK);
    __asm__ volatile("" : "+r"(object));
    TEST_REQUIRE(test_hide(object) == blocked_hidden && test_object_is_intact(blocked_hidden, OBJECT_BYTES));
    return argument;
}

static void a_blocked_thread_is_scanned_and_gets_no_signal(void **state)
{
    (void)state;
    pthread_t thread;
    sem_init(&holding, 0, 0);
    sem_init(&may_end, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, block_with_object, NULL), 0);
    sem_wait(&holding);
    churn_and_collect();
    assert_true(test_object_is_intact(blocked_hidden, OBJECT_BYTES));
    sem_post(&may_end);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *count_interruptions(void *argument)
{
    (void)argument;
    struct timespec left = {0, 200000000};
    while (nanosleep(&left, &left) != 0)
        blocked_seen++;
    return test_reveal(42);
}

static void *sleep_blocking(void *argument)
{
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    sem_post(&holding);
    TEST_REQUIRE(tea_call_blocking(count_interruptions, argument) == test_reveal(42));
    atomic_store(&may_run, 1);
    return NULL;
}

static void a_call_in_a_blocking_region_is_not_interrupted(void **state)
{
    (void)state;
    pthread_t thread;
    sem_init(&holding, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, sleep_blocking, NULL), 0);
    sem_wait(&holding);
    while (atomic_load(&may_run) == 0)
        tea_collect();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(&blocked_seen) <= 1); /* on the way in */
}

static struct test_log messages;

static void unbalanced_calls_are_explained(void **state)
{
    (void)state;
    test_log_capture(&messages);
    assert_int_equal(tea_thread_attach(), TEA_OK);
    assert_int_equal(tea_blocking_leave(), TEA_ERR_STATE);
    test_log_expect(&messages, 1, "tea_blocking_leave");
    assert_int_equal(tea_thread_detach(), TEA_OK);
    assert_int_equal(tea_thread_detach(), TEA_ERR_STATE);
    test_log_expect(&messages, 2, "is not attached");
    assert_int_equal(tea_blocking_enter(), TEA_OK);
    assert_int_equal(tea_thread_detach(), TEA_ERR_STATE);
    test_log_expect(&messages, 3, "in a blocking region");
    assert_int_equal(tea_blocking_leave(), TEA_OK);
    tea_collect();
}

static void use_of_the_heap_ends_a_blocking_region(void **state)
{
    (void)state;
    test_log_capture(&messages);
    assert_int_equal(tea_blocking_enter(), TEA_OK);
    tea_collect();
    test_log_expect(&messages, 1, "in a blocking region");
    assert_int_equal(tea_blocking_leave(), TEA_ERR_STATE);
    assert_int_equal(tea_blocking_enter(), TEA_OK);
    test_churn(OBJECT_BYTES, 10000);
    test_log_expect(&messages, 3, "in a blocking region");
}

/* --- a thread that does not stop --- */

static _Atomic int spin_tid;

/* By system call, as what we cannot intercept would do. */
static void *spin_deaf(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_thread_attach() == TEA_OK);
    unsigned long all = ~0ul;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
    atomic_store(&spin_tid, teai_platform_thread_id());
    usleep(100000);
    all = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
    return NULL;
}

static void report_names_thread(void **state)
{
    (void)state;
    int ends[2];
    char text[512], expected[64];
    pthread_t thread;
    assert_int_equal(pipe(ends), 0);
    int old_stderr = dup(STDERR_FILENO);
    assert_int_equal(pthread_create(&thread, NULL, spin_deaf, NULL), 0);
    while (atomic_load(&spin_tid) == 0)
        sched_yield();
    teai_default_heap.world.patience_ns = 20 * 1000 * 1000;
    dup2(ends[1], STDERR_FILENO);
    tea_collect();
    dup2(old_stderr, STDERR_FILENO);
    close(ends[1]);
    ssize_t nread = read(ends[0], text, sizeof text - 1);
    assert_true(nread > 0);
    text[nread] = '\0';
    snprintf(expected, sizeof expected, "teaspan: thread %d has not stopped", atomic_load(&spin_tid));
    assert_non_null(strstr(text, expected));
    assert_int_equal(test_count_lines(text, "teaspan:"), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(an_argument_is_a_root_before_the_thread_runs),
        heap_test(an_argument_in_a_record_is_a_root),
        heap_test(a_returned_object_lives_until_the_join),
        heap_test(an_object_given_to_pthread_exit_lives_until_the_join),
        heap_test(results_of_detached_threads_are_not_kept),
        heap_test(timed_joins_forget_the_result_when_they_succeed),
        heap_test(specific_data_of_the_initial_thread_are_roots),
        heap_test(specific_data_are_roots_until_the_thread_ends),
        heap_test(thread_locals_of_a_library_loaded_late_are_roots_of_every_thread),
        heap_test(a_blocked_thread_is_scanned_and_gets_no_signal),
        heap_test(a_call_in_a_blocking_region_is_not_interrupted),
        heap_test(unbalanced_calls_are_explained),
        heap_test(use_of_the_heap_ends_a_blocking_region),
        heap_test(report_names_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
