/* tests/unit/test_finalizer.c -- finalizers and cleanups: called once, after death, with what they need alive. */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#include "gc/special.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static struct tea_heap *const h = &teai_default_heap;
static struct test_log messages;

/* What finalizers and cleanups note, in order. */
enum { NOTES = 1024 };
static uintptr_t notes[NOTES];
static _Atomic unsigned nnotes;

static void note(uintptr_t what)
{
    notes[atomic_fetch_add(&nnotes, 1) % NOTES] = what;
}

static void note_object(void *object, void *context)
{
    note(context != NULL ? *(uintptr_t *)context : test_hide(object));
}

static void note_argument(void *argument)
{
    note(*(uintptr_t *)argument);
}

static void note_number(void *number)
{
    note((uintptr_t)number);
}

static uintptr_t hidden[8];

/* A full collection, then everything that is due. */
static size_t collect_and_run(void)
{
    test_collect();
    return tea_run_finalizers();
}

static uintptr_t *number_object(uintptr_t number)
{
    uintptr_t *object = tea_alloc_leaf(64);
    TEST_REQUIRE(object != NULL);
    *object = number;
    return object;
}

/* --- once, after death --- */

static void make_finalizable(void *size_bytes)
{
    void *object = tea_alloc(*(size_t *)size_bytes);
    TEST_REQUIRE(tea_set_finalizer(object, note_object, NULL) == TEA_OK);
    hidden[0] = test_hide(object);
}

static void a_dead_object_is_finalized_once_and_freed_after(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 24, 64, 512, 1000, 20000, 40000, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        nnotes = 0;
        test_apart(make_finalizable, (void *)&sizes[i]);
        assert_int_equal(collect_and_run(), 1);
        assert_int_equal(nnotes, 1);
        assert_int_equal(notes[0], hidden[0]);
        assert_true(test_is_alive(hidden[0]));
        assert_int_equal(collect_and_run(), 0);
        assert_false(test_is_alive(hidden[0]));
        assert_int_equal(nnotes, 1);
        test_census();
    }
}

/* On another thread's stack, so that no object of it stays. */
static void churn(void *argument)
{
    (void)argument;
    test_churn(64, 1000);
    test_churn(32, 1000);
}

static void *volatile keeper;

static void make_kept(void *argument)
{
    (void)argument;
    keeper = tea_alloc(64);
    TEST_REQUIRE(tea_set_finalizer(keeper, note_object, NULL) == TEA_OK);
}

static void a_living_object_is_not_finalized(void **state)
{
    (void)state;
    test_apart(make_kept, NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(collect_and_run(), 0);
    keeper = NULL;
    assert_int_equal(collect_and_run(), 1);
}

/* Until a due finalizer has run the object stays, however many collections there are. */
static void an_object_waits_for_its_due_finalizer(void **state)
{
    (void)state;
    size_t size_bytes = 64;
    test_apart(make_finalizable, &size_bytes);
    for (int i = 0; i < 4; i++)
        test_collect();
    assert_int_equal(nnotes, 0);
    assert_true(test_is_alive(hidden[0]));
    assert_int_equal(tea_run_finalizers(), 1);
}

static void check_contents(void *object, void *context)
{
    void **words = object;
    uintptr_t *number = words[0];
    void **middle = words[1];
    TEST_REQUIRE(*number == 17 && *(uintptr_t *)middle[0] == 18);
    note(*(uintptr_t *)context);
}

static void make_with_contents(void *argument)
{
    (void)argument;
    void **object = tea_alloc(64), **middle = tea_alloc(32);
    object[0] = number_object(17);
    object[1] = middle;
    middle[0] = number_object(18);
    TEST_REQUIRE(tea_set_finalizer(object, check_contents, number_object(19)) == TEA_OK);
}

static void what_object_and_context_refer_to_is_there_for_the_finalizer(void **state)
{
    (void)state;
    test_apart(make_with_contents, NULL);
    test_collect();
    test_collect();
    test_apart(churn, NULL);
    assert_int_equal(tea_run_finalizers(), 1);
    assert_int_equal(notes[0], 19);
}

static const uint64_t second_word_only[] = {2};
static const struct tea_type second_word_type = {64, 8, second_word_only};

static void make_typed(void *count)
{
    void **object = tea_alloc_typed(&second_word_type, *(size_t *)count);
    object[0] = number_object(1);
    object[1] = number_object(2);
    hidden[0] = test_hide(object[0]);
    hidden[1] = test_hide(object[1]);
    TEST_REQUIRE(tea_set_finalizer(object, note_object, NULL) == TEA_OK);
}

static void of_a_typed_object_only_references_are_kept(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 10000};
    for (int i = 0; i < 2; i++) {
        test_apart(make_typed, (void *)&counts[i]);
        test_collect();
        assert_false(test_is_alive(hidden[0]));
        assert_true(test_is_alive(hidden[1]));
        assert_int_equal(tea_run_finalizers(), 1);
    }
}

