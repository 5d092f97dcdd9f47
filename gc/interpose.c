/* gc/interpose.c -- functions of the C library that programs reach through us: threads, signal masks and handlers.
 *
 * Problem. A thread must be known before it holds its first reference, its result must stay a root until it is joined, and
 * the stop signal must reach it: neither blocked nor handled by someone else. The program is not to do anything for
 * it. So these calls of the program come to us first:
 *   pthread_create                       the thread is attached before its start routine runs
 *   pthread_exit                         notes the result
 *   pthread_join (tryjoin, timedjoin), pthread_detach    the result is no root any more
 *   pthread_sigmask, sigprocmask         the stop signal is left out of what is to be blocked
 *   sigsuspend, pselect, ppoll, epoll_pwait              likewise, of what is blocked during the call
 *   sigwait, sigwaitinfo, sigtimedwait                   and of what is waited for: they would take it from its handler
 *   sigaction, signal                    a handler for the stop signal is kept, not installed; the stop signal is left out of
 *                                        what is blocked while another handler runs
 * What does not come by (RTLD_DEEPBIND, C11 threads, calls from inside the C library, system calls) is made good elsewhere,
 * where it can be:
 * threads are adopted at their first allocation, results forgotten when their pthread_t returns, the stop signal
 * unblocked when a thread is attached, and the handler put back while a stop is late.
 *
 * The functions behind ours are found as platform/pthread_real.c says. posix_spawn(), system() and vfork() need nothing: the
 * kernel holds the caller until the child has its own memory, and a stop waits for so long.
 *
 * The program's handler runs with the stop signal blocked, after the thread was stopped if a stop was wanted. It is called by
 * us, on whatever stack the signal came: SA_ONSTACK is not obeyed, nor SA_NODEFER. If the program has none the signal is
 * ignored, whatever its default action.
 *
 * Locks. action_lock, held with all signals blocked, so that no handler, and no stop, finds it held by its own thread.
 */
#define _GNU_SOURCE
#include "gc/interpose.h"

#include "gc/heap.h"
#include "gc/thread.h"
#include "platform/pthread_real.h"

#include <sys/syscall.h>
#include <unistd.h>

