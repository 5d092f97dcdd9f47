/* gc/interpose.h -- functions of the C library that programs reach through us, and the signals that concern us. */
#ifndef TEAI_INTERPOSE_H
#define TEAI_INTERPOSE_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

/* What the program's calls become (interpose_names.c). */
__typeof__(pthread_create) teai_interpose_pthread_create;
__typeof__(pthread_join) teai_interpose_pthread_join;
__typeof__(pthread_tryjoin_np) teai_interpose_pthread_tryjoin_np;
__typeof__(pthread_timedjoin_np) teai_interpose_pthread_timedjoin_np;
__typeof__(pthread_detach) teai_interpose_pthread_detach;
void teai_interpose_pthread_exit(void *result) __attribute__((noreturn));
__typeof__(pthread_sigmask) teai_interpose_pthread_sigmask;
__typeof__(sigprocmask) teai_interpose_sigprocmask;
__typeof__(sigsuspend) teai_interpose_sigsuspend;
__typeof__(pselect) teai_interpose_pselect;
__typeof__(ppoll) teai_interpose_ppoll;
__typeof__(epoll_pwait) teai_interpose_epoll_pwait;
__typeof__(sigwait) teai_interpose_sigwait;
__typeof__(sigwaitinfo) teai_interpose_sigwaitinfo;
__typeof__(sigtimedwait) teai_interpose_sigtimedwait;
__typeof__(sigaction) teai_interpose_sigaction;
__typeof__(signal) teai_interpose_signal;

/* Find the functions behind ours now: the search takes the loader's lock, which may be held, later, by a thread that waits for
 * a lock of ours (in a library's constructor that allocates). Call it with no lock held. */
void teai_interpose_prepare(void);

typedef void (*teai_signal_handler_fn)(int signal, siginfo_t *info, void *context);

/* Make `handler` the process's handler of this signal; what was there before is the program's. */
void teai_signal_install(int signal, teai_signal_handler_fn handler);
/* Once more, if something replaced it behind our back; that is then the program's handler. Async-signal-safe. */
void teai_signal_reinstall(int signal, teai_signal_handler_fn handler);
/* Let the calling thread receive it. */
void teai_signal_unblock(int signal);
/* In a forked child: another thread may have been changing the program's handler. */
void teai_signal_after_fork(void);
/* A signal that is not the collector's: call the program's handler. Async-signal-safe. */
void teai_signal_forward(int signal, siginfo_t *info, void *context);

#endif
