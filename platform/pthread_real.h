/* platform/pthread_real.h -- the C library's functions behind those that we export under the same names. */
#ifndef TEAI_PLATFORM_PTHREAD_REAL_H
#define TEAI_PLATFORM_PTHREAD_REAL_H

#include "base/config.h"

#include <pthread.h>
#include <stdatomic.h>

/* As pthread_create(). Takes locks of the C library, and the loader's when it is first called without the second function
 * having been: never between stop and restart of the world. */
int teai_pthread_create_real(pthread_t *thread_out, const pthread_attr_t *attributes,
                             void *(*entry)(void *), void *argument);
void teai_pthread_create_prepare(void);

/* The address of the function `name` behind ours, remembered in `next`. `wrapped_addr`: the linker's __real_NAME, 0 without
 * --wrap; `plain_addr`: what the name means here. May take the loader's lock the first time. */
uintptr_t teai_real_function(_Atomic uintptr_t *next, const char *name, uintptr_t wrapped_addr,
                             uintptr_t plain_addr);

#endif
