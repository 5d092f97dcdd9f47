/* gc/handshake.c -- bring all mutators to a known point and let them go again.
 *
 * Problem. A stop must find every mutator with its registers and stack in memory and its caches whole, without
 * the mutator's help: it may be in a loop that never allocates.
 *
 * A stop signal is sent to each running mutator. Its handler runs on the mutator's own stack, below everything
 * it has pushed; the kernel has saved all registers (vector state too) in the signal frame, so scanning from the
 * handler's frame to the stack's end sees them, and the red zone as well. A mutator inside the runtime (refilling,
 * freeing: holding locks or half-made state) only notes the request and parks when it leaves.
 *
 * Invariants.
 *   H1  A mutator whose state is STOPPED or BLOCKED does not touch the heap, and sp_addr..stack_limit_addr holds all
 *       its references. It becomes RUNNING only while no stop is in force (stop_epoch even).
 *   H2  Between teai_world_stop() and teai_world_restart() the stopping thread takes no lock of the C library or the
 *       loader, and none that a mutator could hold: mutators are stopped only outside the runtime.
 *   H3  One thread at a time is between teai_world_acquire() and teai_world_release(). Those that wait count as BLOCKED.
 *
 * Ordering. stop_epoch and state form a store-load pair (Dekker): both sides use seq_cst.
 * Source. Deferred stops in a runtime region: common to JVMs. The signal is SIGURG, as in Go: ignored by default, and
 * used by few programs.
 */
#define _GNU_SOURCE
#include "gc/handshake.h"

#include "gc/heap.h"
#include "gc/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORLD_FREE = 0, WORLD_HELD = 1, WORLD_WAITED_FOR = 2 };
enum { STOP_RESEND_NS = 10 * 1000 * 1000 };

static bool stop_is_wanted(const struct teai_world *w)
{
    return (atomic_load_explicit(&w->stop_epoch, memory_order_seq_cst) & 1) != 0;
}

static void mutator_set_state(struct tea_mutator *m, enum teai_mutator_state state)
{
    atomic_store_explicit(&m->state, state, memory_order_seq_cst);
}

static void world_acknowledge(struct teai_world *w)
{
    atomic_fetch_add_explicit(&w->ack, 1, memory_order_seq_cst);
    teai_platform_futex_wake(&w->ack, 1);
}

/* Be stopped (or blocked) until no stop is in force, then run (H1). Async-signal-safe. */
static void mutator_wait_to_run(struct teai_world *w, struct tea_mutator *m, enum teai_mutator_state waiting)
{
    for (;;) {
        uint32_t epoch = atomic_load_explicit(&w->stop_epoch, memory_order_seq_cst);
        if (epoch & 1) {
            teai_platform_futex_wait(&w->stop_epoch, epoch);
            continue;
        }
        mutator_set_state(m, TEAI_MUTATOR_RUNNING);
        if (!stop_is_wanted(w))
            return;
        /* A stop began in between: it may have seen either state. */
        mutator_set_state(m, waiting);
        world_acknowledge(w);
    }
}

/* With registers spilled at sp_addr. */
static void mutator_park(uintptr_t sp_addr, void *argument)
{
    struct tea_mutator *m = argument;
    struct teai_world *w = &m->heap->world;
    m->sp_addr = sp_addr;
    m->alt_base_addr = m->alt_limit_addr = 0;
    mutator_set_state(m, TEAI_MUTATOR_STOPPED);
    world_acknowledge(w);
    mutator_wait_to_run(w, m, TEAI_MUTATOR_STOPPED);
}

static bool address_in_stack(const struct tea_mutator *m, uintptr_t addr)
{
    return addr >= m->stack_base_addr && addr < m->stack_limit_addr;
}

static uintptr_t context_sp(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return (uintptr_t)context->uc_mcontext.sp;
#else
#error "tell context_sp() where the stack pointer is on this machine"
#endif
}

enum { RED_ZONE_BYTES = 128 };

/* The kernel's frame with all registers lies above us. On an alternate stack scan from here to its end, and the thread's
 * own stack from where it was interrupted. */
static void stop_publish_stacks(struct tea_mutator *m, uintptr_t here_addr, const ucontext_t *context)
{
    m->alt_base_addr = m->alt_limit_addr = 0;
    if (address_in_stack(m, here_addr)) {
        m->sp_addr = here_addr;
        return;
    }
    m->sp_addr = context_sp(context) - RED_ZONE_BYTES;
    m->alt_base_addr = here_addr;
    m->alt_limit_addr = (uintptr_t)context->uc_stack.ss_sp + context->uc_stack.ss_size;
    if (!address_in_stack(m, m->sp_addr) || m->alt_limit_addr < here_addr)
        m->sp_addr = m->stack_base_addr; /* a stack we do not know: scan all of the one we do */
}

