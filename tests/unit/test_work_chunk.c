/* tests/unit/test_work_chunk.c -- stacks of grey objects: last in, first out; sharing; what happens without memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gc/work_chunk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = TEAI_WORK_CHUNK_ENTRIES,
    BLOCK_BYTES = 64 << 10,
    CHUNKS_A_BLOCK = BLOCK_BYTES / TEAI_WORK_CHUNK_BYTES - 1
};

struct fixture {
    struct teai_metadata metadata;
    struct teai_work_pool pool;
    struct teai_work_stack stack, other;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    if (f == NULL)
        return -1;
    teai_metadata_init(&f->metadata);
    teai_work_pool_init(&f->pool, &f->metadata);
    *state = f;
    return 0;
}

static void empty_stack(struct fixture *f, struct teai_work_stack *stack)
{
    uintptr_t entry;
    while (teai_work_pop(stack, &entry) || teai_work_fetch(&f->pool, stack))
        ;
}

/* Nothing is left over: every chunk finds its way back. */
static int teardown(void **state)
{
    struct fixture *f = *state;
    empty_stack(f, &f->stack);
    empty_stack(f, &f->other);
    teai_work_stack_release(&f->pool, &f->stack);
    teai_work_stack_release(&f->pool, &f->other);
    teai_work_pool_trim(&f->pool, 0);
    assert_int_equal(f->metadata.bytes, 0);
    free(f);
    return 0;
}

static void push_numbers(struct fixture *f, struct teai_work_stack *stack, uintptr_t from,
                         uintptr_t to)
{
    for (uintptr_t i = from; i < to; i++)
        assert_true(teai_work_push(&f->pool, stack, i));
}

/* From to - 1 down. */
static void pop_numbers(struct teai_work_stack *stack, uintptr_t from, uintptr_t to)
{
    for (uintptr_t i = to; i-- > from;) {
        uintptr_t entry;
        assert_true(teai_work_pop(stack, &entry));
        assert_int_equal(entry, i);
    }
}

static void the_last_entry_comes_out_first(void **state)
{
    struct fixture *f = *state;
    uintptr_t entry;
    assert_false(teai_work_pop(&f->stack, &entry));
    push_numbers(f, &f->stack, 0, 100);
    pop_numbers(&f->stack, 0, 100);
    assert_false(teai_work_pop(&f->stack, &entry));
    assert_true(teai_work_is_empty(&f->stack));
}

static void two_chunks_are_popped_without_the_pool(void **state)
{
    struct fixture *f = *state;
    push_numbers(f, &f->stack, 0, 2 * CHUNK);
    assert_int_equal(f->pool.nfull, 0);
    pop_numbers(&f->stack, 0, 2 * CHUNK);
}

static void the_chunks_below_two_go_to_the_pool_and_come_back(void **state)
{
    struct fixture *f = *state;
    push_numbers(f, &f->stack, 0, 5 * CHUNK);
    assert_int_equal(f->pool.nfull, 3);
    pop_numbers(&f->stack, 3 * CHUNK, 5 * CHUNK);
    for (uintptr_t chunk = 3; chunk-- > 0;) {
        assert_true(teai_work_fetch(&f->pool, &f->stack));
        pop_numbers(&f->stack, chunk * CHUNK, (chunk + 1) * CHUNK);
    }
    assert_false(teai_work_fetch(&f->pool, &f->stack));
}

static void going_back_and_forth_at_a_boundary_takes_no_chunk(void **state)
{
    struct fixture *f = *state;
    push_numbers(f, &f->stack, 0, CHUNK + 1);
    struct teai_work_chunk *empty = f->pool.empty;
    for (int i = 0; i < 10; i++) {
        pop_numbers(&f->stack, CHUNK - 1, CHUNK + 1);
        push_numbers(f, &f->stack, CHUNK - 1, CHUNK + 1);
    }
    assert_ptr_equal(f->pool.empty, empty);
    assert_int_equal(f->pool.nfull, 0);
}

static void sharing_publishes_the_spare_chunk(void **state)
{
    struct fixture *f = *state;
    push_numbers(f, &f->stack, 0, CHUNK + 10);
    assert_true(teai_work_share(&f->pool, &f->stack));
    assert_true(teai_work_fetch(&f->pool, &f->other));
    pop_numbers(&f->other, 0, CHUNK);
    pop_numbers(&f->stack, CHUNK, CHUNK + 10);
}

static void sharing_splits_the_only_chunk(void **state)
{
    struct fixture *f = *state;
    push_numbers(f, &f->stack, 0, 11);
    assert_true(teai_work_share(&f->pool, &f->stack));
    pop_numbers(&f->stack, 0, 5);
    assert_true(teai_work_fetch(&f->pool, &f->other));
    pop_numbers(&f->other, 5, 11);
}

static void a_single_entry_is_not_shared(void **state)
{
    struct fixture *f = *state;
    assert_false(teai_work_share(&f->pool, &f->stack));
    push_numbers(f, &f->stack, 0, 1);
    assert_false(teai_work_share(&f->pool, &f->stack));
    assert_int_equal(f->pool.nfull, 0);
}

static void without_memory_nothing_can_be_pushed(void **state)
{
    struct fixture *f = *state;
    f->metadata.deny_after = 0;
    assert_false(teai_work_push(&f->pool, &f->stack, 1));
    assert_true(teai_work_is_empty(&f->stack));
    f->metadata.deny_after = UINT32_MAX;
    push_numbers(f, &f->stack, 0, 1);
}

