/* base/lock_rank.h -- the order in which locks are taken: a thread that holds one may take only later ones. */
#ifndef TEAI_BASE_LOCK_RANK_H
#define TEAI_BASE_LOCK_RANK_H

enum teai_lock_rank {
    TEAI_RANK_NONE = 0,
    TEAI_RANK_TRACE,      /* gc/trace.c: lines to be said; taken by whoever holds no lock */
    TEAI_RANK_LOG,        /* gc/log.c: where messages go; likewise */
    TEAI_RANK_WORLD,      /* gc/handshake.c: one stop, one cycle at a time */
    TEAI_RANK_THREADS,    /* gc/thread.c: the list of mutators */
    TEAI_RANK_ROOTS,      /* gc/root.c: registered ranges */
    TEAI_RANK_PINS,       /* gc/pin.c: uncollectable objects */
    TEAI_RANK_SPECIALS,   /* gc/special.c: finalizers, cleanups, weak pointers */
    TEAI_RANK_CENTRAL,    /* gc/central.c: spans of one span class; never two at once */
    TEAI_RANK_PACER,      /* gc/gc_pacer.c: settings and the goal derived from them */
    TEAI_RANK_PAGE_HEAP,  /* gc/page_heap.c */
    TEAI_RANK_MARK_POOL,  /* gc/work_chunk.c: chunks of grey objects */
    TEAI_RANK_METADATA,   /* gc/metadata.c: memory for the collector's own use */
    TEAI_RANK_LAST
};

#endif
