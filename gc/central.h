/* gc/central.h -- the spans of one span class that no thread holds: with free slots, and without. */
#ifndef TEAI_CENTRAL_H
#define TEAI_CENTRAL_H

#include "gc/span.h"

struct teai_central {
    _Alignas(64) struct teai_lock lock;
    uint32_t partial_head, partial_tail; /* span numbers or TEAI_NO_PAGE */
    uint32_t full_head, full_tail;
};

struct tea_mutator;

void teai_central_init(struct teai_central *central);

/* A swept span with at least one free slot, now CACHED; from the lists, sweeping as needed, or fresh. TEAI_NO_PAGE: no memory. */
uint32_t teai_central_take(struct tea_heap *h, struct teai_page_cache *pages, uint8_t span_class);
/* Give a span back; `has_free`: it may have free slots. */
void teai_central_return(struct tea_heap *h, uint32_t span, bool has_free);
/* The same with the world stopped: spans that are behind in sweeping are accepted. */
void teai_central_return_stopped(struct tea_heap *h, uint32_t span);
/* A slot of a swept span was freed from outside: list it where allocators look, or give it back when empty. */
void teai_central_slot_freed(struct tea_heap *h, uint32_t span, uint8_t span_class, bool now_empty);
/* The sweeper that owns `span` is done: publish generation `heap_gen` and move or delete the span. True: deleted. */
bool teai_central_swept(struct tea_heap *h, uint32_t span, uint32_t heap_gen);

#endif
