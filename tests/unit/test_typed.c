/* tests/unit/test_typed.c -- typed objects: the words that a type names lead on, all others do not. */
#include "tests/support/heap_fixture.h"

#include "gc/alloc.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct tea_heap *const h = &teai_default_heap;

/* Types of every shape: dense, sparse, with a bitmap shorter than the element, of several bitmap words. */
static const uint64_t bits_1[] = {1}, bits_2[] = {2}, bits_4[] = {4}, bits_7[] = {7},
                      bits_101[] = {5}, bits_none[] = {0}, bits_all[] = {UINT64_MAX};
static const uint64_t bits_long[] = {UINT64_C(0x8000000000000001), 1, UINT64_C(0x4000000000000000)};
static const struct tea_type types[] = {
    {8, 1, bits_1},         {16, 1, bits_1},           {16, 2, bits_2},
    {24, 3, bits_101},      {24, 1, bits_1},           {32, 0, NULL},
    {40, 5, bits_none},     {48, 3, bits_101},         {8 * 64, 64, bits_all},
    {8 * 65, 64, bits_all}, {8 * 200, 192, bits_long}, {8 * 130, 129, bits_long},
    {8 * 1000, 1, bits_1},
};
enum { NTYPES = sizeof types / sizeof types[0] };
static const size_t counts[] = {1, 2, 3, 7, 50, 700, 5000};
enum { NCOUNTS = sizeof counts / sizeof counts[0] };

static bool is_named(const struct tea_type *type, size_t word)
{
    word %= type->size_bytes / sizeof(void *);
    return word < type->nwords && (type->pointer_words[word / 64] >> word % 64 & 1) != 0;
}

/* --- every word leads to an object of its own --- */

enum { MAX_WORDS = 5000 };

struct trial {
    const struct tea_type *type;
    size_t count;
    size_t resized_count; /* 0: not resized */
    size_t nwords;        /* that were given a target: those at a stride over the object */
    size_t stride;
    uintptr_t targets[MAX_WORDS];
};

static void *volatile root;

static void make_trial(void *argument)
{
    struct trial *t = argument;
    size_t words = t->type->size_bytes / sizeof(void *) * t->count;
    void **object = tea_alloc_typed(t->type, t->count);
    TEST_REQUIRE(object != NULL && test_all_bytes(object, 0, words * sizeof(void *)));
    root = test_inner(object);
    t->stride = words / MAX_WORDS + 1;
    for (t->nwords = 0; t->nwords * t->stride < words; t->nwords++) {
        void *target = tea_alloc_leaf(16);
        object[t->nwords * t->stride] = target;
        t->targets[t->nwords] = test_hide(target);
    }
    if (t->resized_count != 0) {
        object = tea_realloc(object, t->resized_count * t->type->size_bytes);
        TEST_REQUIRE(object != NULL);
        root = test_inner(object);
    }
}

static void check_trial(void *argument)
{
    const struct trial *t = argument;
    for (size_t i = 0; i < t->nwords; i++) {
        size_t word = i * t->stride;
        bool should_live =
            is_named(t->type, word) &&
            (t->resized_count == 0 || word < t->resized_count * t->type->size_bytes / 8);
        bool lives = tea_base(test_reveal(t->targets[i])) != NULL;
        if (lives != should_live) {
            fprintf(stderr, "%zu elements of %zu bytes, resized to %zu: word %zu, target %s\n",
                    t->count, t->type->size_bytes, t->resized_count, word,
                    lives ? "alive" : "dead");
            test_require_failed(__FILE__, __LINE__, "words lead on as the type says");
        }
    }
}

static void run_trial(struct trial *t)
{
    test_apart(make_trial, t);
    test_objects_after_collect();
    test_apart(check_trial, t);
    root = NULL;
    assert_int_equal(test_objects_after_collect(), 0);
}

static void only_words_that_the_type_names_lead_on(void **state)
{
    (void)state;
    static struct trial trial;
    tea_disable();
    for (size_t i = 0; i < NTYPES; i++)
        for (size_t k = 0; k < NCOUNTS; k++) {
            if (types[i].size_bytes * counts[k] < 16)
                continue; /* has no second word for the root to point to */
            trial = (struct trial){.type = &types[i], .count = counts[k]};
            run_trial(&trial);
        }
}

/* From one slot to another, and within large objects: old words keep what they were. */
static void resizing_keeps_exactness(void **state)
{
    (void)state;
    static const size_t resizes[][2] = {{2, 40}, {40, 3}, {10, 11}, {1000, 700}};
    static struct trial trial;
    tea_disable();
    for (size_t i = 0; i < NTYPES; i++)
        for (size_t k = 0; k < sizeof resizes / sizeof resizes[0]; k++) {
            size_t from = resizes[k][0] * types[i].size_bytes,
                   to = resizes[k][1] * types[i].size_bytes;
            bool both_small = from <= TEAI_MAX_SMALL_BYTES && to <= TEAI_MAX_SMALL_BYTES;
            bool both_large = from > TEAI_MAX_SMALL_BYTES && to > TEAI_MAX_SMALL_BYTES;
            if (to < 16 || (!both_small && !both_large))
                continue;
            trial = (struct trial){
                .type = &types[i], .count = resizes[k][0], .resized_count = resizes[k][1]};
            run_trial(&trial);
        }
}

