/* gc/fake_stack.h -- local variables that AddressSanitizer keeps outside the stack. */
#ifndef TEAI_FAKE_STACK_H
#define TEAI_FAKE_STACK_H

#include "gc/thread.h"

/* By AddressSanitizer's run-time library, if the program has it. */
__attribute__((weak)) void *__asan_get_current_fake_stack(void);

/* On the thread itself, whenever it publishes its stack pointer: which fake stack is its own. */
TEAI_INLINE void teai_fake_stack_note(struct tea_mutator *m)
{
    if (__asan_get_current_fake_stack != NULL)
        m->fake_stack = __asan_get_current_fake_stack();
}

/* With the world stopped: add the fake frames that the thread's stack refers to. */
void teai_fake_stack_list_roots(struct tea_heap *h, const struct tea_mutator *m);

#endif
