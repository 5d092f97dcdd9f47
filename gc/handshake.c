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
 *   H4  A mutator in a blocking region is scanned from the frame that entered it, with a copy of what lay below.
 *   H3  One thread at a time is between teai_world_acquire() and teai_world_release(). Those that wait count as BLOCKED.
 *
 * A signal is never waited for without end: it is sent again every 10 ms, after making sure that the handler is still ours; a
 * thread that the kernel no longer knows, or whose id a thread that is no mutator answers to, is dropped. A stop that takes
 * longer than 10 s is reported once, naming the thread, and goes on waiting.
 *
 * The signal carries si_code STOP_CODE, which nobody else sends. Any other is passed to the handler that the program
 * installed (interpose.c), also if it came while a stop was wanted and stopped the thread.
 *
 * Ordering. stop_epoch and state form a store-load pair (Dekker): both sides use seq_cst.
 * Source. Deferred stops in a runtime region: common to JVMs. The signal is SIGURG, as in Go: ignored by default, and
 * used by few programs.
 */
#define _GNU_SOURCE
#include "gc/handshake.h"

#include "gc/fake_stack.h"
#include "gc/heap.h"
#include "gc/interpose.h"
#include "gc/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORLD_FREE = 0, WORLD_HELD = 1, WORLD_WAITED_FOR = 2 };
enum { STOP_RESEND_NS = 10 * 1000 * 1000 };
#define STOP_PATIENCE_NS (UINT64_C(10) * 1000 * 1000 * 1000)

/* Negative codes are the sender's to choose: sigqueue() uses -1, the kernel some others above -128. */
enum { STOP_CODE = -0x7ea5 };

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
    teai_fake_stack_note(m);
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

/* The lowest mapped address of the thread's stack: the main thread's is mapped as far as it has grown. A stack that the program
 * made may begin and end in the middle of a page. */
static uintptr_t stack_lowest_mapped(const struct tea_mutator *m)
{
    size_t os_page_bytes = teai_platform_os_page_bytes();
    uintptr_t first_page_addr = teai_round_down(m->stack_base_addr, os_page_bytes);
    size_t low = 0, high = (m->stack_limit_addr - 1 - first_page_addr) / os_page_bytes;
    unsigned char residency;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (mincore((void *)(first_page_addr + middle * os_page_bytes), os_page_bytes, &residency) == 0)
            high = middle;
        else
            low = middle + 1;
    }
    uintptr_t lowest_addr = first_page_addr + low * os_page_bytes;
    return lowest_addr > m->stack_base_addr ? lowest_addr : m->stack_base_addr;
}

struct stop_context {
    struct tea_mutator *mutator;
    const ucontext_t *interrupted;
};

/* The kernel's frame with all registers lies above sp_addr, and so do our caller's registers, where a sanitizer's handler called
 * us. On an alternate stack scan from here to its end, and the thread's own stack from where it was interrupted; if that was
 * on the alternate stack too, all of it. */
static void stop_publish_stacks(const struct stop_context *stop, uintptr_t sp_addr)
{
    struct tea_mutator *m = stop->mutator;
    m->alt_base_addr = m->alt_limit_addr = 0;
    teai_fake_stack_note(m);
    m->sp_addr = sp_addr;
    if (address_in_stack(m, sp_addr))
        return;
    uintptr_t alt_base = (uintptr_t)stop->interrupted->uc_stack.ss_sp;
    uintptr_t alt_limit = alt_base + stop->interrupted->uc_stack.ss_size;
    if (sp_addr >= alt_base && sp_addr < alt_limit) {
        m->alt_base_addr = sp_addr;
        m->alt_limit_addr = alt_limit;
    }
    m->sp_addr = context_sp(stop->interrupted) - RED_ZONE_BYTES;
    if (!address_in_stack(m, m->sp_addr))
        m->sp_addr = stack_lowest_mapped(m);
}

