/* platform/pthread_real.c -- find the C library's pthread_create(), past our own.
 *
 * Problem. The collector exports pthread_create() to learn of every mutator. Its own helpers, and
 * that export itself, need the one behind it, which goes by different names:
 *   - in a sanitized program __interceptor_pthread_create, or the sanitizer does not know the
 *   thread;
 *   - linked with --wrap, __real_pthread_create, which the linker makes;
 *   - else it is the next definition after the object that this code is in;
 *   - where that cannot be asked for, in a static program, there is no other than pthread_create.
 */
#define _GNU_SOURCE
#include "platform/pthread_real.h"

#include <dlfcn.h>
#include <stddef.h>

typedef int (*pthread_create_fn)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

__attribute__((weak)) int __interceptor_pthread_create(pthread_t *, const pthread_attr_t *,
                                                       void *(*)(void *), void *);
__attribute__((weak)) int __real_pthread_create(pthread_t *, const pthread_attr_t *,
                                                void *(*)(void *), void *);

static pthread_create_fn pthread_create_find(void)
{
    if (__interceptor_pthread_create != NULL)
        return __interceptor_pthread_create;
    if (__real_pthread_create != NULL)
        return __real_pthread_create;
    pthread_create_fn next;
    /* The conversion that POSIX asks to work. */
    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next != NULL ? next : pthread_create;
}

int teai_pthread_create_real(pthread_t *thread_out, const pthread_attr_t *attributes,
                             void *(*entry)(void *), void *argument)
{
    return pthread_create_find()(thread_out, attributes, entry, argument);
}