static void make_tiny(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100; i++)
        TEST_REQUIRE(tea_set_finalizer(tea_alloc_leaf(4), note_object, NULL) == TEA_OK);
}

/* The last block may still be the one that tiny objects are cut from. */
static void tiny_objects_are_finalized_too(void **state)
{
    (void)state;
    test_apart(make_tiny, NULL);
    size_t nrun = collect_and_run();
    assert_in_range(nrun, 96, 100);
    assert_int_equal(nrun, nnotes);
    test_census();
}

/* --- more than one collection --- */

static void make_resurrected(void *object, void *context)
{
    (void)context;
    keeper = object;
    note(1);
}

static void make_resurrectable(void *argument)
{
    (void)argument;
    void *object = tea_alloc(64);
    test_object_fill(object, 64);
    hidden[0] = test_hide(object);
    TEST_REQUIRE(tea_set_finalizer(object, make_resurrected, NULL) == TEA_OK);
}

static void an_object_made_reachable_again_lives_on(void **state)
{
    (void)state;
    test_apart(make_resurrectable, NULL);
    assert_int_equal(collect_and_run(), 1);
    assert_int_equal(collect_and_run(), 0);
    assert_true(test_object_is_intact(hidden[0], 64));
    keeper = NULL;
    assert_int_equal(collect_and_run(), 0);
    assert_false(test_is_alive(hidden[0]));
}

static void set_again(void *object, void *context)
{
    note(1);
    if (nnotes < 5)
        TEST_REQUIRE(tea_set_finalizer(object, set_again, context) == TEA_OK);
}

static void make_setting_again(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_set_finalizer(tea_alloc(64), set_again, NULL) == TEA_OK);
}

static void a_finalizer_may_be_set_again_by_itself(void **state)
{
    (void)state;
    test_apart(make_setting_again, NULL);
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(collect_and_run(), 1);
        assert_int_equal(nnotes, i);
    }
    assert_int_equal(collect_and_run(), 0);
}

static void allocate_and_collect(void *object, void *context)
{
    (void)context;
    *(void **)object = number_object(5);
    test_churn(64, 10000);
    tea_collect();
    TEST_REQUIRE(**(uintptr_t **)object == 5);
    note(1);
    /* What this collection found dead: the second of two. */
    tea_run_finalizers();
}

static void make_two_collecting(void *argument)
{
    (void)argument;
    void **first = tea_alloc(64), **second = tea_alloc(64);
    first[1] = second;
    TEST_REQUIRE(tea_set_finalizer(first, allocate_and_collect, NULL) == TEA_OK);
    TEST_REQUIRE(tea_set_finalizer(second, allocate_and_collect, NULL) == TEA_OK);
}