static void stop_park(uintptr_t sp_addr, void *argument)
{
    const struct stop_context *stop = argument;
    struct tea_mutator *m = stop->mutator;
    struct teai_world *w = &m->heap->world;
    stop_publish_stacks(stop, sp_addr);
    mutator_set_state(m, TEAI_MUTATOR_STOPPED);
    world_acknowledge(w);
    mutator_wait_to_run(w, m, TEAI_MUTATOR_STOPPED);
}

/* The signal reached a thread that is no mutator: the one it was meant for had this id, and is gone. */
static void stop_say_stray(struct teai_world *w)
{
    /* seq_cst: before the acknowledgement that has stop_note_stray() look. */
    atomic_store_explicit(&w->stray_tid, (uint32_t)teai_platform_thread_id(), memory_order_seq_cst);
    world_acknowledge(w);
}

/* In the runtime it parks when it leaves. It may have parked already, when the collector may be reading what the handler would
 * write; and a foreign signal may reach the stopping thread. */
static bool stop_concerns(const struct teai_world *w, const struct tea_mutator *m)
{
    /* relaxed: the state is this thread's own; stopper_addr equals `m` only where this thread wrote it. */
    return !m->in_runtime && atomic_load_explicit(&m->state, memory_order_relaxed) == TEAI_MUTATOR_RUNNING &&
           atomic_load_explicit(&w->stopper_addr, memory_order_relaxed) != (uintptr_t)m;
}

static void stop_handler(int signal, siginfo_t *info, void *context)
{
    int saved_errno = errno;
    struct tea_mutator *m = teai_self;
    struct teai_world *w = &teai_default_heap.world;
    bool ours = info->si_code == STOP_CODE;
    if (m != NULL && stop_is_wanted(w) && stop_concerns(w, m))
        teai_platform_with_registers(stop_park, &(struct stop_context){ m, context });
    else if (m == NULL && ours && stop_is_wanted(w))
        stop_say_stray(w);
    if (!ours)
        teai_signal_forward(signal, info, context);
    errno = saved_errno;
}

void teai_world_init(struct teai_world *w, int signal)
{
    w->threads_lock.rank = TEAI_RANK_THREADS;
    w->patience_ns = STOP_PATIENCE_NS;
    signal = signal != 0 ? signal : SIGURG;
    teai_signal_install(signal, stop_handler);
    /* release: pairs with world_is_started() in thread.c. */
    atomic_store_explicit(&w->signal, signal, memory_order_release);
}

/* --- blocking --- */

static void mutator_block(struct teai_world *w, struct tea_mutator *m)
{
    m->in_runtime = 1;
    atomic_signal_fence(memory_order_seq_cst);
    mutator_set_state(m, TEAI_MUTATOR_BLOCKED);
    if (stop_is_wanted(w))
        world_acknowledge(w);
}

void teai_world_end_mutator(struct tea_mutator *m)
{
    m->sp_addr = m->stack_limit_addr;
    m->alt_base_addr = m->alt_limit_addr = 0;
    m->fake_stack = NULL; /* taken down before the thread is */
    mutator_block(&m->heap->world, m);
}

void teai_world_begin_mutator(struct tea_mutator *m)
{
    mutator_wait_to_run(&m->heap->world, m, TEAI_MUTATOR_BLOCKED);
    teai_runtime_leave(m->heap, m);
}

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
    teai_fake_stack_note(m);
    /* in_runtime keeps the handler from moving sp_addr if a signal is already on its way. */
    mutator_block(w, m);
    call->fn(call->argument);
    teai_world_begin_mutator(m);
}

void teai_world_call_blocking(struct tea_heap *h, struct tea_mutator *self, void (*fn)(void *), void *argument)
{
    (void)h;
    struct blocking_call call = { self, fn, argument };
    teai_platform_with_registers(blocking_run, &call);
}

struct blocking_frame {
    struct tea_mutator *mutator;
    uintptr_t limit_addr;
};

