/* gc/fiber.c -- stacks that the program makes and switches itself.
 *
 * Problem. The collector must know at each stop which stack a thread is on and how far it reaches, and scan the stacks that no
 * thread is on from where they were left.
 *
 * A switch is announced before and after. In between the thread counts as inside the runtime: it is not stopped there, so
 * no stop sees it between two stacks. When the switch ends, the mutator's stack bounds become the new stack's; all else in
 * the collector knows only those. A thread's own stack has a fiber record too, from its first switch on, so that it is parked
 * like any other.
 *
 * The program's switch saves the registers that a call must preserve wherever it likes, in a ucontext_t from malloc() say. So
 * they are also saved here: the frames between the caller's and the lowest of ours are copied into the record.
 *
 * Invariants.
 *   I1  A record's state goes FREE -> PARKED -> RUNNING -> PARKED ... -> FREE. Whoever moves it from PARKED owns the record.
 *   I2  current is RUNNING on exactly this mutator, whose stack bounds are the fiber's, unless a switch is under way.
 *   I3  A PARKED record's references are on its stack from sp_addr (0: anywhere on it), in words, or its argument.
 *   I4  Records are never unmapped, so a handle that has ended is told from one that has not.
 *
 * Locks and atomics. fibers.lock for making and ending; switches only move states. Callers are inside the runtime.
 */
#include "gc/fiber.h"

#include "gc/heap.h"
#include "gc/thread.h"
#include "teaspan/fiber.h"

/* Unlikely values, so that a handle that is none is noticed. */
enum fiber_record_state {
    FIBER_FREE = 0,
    FIBER_PARKED = 0x7ea5f1be,
    FIBER_RUNNING,
    FIBER_LOST       /* was running on a thread that is gone: ended without destructors, or not there in a forked child */
};

/* Saved registers, and the frames of three small functions; those of checked builds are larger. */
enum { FIBER_WORDS = (TEAI_DEBUG || TEAI_ASAN || TEAI_TSAN) ? 256 : 64 };
/* A switch may push registers, and what it keeps of its own, below our caller's frame. */
enum { FIBER_BELOW_FRAME_BYTES = 256 };

struct tea_fiber {
    _Atomic uint32_t state;            /* enum fiber_record_state */
    uint32_t nwords;
    uintptr_t base_addr, limit_addr;
    uintptr_t sp_addr;                 /* while parked; 0: not known */
    void *argument;
    struct tea_fiber *next_free;
    uintptr_t words[FIBER_WORDS];
};

enum { FIBER_BLOCK_BYTES = 64 << 10 };
enum { FIBERS_A_BLOCK = (FIBER_BLOCK_BYTES - sizeof(struct teai_fiber_block *)) / sizeof(struct tea_fiber) };

struct teai_fiber_block {
    struct teai_fiber_block *next;
    struct tea_fiber fibers[FIBERS_A_BLOCK];
};
_Static_assert(sizeof(struct teai_fiber_block) <= FIBER_BLOCK_BYTES, "a block is one piece of metadata");

static uint32_t fiber_state(const struct tea_fiber *f)
{
    /* acquire: pairs with fiber_move(): what the thread wrote that parked it is seen. */
    return atomic_load_explicit(&f->state, memory_order_acquire);
}

/* I1. False: it was in another state, which is stored. */
static bool fiber_move(struct tea_fiber *f, uint32_t *from, uint32_t to)
{
    return atomic_compare_exchange_strong_explicit(&f->state, from, to, memory_order_acq_rel, memory_order_acquire);
}

static bool fiber_claim(struct tea_fiber *f, uint32_t *seen_out)
{
    *seen_out = FIBER_PARKED;
    return fiber_move(f, seen_out, FIBER_RUNNING);
}

static void fiber_park(struct tea_fiber *f)
{
    /* release: pairs with fiber_claim(). */
    atomic_store_explicit(&f->state, FIBER_PARKED, memory_order_release);
}

/* --- records --- */

