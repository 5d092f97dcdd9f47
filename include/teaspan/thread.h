/* include/teaspan/thread.h -- attach and detach threads; say that a thread will block.
 *
 * A thread needs none of this to use the heap. Threads made by pthread_create() are attached before their start routine runs
 * (in a static link: with the -Wl,--wrap flags that `pkg-config --static` gives); all others at their first allocation.
 * A thread is detached when it ends. What an attached thread keeps alive: its registers, stack, thread-locals and
 * pthread specific data; the argument it was started with, until it runs; its return value, until it is joined.
 *
 * A thread that was made otherwise (C11 threads, OpenMP, a library loaded with RTLD_DEEPBIND) and holds a reference before
 * it ever allocated is not known: call tea_thread_attach() in it first.
 *
 * Stops. To scan a thread the collector stops it with a signal: SIGURG, or TEASPAN=signal=N. The program may still use that
 * signal: handlers it installs with sigaction() or signal() are called for signals that the collector did not send (a
 * default action that would end the process is left out), but it cannot be blocked nor waited for, and one that the program
 * sends to a single thread may merge with one of the collector's that is pending there. System calls are restarted
 * (SA_RESTART); those that never are (nanosleep, poll, epoll_wait, select, ...) end with EINTR unless the thread is in a
 * blocking region.
 */
#ifndef TEASPAN_THREAD_H
#define TEASPAN_THREAD_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

/* tea_thread_attach -- make the calling thread known to the collector now. A thread that is known already stays so.
 *
 * Errors:   TEA_ERR_NOMEM: no memory for its record.
 * Threads:  any.
 */
TEA_API enum tea_status tea_thread_attach(void);

/* tea_thread_detach -- make the collector forget the calling thread; its stack is no longer scanned. Only needed where a
 * thread lives on without using the heap: ending detaches too. An allocation attaches it again.
 *
 * Errors:   TEA_ERR_STATE if the thread is not attached, with a message.
 * Threads:  any. The return value of a thread that was detached keeps nothing alive.
 */
TEA_API enum tea_status tea_thread_detach(void);

/* tea_blocking_enter -- from now on the calling thread neither uses the heap nor reads or writes references: collections
 * go on without stopping it, so that a system call it is in is not interrupted. What its stack and registers hold at the
 * call stays alive. May be nested.
 *
 * Errors:   TEA_ERR_NOMEM as tea_thread_attach(). A thread that uses the heap nonetheless is taken out of the region,
 *           with a message.
 * Threads:  any; the caller is attached.
 */
TEA_API enum tea_status tea_blocking_enter(void);

/* tea_blocking_leave -- the thread may use the heap again; waits while a collection has the world stopped.
 *
 * Errors:   TEA_ERR_STATE without a tea_blocking_enter() before it, with a message.
 */
TEA_API enum tea_status tea_blocking_leave(void);

/* tea_call_blocking -- fn(argument), in a blocking region.
 *
 * Shape:    what fn returns.
 * Threads:  any. Leaving fn by longjmp() leaves the thread in the region until it next needs the collector.
 * Source:   GC_do_blocking of the Boehm collector.
 */
TEA_API void *tea_call_blocking(void *(*fn)(void *argument), void *argument);

TEA_END_DECLS
#endif