static void finalizers_may_allocate_collect_and_run_others(void **state)
{
    (void)state;
    test_apart(make_two_collecting, NULL);
    /* The second may be found dead while the first one runs: by the collection that it starts. */
    collect_and_run();
    assert_in_range(nnotes, 1, 2);
    /* A stale word in a frame of the thread that runs finalizers may keep the second for a while. */
    for (int i = 0; i < 10 && nnotes < 2; i++)
        collect_and_run();
    assert_int_equal(nnotes, 2);
}

/* --- taking back --- */

static void take_back(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_set_finalizer(keeper, NULL, NULL) == TEA_OK);
    TEST_REQUIRE(tea_set_finalizer(keeper, NULL, NULL) == TEA_ERR_NOT_FOUND);
}

static void a_finalizer_taken_back_does_not_run(void **state)
{
    (void)state;
    test_apart(make_kept, NULL);
    test_apart(take_back, NULL);
    keeper = NULL;
    assert_int_equal(collect_and_run(), 0);
    assert_int_equal(test_stats().heap_objects, 0);
}

static void set_second(void *argument)
{
    (void)argument;
    TEST_REQUIRE(tea_set_finalizer(keeper, check_contents, NULL) == TEA_ERR_STATE);
}

static void a_second_finalizer_is_refused_and_the_first_stays(void **state)
{
    (void)state;
    test_log_capture(&messages);
    test_apart(make_kept, NULL);
    test_apart(set_second, NULL);
    test_log_expect(&messages, 1, "has a finalizer already");
    keeper = NULL;
    assert_int_equal(collect_and_run(), 1);
    assert_int_equal(nnotes, 1);
}

static void free_kept(void *argument)
{
    (void)argument;
    tea_free(keeper);
    keeper = NULL;
}

static void a_freed_object_is_forgotten_without_a_call(void **state)
{
    (void)state;
    struct tea_cleanup cleanup;
    test_apart(make_kept, NULL);
    assert_int_equal(tea_add_cleanup(keeper, note_number, NULL, &cleanup), TEA_OK);
    test_apart(free_kept, NULL);
    test_census();
    for (int i = 0; i < 3; i++)
        assert_int_equal(collect_and_run(), 0);
    assert_int_equal(nnotes, 0);
    assert_int_equal(tea_cleanup_stop(cleanup), TEA_ERR_NOT_FOUND);
}

/* --- resizing --- */

static void grow_kept(void *size_bytes)
{
    keeper = tea_realloc(keeper, *(size_t *)size_bytes);
    TEST_REQUIRE(keeper != NULL);
    hidden[0] = test_hide(keeper);
}

static void finalizer_and_cleanups_follow_a_resized_object(void **state)
{
    (void)state;
    static const size_t sizes[] = {100, 5000, 50000, 500000, 400000, 100, 16};
    struct tea_cleanup stopped;
    test_apart(make_kept, NULL);
    assert_int_equal(tea_add_cleanup(keeper, note_number, (void *)7, NULL), TEA_OK);
    assert_int_equal(tea_add_cleanup(keeper, note_number, (void *)8, &stopped), TEA_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_apart(grow_kept, (void *)&sizes[i]);
        assert_int_equal(collect_and_run(), 0);
        test_census();
    }
    assert_int_equal(tea_cleanup_stop(stopped), TEA_OK);
    keeper = NULL;
    assert_int_equal(collect_and_run(), 1);
    assert_int_equal(notes[0], hidden[0]);
    assert_int_equal(collect_and_run(), 1);
    assert_int_equal(notes[1], 7);
}

/* --- cleanups --- */

static void make_with_cleanups(void *argument)
{
    (void)argument;
    char *object = tea_alloc(64);
    hidden[0] = test_hide(object);
    for (uintptr_t i = 0; i < 5; i++)
        TEST_REQUIRE(tea_add_cleanup(object + i * 8, note_argument, number_object(i), NULL) == TEA_OK);
}

