/* gc/interpose_names.c -- the names under which a program's calls reach gc/interpose.c: compiled once for each library.
 *
 * The shared library exports the C library's own names. The archive must not: in a static link they would clash with the
 * C library's. There the linker's --wrap=NAME turns the program's NAME into our __wrap_NAME, and our __real_NAME into
 * the C library's. Without --wrap nothing refers to __wrap_NAME, and this member stays out of the program.
 *
 * The rest of the library refers to __real_NAME weakly, which alone would not bring the function into a static program.
 */
#define _GNU_SOURCE
#include "gc/interpose.h"

#include "base/config.h"

#if defined(TEASPAN_WRAPPED)

#define NAMED
#define NAME(name) __wrap_##name

#define WRAPPED(name)                                                                                             \
    __typeof__(name) __wrap_##name, __real_##name;                                                                \
    __attribute__((used)) static __typeof__(name) *const bring_in_##name = __real_##name;

WRAPPED(pthread_create)
WRAPPED(pthread_join)
WRAPPED(pthread_tryjoin_np)
WRAPPED(pthread_timedjoin_np)
WRAPPED(pthread_detach)
WRAPPED(pthread_exit)
WRAPPED(pthread_sigmask)
WRAPPED(sigprocmask)
WRAPPED(sigsuspend)
WRAPPED(pselect)
WRAPPED(ppoll)
WRAPPED(epoll_pwait)
WRAPPED(sigwait)
WRAPPED(sigwaitinfo)
WRAPPED(sigtimedwait)
WRAPPED(sigaction)
WRAPPED(signal)

#else

#define NAMED __attribute__((visibility("default")))
#define NAME(name) name

#endif

NAMED int NAME(pthread_create)(pthread_t *thread_out, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    return teai_interpose_pthread_create(thread_out, attributes, start, argument);
}

NAMED int NAME(pthread_join)(pthread_t thread, void **result_out)
{
    return teai_interpose_pthread_join(thread, result_out);
}

NAMED int NAME(pthread_tryjoin_np)(pthread_t thread, void **result_out)
{
    return teai_interpose_pthread_tryjoin_np(thread, result_out);
}

NAMED int NAME(pthread_timedjoin_np)(pthread_t thread, void **result_out, const struct timespec *until)
{
    return teai_interpose_pthread_timedjoin_np(thread, result_out, until);
}

NAMED int NAME(pthread_detach)(pthread_t thread)
{
    return teai_interpose_pthread_detach(thread);
}

NAMED void NAME(pthread_exit)(void *result)
{
    teai_interpose_pthread_exit(result);
}

NAMED int NAME(pthread_sigmask)(int how, const sigset_t *set, sigset_t *old)
{
    return teai_interpose_pthread_sigmask(how, set, old);
}

NAMED int NAME(sigprocmask)(int how, const sigset_t *set, sigset_t *old)
{
    return teai_interpose_sigprocmask(how, set, old);
}

NAMED int NAME(sigsuspend)(const sigset_t *set)
{
    return teai_interpose_sigsuspend(set);
}

NAMED int NAME(pselect)(int nfds, fd_set *readable, fd_set *writable, fd_set *special, const struct timespec *timeout,
                        const sigset_t *set)
{
    return teai_interpose_pselect(nfds, readable, writable, special, timeout, set);
}

NAMED int NAME(ppoll)(struct pollfd *fds, nfds_t nfds, const struct timespec *timeout, const sigset_t *set)
{
    return teai_interpose_ppoll(fds, nfds, timeout, set);
}

NAMED int NAME(epoll_pwait)(int epoll, struct epoll_event *events, int most, int timeout_ms, const sigset_t *set)
{
    return teai_interpose_epoll_pwait(epoll, events, most, timeout_ms, set);
}

NAMED int NAME(sigwait)(const sigset_t *set, int *signal_out)
{
    return teai_interpose_sigwait(set, signal_out);
}

NAMED int NAME(sigwaitinfo)(const sigset_t *set, siginfo_t *info)
{
    return teai_interpose_sigwaitinfo(set, info);
}

NAMED int NAME(sigtimedwait)(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    return teai_interpose_sigtimedwait(set, info, timeout);
}

NAMED int NAME(sigaction)(int number, const struct sigaction *action, struct sigaction *old)
{
    return teai_interpose_sigaction(number, action, old);
}

NAMED void (*NAME(signal)(int number, void (*handler)(int)))(int)
{
    return teai_interpose_signal(number, handler);
}