void teai_fibers_init(struct teai_fibers *fibers)
{
    fibers->lock.rank = TEAI_RANK_ROOTS;
}

static bool fibers_grow_locked(struct tea_heap *h)
{
    struct teai_fibers *fibers = &h->fibers;
    size_t bytes = FIBER_BLOCK_BYTES;
    struct teai_fiber_block *block = teai_metadata_alloc(&h->metadata, &bytes);
    if (block == NULL)
        return false;
    for (unsigned i = 0; i < FIBERS_A_BLOCK; i++) {
        block->fibers[i].next_free = fibers->free;
        fibers->free = &block->fibers[i];
    }
    block->next = fibers->blocks;
    fibers->blocks = block;
    return true;
}

static struct tea_fiber *fiber_new(struct tea_heap *h, uintptr_t base_addr, uintptr_t limit_addr, uint32_t state)
{
    struct teai_fibers *fibers = &h->fibers;
    teai_lock_acquire(&fibers->lock);
    struct tea_fiber *f = NULL;
    if (fibers->free != NULL || fibers_grow_locked(h)) {
        f = fibers->free;
        fibers->free = f->next_free;
    }
    teai_lock_release(&fibers->lock);
    if (f == NULL)
        return NULL;
    f->base_addr = base_addr;
    f->limit_addr = limit_addr;
    f->sp_addr = 0;
    f->nwords = 0;
    f->argument = NULL;
    atomic_store_explicit(&f->state, state, memory_order_release);
    return f;
}

/* The caller has moved it to FREE. */
static void fiber_delete(struct tea_heap *h, struct tea_fiber *f)
{
    struct teai_fibers *fibers = &h->fibers;
    teai_lock_acquire(&fibers->lock);
    f->next_free = fibers->free;
    fibers->free = f;
    teai_lock_release(&fibers->lock);
}

/* --- roots --- */

static uint64_t fiber_list_parked(struct tea_heap *h, const struct tea_fiber *f)
{
    uintptr_t from = f->sp_addr != 0 ? f->sp_addr : f->base_addr;
    h->fibers.nscanned_whole += f->sp_addr == 0;
    teai_mark_add_root(h, from, f->limit_addr, false);
    teai_mark_add_root(h, (uintptr_t)f->words, (uintptr_t)(f->words + f->nwords), false);
    return f->limit_addr - from;
}

uint64_t teai_fibers_list_roots(struct tea_heap *h)
{
    uint64_t stack_bytes = 0;
    h->fibers.nscanned_whole = 0;
    for (const struct teai_fiber_block *block = h->fibers.blocks; block != NULL; block = block->next)
        for (unsigned i = 0; i < FIBERS_A_BLOCK; i++) {
            const struct tea_fiber *f = &block->fibers[i];
            uint32_t state = fiber_state(f);
            if (state == FIBER_PARKED)
                stack_bytes += fiber_list_parked(h, f);
            if (state == FIBER_PARKED || state == FIBER_RUNNING)
                teai_mark_add_root(h, (uintptr_t)&f->argument, (uintptr_t)(&f->argument + 1), false);
        }
    return stack_bytes;
}

/* --- messages --- */

static const char *fiber_why_not(enum tea_status status, uint32_t state)
{
    if (status == TEA_ERR_NOMEM)
        return "cannot be listed: no memory";
    return state == FIBER_RUNNING ? "is running"
           : state == FIBER_LOST  ? "ran on a thread that is gone"
                                  : "is no fiber, or has ended";
}

static enum tea_status fiber_report(struct tea_heap *h, const char *call, const struct tea_fiber *f, uint32_t state)
{
    enum tea_status status = state == FIBER_RUNNING || state == FIBER_LOST ? TEA_ERR_STATE : TEA_ERR_NOT_FOUND;
    teai_log_line(&h->log, "teaspan: %s: fiber %p %s; ignored", call, (const void *)f, fiber_why_not(status, state));
    return status;
}

/* --- making and ending --- */

