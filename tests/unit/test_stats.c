/* tests/unit/test_stats.c -- counters: the identities that stats.h states, and each field by what a program did. */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include "gc/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct tea_heap *const h = &teai_default_heap;

/* --- identities --- */

static void assert_identities(const struct tea_stats *s)
{
    assert_int_equal(s->sys_bytes,
                     s->heap_sys_bytes + s->stack_sys_bytes + s->gc_sys_bytes + s->other_sys_bytes);
    assert_int_equal(s->heap_sys_bytes, s->heap_inuse_bytes + s->heap_idle_bytes);
    assert_int_equal(s->heap_objects, s->mallocs - s->frees);
    assert_int_equal(s->heap_alloc_bytes, s->alloc_bytes);
    assert_true(s->heap_released_bytes <= s->heap_idle_bytes);
    assert_true(s->alloc_bytes <= s->total_alloc_bytes);
    assert_true(s->alloc_bytes <= s->heap_inuse_bytes);
    assert_true(s->frees <= s->mallocs);
    assert_true(s->trigger_bytes <= s->next_gc_bytes);
    assert_true(s->num_forced_gc <= s->num_gc);
    assert_true(s->gc_cpu_fraction >= 0 && s->gc_cpu_fraction <= 1);
}

/* The small objects of all classes, without tiny ones, which count as allocated and freed at once. */
static void assert_classes_add_up(const struct tea_stats *s, uint64_t nlarge, uint64_t ntiny)
{
    uint64_t mallocs = 0;
    for (unsigned i = 0; i < TEA_STATS_SIZE_CLASSES; i++) {
        mallocs += s->by_size[i].mallocs;
        assert_true(s->by_size[i].frees <= s->by_size[i].mallocs);
        assert_int_equal(s->by_size[i].size_bytes, i < 2 ? 0 : teai_sizeclass_bytes[i]);
    }
    assert_int_equal(s->mallocs, mallocs + nlarge + ntiny);
}

static void identities_hold_through_a_mixed_life(void **state)
{
    (void)state;
    struct test_random random = test_random_start("test_stats");
    static void *objects[2000];
    for (int i = 0; i < 40000; i++) {
        void **slot = &objects[test_random_below(&random, 2000)];
        uint32_t bytes = 16 + test_random_skewed(&random, 60000);
        switch (test_random_below(&random, 4)) {
        case 0:
            *slot = tea_alloc(bytes);
            break;
        case 1:
            *slot = tea_alloc_leaf(bytes);
            break;
        case 2:
            *slot = tea_realloc(*slot, bytes);
            break;
        default:
            tea_free(*slot);
            *slot = NULL;
            break;
        }
        if (i % 1000 == 0) {
            struct tea_stats stats = test_stats();
            assert_identities(&stats);
        }
    }
    tea_collect_and_release();
    struct tea_stats stats = test_stats();
    assert_identities(&stats);
    assert_int_equal(stats.heap_objects, test_census_objects());
    assert_true(stats.num_gc > 1);
}

/* --- single counters --- */

static void every_allocation_and_free_is_counted(void **state)
{
    (void)state;
    static void *objects[3][100];
    static const size_t sizes[] = {48, 1000, 50000};
    static const size_t taken[] = {48, 1024, 57344};
    for (unsigned k = 0; k < 3; k++)
        for (unsigned i = 0; i < 100; i++)
            objects[k][i] = tea_alloc(sizes[k]);
    struct tea_stats s = test_stats();
    assert_int_equal(s.mallocs, 300);
    assert_int_equal(s.total_alloc_bytes, 100 * (taken[0] + taken[1] + taken[2]));
    assert_int_equal(s.alloc_bytes, s.total_alloc_bytes);
    assert_classes_add_up(&s, 100, 0);
    assert_int_equal(s.by_size[teai_sizeclass_of(48)].mallocs, 100);
    for (unsigned k = 0; k < 3; k++)
        for (unsigned i = 0; i < 30; i++)
            tea_free(objects[k][i]);
    s = test_stats();
    assert_int_equal(s.frees, 90);
    assert_int_equal(s.alloc_bytes, 70 * (taken[0] + taken[1] + taken[2]));
    assert_int_equal(s.by_size[teai_sizeclass_of(1000)].frees, 30);
}

static void tiny_objects_count_as_freed_at_once_but_for_their_block(void **state)
{
    (void)state;
    for (int i = 0; i < 160; i++)
        assert_non_null(tea_alloc_leaf(1));
    struct tea_stats s = test_stats();
    assert_int_equal(s.mallocs, 160);
    assert_int_equal(s.heap_objects, 10); /* blocks */
    assert_int_equal(s.alloc_bytes, 160);
    assert_classes_add_up(&s, 0, 150);
}

static void resizing_moves_bytes_between_the_counters(void **state)
{
    (void)state;
    void *object = tea_alloc(40 * TEAI_PAGE_BYTES);
    object = tea_realloc(object, 60 * TEAI_PAGE_BYTES);
    object = tea_realloc(object, 50 * TEAI_PAGE_BYTES);
    struct tea_stats s = test_stats();
    assert_int_equal(s.heap_objects, 1);
    assert_int_equal(s.alloc_bytes, 50 * TEAI_PAGE_BYTES);
    tea_free(object);
    s = test_stats();
    assert_int_equal(s.alloc_bytes, 0);
    assert_int_equal(s.heap_objects, 0);
}

