/* platform/lock.c -- a futex mutex that spins for a moment before it sleeps.
 *
 * States: 0 free, 1 held, 2 held and somebody may sleep. Free and held cost no system call; whoever
 * had to wait takes the lock in state 2, because others may be asleep still, so a wake-up is never
 * lost.
 *
 * Debug builds check that a thread takes locks in the order of base/lock_rank.h, from one
 * thread-local word: bit r is set while the thread holds a lock of rank r. A thread therefore never
 * holds two of one rank, and the same bit tells whether it is the holder. Rank TEAI_RANK_NONE is
 * exempt.
 *
 * Source. Drepper, Futexes Are Tricky (2011), mutex3.
 */
#include "platform/platform.h"

enum { LOCK_FREE, LOCK_HELD, LOCK_WAITED_FOR };

/* Critical sections are shorter than the 5 us or so that a sleep and a wake-up cost: spin about as
 * long. */
enum { LOCK_SPINS = 40 };

_Static_assert(TEAI_RANK_LAST <= 32, "a bit for each rank");
static _Thread_local uint32_t lock_ranks_held __attribute__((tls_model("initial-exec")));

static void lock_check_order(const struct teai_lock *lock)
{
    if (lock->rank != TEAI_RANK_NONE)
        TEAI_ASSERT(lock_ranks_held >> lock->rank == 0);
}

static void lock_note_taken(const struct teai_lock *lock)
{
    if (TEAI_DEBUG && lock->rank != TEAI_RANK_NONE)
        lock_ranks_held |= UINT32_C(1) << lock->rank;
}

static void lock_note_released(const struct teai_lock *lock)
{
    if (TEAI_DEBUG && lock->rank != TEAI_RANK_NONE)
        lock_ranks_held &= ~(UINT32_C(1) << lock->rank);
}

/* Take the lock if it is free. */
static bool lock_claim(struct teai_lock *lock)
{
    uint32_t expected = LOCK_FREE;
    /* acquire: pairs with the release in teai_lock_release(), so we see what its holders wrote.
     * relaxed on failure: the caller reads nothing the lock protects. */
    return atomic_compare_exchange_strong_explicit(&lock->state, &expected, LOCK_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

static bool lock_spin(struct teai_lock *lock)
{
    for (int i = 0; i < LOCK_SPINS; i++) {
        /* relaxed: only a hint; lock_claim() decides. */
        uint32_t state = atomic_load_explicit(&lock->state, memory_order_relaxed);
        if (state == LOCK_FREE && lock_claim(lock))
            return true;
        if (state == LOCK_WAITED_FOR)
            return false; /* others gave up already: queue behind them */
        teai_platform_pause();
    }
    return false;
}

static TEAI_NOINLINE void lock_acquire_slow(struct teai_lock *lock)
{
    if (lock_spin(lock))
        return;
    /* acquire: as in lock_claim(). */
    while (atomic_exchange_explicit(&lock->state, LOCK_WAITED_FOR, memory_order_acquire) !=
           LOCK_FREE)
        teai_platform_futex_wait(&lock->state, LOCK_WAITED_FOR);
}

void teai_lock_acquire(struct teai_lock *lock)
{
    lock_check_order(lock);
    if (!lock_claim(lock))
        lock_acquire_slow(lock);
    lock_note_taken(lock);
}

/* Takes no part in the order: who does not wait cannot deadlock. */
bool teai_lock_try(struct teai_lock *lock)
{
    if (!lock_claim(lock))
        return false;
    TEAI_ASSERT(lock->rank == TEAI_RANK_NONE || (lock_ranks_held >> lock->rank & 1) == 0);
    lock_note_taken(lock);
    return true;
}

void teai_lock_release(struct teai_lock *lock)
{
    teai_lock_assert_held(lock);
    lock_note_released(lock);
    /* release: pairs with the acquires in lock_claim() and lock_acquire_slow(). */
    if (atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release) == LOCK_WAITED_FOR)
        teai_platform_futex_wake(&lock->state, 1);
}

void teai_lock_assert_held(const struct teai_lock *lock)
{
    /* relaxed: if the caller holds the lock, it is its own store that it reads. */
    TEAI_CHECK(atomic_load_explicit(&lock->state, memory_order_relaxed) != LOCK_FREE);
    TEAI_ASSERT(lock->rank == TEAI_RANK_NONE || (lock_ranks_held >> lock->rank & 1) != 0);
}
