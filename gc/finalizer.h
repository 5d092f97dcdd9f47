/* gc/finalizer.h -- who runs due finalizers and cleanups, and when. */
#ifndef TEAI_FINALIZER_H
#define TEAI_FINALIZER_H

#include "platform/platform.h"

struct tea_heap;

struct teai_finalizers {
    _Atomic uint32_t mode;           /* enum tea_finalizer_mode */
    _Atomic uint32_t thread_started;
    _Atomic uint32_t wake;           /* futex of the thread */
    _Atomic uint32_t turn;           /* whose turn it is to run calls: 0 nobody's, 1 taken, 2 taken and waited for */
    _Atomic uintptr_t runner_addr;   /* the mutator whose turn it is; 0: nobody's */
    _Atomic uint64_t nfinalizers_run, ncleanups_run;
};

void teai_finalizers_init(struct tea_heap *h);
/* Have the thread run what is due. Under the world lock, the world running: who starts a thread has the stop signal blocked and
 * may wait for a lock of malloc() that a stopped thread holds, so no stop may begin. */
void teai_finalizers_wake(struct tea_heap *h);
void teai_finalizers_after_fork(struct tea_heap *h);

#endif