static void memory_of_the_system_is_counted(void **state)
{
    (void)state;
    struct tea_stats before = test_stats();
    void *object = tea_alloc_leaf((size_t)10 << 20);
    struct tea_stats after = test_stats();
    assert_int_equal(after.heap_inuse_bytes - before.heap_inuse_bytes, (size_t)10 << 20);
    assert_true(after.sys_bytes - before.sys_bytes >= (size_t)10 << 20);
    assert_true(after.gc_sys_bytes > before.gc_sys_bytes); /* tables grow with the heap */
    assert_true(after.other_sys_bytes > 0);
    tea_free(object);
    tea_collect_and_release();
    struct tea_stats released = test_stats();
    assert_true(released.heap_released_bytes >= (size_t)10 << 20);
}

static void pauses_are_recorded_in_a_ring(void **state)
{
    (void)state;
    uint64_t sum = 0;
    uint64_t begin_ns = (uint64_t)time(NULL) * 1000000000;
    for (int i = 0; i < TEA_STATS_PAUSES; i++)
        tea_collect();
    struct tea_stats s = test_stats();
    for (int i = 0; i < TEA_STATS_PAUSES; i++) {
        assert_true(s.pause_ns[i] > 0);
        assert_in_range(s.pause_end_unix_ns[i], begin_ns, begin_ns + UINT64_C(200000000000));
        sum += s.pause_ns[i];
    }
    assert_int_equal(s.pause_total_ns, sum);
    assert_int_equal(s.last_gc_unix_ns, s.pause_end_unix_ns[(s.num_gc + 255) % 256]);
    uint64_t first = s.pause_end_unix_ns[0];
    tea_collect();
    s = test_stats();
    assert_true(s.pause_end_unix_ns[0] > first);
    assert_int_equal(s.pause_total_ns, sum + s.pause_ns[0]);
}

static void nothing_has_been_collected_at_the_start(void **state)
{
    (void)state;
    struct tea_stats s = test_stats();
    assert_int_equal(s.num_gc, 0);
    assert_int_equal(s.last_gc_unix_ns, 0);
    assert_int_equal(s.pause_total_ns, 0);
    assert_int_equal(s.mallocs, 0);
    assert_int_equal(s.markers, h->mark.nmarkers_max);
    assert_true(s.enable_gc);
    assert_identities(&s);
}

static void a_struct_of_another_size_is_refused(void **state)
{
    (void)state;
    static struct test_log messages;
    test_log_capture(&messages);
    struct tea_stats s = {.struct_bytes = sizeof s - 8, .num_gc = 4711};
    assert_int_equal(tea_stats_read(&s), TEA_ERR_INVALID);
    test_log_expect(&messages, 1, "struct_bytes");
    assert_int_equal(s.num_gc, 4711);
    s.struct_bytes = 0;
    assert_int_equal(tea_stats_read(&s), TEA_ERR_INVALID);
    assert_int_equal(tea_stats_read(NULL), TEA_ERR_INVALID);
}

/* --- threads come and go --- */

enum { NTHREADS = 60, PER_THREAD = 500 };

static void *allocate_and_end(void *argument)
{
    for (int i = 0; i < PER_THREAD; i++)
        if (tea_alloc(16 + (size_t)i % 300) == NULL)
            abort();
    return argument;
}

static void counts_of_threads_that_ended_are_kept(void **state)
{
    (void)state;
    tea_disable();
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, allocate_and_end, NULL), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(test_stats().mallocs, (i + 1) * PER_THREAD);
    }
    assert_int_equal(test_objects_after_collect(), 0);
    assert_int_equal(test_stats().frees, 10 * PER_THREAD);
}

/* The picture is exact at every instant: no thread's counts are missing while it leaves, or there twice. */
static void counts_never_go_back_while_threads_end(void **state)
{
    (void)state;
    tea_disable();
    pthread_t threads[NTHREADS];
    uint64_t last = 0;
    for (int i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_end, NULL), 0);
    while (last < (uint64_t)NTHREADS * PER_THREAD) {
        uint64_t now = test_stats().mallocs;
        assert_in_range(now, last, (uint64_t)NTHREADS * PER_THREAD);
        last = now;
    }
    for (int i = 0; i < NTHREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(test_stats().mallocs, (uint64_t)NTHREADS * PER_THREAD);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(identities_hold_through_a_mixed_life),
        heap_test(every_allocation_and_free_is_counted),
        heap_test(tiny_objects_count_as_freed_at_once_but_for_their_block),
        heap_test(resizing_moves_bytes_between_the_counters),
        heap_test(memory_of_the_system_is_counted),
        heap_test(pauses_are_recorded_in_a_ring),
        heap_test(nothing_has_been_collected_at_the_start),
        heap_test(a_struct_of_another_size_is_refused),
        heap_test(counts_of_threads_that_ended_are_kept),
        heap_test(counts_never_go_back_while_threads_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