static void all_cleanups_of_a_dead_object_run_after_it_is_gone(void **state)
{
    (void)state;
    test_apart(make_with_cleanups, NULL);
    test_collect();
    assert_false(test_is_alive(hidden[0]));
    test_apart(churn, NULL);
    assert_int_equal(tea_run_finalizers(), 5);
    uintptr_t seen = 0;
    for (unsigned i = 0; i < 5; i++)
        seen |= (uintptr_t)1 << notes[i];
    assert_int_equal(seen, 31);
    test_collect();
    assert_int_equal(test_stats().heap_objects, 0);
}

static void make_with_both(void *argument)
{
    (void)argument;
    void *object = tea_alloc(64);
    hidden[0] = test_hide(object);
    TEST_REQUIRE(tea_add_cleanup(object, note_number, (void *)2, NULL) == TEA_OK);
    TEST_REQUIRE(tea_set_finalizer(object, note_object, NULL) == TEA_OK);
}

static void a_cleanup_waits_for_the_second_death(void **state)
{
    (void)state;
    test_apart(make_with_both, NULL);
    assert_int_equal(collect_and_run(), 1);
    assert_int_equal(notes[0], hidden[0]);
    assert_int_equal(collect_and_run(), 1);
    assert_int_equal(notes[1], 2);
}

static struct tea_cleanup cleanups[3];

static void make_with_stoppable(void *argument)
{
    (void)argument;
    void *object = tea_alloc(64);
    for (uintptr_t i = 0; i < 3; i++)
        TEST_REQUIRE(tea_add_cleanup(object, note_number, (void *)i, &cleanups[i]) == TEA_OK);
}

static void a_stopped_cleanup_does_not_run(void **state)
{
    (void)state;
    test_apart(make_with_stoppable, NULL);
    assert_int_equal(tea_cleanup_stop(cleanups[1]), TEA_OK);
    assert_int_equal(tea_cleanup_stop(cleanups[1]), TEA_ERR_NOT_FOUND);
    assert_int_equal(collect_and_run(), 2);
    assert_int_equal(notes[0] + notes[1], 2);
    assert_int_equal(tea_cleanup_stop(cleanups[0]), TEA_ERR_NOT_FOUND);
    assert_int_equal(tea_cleanup_stop((struct tea_cleanup){0}), TEA_ERR_NOT_FOUND);
}

/* --- bad input --- */

static void what_is_no_object_is_refused_with_a_message(void **state)
{
    (void)state;
    test_log_capture(&messages);
    int local = 0;
    char *object = tea_alloc(64);
    void *const bad[] = {&local, (void *)&nnotes, NULL, (void *)1, (void *)UINTPTR_MAX};
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(tea_set_finalizer(bad[i], note_object, NULL), TEA_ERR_INVALID);
        test_log_expect(&messages, 2 * i + 1, "tea_set_finalizer: ");
        assert_int_equal(tea_add_cleanup(bad[i], note_number, NULL, NULL), TEA_ERR_INVALID);
        test_log_expect(&messages, 2 * i + 2, "is not an allocated object of this heap");
    }
    assert_int_equal(tea_set_finalizer(object + 8, note_object, NULL), TEA_ERR_INVALID);
    test_log_expect(&messages, 11, "points inside an object, not at its start");
    assert_int_equal(tea_set_finalizer(object, note_object, object + 8), TEA_ERR_INVALID);
    test_log_expect(&messages, 12, "would live for ever");
    assert_int_equal(tea_add_cleanup(object + 8, note_number, object, NULL), TEA_ERR_INVALID);
    test_log_expect(&messages, 13, "would live for ever");
    assert_int_equal(tea_add_cleanup(object, NULL, NULL, NULL), TEA_ERR_INVALID);
    test_log_expect(&messages, 14, "is NULL");
    assert_int_equal(tea_finalizer_mode((enum tea_finalizer_mode)7), TEA_FINALIZE_ON_DEMAND);
    assert_int_equal(tea_finalizer_mode(TEA_FINALIZE_ON_DEMAND), TEA_FINALIZE_ON_DEMAND);
    tea_keep_alive(object);
    test_census();
}