/* Larger ones have no bits of slots; a growth out of the slots loses no reference. */
static void a_small_object_that_becomes_large_keeps_what_it_refers_to(void **state)
{
    (void)state;
    static struct trial trial;
    trial = (struct trial){.type = &types[4], .count = 100, .resized_count = 3000};
    test_apart(make_trial, &trial);
    test_objects_after_collect();
    for (size_t i = 0; i < trial.nwords; i += 3)
        assert_true(test_is_alive(trial.targets[i]));
}

/* --- neighbours --- */

static void *volatile keep[4096];
static const struct tea_type first = {24, 1, bits_1}, last = {24, 3, bits_4};

struct neighbours {
    uintptr_t named[512], unnamed[512];
};

/* Objects of two types take turns in one span: the bits of each are its own. */
static void make_neighbours(void *argument)
{
    struct neighbours *n = argument;
    for (size_t i = 0; i < 512; i++) {
        void **object = tea_alloc_typed(i % 2 == 0 ? &first : &last, 1);
        void *a = tea_alloc_leaf(16), *b = tea_alloc_leaf(16);
        object[i % 2 == 0 ? 0 : 2] = a;
        object[i % 2 == 0 ? 2 : 0] = b;
        n->named[i] = test_hide(a);
        n->unnamed[i] = test_hide(b);
        keep[i] = test_inner(object);
    }
}

static void neighbours_of_different_types_do_not_mix(void **state)
{
    (void)state;
    static struct neighbours n;
    test_apart(make_neighbours, &n);
    assert_int_equal(test_objects_after_collect(), 2 * 512);
    for (size_t i = 0; i < 512; i++) {
        assert_true(test_is_alive(n.named[i]));
        assert_false(test_is_alive(n.unnamed[i]));
    }
}

static void make_other_type(void *argument)
{
    (void)argument;
    for (size_t i = 0; i < 512; i++)
        keep[1024 + i] = test_inner(tea_alloc_typed(&last, 1));
}

static void a_reused_slot_has_the_bits_of_its_new_type(void **state)
{
    (void)state;
    static struct neighbours n;
    test_apart(make_other_type, NULL);
    memset((void *)keep, 0, sizeof keep);
    test_objects_after_collect();
    test_apart(make_neighbours, &n); /* in the same slots */
    assert_int_equal(test_objects_after_collect(), 2 * 512);
    for (size_t i = 0; i < 512; i++)
        assert_true(test_is_alive(n.named[i]));
}

/* --- threads --- */

/* A byte of the bitmap covers words of two slots, and after a collection two threads may allocate from one span. Here two
 * write the bits of neighbours again and again, each looking after its own. */
enum { RACE_THREADS = 2, RACE_WRITES = 200000 };

struct race {
    uintptr_t object;
    size_t nwrong;
};
static _Atomic unsigned narrived;

static bool bits_are(uintptr_t object, const struct tea_type *type)
{
    size_t base_word = (object - h->tables.heap_base_addr) / sizeof(void *);
    for (size_t word = 0; word < 3; word++) {
        uint8_t byte =
            __atomic_load_n(&h->tables.pointer_bits[(base_word + word) / 8], __ATOMIC_RELAXED);
        if ((byte >> (base_word + word) % 8 & 1) != is_named(type, word))
            return false;
    }
    return true;
}

static void *race_main(void *argument)
{
    static const struct tea_type race_types[] = {{24, 3, bits_7}, {24, 3, bits_2}};
    struct race *r = argument;
    atomic_fetch_add(&narrived, 1);
    while (atomic_load(&narrived) < RACE_THREADS)
        teai_platform_yield();
    for (size_t i = 0; i < RACE_WRITES; i++) {
        teai_alloc_set_pointer_bits(h, r->object, 24, &race_types[i % 2]);
        r->nwrong += !bits_are(r->object, &race_types[i % 2]);
    }
    return NULL;
}

static void threads_that_share_a_byte_of_bits_keep_each_others(void **state)
{
    (void)state;
    struct race races[RACE_THREADS] = {{0}};
    for (int i = 0; i < RACE_THREADS; i++)
        races[i].object = (uintptr_t)tea_alloc_typed(&types[3], 1);
    assert_int_equal(races[1].object, races[0].object + 24);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, race_main, &races[1]), 0);
    race_main(&races[0]);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(races[0].nwrong + races[1].nwrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test_with(only_words_that_the_type_names_lead_on, "GODEBUG=gccheckmark=1"),
        heap_test_with(resizing_keeps_exactness, "GODEBUG=gccheckmark=1"),
        heap_test(a_small_object_that_becomes_large_keeps_what_it_refers_to),
        heap_test(neighbours_of_different_types_do_not_mix),
        heap_test(a_reused_slot_has_the_bits_of_its_new_type),
        heap_test(threads_that_share_a_byte_of_bits_keep_each_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
