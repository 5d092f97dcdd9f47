/* platform/pthread_real.h -- the C library's pthread_create(), behind the one that we export. */
#ifndef TEAI_PLATFORM_PTHREAD_REAL_H
#define TEAI_PLATFORM_PTHREAD_REAL_H

#include <pthread.h>

/* As pthread_create(). Takes the loader's lock: never between stop and restart of the world. */
int teai_pthread_create_real(pthread_t *thread_out, const pthread_attr_t *attributes,
                             void *(*entry)(void *), void *argument);

#endif
