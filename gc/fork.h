/* gc/fork.h -- go on after fork(), from any thread and at any time. */
#ifndef TEAI_FORK_H
#define TEAI_FORK_H

struct tea_heap;
struct tea_mutator;

/* Have fork() call us, from now on and before anything of the collector can be half made. Idempotent. */
void teai_fork_watch(void);
/* Before the heap's first use: arm the mark that a child finds erased. */
void teai_fork_init(struct tea_heap *h);
/* At the start of what needs the other threads: if this process is a child made by _Fork() or a raw clone(), which call
 * nobody, do what is left to do. `self`: the calling thread, NULL if it is no mutator. */
void teai_fork_check(struct tea_heap *h, struct tea_mutator *self);

#endif
