/* tests/property/test_alloc_random.c -- a random mix of all calls that allocate, resize, free and collect, against an oracle.
 *
 * Each thread keeps a table of objects: address (hidden from the collector), size, kind, contents. A root range refers to
 * those that it holds; pinned ones need no reference. While an object is held its contents never change, fresh memory is
 * zero where that is promised, and when all threads have ended a collection leaves exactly what is held or pinned.
 * Threads hand pinned objects to each other, to be freed by another than made them.
 */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NTHREADS = 3,
    NOBJECTS = 1500,
    NSTEPS = TEAI_TSAN || TEAI_ASAN ? 2000 : 10000,
    NROUNDS = 5,
    NMAIL = 64
};

enum how {
    HOW_CONSERVATIVE,
    HOW_CALLOC,
    HOW_LEAF,
    HOW_LEAF_UNINIT,
    HOW_TYPED,
    HOW_ALIGNED,
    HOW_PINNED,
    HOW_MEMDUP,
    HOW_STRDUP,
    HOW_REALLOC,
    NHOW
};

struct object {
    uintptr_t hidden; /* 0: none */
    size_t bytes, usable_bytes;
    enum teai_kind kind;
    bool pinned;
    uint64_t seed; /* of its contents; 0: zero */
};

struct worker {
    struct test_random random;
    struct object objects[NOBJECTS];
    uintptr_t *roots; /* one word an object */
    unsigned nsteps;
    bool alone;
};

static _Atomic uintptr_t mail[NMAIL]; /* hidden; pinned objects for whoever takes them */

/* --- contents: words that are no addresses of the heap, since their top bit is set --- */

static uint8_t content_byte(uint64_t seed, size_t at)
{
    uint64_t word = (seed + at / 8) * UINT64_C(0x9e3779b97f4a7c15) | UINT64_C(1) << 63;
    return seed == 0 ? 0 : (uint8_t)(word >> at % 8 * 8);
}

static void write_contents(struct object *o, struct test_random *random)
{
    uint8_t *bytes = test_reveal(o->hidden);
    o->seed = test_random_next(random) | 1;
    for (size_t at = 0; at < o->bytes; at++)
        bytes[at] = content_byte(o->seed, at);
}

static void check_contents(const struct object *o, size_t nbytes)
{
    const uint8_t *bytes = test_reveal(o->hidden);
    for (size_t at = 0; at < nbytes; at++)
        if (bytes[at] != content_byte(o->seed, at)) {
            fprintf(
                stderr, "object %p of kind %d and %zu bytes: byte %zu is 0x%02x, expected 0x%02x\n",
                (const void *)bytes, o->kind, o->bytes, at, bytes[at], content_byte(o->seed, at));
            test_require_failed(__FILE__, __LINE__, "contents are kept");
        }
}

/* --- steps --- */

/* In a block of 16 bytes that it may share. */
static bool is_tiny(const struct object *o)
{
    return o->kind == TEAI_LEAF && o->usable_bytes <= 16;
}

/* A word that keeps this object and no other. */
static uintptr_t reference_to(const struct object *o)
{
    uintptr_t addr = (uintptr_t)test_reveal(o->hidden);
    return is_tiny(o) ? (addr & ~(uintptr_t)15) + 1 : addr + sizeof(void *);
}

static size_t random_bytes(struct test_random *random)
{
    uint32_t which = test_random_below(random, 100);
    return which < 10   ? test_random_below(random, 16)
           : which < 80 ? test_random_below(random, 300)
           : which < 97 ? test_random_below(random, 9000)
                        : test_random_below(random, 200000);
}

static void place_object(struct object *o, const void *p, size_t bytes)
{
    o->hidden = test_hide(p);
    o->bytes = bytes;
    o->usable_bytes = tea_usable_bytes(p);
    TEST_REQUIRE(o->usable_bytes >= bytes);
}

static const uint64_t every_word = 1;
static const struct tea_type word_type = {sizeof(void *), 1, &every_word};

static void *copy_of_zeroes(size_t bytes)
{
    static const uint8_t zeroes[200000];
    return tea_memdup(zeroes, bytes);
}