/* The frames between sp_addr and the caller's are gone when we have returned, and the registers saved in them with them. */
static TEAI_NO_SANITIZE void blocking_copy_frames(uintptr_t sp_addr, void *argument)
{
    const struct blocking_frame *frame = argument;
    struct tea_mutator *m = frame->mutator;
    size_t nwords = (frame->limit_addr - sp_addr) / sizeof(uintptr_t);
    TEAI_CHECK(nwords <= TEAI_BLOCKED_WORDS); /* our own frames: a bound known when this was written */
    for (size_t i = 0; i < nwords; i++)
        m->blocked_words[i] = ((const volatile uintptr_t *)sp_addr)[i];
    m->nblocked_words = (uint32_t)nwords;
    m->sp_addr = frame->limit_addr;
    m->alt_base_addr = m->alt_limit_addr = 0;
    teai_fake_stack_note(m);
}

void teai_blocking_enter(struct tea_mutator *m, uintptr_t frame_addr)
{
    struct blocking_frame frame = { m, frame_addr };
    m->in_runtime = 1; /* a stop in between must not publish another sp_addr */
    atomic_signal_fence(memory_order_seq_cst);
    teai_platform_with_registers(blocking_copy_frames, &frame);
    mutator_block(&m->heap->world, m);
}

void teai_blocking_leave(struct tea_mutator *m)
{
    teai_world_begin_mutator(m);
    m->nblocked_words = 0;
}

static void blocking_end_misused(struct tea_mutator *m)
{
    m->blocking_depth = 0;
    teai_blocking_leave(m);
    teai_log_line(&m->heap->log, "teaspan: thread %d used the heap in a blocking region; the region has ended", m->tid);
}

/* --- the runtime region --- */

/* The interrupted call holds locks or half-made state: going on would hang or corrupt the heap. */
static TEAI_NOINLINE void runtime_entered_twice(struct tea_mutator *m)
{
    if (m->blocking_depth != 0) {
        blocking_end_misused(m);
        return;
    }
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
        runtime_entered_twice(m);
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
    if (self != NULL && self->blocking_depth != 0)
        blocking_end_misused(self);
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

static long stop_send_signal(const struct teai_world *w, const struct tea_mutator *m)
{
    int signal = atomic_load_explicit(&w->signal, memory_order_relaxed);
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = signal;
    info.si_code = STOP_CODE;
    info.si_pid = getpid();
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), m->tid, signal, &info);
}

/* A thread may end without its destructors, by a raw system call; its stack is then no root, nor even mapped. */
static void stop_ask(const struct teai_world *w, struct tea_mutator *m)
{
    long result;
    if (m->tid == 0)
        return; /* not begun */
    if (mutator_is_stopped(m))
        result = syscall(SYS_tgkill, getpid(), m->tid, 0);
    else
        result = stop_send_signal(w, m);
    if (result != 0 && errno == ESRCH)
        mutator_set_state(m, TEAI_MUTATOR_VANISHED);
}

static void stop_ask_all(struct teai_world *w, const struct tea_mutator *self)
{
    for (struct tea_mutator *m = w->mutators; m != NULL; m = m->next)
        if (m != self)
            stop_ask(w, m);
}

static void stop_ask_again(struct teai_world *w, const struct tea_mutator *self)
{
    teai_signal_reinstall(atomic_load_explicit(&w->signal, memory_order_relaxed), stop_handler);
    for (struct tea_mutator *m = w->mutators; m != NULL; m = m->next)
        if (m != self && !mutator_is_stopped(m))
            stop_ask(w, m);
}

/* Another thread has the id of one of our mutators: that one is gone. */
static void stop_note_stray(struct teai_world *w)
{
    uint32_t tid = atomic_exchange_explicit(&w->stray_tid, 0, memory_order_seq_cst);
    for (struct tea_mutator *m = w->mutators; tid != 0 && m != NULL; m = m->next)
        if ((uint32_t)m->tid == tid && !mutator_is_stopped(m))
            mutator_set_state(m, TEAI_MUTATOR_VANISHED);
}

