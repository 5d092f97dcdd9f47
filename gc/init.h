/* gc/init.h -- start the default heap, once, from wherever it is first needed. */
#ifndef TEAI_INIT_H
#define TEAI_INIT_H

#include "base/config.h"

struct tea_heap;

/* The default heap, started with the environment's settings if need be. NULL with errno ENOMEM: no address space.
 * Ends the process with status 2 on a malformed GOMEMLIMIT, as Go does. */
struct tea_heap *teai_init_default(void);

bool teai_init_is_done(void);
/* What guards the start, and the settings below that are no part of the heap. */
void teai_init_lock(void);
void teai_init_unlock(void);

#endif
