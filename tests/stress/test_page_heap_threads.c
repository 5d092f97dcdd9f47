/* tests/stress/test_page_heap_threads.c -- threads allocate, free and release in one heap.
 *
 * Each page lent carries a word that only its holder knows; finding another there, or anything but
 * zero in a run that was said to be zeroed, is an error. Threads count errors, the main thread
 * asserts.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/support/page_fixture.h"
#include "tests/support/random.h"

#include <pthread.h>

enum { NTHREADS = 3, NROUNDS = 20000, MAX_RUNS = 64, HEAP_PAGES = 2 * TEAI_CHUNK_PAGES };

struct run {
    uint32_t first, npages;
};

struct worker {
    pthread_t thread;
    struct page_fixture *fixture;
    struct test_random random;
    struct teai_page_cache cache;
    struct run runs[MAX_RUNS];
    uint32_t nruns;
    uint32_t nerrors, nallocated;
};

static uintptr_t worker_tag(const struct worker *w, uint32_t page)
{
    return (uintptr_t)w ^ page;
}

static void worker_alloc(struct worker *w)
{
    uint32_t npages = test_random_skewed(&w->random, 40);
    bool zeroed = false;
    uint32_t first = test_random_below(&w->random, 2) == 0
                         ? teai_page_cache_alloc(w->fixture->ph, &w->cache, npages, &zeroed)
                         : teai_page_heap_alloc(w->fixture->ph, npages, &zeroed, NULL);
    if (first == TEAI_NO_PAGE)
        return;
    for (uint32_t page = first; page < first + npages; page++) {
        w->nerrors += zeroed && *page_fixture_word(w->fixture, page) != 0;
        *page_fixture_word(w->fixture, page) = worker_tag(w, page);
    }
    w->runs[w->nruns++] = (struct run){first, npages};
    w->nallocated++;
}

static void worker_free(struct worker *w)
{
    uint32_t i = test_random_below(&w->random, w->nruns);
    struct run run = w->runs[i];
    w->runs[i] = w->runs[--w->nruns];
    for (uint32_t page = run.first; page < run.first + run.npages; page++)
        w->nerrors += *page_fixture_word(w->fixture, page) != worker_tag(w, page);
    teai_page_heap_free(w->fixture->ph, run.first, run.npages);
}

static void *worker_run(void *argument)
{
    struct worker *w = argument;
    for (uint32_t i = 0; i < NROUNDS; i++) {
        if (w->nruns < MAX_RUNS && test_random_below(&w->random, 2) == 0)
            worker_alloc(w);
        else if (w->nruns > 0)
            worker_free(w);
        if (test_random_below(&w->random, 100) == 0)
            teai_page_cache_flush(w->fixture->ph, &w->cache);
    }
    while (w->nruns > 0)
        worker_free(w);
    teai_page_cache_flush(w->fixture->ph, &w->cache);
    return NULL;
}

struct releaser {
    pthread_t thread;
    struct page_fixture *fixture;
    _Atomic bool stop;
    uint64_t nreleased;
};

static void *releaser_run(void *argument)
{
    struct releaser *r = argument;
    while (!atomic_load(&r->stop)) {
        r->nreleased += teai_page_heap_release(r->fixture->ph, 100);
        teai_verify_page_heap(r->fixture->ph);
        teai_platform_yield();
    }
    return NULL;
}

static void releaser_start(struct releaser *r, struct page_fixture *f)
{
    *r = (struct releaser){.fixture = f};
    assert_int_equal(pthread_create(&r->thread, NULL, releaser_run, r), 0);
}

static void releaser_stop(struct releaser *r)
{
    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
}

static void threads_never_hold_the_same_page(void **state)
{
    (void)state;
    static struct worker workers[NTHREADS];
    struct test_random random = test_random_start(__func__);
    struct page_fixture f;
    struct releaser releaser;
    page_fixture_open(&f, HEAP_PAGES, 100);
    releaser_start(&releaser, &f);
    for (int i = 0; i < NTHREADS; i++) {
        workers[i] = (struct worker){.fixture = &f, .random = {test_random_next(&random)}};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]), 0);
    }
    for (int i = 0; i < NTHREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].nerrors, 0);
        assert_true(workers[i].nallocated > 0);
    }
    releaser_stop(&releaser);
    assert_true(releaser.nreleased > 0);
    assert_int_equal(teai_page_heap_counts(f.ph).in_use, 0);
    page_fixture_close(&f);
}

/* Pages that are on their way to the OS are not lost to who asks for all of the heap. They are
 * written to first, so that the kernel takes its time. */
static void allocation_does_not_fail_for_pages_being_released(void **state)
{
    (void)state;
    struct page_fixture f;
    struct releaser releaser;
    bool zeroed;
    uint32_t nrefused = 0;
    page_fixture_open(&f, HEAP_PAGES, HEAP_PAGES);
    releaser_start(&releaser, &f);
    for (int i = 0; i < 300 && nrefused == 0; i++) {
        uint32_t first = teai_page_heap_alloc(f.ph, HEAP_PAGES, &zeroed, NULL);
        nrefused += first == TEAI_NO_PAGE;
        for (uint32_t page = 0; page < HEAP_PAGES && first == 0; page++)
            *page_fixture_word(&f, page) = 1;
        if (first == 0)
            teai_page_heap_free(f.ph, first, HEAP_PAGES);
        while (teai_page_heap_counts(f.ph).free_released == 0 && first == 0)
            teai_platform_yield(); /* until the releaser is at work */
    }
    releaser_stop(&releaser);
    assert_int_equal(nrefused, 0);
    page_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_never_hold_the_same_page),
        cmocka_unit_test(allocation_does_not_fail_for_pages_being_released),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