enum tea_status tea_fiber_create(const void *stack_base, const void *stack_limit, void *argument,
                                 struct tea_fiber **fiber_out)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    struct tea_heap *h = m->heap;
    if (stack_base == NULL || (uintptr_t)stack_base >= (uintptr_t)stack_limit || fiber_out == NULL) {
        teai_log_line(&h->log, "teaspan: tea_fiber_create: [%p, %p) is not a stack, or there is nowhere to put the fiber; "
                               "ignored", stack_base, stack_limit);
        return TEA_ERR_INVALID;
    }
    teai_runtime_enter(m);
    struct tea_fiber *f = fiber_new(h, (uintptr_t)stack_base, (uintptr_t)stack_limit, FIBER_RUNNING);
    if (f != NULL) {
        f->argument = argument;
        fiber_park(f);
        atomic_fetch_add_explicit(&h->fibers.nfibers, 1, memory_order_relaxed);
    }
    teai_runtime_leave(h, m);
    if (f == NULL)
        return TEA_ERR_NOMEM;
    *fiber_out = f;
    return TEA_OK;
}

enum tea_status tea_fiber_end(struct tea_fiber *fiber)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL || fiber == NULL)
        return TEA_ERR_NOT_FOUND;
    struct tea_heap *h = m->heap;
    teai_runtime_enter(m);
    uint32_t seen = FIBER_PARKED;
    bool ended = fiber_move(fiber, &seen, FIBER_FREE) || (seen == FIBER_LOST && fiber_move(fiber, &seen, FIBER_FREE));
    if (ended) {
        fiber_delete(h, fiber);
        atomic_fetch_sub_explicit(&h->fibers.nfibers, 1, memory_order_relaxed);
    }
    teai_runtime_leave(h, m);
    return ended ? TEA_OK : fiber_report(h, "tea_fiber_end", fiber, seen);
}

struct tea_fiber *tea_fiber_current(void)
{
    struct tea_mutator *m = teai_self;
    return m != NULL ? m->fiber.current : NULL;
}

void *tea_fiber_argument(const struct tea_fiber *fiber)
{
    return fiber->argument;
}

/* --- switching --- */

struct fiber_frame {
    struct tea_fiber *fiber;
    uintptr_t frame_addr;
};

/* Registers that a call must preserve are in the frames up to frame_addr, which end before the switch is made (I3). */
static TEAI_NO_SANITIZE void fiber_save(uintptr_t sp_addr, void *argument)
{
    const struct fiber_frame *frame = argument;
    struct tea_fiber *f = frame->fiber;
    size_t nwords = (frame->frame_addr - sp_addr) / sizeof(uintptr_t);
    TEAI_CHECK(nwords <= FIBER_WORDS); /* our own frames: a bound known when this was written */
    for (size_t i = 0; i < nwords; i++)
        f->words[i] = ((const volatile uintptr_t *)sp_addr)[i];
    f->nwords = (uint32_t)nwords;
    uintptr_t below = frame->frame_addr - FIBER_BELOW_FRAME_BYTES;
    f->sp_addr = below > f->base_addr ? below : f->base_addr;
}

/* The record of the stack that the thread is on; at its first switch one is made. NULL: no memory. */
static struct tea_fiber *fiber_here(struct tea_heap *h, struct tea_mutator *m)
{
    if (m->fiber.current != NULL)
        return m->fiber.current;
    if (m->fiber.own == NULL)
        m->fiber.own = fiber_new(h, m->stack_base_addr, m->stack_limit_addr, FIBER_RUNNING);
    return m->fiber.own;
}

/* A switch had begun and none was made: the old stack is the present one still. */
static void switch_cancel(struct tea_heap *h, struct tea_mutator *m)
{
    uint32_t seen;
    if (!fiber_claim(m->fiber.from, &seen))
        teai_fatal(__FILE__, __LINE__, "a thread is on a stack that another thread has switched to");
    fiber_park(m->fiber.to);
    m->fiber.from = m->fiber.to = NULL;
    teai_runtime_leave(h, m);
}

