/* include/teaspan/fiber.h -- tell the collector about stacks that a program makes and switches itself.
 *
 * A fiber is a stack of the program's own: of a coroutine, a green thread, a swapcontext() scheduler. The collector has to
 * know where such stacks are, and which of them a thread is on. Around each switch, whatever makes it:
 *
 *     tea_fiber_switch_begin(to);      // still on the old stack; NULL: to the thread's own stack
 *     swapcontext(&from->context, &to->context);
 *     tea_fiber_switch_end();          // on the new stack, which for this code is: when it is switched to again
 *
 * A fiber's first function begins with tea_fiber_switch_end(). Between the two calls there is nothing but the switch: no
 * other call of the collector, and no wait for another thread, since a collection waits for the switch to end.
 *
 * References on a parked fiber's stack, and those that were in registers when it was parked, keep objects alive. Fibers may move
 * from thread to thread. Making, switching and ending fibers works as well on stacks from malloc(), mmap() or the heap.
 */
#ifndef TEASPAN_FIBER_H
#define TEASPAN_FIBER_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

struct tea_fiber;

/* tea_fiber_create -- a fiber that has not run yet, on the stack [stack_base, stack_limit).
 *
 * Shape:    `argument` is kept alive until the fiber ends; tea_fiber_argument() returns it. *fiber_out stays valid until
 *           tea_fiber_end(). All of the stack must be readable as long, so a guard page lies outside of it. Until the
 *           fiber first runs all of its stack is scanned, since what the program has prepared there is not known;
 *           struct tea_stats counts such scans.
 * Errors:   TEA_ERR_INVALID, with a message, if the stack is empty or fiber_out is NULL; TEA_ERR_NOMEM.
 * Threads:  any; the fiber belongs to no thread.
 */
TEA_API enum tea_status tea_fiber_create(const void *stack_base, const void *stack_limit, void *argument,
                                         struct tea_fiber **fiber_out);

/* tea_fiber_switch_begin -- the calling thread is about to leave its present stack for that of `to`.
 *
 * Shape:    NULL means the thread's own stack, which it had when it began.
 * Errors:   TEA_ERR_STATE if `to` runs already, on this thread or another, or if a switch has begun and not ended;
 *           TEA_ERR_NOT_FOUND if it has ended. A message says so; no switch has begun then, and the program must stay on
 *           its stack. TEA_ERR_NOMEM at a thread's first switch.
 * Threads:  any.
 */
TEA_API enum tea_status tea_fiber_switch_begin(struct tea_fiber *to);

/* tea_fiber_switch_end -- the switch has been made.
 *
 * Shape:    may collect.
 * Errors:   TEA_ERR_STATE, with a message, if no switch has begun on this thread, or if it is still on the old stack (the
 *           switch failed; that stack's fiber is running again). On a stack that belongs to neither: a message, and the
 *           process is aborted, since what is on it would be freed.
 */
TEA_API enum tea_status tea_fiber_switch_end(void);

/* tea_fiber_end -- forget a parked fiber. What only its stack referred to is garbage; the stack's memory is the caller's.
 *
 * Errors:   TEA_ERR_STATE if the fiber is running, TEA_ERR_NOT_FOUND if it has ended before. A message says so.
 * Threads:  any.
 */
TEA_API enum tea_status tea_fiber_end(struct tea_fiber *fiber);

/* tea_fiber_current -- the fiber on which the calling thread runs; NULL on the thread's own stack.
 * tea_fiber_argument -- what tea_fiber_create() was given for it. */
TEA_API struct tea_fiber *tea_fiber_current(void);
TEA_API void *tea_fiber_argument(const struct tea_fiber *fiber);

TEA_END_DECLS
#endif