/* real_NAME(): the C library's NAME. Under --wrap the linker makes __real_NAME. */
#define INTERPOSE_REAL(name)                                                                                      \
    extern __typeof__(name) __real_##name __attribute__((weak));                                                  \
    static __typeof__(name) *real_##name(void)                                                                    \
    {                                                                                                             \
        static _Atomic uintptr_t next TEAI_STATE;                                                                 \
        return (__typeof__(name) *)teai_real_function(&next, #name, (uintptr_t)__real_##name, (uintptr_t)name);   \
    }

INTERPOSE_REAL(pthread_join)
INTERPOSE_REAL(pthread_tryjoin_np)
INTERPOSE_REAL(pthread_timedjoin_np)
INTERPOSE_REAL(pthread_detach)
INTERPOSE_REAL(pthread_exit)
INTERPOSE_REAL(pthread_sigmask)
INTERPOSE_REAL(sigprocmask)
INTERPOSE_REAL(sigsuspend)
INTERPOSE_REAL(pselect)
INTERPOSE_REAL(ppoll)
INTERPOSE_REAL(epoll_pwait)
INTERPOSE_REAL(sigwait)
INTERPOSE_REAL(sigwaitinfo)
INTERPOSE_REAL(sigtimedwait)
INTERPOSE_REAL(sigaction)
INTERPOSE_REAL(signal)

void teai_interpose_prepare(void)
{
    (void)real_pthread_join(), (void)real_pthread_tryjoin_np(), (void)real_pthread_timedjoin_np();
    (void)real_pthread_detach(), (void)real_pthread_exit(), (void)real_pthread_sigmask();
    (void)real_sigprocmask(), (void)real_sigsuspend(), (void)real_pselect(), (void)real_ppoll();
    (void)real_epoll_pwait(), (void)real_sigwait(), (void)real_sigwaitinfo(), (void)real_sigtimedwait();
    (void)real_sigaction(), (void)real_signal();
}

/* --- threads --- */

int teai_interpose_pthread_create(pthread_t *thread_out, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    return teai_thread_create(thread_out, attributes, start, argument);
}

void teai_interpose_pthread_exit(void *result)
{
    teai_thread_set_result(result);
    real_pthread_exit()(result);
    __builtin_unreachable();
}

/* The serial is asked for before: afterwards the id may belong to another thread. */
int teai_interpose_pthread_join(pthread_t thread, void **result_out)
{
    uint64_t serial = teai_thread_serial(thread);
    int error = real_pthread_join()(thread, result_out);
    if (error == 0)
        teai_thread_joined(serial);
    return error;
}

int teai_interpose_pthread_tryjoin_np(pthread_t thread, void **result_out)
{
    uint64_t serial = teai_thread_serial(thread);
    int error = real_pthread_tryjoin_np()(thread, result_out);
    if (error == 0)
        teai_thread_joined(serial);
    return error;
}

int teai_interpose_pthread_timedjoin_np(pthread_t thread, void **result_out, const struct timespec *until)
{
    uint64_t serial = teai_thread_serial(thread);
    int error = real_pthread_timedjoin_np()(thread, result_out, until);
    if (error == 0)
        teai_thread_joined(serial);
    return error;
}

/* Ours first: afterwards the thread may be gone, and its id another's. */
int teai_interpose_pthread_detach(pthread_t thread)
{
    teai_thread_detached(thread);
    return real_pthread_detach()(thread);
}

/* --- signal masks --- */

static int stop_signal(void)
{
    /* relaxed: set once; see teai_world_init(). */
    return atomic_load_explicit(&teai_default_heap.world.signal, memory_order_relaxed);
}

/* The set without the stop signal; `copy` holds it if it had to be changed. */
static const sigset_t *mask_without_stop(const sigset_t *set, sigset_t *copy)
{
    int stop = stop_signal();
    if (set == NULL || stop == 0 || sigismember(set, stop) != 1)
        return set;
    *copy = *set;
    sigdelset(copy, stop);
    return copy;
}

int teai_interpose_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    return real_pthread_sigmask()(how, how == SIG_UNBLOCK ? set : mask_without_stop(set, &copy), old);
}

int teai_interpose_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t copy;
    return real_sigprocmask()(how, how == SIG_UNBLOCK ? set : mask_without_stop(set, &copy), old);
}

/* --- calls that block signals while they wait --- */

int teai_interpose_sigsuspend(const sigset_t *set)
{
    sigset_t copy;
    return real_sigsuspend()(mask_without_stop(set, &copy));
}

int teai_interpose_pselect(int nfds, fd_set *readable, fd_set *writable, fd_set *special, const struct timespec *timeout,
                           const sigset_t *set)
{
    sigset_t copy;
    return real_pselect()(nfds, readable, writable, special, timeout, mask_without_stop(set, &copy));
}

int teai_interpose_ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout, const sigset_t *set)
{
    sigset_t copy;
    return real_ppoll()(fds, nfds, timeout, mask_without_stop(set, &copy));
}

int teai_interpose_epoll_pwait(int epoll, struct epoll_event *events, int most, int timeout_ms, const sigset_t *set)
{
    sigset_t copy;
    return real_epoll_pwait()(epoll, events, most, timeout_ms, mask_without_stop(set, &copy));
}

/* --- calls that wait for signals --- */

int teai_interpose_sigwait(const sigset_t *set, int *signal_out)
{
    sigset_t copy;
    return real_sigwait()(mask_without_stop(set, &copy), signal_out);
}

int teai_interpose_sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    sigset_t copy;
    return real_sigwaitinfo()(mask_without_stop(set, &copy), info);
}