static void a_refused_entry_leaves_the_others_in_place(void **state)
{
    struct fixture *f = *state;
    f->pool.limit_bytes = BLOCK_BYTES;
    push_numbers(f, &f->stack, 0, CHUNKS_A_BLOCK * CHUNK);
    assert_false(teai_work_push(&f->pool, &f->stack, 4711));
    assert_int_equal(f->pool.bytes, BLOCK_BYTES);
    pop_numbers(&f->stack, (CHUNKS_A_BLOCK - 2) * CHUNK, CHUNKS_A_BLOCK * CHUNK);
    for (uintptr_t chunk = CHUNKS_A_BLOCK - 2; chunk-- > 0;) {
        assert_true(teai_work_fetch(&f->pool, &f->stack));
        pop_numbers(&f->stack, chunk * CHUNK, (chunk + 1) * CHUNK);
    }
    assert_false(teai_work_fetch(&f->pool, &f->stack));
}

static void without_memory_a_chunk_is_not_split(void **state)
{
    struct fixture *f = *state;
    f->pool.limit_bytes = BLOCK_BYTES;
    push_numbers(f, &f->other, 0, (CHUNKS_A_BLOCK - 1) * CHUNK);
    push_numbers(f, &f->stack, 0, 10);
    assert_false(teai_work_share(&f->pool, &f->stack));
    pop_numbers(&f->stack, 0, 10);
}

static void trimming_frees_what_is_above_the_limit(void **state)
{
    struct fixture *f = *state;
    push_numbers(f, &f->stack, 0, 100 * CHUNK);
    uint64_t peak = f->pool.bytes;
    assert_true(peak >= 100 * TEAI_WORK_CHUNK_BYTES);
    empty_stack(f, &f->stack);
    teai_work_stack_release(&f->pool, &f->stack);
    teai_work_pool_trim(&f->pool, peak);
    assert_int_equal(f->pool.bytes, peak);
    teai_work_pool_trim(&f->pool, peak - 1);
    assert_int_equal(f->pool.bytes, 0);
    assert_int_equal(f->metadata.bytes, 0);
    assert_int_equal(f->pool.peak_bytes, peak);
    push_numbers(f, &f->stack, 0, 3 * CHUNK);
}

/* --- several markers at once --- */

enum { RACE_ENTRIES = 200000, NTAKERS = 2 };

struct race {
    struct teai_work_pool *pool;
    _Atomic uint8_t seen[RACE_ENTRIES];
    _Atomic uint32_t done, ntaken;
};

static uint32_t race_drain(struct race *r, struct teai_work_stack *stack)
{
    uintptr_t entry;
    uint32_t n = 0;
    for (; teai_work_pop(stack, &entry); n++)
        atomic_fetch_add_explicit(&r->seen[entry], 1, memory_order_relaxed);
    return n;
}

static void *race_taker(void *argument)
{
    struct race *r = argument;
    struct teai_work_stack own = {NULL, NULL};
    for (;;) {
        bool last = atomic_load(&r->done) != 0;
        while (teai_work_fetch(r->pool, &own))
            atomic_fetch_add_explicit(&r->ntaken, race_drain(r, &own), memory_order_relaxed);
        if (last)
            break;
        teai_platform_yield();
    }
    teai_work_stack_release(r->pool, &own);
    return NULL;
}

static void sharers_and_takers_see_every_entry_once(void **state)
{
    struct fixture *f = *state;
    static struct race race;
    memset(&race, 0, sizeof race);
    race.pool = &f->pool;
    pthread_t takers[NTAKERS];
    for (int i = 0; i < NTAKERS; i++)
        assert_int_equal(pthread_create(&takers[i], NULL, race_taker, &race), 0);
    for (uintptr_t next = 0; next < RACE_ENTRIES;) {
        for (unsigned i = 0; i < next % 1500 + 1 && next < RACE_ENTRIES; i++)
            assert_true(teai_work_push(&f->pool, &f->stack, next++));
        teai_work_share(&f->pool, &f->stack);
        if (next % 3 == 0)
            race_drain(&race, &f->stack);
    }
    race_drain(&race, &f->stack);
    atomic_store(&race.done, 1);
    for (int i = 0; i < NTAKERS; i++)
        assert_int_equal(pthread_join(takers[i], NULL), 0);
    for (uint32_t i = 0; i < RACE_ENTRIES; i++)
        if (race.seen[i] != 1)
            fail_msg("entry %u was seen %u times", i, race.seen[i]);
    assert_true(race.ntaken > 0);
}

#define pool_test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        pool_test(the_last_entry_comes_out_first),
        pool_test(two_chunks_are_popped_without_the_pool),
        pool_test(the_chunks_below_two_go_to_the_pool_and_come_back),
        pool_test(going_back_and_forth_at_a_boundary_takes_no_chunk),
        pool_test(sharing_publishes_the_spare_chunk),
        pool_test(sharing_splits_the_only_chunk),
        pool_test(a_single_entry_is_not_shared),
        pool_test(without_memory_nothing_can_be_pushed),
        pool_test(a_refused_entry_leaves_the_others_in_place),
        pool_test(without_memory_a_chunk_is_not_split),
        pool_test(trimming_frees_what_is_above_the_limit),
        pool_test(sharers_and_takers_see_every_entry_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