static void stop_handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    struct tea_mutator *m = teai_self;
    if (m == NULL || m->in_runtime)
        return; /* not a mutator, or it parks when it leaves the runtime */
    struct teai_world *w = &m->heap->world;
    if (!stop_is_wanted(w))
        return;
    int saved_errno = errno;
    stop_publish_stacks(m, (uintptr_t)__builtin_frame_address(0), context);
    mutator_set_state(m, TEAI_MUTATOR_STOPPED);
    world_acknowledge(w);
    mutator_wait_to_run(w, m, TEAI_MUTATOR_STOPPED);
    errno = saved_errno;
}

static void stop_install_handler(int signal)
{
    struct sigaction action = { .sa_sigaction = stop_handler, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

void teai_world_init(struct teai_world *w, int signal)
{
    w->threads_lock.rank = TEAI_RANK_THREADS;
    w->signal = signal != 0 ? signal : SIGURG;
    stop_install_handler(w->signal);
}

/* --- the runtime region --- */

/* The interrupted call holds locks or half-made state: going on would hang or corrupt the heap. */
static TEAI_NOINLINE void runtime_entered_twice(void)
{
    teai_fatal(__FILE__, __LINE__, "the collector was called while this thread is inside it: from a signal handler, from a "
                                   "root callback, or between tea_fiber_switch_begin() and tea_fiber_switch_end()");
}

/* A thread forks: stay outside until it has done so. */
static TEAI_NOINLINE void runtime_wait_at_gate(struct tea_mutator *m)
{
    struct teai_world *w = &m->heap->world;
    uint32_t forker;
    /* acquire: pairs with teai_world_open_gate(). */
    while ((forker = atomic_load_explicit(&w->gate, memory_order_acquire)) != 0 && forker != (uint32_t)m->tid) {
        teai_runtime_leave(m->heap, m);
        teai_platform_futex_wait(&w->gate, forker);
        m->in_runtime = 1;
        atomic_signal_fence(memory_order_seq_cst);
    }
}

void teai_runtime_enter(struct tea_mutator *m)
{
    if (TEAI_UNLIKELY(m->in_runtime))
        runtime_entered_twice();
    m->in_runtime = 1;
    atomic_signal_fence(memory_order_seq_cst);
    /* relaxed: the stop in teai_world_close_gate() lies between its store and this load, or waits for us to leave. */
    if (TEAI_UNLIKELY(atomic_load_explicit(&m->heap->world.gate, memory_order_relaxed) != 0))
        runtime_wait_at_gate(m);
}

void teai_runtime_leave(struct tea_heap *h, struct tea_mutator *m)
{
    atomic_signal_fence(memory_order_seq_cst);
    m->in_runtime = 0;
    atomic_signal_fence(memory_order_seq_cst);
    /* A request that came before this store finds us here, one that comes after finds us by its signal. */
    if (TEAI_UNLIKELY(stop_is_wanted(&h->world)))
        teai_platform_with_registers(mutator_park, m);
}

/* --- blocking --- */

struct blocking_call {
    struct tea_mutator *mutator;
    void (*fn)(void *);
    void *argument;
};

static void blocking_run(uintptr_t sp_addr, void *argument)
{
    struct blocking_call *call = argument;
    struct tea_mutator *m = call->mutator;
    struct teai_world *w = &m->heap->world;
    m->sp_addr = sp_addr;
    m->alt_base_addr = m->alt_limit_addr = 0;
    /* in_runtime keeps the handler from moving sp_addr if a signal is already on its way. */
    m->in_runtime = 1;
    atomic_signal_fence(memory_order_seq_cst);
    mutator_set_state(m, TEAI_MUTATOR_BLOCKED);
    if (stop_is_wanted(w))
        world_acknowledge(w);
    call->fn(call->argument);
    mutator_wait_to_run(w, m, TEAI_MUTATOR_BLOCKED);
    teai_runtime_leave(m->heap, m);
}

void teai_world_call_blocking(struct tea_heap *h, struct tea_mutator *self, void (*fn)(void *), void *argument)
{
    (void)h;
    struct blocking_call call = { self, fn, argument };
    teai_platform_with_registers(blocking_run, &call);
}

/* --- the world lock --- */

static void world_wait_for_holder(void *argument)
{
    struct teai_world *w = argument;
    while (atomic_exchange_explicit(&w->holder, WORLD_WAITED_FOR, memory_order_acquire) != WORLD_FREE)
        teai_platform_futex_wait(&w->holder, WORLD_WAITED_FOR);
}

void teai_world_acquire(struct tea_heap *h, struct tea_mutator *self)
{
    struct teai_world *w = &h->world;
    uint32_t expected = WORLD_FREE;
    if (atomic_compare_exchange_strong_explicit(&w->holder, &expected, WORLD_HELD, memory_order_acquire,
                                                memory_order_relaxed))
        return;
    if (self == NULL)
        world_wait_for_holder(w); /* not a mutator: no stop waits for it */
    else
        teai_world_call_blocking(h, self, world_wait_for_holder, w);
}

void teai_world_release(struct tea_heap *h)
{
    struct teai_world *w = &h->world;
    if (atomic_exchange_explicit(&w->holder, WORLD_FREE, memory_order_release) == WORLD_WAITED_FOR)
        teai_platform_futex_wake(&w->holder, 1);
}

/* --- stop and restart --- */

static bool mutator_is_stopped(const struct tea_mutator *m)
{
    return atomic_load_explicit(&m->state, memory_order_seq_cst) != TEAI_MUTATOR_RUNNING;
}

static void stop_send_signals(struct teai_world *w, const struct tea_mutator *self)
{
    for (const struct tea_mutator *m = w->mutators; m != NULL; m = m->next)
        if (m != self && !mutator_is_stopped(m))
            syscall(SYS_tgkill, getpid(), m->tid, w->signal);
}

static bool stop_is_complete(const struct teai_world *w, const struct tea_mutator *self)
{
    for (const struct tea_mutator *m = w->mutators; m != NULL; m = m->next)
        if (m != self && !mutator_is_stopped(m))
            return false;
    return true;
}

uint64_t teai_world_stop(struct tea_heap *h, struct tea_mutator *self)
{
    struct teai_world *w = &h->world;
    uint64_t begin_ns = teai_platform_now_ns();
    teai_lock_acquire(&w->threads_lock);
    atomic_fetch_add_explicit(&w->stop_epoch, 1, memory_order_seq_cst);
    stop_send_signals(w, self);
    uint64_t resend_ns = begin_ns + STOP_RESEND_NS;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&w->ack, memory_order_seq_cst);
        if (stop_is_complete(w, self))
            break;
        if (teai_platform_now_ns() > resend_ns) {
            /* A mutator that blocked and came back between our two looks ran no handler. */
            stop_send_signals(w, self);
            resend_ns = teai_platform_now_ns() + STOP_RESEND_NS;
        }
        teai_platform_futex_wait(&w->ack, seen);
    }
    return teai_platform_now_ns() - begin_ns;
}

