/* gc/fake_stack.c -- local variables that AddressSanitizer keeps outside the stack.
 *
 * Problem. To find uses of a local variable after its function has returned, AddressSanitizer (detect_stack_use_after_return)
 * puts the variables of a function into a fake frame, in memory of its own, where no scan of the stack finds them. The
 * function's frame on the real stack holds the address of its fake frame all the time. So each word of the real stack is
 * looked up in the thread's fake stack, and the frame it points into is scanned too.
 *
 * Both functions of the run-time library only read; they take no lock and do not allocate.
 *
 * Source. AddressSanitizer's interface for collectors (sanitizer/asan_interface.h), made for Chrome's.
 */
#include "gc/fake_stack.h"

__attribute__((weak)) void *__asan_addr_is_in_fake_stack(void *fake_stack, void *addr, void **base, void **limit);

static TEAI_NO_SANITIZE void fake_stack_list_range(struct tea_heap *h, const struct tea_mutator *m, uintptr_t base_addr,
                                                   uintptr_t limit_addr)
{
    void *last_base = NULL;
    for (uintptr_t at = teai_round_up(base_addr, TEAI_WORD_BYTES); at < limit_addr; at += TEAI_WORD_BYTES) {
        void *word = (void *)teai_word_load((const uintptr_t *)at), *base, *limit;
        if (__asan_addr_is_in_fake_stack(m->fake_stack, word, &base, &limit) == NULL || base == last_base)
            continue;
        last_base = base; /* neighbouring words often point into one frame */
        teai_mark_add_root(h, (uintptr_t)base, (uintptr_t)limit, false);
    }
}

void teai_fake_stack_list_roots(struct tea_heap *h, const struct tea_mutator *m)
{
    if (m->fake_stack == NULL || __asan_addr_is_in_fake_stack == NULL)
        return;
    fake_stack_list_range(h, m, m->sp_addr, m->stack_limit_addr);
    fake_stack_list_range(h, m, m->alt_base_addr, m->alt_limit_addr);
    uintptr_t words = (uintptr_t)m->blocked_words;
    fake_stack_list_range(h, m, words, words + m->nblocked_words * sizeof m->blocked_words[0]);
}