enum tea_status tea_fiber_switch_begin(struct tea_fiber *to)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    struct tea_heap *h = m->heap;
    if (m->fiber.to != NULL) {
        switch_cancel(h, m);
        teai_log_line(&h->log, "teaspan: tea_fiber_switch_begin: a switch has begun on this thread and not ended; both ignored");
        return TEA_ERR_STATE;
    }
    teai_runtime_enter(m);
    struct tea_fiber *from = fiber_here(h, m);
    if (from == NULL) {
        teai_runtime_leave(h, m);
        return TEA_ERR_NOMEM;
    }
    struct tea_fiber *target = to != NULL ? to : m->fiber.own;
    uint32_t seen;
    if (!fiber_claim(target, &seen)) {
        teai_runtime_leave(h, m);
        return fiber_report(h, "tea_fiber_switch_begin", to, seen);
    }
    m->fiber.from = from;
    m->fiber.to = target;
    struct fiber_frame frame = { from, (uintptr_t)__builtin_frame_address(0) };
    teai_platform_with_registers(fiber_save, &frame);
    fiber_park(from);
    return TEA_OK; /* inside the runtime, until tea_fiber_switch_end() */
}

static bool fiber_has(const struct tea_fiber *f, uintptr_t addr)
{
    return addr >= f->base_addr && addr < f->limit_addr;
}

enum tea_status tea_fiber_switch_end(void)
{
    struct tea_mutator *m = teai_thread_self();
    if (m == NULL)
        return TEA_ERR_NOMEM;
    struct tea_heap *h = m->heap;
    struct tea_fiber *to = m->fiber.to;
    if (to == NULL) {
        teai_log_line(&h->log, "teaspan: tea_fiber_switch_end: no switch has begun on this thread; ignored");
        return TEA_ERR_STATE;
    }
    uintptr_t here_addr = (uintptr_t)__builtin_frame_address(0);
    if (!fiber_has(to, here_addr)) {
        if (!fiber_has(m->fiber.from, here_addr))
            teai_fatal(__FILE__, __LINE__, "tea_fiber_switch_end: on a stack that is neither the old nor the new fiber's");
        switch_cancel(h, m);
        teai_log_line(&h->log, "teaspan: tea_fiber_switch_end: still on the old stack; the switch is ignored");
        return TEA_ERR_STATE;
    }
    to->sp_addr = 0;
    to->nwords = 0;
    m->fiber.current = to != m->fiber.own ? to : NULL;
    m->fiber.from = m->fiber.to = NULL;
    m->stack_base_addr = to->base_addr;
    m->stack_limit_addr = to->limit_addr;
    teai_runtime_leave(h, m);
    return TEA_OK;
}

/* --- threads end --- */

static void fiber_delete_own(struct tea_heap *h, struct tea_mutator *m)
{
    if (m->fiber.own == NULL)
        return;
    atomic_store_explicit(&m->fiber.own->state, FIBER_FREE, memory_order_relaxed);
    fiber_delete(h, m->fiber.own);
    m->fiber.own = NULL;
}

/* On a fiber: how far its stack is in use is not known from here on. */
void teai_fibers_thread_ends(struct tea_heap *h, struct tea_mutator *m)
{
    if (m->fiber.current != NULL)
        fiber_park(m->fiber.current);
    m->fiber.current = NULL;
    fiber_delete_own(h, m);
}

void teai_fibers_thread_lost(struct tea_heap *h, struct tea_mutator *m)
{
    struct tea_fiber *lost[] = { m->fiber.current, m->fiber.to };
    for (unsigned i = 0; i < sizeof lost / sizeof lost[0]; i++)
        if (lost[i] != NULL && fiber_state(lost[i]) == FIBER_RUNNING)
            atomic_store_explicit(&lost[i]->state, FIBER_LOST, memory_order_relaxed);
    m->fiber.current = m->fiber.to = NULL;
    fiber_delete_own(h, m);
}