static void make_object(struct worker *w, struct object *o)
{
    size_t bytes = random_bytes(&w->random), align = (size_t)1 << test_random_below(&w->random, 15);
    enum how how = test_random_below(&w->random, NHOW);
    void *p;
    *o = (struct object){.kind = TEAI_CONSERVATIVE, .pinned = how == HOW_PINNED};
    switch (how) {
    case HOW_CONSERVATIVE:
        p = tea_alloc(bytes);
        break;
    case HOW_CALLOC:
        bytes = bytes / 8 * 8;
        p = tea_calloc(bytes / 8, 8);
        break;
    case HOW_LEAF:
        o->kind = TEAI_LEAF;
        p = tea_alloc_leaf(bytes);
        break;
    case HOW_LEAF_UNINIT:
        o->kind = TEAI_LEAF;
        p = tea_alloc_leaf_uninit(bytes);
        break;
    case HOW_TYPED:
        o->kind = TEAI_TYPED;
        bytes = bytes / 8 * 8;
        p = tea_alloc_typed(&word_type, bytes / 8);
        break;
    case HOW_ALIGNED:
        p = tea_alloc_aligned(align, bytes);
        TEST_REQUIRE((uintptr_t)p % align == 0);
        break;
    case HOW_PINNED:
        p = tea_alloc_uncollectable(bytes);
        break;
    case HOW_MEMDUP:
        p = copy_of_zeroes(bytes);
        break;
    case HOW_STRDUP:
        o->kind = TEAI_LEAF;
        bytes = 1;
        p = tea_strdup("");
        break;
    default:
        p = tea_realloc(NULL, bytes);
        break;
    }
    TEST_REQUIRE(p != NULL && tea_base(p) != NULL);
    TEST_REQUIRE((uintptr_t)p % 16 == 0 || bytes == 24 || (o->kind == TEAI_LEAF && bytes < 16));
    place_object(o, p, bytes);
    if (how != HOW_LEAF_UNINIT)
        check_contents(o, bytes);
    write_contents(o, &w->random);
}

static void hold(struct worker *w, struct object *o)
{
    w->roots[o - w->objects] = o->hidden == 0 || o->pinned ? 0 : reference_to(o);
}

static void free_object(struct object *o)
{
    if (o->hidden != 0)
        tea_free(test_reveal(o->hidden));
    o->hidden = 0;
}

/* Leave it to the collector; a pinned one has to be freed. */
static void drop_object(struct object *o)
{
    if (o->pinned)
        free_object(o);
    o->hidden = 0;
}

static void resize_object(struct worker *w, struct object *o)
{
    if (o->hidden == 0)
        return;
    size_t bytes = random_bytes(&w->random), before = o->bytes;
    void *p = tea_realloc(test_reveal(o->hidden), bytes);
    if (bytes == 0) {
        o->hidden = 0;
        return;
    }
    TEST_REQUIRE(p != NULL);
    place_object(o, p, bytes);
    check_contents(o, bytes < before ? bytes : before);
    if (o->kind != TEAI_LEAF && bytes > before)
        TEST_REQUIRE(test_all_bytes((uint8_t *)p + before, 0, bytes - before));
    write_contents(o, &w->random);
}

/* Put a pinned object into the box and free what was there. */
static void post(struct worker *w)
{
    size_t bytes = 16 + random_bytes(&w->random);
    uintptr_t old = atomic_exchange(&mail[test_random_below(&w->random, NMAIL)],
                                    test_hide(tea_alloc_uncollectable(bytes)));
    if (old != 0)
        tea_free(test_reveal(old));
}

static void check_object(const struct object *o)
{
    if (o->hidden == 0)
        return;
    TEST_REQUIRE(tea_is_heap_pointer(test_reveal(o->hidden)));
    check_contents(o, o->bytes);
}

