/* gc/init.h -- start the default heap, once, from wherever it is first needed. */
#ifndef TEAI_INIT_H
#define TEAI_INIT_H

struct tea_heap;

/* The default heap, started with the environment's settings if need be. NULL with errno ENOMEM: no address space.
 * Ends the process with status 2 on a malformed GOMEMLIMIT, as Go does. */
struct tea_heap *teai_init_default(void);

#endif