static void make_thousand(void *argument)
{
    (void)argument;
    for (int i = 0; i < 1000; i++)
        TEST_REQUIRE(tea_set_finalizer(tea_alloc(64), note_object, NULL) == TEA_OK);
}

static void without_memory_nothing_is_registered_and_nothing_lost(void **state)
{
    (void)state;
    test_log_capture(&messages);
    void *object = tea_alloc(64);
    tea_collect(); /* which has what it needs from now on */
    h->metadata.deny_after = 0;
    assert_int_equal(tea_set_finalizer(object, note_object, NULL), TEA_ERR_NOMEM);
    test_log_expect(&messages, 1, "no memory");
    assert_int_equal(tea_add_cleanup(object, note_number, NULL, NULL), TEA_ERR_NOMEM);
    h->metadata.deny_after = 1; /* the queue's, not the table's */
    assert_int_equal(tea_set_finalizer(object, note_object, NULL), TEA_ERR_NOMEM);
    test_census();
    h->metadata.deny_after = UINT32_MAX;
    tea_keep_alive(object);
    object = NULL;
    test_apart(make_thousand, NULL);
    /* That they become due needs none. */
    h->metadata.deny_after = 0;
    test_collect();
    h->metadata.deny_after = UINT32_MAX;
    assert_int_equal(tea_run_finalizers(), 1000);
}

/* --- the thread --- */

static _Atomic uintptr_t thread_seen;

static void note_thread(void *object, void *context)
{
    (void)object, (void)context;
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    TEST_REQUIRE(strcmp(name, "teaspan-final") == 0);
    thread_seen = (uintptr_t)pthread_self();
    test_churn(64, 1000);
    note(1);
}

static void make_for_thread(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100; i++)
        TEST_REQUIRE(tea_set_finalizer(tea_alloc(64), note_thread, NULL) == TEA_OK);
}

static bool wait_for_notes(unsigned n)
{
    for (int i = 0; i < 10000 && nnotes < n; i++)
        usleep(1000);
    return nnotes == n;
}

static void by_default_a_thread_of_ours_runs_them(void **state)
{
    (void)state;
    test_apart(make_for_thread, NULL);
    assert_int_equal(nnotes, 0);
    test_collect();
    assert_true(wait_for_notes(100));
    assert_int_not_equal(thread_seen, (uintptr_t)pthread_self());
    /* It is woken again, and can be stopped while it sleeps. */
    test_apart(make_for_thread, NULL);
    test_collect();
    test_collect();
    assert_true(wait_for_notes(200));
    struct tea_stats stats = test_stats();
    assert_int_equal(stats.finalizers_queued, 200);
    assert_in_range(stats.finalizers_run, 199, 200);
}

static void changing_the_mode_hands_over_what_is_due(void **state)
{
    (void)state;
    assert_int_equal(tea_finalizer_mode(TEA_FINALIZE_ON_DEMAND), TEA_FINALIZE_BY_THREAD);
    test_apart(make_for_thread, NULL);
    test_collect();
    usleep(20000);
    assert_int_equal(nnotes, 0);
    assert_int_equal(tea_finalizer_mode(TEA_FINALIZE_BY_THREAD), TEA_FINALIZE_ON_DEMAND);
    assert_true(wait_for_notes(100));
}

static _Atomic uint32_t slow_runs;

static void run_slowly(void *object, void *context)
{
    (void)object, (void)context;
    TEST_REQUIRE(atomic_fetch_add(&slow_runs, 1) == 0); /* never beside each other */
    usleep(20000);
    slow_runs = 0;
    note(1);
}

static void make_slow(void *argument)
{
    (void)argument;
    for (int i = 0; i < 5; i++)
        TEST_REQUIRE(tea_set_finalizer(tea_alloc(64), run_slowly, NULL) == TEA_OK);
}

static void running_waits_for_what_the_thread_runs(void **state)
{
    (void)state;
    test_apart(make_slow, NULL);
    test_collect();
    usleep(5000);
    size_t nrun = tea_run_finalizers();
    assert_int_equal(nnotes, 5);
    assert_in_range(nrun, 0, 5);
}