static void step(struct worker *w)
{
    struct object *o = &w->objects[test_random_below(&w->random, NOBJECTS)];
    switch (test_random_below(&w->random, 16)) {
    default:
        drop_object(o);
        make_object(w, o);
        break;
    case 6:
    case 7:
        resize_object(w, o);
        break;
    case 8:
    case 9:
        free_object(o);
        break;
    case 10:
        drop_object(o);
        break;
    case 11:
        post(w);
        break;
    case 12:
    case 13:
        check_object(o);
        break;
    case 14:
        if (o->hidden != 0)
            write_contents(o, &w->random);
        break;
    case 15:
        if (test_random_below(&w->random, 400) == 0)
            tea_collect();
        if (w->alone && test_random_below(&w->random, 400) == 0)
            test_census();
        break;
    }
    hold(w, o);
}

static void work(void *argument)
{
    struct worker *w = argument;
    for (unsigned i = 0; i < w->nsteps; i++)
        step(w);
}

/* --- what is left --- */

static int by_value(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Tiny objects are counted by their blocks. */
static uint64_t count_expected(const struct worker *workers, unsigned nworkers)
{
    static uintptr_t blocks[NTHREADS * NOBJECTS];
    uint64_t n = 0;
    size_t nblocks = 0;
    for (unsigned i = 0; i < nworkers; i++)
        for (size_t k = 0; k < NOBJECTS; k++) {
            const struct object *o = &workers[i].objects[k];
            if (o->hidden != 0 && is_tiny(o))
                blocks[nblocks++] = o->hidden | 15; /* hidden still */
            else
                n += o->hidden != 0;
        }
    qsort(blocks, nblocks, sizeof *blocks, by_value);
    for (size_t i = 0; i < nblocks; i++)
        n += i == 0 || blocks[i] != blocks[i - 1];
    for (size_t i = 0; i < NMAIL; i++)
        n += mail[i] != 0;
    return n;
}

static void check_worker(void *argument)
{
    const struct worker *w = argument;
    for (size_t i = 0; i < NOBJECTS; i++)
        check_object(&w->objects[i]);
}

static void check_what_is_left(struct worker *workers, unsigned nworkers)
{
    uint64_t want = count_expected(workers, nworkers);
    assert_int_equal(test_objects_after_collect(), want);
    assert_int_equal(test_census_objects(), want);
    for (unsigned i = 0; i < nworkers; i++)
        test_apart(check_worker, &workers[i]);
}

static struct worker workers[NTHREADS];
static struct test_log messages;

static void start_workers(unsigned nworkers, unsigned nsteps)
{
    struct test_random random = test_random_start("test_alloc_random");
    test_log_capture(&messages);
    for (unsigned i = 0; i < nworkers; i++) {
        workers[i].random.state = test_random_next(&random);
        workers[i].nsteps = nsteps;
        workers[i].alone = nworkers == 1;
        workers[i].roots = calloc(NOBJECTS, sizeof(uintptr_t));
        assert_int_equal(tea_root_add(workers[i].roots, workers[i].roots + NOBJECTS), TEA_OK);
    }
}

static void one_thread_finds_everything_as_it_left_it(void **state)
{
    (void)state;
    start_workers(1, NSTEPS);
    for (int round = 0; round < NROUNDS; round++) {
        test_apart(work, &workers[0]);
        check_what_is_left(workers, 1);
    }
    assert_int_equal(messages.nlines, 0);
}

static void *work_main(void *argument)
{
    work(argument);
    return NULL;
}

static void several_threads_find_everything_as_they_left_it(void **state)
{
    (void)state;
    start_workers(NTHREADS, NSTEPS / 2);
    for (int round = 0; round < NROUNDS; round++) {
        pthread_t threads[NTHREADS];
        for (int i = 0; i < NTHREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, work_main, &workers[i]), 0);
        for (int i = 0; i < NTHREADS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        check_what_is_left(workers, NTHREADS);
    }
    assert_int_equal(messages.nlines, 0);
}

#define with_settings(function)                                                                    \
    heap_test(function),                                                                           \
        heap_test_with(function, "GODEBUG=gccheckmark=1,clobberfree=1", "GOGC=20"),                \
        heap_test_with(function, "TEASPAN=stress=40,markers=2"),                                   \
        heap_test_with(function, "TEASPAN=marker=object,kernel=portable")

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_settings(one_thread_finds_everything_as_it_left_it),
        with_settings(several_threads_find_everything_as_they_left_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