int teai_interpose_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    sigset_t copy;
    return real_sigtimedwait()(mask_without_stop(set, &copy), info, timeout);
}

/* --- our own masks --- */

enum { KERNEL_SIGSET_BYTES = 8 };

static void mask_change(int how, const sigset_t *set, sigset_t *old)
{
    syscall(SYS_rt_sigprocmask, how, set, old, KERNEL_SIGSET_BYTES);
}

void teai_signal_unblock(int signal)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    mask_change(SIG_UNBLOCK, &set, NULL);
}

/* --- handlers --- */

static struct teai_lock action_lock TEAI_STATE = TEAI_LOCK_INIT(TEAI_RANK_NONE);
static struct sigaction program_action TEAI_STATE; /* what the program believes to be the stop signal's */

static void action_lock_acquire(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    mask_change(SIG_SETMASK, &all, before);
    teai_lock_acquire(&action_lock);
}

static void action_lock_release(const sigset_t *before)
{
    teai_lock_release(&action_lock);
    mask_change(SIG_SETMASK, before, NULL);
}

static void program_action_exchange(const struct sigaction *action, struct sigaction *old)
{
    sigset_t before;
    action_lock_acquire(&before);
    struct sigaction previous = program_action;
    if (action != NULL)
        program_action = *action;
    action_lock_release(&before);
    if (old != NULL)
        *old = previous;
}

int teai_interpose_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    int stop = stop_signal();
    if (stop != 0 && number == stop) {
        program_action_exchange(action, old);
        return 0;
    }
    if (action == NULL || stop == 0 || sigismember(&action->sa_mask, stop) != 1)
        return real_sigaction()(number, action, old);
    struct sigaction copy = *action;
    sigdelset(&copy.sa_mask, stop);
    return real_sigaction()(number, &copy, old);
}

void (*teai_interpose_signal(int number, void (*handler)(int)))(int)
{
    if (stop_signal() == 0 || number != stop_signal())
        return real_signal()(number, handler);
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;
    sigemptyset(&action.sa_mask);
    program_action_exchange(&action, &old);
    return old.sa_handler;
}

static bool action_is_ours(const struct sigaction *action, teai_signal_handler_fn handler)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == handler;
}

void teai_signal_install(int signal, teai_signal_handler_fn handler)
{
    struct sigaction ours = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART }, old;
    sigemptyset(&ours.sa_mask);
    if (real_sigaction()(signal, &ours, &old) == 0 && !action_is_ours(&old, handler))
        program_action_exchange(&old, NULL);
}

void teai_signal_reinstall(int signal, teai_signal_handler_fn handler)
{
    struct sigaction now;
    if (real_sigaction()(signal, NULL, &now) == 0 && !action_is_ours(&now, handler))
        teai_signal_install(signal, handler);
}

void teai_signal_after_fork(void)
{
    /* relaxed: this process has one thread. The handler may be half changed, if a thread was installing one just then. */
    atomic_store_explicit(&action_lock.state, 0, memory_order_relaxed);
}

/* The program's action; reset if it was for one signal only. */
static struct sigaction program_action_take(void)
{
    sigset_t before;
    action_lock_acquire(&before);
    struct sigaction action = program_action;
    if ((action.sa_flags & (int)SA_RESETHAND) != 0)
        program_action = (struct sigaction){ .sa_handler = SIG_DFL };
    action_lock_release(&before);
    return action;
}

void teai_signal_forward(int signal, siginfo_t *info, void *context)
{
    struct sigaction action = program_action_take();
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN)
        return;
    sigset_t before;
    mask_change(SIG_BLOCK, &action.sa_mask, &before);
    if ((action.sa_flags & SA_SIGINFO) != 0)
        action.sa_sigaction(signal, info, context);
    else
        action.sa_handler(signal);
    mask_change(SIG_SETMASK, &before, NULL);
}
