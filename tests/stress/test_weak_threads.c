/* tests/stress/test_weak_threads.c -- threads share weak pointers, ephemerons and finalizers while collections run.
 *
 * Each round, threads replace objects in a shared table of weak pointers, read others' entries, and check that what they read
 * is whole: a weak pointer that led to a dead or reused object would show another pattern.
 */
#include "tests/support/objects.h"
#include "tests/support/random.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ENTRIES = 512, COLLECTIONS = TEAI_TSAN ? 4 : 20, STEPS = TEAI_TSAN ? 5000 : TEAI_ASAN ? 20000 : 200000, MAGIC = 0x7ea5 };

struct thing {
    uintptr_t magic;
    _Atomic uintptr_t *counter; /* of finalized things */
    struct thing *strong;       /* another, for a while */
    uintptr_t check;            /* of the address */
};

static struct tea_weak *_Atomic weak_table[ENTRIES];
static struct tea_ephemeron *_Atomic ephemeron_table[ENTRIES];
static _Atomic uintptr_t nmade, nfinalized, ncleaned, nfound;

static void check_thing(const struct thing *thing)
{
    TEST_REQUIRE(thing->magic == MAGIC && thing->check == test_hide(thing));
}

static void thing_finalized(void *object, void *context)
{
    struct thing *thing = object;
    check_thing(thing);
    TEST_REQUIRE(thing->counter == context);
    atomic_fetch_add(thing->counter, 1);
}

static void thing_cleaned(void *argument)
{
    atomic_fetch_add((_Atomic uintptr_t *)argument, 1);
}

static struct thing *make_thing(void)
{
    struct thing *thing = tea_alloc(sizeof *thing);
    TEST_REQUIRE(thing != NULL);
    *thing = (struct thing){MAGIC, &nfinalized, NULL, test_hide(thing)};
    atomic_fetch_add(&nmade, 1);
    TEST_REQUIRE(tea_set_finalizer(thing, thing_finalized, &nfinalized) == TEA_OK);
    TEST_REQUIRE(tea_add_cleanup(thing, thing_cleaned, &ncleaned, NULL) == TEA_OK);
    return thing;
}

static void publish(struct test_random *r, struct thing **held)
{
    struct thing *thing = make_thing();
    thing->strong = test_random_below(r, 4) == 0 ? *held : NULL;
    if (thing->strong != NULL)
        thing->strong->strong = NULL; /* chains of two at most */
    struct tea_weak *weak = tea_weak_create(thing);
    TEST_REQUIRE(tea_weak_get(weak) == thing && tea_weak_create(thing) == weak);
    atomic_store(&weak_table[test_random_below(r, ENTRIES)], weak);
    struct thing *value = make_thing();
    value->strong = thing;
    /* An ephemeron's value that refers to its key: both die together, but the value is finalizable and refers to it. */
    TEST_REQUIRE(tea_set_finalizer(value, NULL, NULL) == TEA_OK);
    atomic_fetch_add(&nfinalized, 1);
    atomic_store(&ephemeron_table[test_random_below(r, ENTRIES)], tea_ephemeron_create(thing, value));
    *held = thing;
}

static void look(struct test_random *r, struct thing **held)
{
    struct thing *thing = tea_weak_get(atomic_load(&weak_table[test_random_below(r, ENTRIES)]));
    if (thing != NULL) {
        check_thing(thing);
        TEST_REQUIRE(tea_weak_get(tea_weak_create(thing)) == thing);
        atomic_fetch_add(&nfound, 1);
    }
    struct tea_ephemeron *ephemeron = atomic_load(&ephemeron_table[test_random_below(r, ENTRIES)]);
    struct thing *key = tea_ephemeron_key(ephemeron);
    if (key != NULL) {
        struct thing *value = tea_ephemeron_value(ephemeron);
        TEST_REQUIRE(value != NULL);
        check_thing(value);
        check_thing(key);
        TEST_REQUIRE(value->strong == key);
        tea_keep_alive(key);
    }
    if (test_random_below(r, 100) == 0)
        *held = thing;
}

static void *thread_main(void *argument)
{
    struct test_random r = *(struct test_random *)argument;
    struct thing *held = NULL;
    for (int i = 0; i < STEPS; i++) {
        if (test_random_below(&r, 4) == 0)
            publish(&r, &held);
        else
            look(&r, &held);
        if (test_random_below(&r, STEPS / COLLECTIONS) == 0)
            tea_collect();
        if (test_random_below(&r, STEPS / COLLECTIONS) == 0)
            tea_run_finalizers();
    }
    return NULL;
}

static void run_threads(void)
{
    struct test_random r = test_random_start("test_weak_threads");
    static struct test_random seeds[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        seeds[i].state = test_random_next(&r);
        TEST_REQUIRE(pthread_create(&threads[i], NULL, thread_main, &seeds[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        TEST_REQUIRE(pthread_join(threads[i], NULL) == 0);
}

static void what_is_read_is_whole_and_nothing_is_lost(void **state)
{
    (void)state;
    run_threads();
    for (int i = 0; i < ENTRIES; i++) {
        atomic_store(&weak_table[i], NULL);
        atomic_store(&ephemeron_table[i], NULL);
    }
    for (int i = 0; i < 6; i++) { /* chains of finalizable things die one after another */
        test_collect();
        tea_run_finalizers();
    }
    assert_int_not_equal(nfound, 0);
    /* A stale word may keep a few. */
    assert_in_range(nmade - nfinalized, 0, 20);
    assert_in_range(nmade - ncleaned, 0, 20);
    struct tea_stats stats = test_stats();
    assert_int_equal(stats.finalizers_queued, stats.finalizers_run);
    assert_int_equal(stats.cleanups_run, ncleaned);
    test_census();
}

/* A child has no finalizer thread; it makes itself one, and a call that the parent's was making does not block it. */
static _Atomic bool stop_making;
enum { BACKLOG = 20000 };

static void *make_all_the_time(void *argument)
{
    (void)argument;
    while (!stop_making) {
        make_thing();
        if (nmade > nfinalized + BACKLOG) /* or what is due would pile up */
            usleep(1000);
    }
    return NULL;
}

static int child_main(void)
{
    uintptr_t before = nfinalized;
    for (int i = 0; i < 100; i++)
        make_thing();
    for (int i = 0; i < 200 && nfinalized < before + 90; i++) {
        tea_collect();
        usleep(1000);
        tea_run_finalizers();
    }
    return nfinalized >= before + 90 ? 0 : 1;
}

static void forked_children_finalize(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer does not let a forked child start threads");
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_all_the_time, NULL), 0);
    enum { FORKS = 30 };
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(30);
            _exit(child_main());
        }
        assert_true(pid > 0);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    stop_making = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(what_is_read_is_whole_and_nothing_is_lost),
        heap_test_with(what_is_read_is_whole_and_nothing_is_lost, "GODEBUG=gccheckmark=1", "TEASPAN=markers=2"),
        heap_test(forked_children_finalize),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