static const struct tea_mutator *stop_find_running(const struct teai_world *w, const struct tea_mutator *self)
{
    const struct tea_mutator *m = w->mutators;
    while (m != NULL && (m == self || mutator_is_stopped(m)))
        m = m->next;
    return m;
}

/* Straight to stderr: the sink is the program's, and may want a lock that a stopped thread holds. */
static void stop_report_late(const struct teai_world *w, const struct tea_mutator *m)
{
    char text[256];
    size_t nbytes = teai_format(text, sizeof text,
                                "teaspan: thread %d has not stopped for %u ms: is signal %d blocked there, or its handler "
                                "replaced? still waiting\n",
                                m->tid, (unsigned)(w->patience_ns / 1000000),
                                atomic_load_explicit(&w->signal, memory_order_relaxed));
    teai_platform_stderr(text, nbytes);
}

static void stop_wait(struct teai_world *w, const struct tea_mutator *self, uint64_t begin_ns)
{
    const struct tea_mutator *running;
    uint64_t resend_ns = begin_ns + STOP_RESEND_NS;
    bool reported = false;
    for (;;) {
        /* Before the look at the states: what changes them afterwards changes it too, and the wait ends at once. */
        uint32_t seen = atomic_load_explicit(&w->ack, memory_order_seq_cst);
        stop_note_stray(w);
        if ((running = stop_find_running(w, self)) == NULL)
            return;
        uint64_t now_ns = teai_platform_now_ns();
        if (!reported && now_ns - begin_ns > w->patience_ns) {
            stop_report_late(w, running);
            reported = true;
        }
        if (now_ns >= resend_ns) {
            stop_ask_again(w, self);
            resend_ns = now_ns + STOP_RESEND_NS;
        }
        teai_platform_futex_wait_for(&w->ack, seen, STOP_RESEND_NS);
    }
}

static void stop_drop_vanished(struct tea_heap *h)
{
    struct tea_mutator *next;
    for (struct tea_mutator *m = h->world.mutators; m != NULL; m = next) {
        next = m->next;
        if (atomic_load_explicit(&m->state, memory_order_relaxed) == TEAI_MUTATOR_VANISHED)
            teai_thread_drop_stopped(h, m);
    }
}

uint64_t teai_world_stop(struct tea_heap *h, struct tea_mutator *self)
{
    struct teai_world *w = &h->world;
    int saved_errno = errno;
    uint64_t begin_ns = teai_platform_now_ns();
    teai_lock_acquire(&w->threads_lock);
    /* relaxed: a stray of the stop before it; its sender no longer matters. */
    atomic_store_explicit(&w->stray_tid, 0, memory_order_relaxed);
    /* relaxed: for stop_concerns() in this thread. */
    atomic_store_explicit(&w->stopper_addr, (uintptr_t)self, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->stop_epoch, 1, memory_order_seq_cst);
    stop_ask_all(w, self);
    stop_wait(w, self, begin_ns);
    w->stopped_since_ns = teai_platform_now_ns();
    stop_drop_vanished(h);
    uint64_t time_to_stop_ns = w->stopped_since_ns - begin_ns;
    teai_histogram_add(&w->time_to_stop_ns, time_to_stop_ns);
    errno = saved_errno;
    return time_to_stop_ns;
}

void teai_world_restart(struct tea_heap *h)
{
    struct teai_world *w = &h->world;
    teai_histogram_add(&w->stopped_ns, teai_platform_now_ns() - w->stopped_since_ns);
    atomic_fetch_add_explicit(&w->stop_epoch, 1, memory_order_seq_cst);
    atomic_store_explicit(&w->stopper_addr, 0, memory_order_relaxed);
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
