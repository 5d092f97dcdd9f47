/* gc/thread_roots.h -- what a thread refers to beside its stack: thread-locals, specific data, argument and result. */
#ifndef TEAI_THREAD_ROOTS_H
#define TEAI_THREAD_ROOTS_H

#include "platform/platform.h"

struct dl_phdr_info;
struct tea_heap;
struct tea_mutator;

/* A loaded object's thread-locals: the number of the module, and the size of each thread's block. */
struct teai_tls_module {
    size_t id, size_bytes;
};

struct teai_tls_modules {
    struct teai_tls_module *items;
    size_t nitems, capacity, mapping_bytes;
    bool layout_is_wrong;   /* the walk found something else than the loader says */
    bool layout_is_reported;
};

/* Before the first cycle, with no lock held: ask the C library for what the walk needs. Takes the loader's locks. */
void teai_thread_roots_prepare(void);
/* Before a stop, from within dl_iterate_phdr(): note a loaded object's PT_TLS header. False: no memory. */
bool teai_thread_roots_note_module(struct tea_heap *h, const struct dl_phdr_info *info, size_t info_bytes);
/* Under the world lock: whether the C library's layout has turned out not to be the one we know; true once. Then, with no lock
 * held: say so. */
bool teai_thread_roots_are_news(struct tea_heap *h);
void teai_thread_roots_report(struct tea_heap *h);
/* In the stop: add what belongs to one mutator as roots, its stack aside; then the results of ended threads. */
void teai_thread_roots_list(struct tea_heap *h, const struct tea_mutator *m);
void teai_thread_roots_list_results(struct tea_heap *h);

#endif