void teai_world_restart(struct tea_heap *h)
{
    struct teai_world *w = &h->world;
    atomic_fetch_add_explicit(&w->stop_epoch, 1, memory_order_seq_cst);
    teai_lock_release(&w->threads_lock);
    teai_platform_futex_wake(&w->stop_epoch, UINT32_MAX);
}

/* --- the gate --- */

void teai_world_close_gate(struct tea_heap *h, struct tea_mutator *self)
{
    /* Before the stop, so that whoever runs again after it finds the gate closed. */
    int tid = self != NULL ? self->tid : teai_platform_thread_id();
    atomic_store_explicit(&h->world.gate, (uint32_t)tid, memory_order_seq_cst);
    teai_world_stop(h, self);
    teai_world_restart(h);
}

void teai_world_open_gate(struct tea_heap *h)
{
    /* release: pairs with runtime_wait_at_gate(). */
    atomic_store_explicit(&h->world.gate, 0, memory_order_release);
    teai_platform_futex_wake(&h->world.gate, UINT32_MAX);
}

bool teai_world_gate_is_mine(const struct tea_heap *h, const struct tea_mutator *self)
{
    /* relaxed: if it is ours, we wrote it. */
    return atomic_load_explicit(&h->world.gate, memory_order_relaxed) == (uint32_t)self->tid;
}

void teai_world_reset_in_child(struct tea_heap *h)
{
    struct teai_world *w = &h->world;
    /* relaxed: this process has one thread. */
    atomic_store_explicit(&w->holder, WORLD_FREE, memory_order_relaxed);
    atomic_store_explicit(&w->gate, 0, memory_order_relaxed);
    atomic_store_explicit(&w->threads_lock.state, 0, memory_order_relaxed);
    if (stop_is_wanted(w))
        atomic_fetch_add_explicit(&w->stop_epoch, 1, memory_order_relaxed);
}
