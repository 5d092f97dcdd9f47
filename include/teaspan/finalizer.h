/* include/teaspan/finalizer.h -- be told when an object is no longer reachable.
 *
 * Semantics are Go's. A finalizer gets the object, which lives on for the call and until a later collection finds it dead
 * again. A cleanup does not get the object and runs after it is gone; prefer it.
 *
 *   - What a finalizable object refers to is kept until its finalizer has run. So of a chain of finalizable objects the head is
 *     finalized first, the next one a collection later.
 *   - A finalizable object that can be reached from itself, or from its finalizer's context, is never finalized and never
 *     freed. The same holds for an object that can be reached from its cleanup's argument.
 *   - Weak pointers to an object are cleared before its finalizer or its cleanups run.
 *   - Nothing runs at the end of the process. Nothing is promised about when, or in which order unrelated calls are made.
 *   - Stacks are scanned conservatively: an object may be found alive for longer than the program can tell why.
 *
 * Calls run one at a time on a thread of the collector's (all signals blocked but the collector's own), or where
 * tea_run_finalizers() is called. They may do everything: allocate, collect, register, make the object reachable again.
 * They must return: not longjmp, throw, or end the thread.
 */
#ifndef TEASPAN_FINALIZER_H
#define TEASPAN_FINALIZER_H

#include <teaspan/base.h>

TEA_BEGIN_DECLS

typedef void (*tea_finalizer_fn)(void *object, void *context);
typedef void (*tea_cleanup_fn)(void *argument);

/* tea_set_finalizer -- have fn(object, context) called once when `object` is found unreachable; NULL takes it back.
 *
 * Shape:    one finalizer an object (a tiny object, a leaf below 16 bytes, may wait for its neighbours). If tea_realloc() moves
 *           the object its finalizer follows; tea_free() forgets it without calling it. `context` is kept alive.
 * Errors:   TEA_ERR_STATE: the object has a finalizer, which stays; take it back first. TEA_ERR_INVALID: not the start of
 *           an object of the heap, or the context points into the object. TEA_ERR_NOMEM. Each with a message.
 *           TEA_ERR_NOT_FOUND: nothing to take back (it may be about to run).
 * Threads:  any.
 * Source:   Go's runtime.SetFinalizer.
 */
TEA_API enum tea_status tea_set_finalizer(void *object, tea_finalizer_fn fn, void *context);

/* Names a cleanup, for tea_cleanup_stop(). Does not keep the object alive. */
struct tea_cleanup {
    uint64_t id; /* 0: none */
};

/* tea_add_cleanup -- have fn(argument) called once when the object that `pointer` points into is gone.
 *
 * Shape:    any number an object; if it has a finalizer too, after that one has run and the object has died again.
 *           *cleanup_out (may be NULL) names it. `argument` is kept alive.
 *           tea_realloc() and tea_free() as for finalizers.
 * Errors:   TEA_ERR_INVALID: not a pointer into an object of the heap, or the argument points into that object.
 *           TEA_ERR_NOMEM. Each with a message.
 * Threads:  any.
 * Source:   Go's runtime.AddCleanup.
 */
TEA_API enum tea_status tea_add_cleanup(const void *pointer, tea_cleanup_fn fn, void *argument,
                                        struct tea_cleanup *cleanup_out);

/* tea_cleanup_stop -- take a cleanup back.
 *
 * Errors:   TEA_ERR_NOT_FOUND: it has run, is about to, or was stopped.
 * Threads:  any.
 */
TEA_API enum tea_status tea_cleanup_stop(struct tea_cleanup cleanup);

/* tea_run_finalizers -- run the finalizers and cleanups that are due, here and now.
 *
 * Shape:    when it returns, all that were due when it was called have run: in particular, after tea_collect(), those of every
 *           object which that found dead. Returns how many ran in this call; in the mode TEA_FINALIZE_BY_THREAD the
 *           collector's thread may have run others. Called by a finalizer it runs what is due and returns.
 * Threads:  any; waits for a finalizer that runs on another thread, so hold no lock that finalizers take.
 */
TEA_API size_t tea_run_finalizers(void);

enum tea_finalizer_mode {
    TEA_FINALIZE_BY_THREAD = 0, /* by a thread of the collector, started when the first one is due */
    TEA_FINALIZE_ON_DEMAND      /* only by tea_run_finalizers() */
};

/* tea_finalizer_mode -- who runs what is due from now on; returns the mode before.
 *
 * Shape:    the first mode comes from TEASPAN=finalizers=thread or TEASPAN=finalizers=demand; by default it is the thread.
 *           A value that is no mode changes nothing.
 * Threads:  any; one mode for the process.
 */
TEA_API enum tea_finalizer_mode tea_finalizer_mode(enum tea_finalizer_mode mode);

/* tea_keep_alive -- the object is reachable at least until here.
 *
 * Shape:    compilers forget a pointer after its last use, and the object may be finalized while a file descriptor taken
 *           from it is still in use. Costs no instruction.
 * Source:   Go's runtime.KeepAlive.
 */
static inline void tea_keep_alive(const void *object)
{
    __asm__ __volatile__("" : : "r"(object) : "memory");
}

TEA_END_DECLS
#endif
