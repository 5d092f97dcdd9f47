/* gc/metadata.h -- memory for the collector's own records: from the OS, counted, never a root. */
#ifndef TEAI_METADATA_H
#define TEAI_METADATA_H

#include "platform/platform.h"

struct teai_metadata {
    _Atomic uint64_t bytes;            /* now held */
    _Atomic uint32_t deny_after;       /* tests: fail every allocation once this many more were granted; UINT32_MAX: never */
};

void teai_metadata_init(struct teai_metadata *md);
/* Zeroed memory of whole OS pages, demand-paged; NULL when the OS refuses. *bytes is rounded up in place. */
void *teai_metadata_alloc(struct teai_metadata *md, size_t *bytes);
void teai_metadata_free(struct teai_metadata *md, void *base, size_t bytes);

#endif
