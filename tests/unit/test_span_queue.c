/* tests/unit/test_span_queue.c -- grey spans: first in, first out; a full ring refuses; stealing takes half. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gc/span_queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ENTRIES = 1024 };

struct fixture {
    struct teai_metadata metadata;
    struct teai_span_queue queue, thief;
};

static void open_queue(struct teai_metadata *md, struct teai_span_queue *q, uint64_t nspans)
{
    memset(q, 0, sizeof *q);
    teai_span_queue_reset(q);
    assert_true(teai_span_queue_reserve(md, q, nspans));
}

static int setup(void **state)
{
    void *memory;
    if (posix_memalign(&memory, 64, sizeof(struct fixture)) != 0)
        return -1;
    struct fixture *f = memory;
    teai_metadata_init(&f->metadata);
    open_queue(&f->metadata, &f->queue, 1);
    open_queue(&f->metadata, &f->thief, 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    teai_metadata_free(&f->metadata, (void *)f->queue.ring, f->queue.ring_bytes);
    teai_metadata_free(&f->metadata, (void *)f->thief.ring, f->thief.ring_bytes);
    assert_int_equal(f->metadata.bytes, 0);
    free(f);
    return 0;
}

static void put_numbers(struct teai_span_queue *q, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        assert_true(teai_span_queue_put(q, i));
}

static void get_numbers(struct teai_span_queue *q, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        teai_span_entry entry;
        assert_true(teai_span_queue_get(q, &entry));
        assert_int_equal(entry, i);
    }
}

static void assert_empty(struct teai_span_queue *q)
{
    teai_span_entry entry;
    assert_false(teai_span_queue_get(q, &entry));
    assert_int_equal(teai_span_queue_public(q), 0);
}

static void entries_come_out_in_the_order_they_went_in(void **state)
{
    struct fixture *f = *state;
    assert_empty(&f->queue);
    put_numbers(&f->queue, 0, 1000);
    get_numbers(&f->queue, 0, 1000);
    assert_empty(&f->queue);
}

static void order_is_kept_when_putting_and_getting_alternate(void **state)
{
    struct fixture *f = *state;
    /* Rounds of 1 to 300, many times round the ring. */
    uint64_t put = 0, got = 0;
    for (uint64_t round = 1; round <= 300; round++) {
        put_numbers(&f->queue, put, put + round);
        put += round;
        uint64_t leave = round % 7;
        get_numbers(&f->queue, got, put - leave);
        got = put - leave;
    }
    assert_true(put > 10 * LEAST_ENTRIES);
    get_numbers(&f->queue, got, put);
    assert_empty(&f->queue);
}

static void a_full_ring_refuses_and_loses_nothing(void **state)
{
    struct fixture *f = *state;
    put_numbers(&f->queue, 0, LEAST_ENTRIES);
    assert_false(teai_span_queue_put(&f->queue, 4711));
    get_numbers(&f->queue, 0, TEAI_SPAN_BATCH);
    /* The owner's batch has left the ring. */
    put_numbers(&f->queue, LEAST_ENTRIES, LEAST_ENTRIES + TEAI_SPAN_BATCH);
    assert_false(teai_span_queue_put(&f->queue, 4711));
    get_numbers(&f->queue, TEAI_SPAN_BATCH, LEAST_ENTRIES + TEAI_SPAN_BATCH);
    assert_empty(&f->queue);
}

static void a_ring_has_room_for_what_was_reserved(void **state)
{
    struct fixture *f = *state;
    enum { NSPANS = 5000 };
    assert_true(teai_span_queue_reserve(&f->metadata, &f->queue, NSPANS));
    put_numbers(&f->queue, 0, NSPANS);
    get_numbers(&f->queue, 0, NSPANS);
}

static void reserving_less_keeps_the_ring(void **state)
{
    struct fixture *f = *state;
    assert_true(teai_span_queue_reserve(&f->metadata, &f->queue, 5000));
    _Atomic uint64_t *ring = f->queue.ring;
    assert_true(teai_span_queue_reserve(&f->metadata, &f->queue, 10));
    assert_ptr_equal(ring, f->queue.ring);
}

static void without_memory_the_old_ring_serves(void **state)
{
    struct fixture *f = *state;
    f->metadata.deny_after = 0;
    assert_true(teai_span_queue_reserve(&f->metadata, &f->queue, 1000000));
    put_numbers(&f->queue, 0, LEAST_ENTRIES);
    assert_false(teai_span_queue_put(&f->queue, 4711));
    get_numbers(&f->queue, 0, LEAST_ENTRIES);
    f->metadata.deny_after = UINT32_MAX;
}

static void a_queue_without_any_ring_refuses_everything(void **state)
{
    struct fixture *f = *state;
    struct teai_span_queue none;
    memset(&none, 0, sizeof none);
    teai_span_queue_reset(&none);
    f->metadata.deny_after = 0;
    assert_false(teai_span_queue_reserve(&f->metadata, &none, 10));
    f->metadata.deny_after = UINT32_MAX;
    assert_false(teai_span_queue_put(&none, 1));
    assert_int_equal(teai_span_queue_steal(&f->thief, &none), 0);
    assert_empty(&none);
}

static void stealing_takes_the_older_half(void **state)
{
    struct fixture *f = *state;
    put_numbers(&f->queue, 0, 100);
    assert_int_equal(teai_span_queue_steal(&f->thief, &f->queue), 50);
    assert_int_equal(teai_span_queue_public(&f->queue), 50);
    get_numbers(&f->thief, 0, 50);
    get_numbers(&f->queue, 50, 100);
    assert_empty(&f->queue);
    assert_empty(&f->thief);
}

