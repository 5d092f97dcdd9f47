/* platform/pthread_real.c -- find the C library's pthread_create() past the one that registers mutators.
 *
 * Problem. The collector exports pthread_create() to learn of every thread. Its own helpers, and that export
 * itself, need the one behind it, which goes by different names:
 *   in a sanitized program         __interceptor_pthread_create: without it the sanitizer does not know the thread
 *   linked with --wrap             __real_pthread_create, the linker's name for it
 *   found by symbol order          the next definition after the object this code is in
 *   static program without --wrap  pthread_create itself: nobody else's can be in the way
 */
#define _GNU_SOURCE
#include "platform/pthread_real.h"

#include <dlfcn.h>
#include <stddef.h>

typedef int (*pthread_create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

__attribute__((weak)) int __interceptor_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
__attribute__((weak)) int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static pthread_create_fn pthread_create_find(void)
{
    if (__interceptor_pthread_create != NULL)
        return __interceptor_pthread_create;
    if (__real_pthread_create != NULL)
        return __real_pthread_create;
    pthread_create_fn next;
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create"); /* the conversion that POSIX asks to work */
    return next != NULL ? next : pthread_create;
}

int teai_pthread_create_real(pthread_t *thread_out, const pthread_attr_t *attributes, void *(*entry)(void *),
                             void *argument)
{
    return pthread_create_find()(thread_out, attributes, entry, argument);
}