/* --- numbers --- */

static void make_numbered(void *count)
{
    for (uintptr_t i = 0; i < *(uintptr_t *)count; i++) {
        void *object = tea_alloc(16 + i % 200);
        TEST_REQUIRE(tea_set_finalizer(object, note_object, NULL) == TEA_OK);
        TEST_REQUIRE(tea_add_cleanup(object, note_number, NULL, NULL) == TEA_OK);
    }
}

static void counts_are_exact_for_a_hundred_thousand(void **state)
{
    (void)state;
    uintptr_t count = TEAI_TSAN ? 10000 : 100000;
    test_apart(make_numbered, &count);
    assert_int_equal(collect_and_run(), count);
    assert_int_equal(collect_and_run(), count);
    assert_int_equal(collect_and_run(), 0);
    struct tea_stats stats = test_stats();
    assert_int_equal(stats.finalizers_queued, count);
    assert_int_equal(stats.finalizers_run, count);
    assert_int_equal(stats.cleanups_queued, count);
    assert_int_equal(stats.cleanups_run, count);
    assert_int_equal(stats.heap_objects, 0);
    /* The tables have shrunk. */
    tea_collect();
    for (int kind = 0; kind < TEAI_NSPECIAL_KINDS; kind++)
        assert_in_range(h->specials.tables[kind].capacity, 0, 64);
    assert_in_range(h->specials.due.mapping_bytes, 0, 4096);
}

static void errno_stays(void **state)
{
    (void)state;
    test_apart(make_kept, NULL);
    keeper = NULL;
    test_collect();
    errno = 4711;
    assert_int_equal(tea_run_finalizers(), 1);
    assert_int_equal(errno, 4711);
}

#define ON_DEMAND "TEASPAN=finalizers=demand"
#define CHECKED "GODEBUG=gccheckmark=1,clobberfree=1"
#define demand_test(function) heap_test_with(function, ON_DEMAND, CHECKED)

int main(void)
{
    const struct CMUnitTest tests[] = {
        demand_test(a_dead_object_is_finalized_once_and_freed_after),
        heap_test_with(a_dead_object_is_finalized_once_and_freed_after, "TEASPAN=finalizers=demand,markers=2", CHECKED),
        demand_test(a_living_object_is_not_finalized),
        demand_test(an_object_waits_for_its_due_finalizer),
        demand_test(what_object_and_context_refer_to_is_there_for_the_finalizer),
        heap_test_with(what_object_and_context_refer_to_is_there_for_the_finalizer,
                       "TEASPAN=finalizers=demand,pastend=1", CHECKED),
        demand_test(of_a_typed_object_only_references_are_kept),
        demand_test(tiny_objects_are_finalized_too),
        demand_test(an_object_made_reachable_again_lives_on),
        demand_test(a_finalizer_may_be_set_again_by_itself),
        demand_test(finalizers_may_allocate_collect_and_run_others),
        heap_test(finalizers_may_allocate_collect_and_run_others),
        demand_test(a_finalizer_taken_back_does_not_run),
        demand_test(a_second_finalizer_is_refused_and_the_first_stays),
        demand_test(a_freed_object_is_forgotten_without_a_call),
        demand_test(finalizer_and_cleanups_follow_a_resized_object),
        demand_test(all_cleanups_of_a_dead_object_run_after_it_is_gone),
        demand_test(a_cleanup_waits_for_the_second_death),
        demand_test(a_stopped_cleanup_does_not_run),
        demand_test(what_is_no_object_is_refused_with_a_message),
        demand_test(without_memory_nothing_is_registered_and_nothing_lost),
        heap_test(by_default_a_thread_of_ours_runs_them),
        heap_test(changing_the_mode_hands_over_what_is_due),
        heap_test(running_waits_for_what_the_thread_runs),
        demand_test(counts_are_exact_for_a_hundred_thousand),
        demand_test(errno_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