static void stealing_takes_the_only_entry(void **state)
{
    struct fixture *f = *state;
    put_numbers(&f->queue, 7, 8);
    assert_int_equal(teai_span_queue_steal(&f->thief, &f->queue), 1);
    get_numbers(&f->thief, 7, 8);
    assert_empty(&f->queue);
    assert_int_equal(teai_span_queue_steal(&f->thief, &f->queue), 0);
}

static void stealing_takes_a_bounded_number(void **state)
{
    struct fixture *f = *state;
    put_numbers(&f->queue, 0, LEAST_ENTRIES);
    assert_int_equal(teai_span_queue_steal(&f->thief, &f->queue), TEAI_SPAN_STEAL_MAX);
    get_numbers(&f->thief, 0, TEAI_SPAN_STEAL_MAX);
    get_numbers(&f->queue, TEAI_SPAN_STEAL_MAX, LEAST_ENTRIES);
}

static void what_the_owner_has_taken_cannot_be_stolen(void **state)
{
    struct fixture *f = *state;
    put_numbers(&f->queue, 0, TEAI_SPAN_BATCH);
    get_numbers(&f->queue, 0, 1);
    assert_int_equal(teai_span_queue_public(&f->queue), 0);
    assert_int_equal(teai_span_queue_steal(&f->thief, &f->queue), 0);
    get_numbers(&f->queue, 1, TEAI_SPAN_BATCH);
}

static void resetting_empties(void **state)
{
    struct fixture *f = *state;
    put_numbers(&f->queue, 0, 100);
    get_numbers(&f->queue, 0, 1);
    teai_span_queue_reset(&f->queue);
    assert_empty(&f->queue);
    put_numbers(&f->queue, 5, 6);
    get_numbers(&f->queue, 5, 6);
}

/* --- an owner and thieves at once --- */

enum { RACE_ENTRIES = 300000, NTHIEVES = 2 };

struct race {
    struct teai_span_queue *queue;
    _Atomic uint8_t seen[RACE_ENTRIES];
    _Atomic uint32_t done;
    _Atomic uint32_t nstolen;
};

static void race_see(struct race *r, teai_span_entry entry)
{
    atomic_fetch_add_explicit(&r->seen[entry], 1, memory_order_relaxed);
}

static void race_drain(struct race *r, struct teai_span_queue *q)
{
    teai_span_entry entry;
    while (teai_span_queue_get(q, &entry))
        race_see(r, entry);
}

static void *race_thief(void *argument)
{
    struct race *r = argument;
    struct teai_span_queue *own = NULL;
    void *memory;
    if (posix_memalign(&memory, 64, sizeof *own) != 0)
        abort();
    own = memset(memory, 0, sizeof *own);
    teai_span_queue_reset(own);
    while (atomic_load(&r->done) == 0) {
        uint32_t n = teai_span_queue_steal(own, r->queue);
        atomic_fetch_add_explicit(&r->nstolen, n, memory_order_relaxed);
        race_drain(r, own);
        teai_platform_yield();
    }
    free(own);
    return NULL;
}

/* The owner puts in bursts that overfill the ring at times, and takes in between. */
static void race_owner(struct race *r)
{
    uint64_t next = 0;
    for (unsigned round = 0; next < RACE_ENTRIES; round++) {
        for (unsigned i = 0; i < 1 + round * 37 % 1500 && next < RACE_ENTRIES; i++)
            if (teai_span_queue_put(r->queue, next))
                next++;
            else
                break;
        while (round == 0 && r->nstolen == 0)
            sched_yield(); /* until a thief has had the first entry: all of them run from here on */
        teai_span_entry entry;
        for (unsigned i = 0; i < round * 53 % 1200 && teai_span_queue_get(r->queue, &entry); i++)
            race_see(r, entry);
    }
    race_drain(r, r->queue);
}

static void owner_and_thieves_see_every_entry_once(void **state)
{
    struct fixture *f = *state;
    static struct race race;
    memset(&race, 0, sizeof race);
    race.queue = &f->queue;
    pthread_t thieves[NTHIEVES];
    for (int i = 0; i < NTHIEVES; i++)
        assert_int_equal(pthread_create(&thieves[i], NULL, race_thief, &race), 0);
    race_owner(&race);
    atomic_store(&race.done, 1);
    for (int i = 0; i < NTHIEVES; i++)
        assert_int_equal(pthread_join(thieves[i], NULL), 0);
    for (uint32_t i = 0; i < RACE_ENTRIES; i++)
        if (race.seen[i] != 1)
            fail_msg("entry %u was seen %u times (%u were stolen)", i, race.seen[i], race.nstolen);
    assert_true(race.nstolen > 0);
}

#define queue_test(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        queue_test(entries_come_out_in_the_order_they_went_in),
        queue_test(order_is_kept_when_putting_and_getting_alternate),
        queue_test(a_full_ring_refuses_and_loses_nothing),
        queue_test(a_ring_has_room_for_what_was_reserved),
        queue_test(reserving_less_keeps_the_ring),
        queue_test(without_memory_the_old_ring_serves),
        queue_test(a_queue_without_any_ring_refuses_everything),
        queue_test(stealing_takes_the_older_half),
        queue_test(stealing_takes_the_only_entry),
        queue_test(stealing_takes_a_bounded_number),
        queue_test(what_the_owner_has_taken_cannot_be_stolen),
        queue_test(resetting_empties),
        queue_test(owner_and_thieves_see_every_entry_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
