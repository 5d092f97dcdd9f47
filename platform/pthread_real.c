/* platform/pthread_real.c -- find the C library's functions past those that we export under the same names.
 *
 * Problem. The collector exports pthread_create(), and some more, to learn of every mutator. Its own helpers, and
 * those exports themselves, need the ones behind them, which go by different names:
 *   - linked with --wrap, __real_NAME, which the linker makes;
 *   - else it is the next definition after the object that this code is in;
 *   - where that cannot be asked for, in a static program, there is no other than NAME.
 * In a sanitized build of ours, which exports none of the names, it is NAME itself: the sanitizer's interceptor, which the next
 * definition after us would pass by. (A stop handler installed past it ran inside ThreadSanitizer's own locks, and hung.)
 * pthread_create() is __interceptor_pthread_create there, or the sanitizer does not know the thread.
 * Not so in an unsanitized one: the interceptor in a sanitized program calls the next pthread_create(), ours.
 */
#define _GNU_SOURCE
#include "platform/pthread_real.h"

#include <dlfcn.h>

__attribute__((weak)) int __interceptor_pthread_create(pthread_t *, const pthread_attr_t *,
                                                       void *(*)(void *), void *);
__attribute__((weak)) int __real_pthread_create(pthread_t *, const pthread_attr_t *,
                                                void *(*)(void *), void *);

uintptr_t teai_real_function(_Atomic uintptr_t *next, const char *name, uintptr_t wrapped_addr,
                             uintptr_t plain_addr)
{
    if (wrapped_addr != 0)
        return wrapped_addr;
    if (TEAI_ASAN || TEAI_TSAN)
        return plain_addr;
    /* relaxed: whoever looks finds the same, and it points to code. */
    uintptr_t addr = atomic_load_explicit(next, memory_order_relaxed);
    if (addr == 0) {
        addr = (uintptr_t)dlsym(RTLD_NEXT, name);
        addr = addr != 0 ? addr : plain_addr;
        atomic_store_explicit(next, addr, memory_order_relaxed);
    }
    return addr;
}

static uintptr_t create_addr(void)
{
    static _Atomic uintptr_t next TEAI_STATE;
    return teai_real_function(&next, "pthread_create", (uintptr_t)__real_pthread_create, (uintptr_t)pthread_create);
}

void teai_pthread_create_prepare(void)
{
    (void)create_addr();
}

int teai_pthread_create_real(pthread_t *thread_out, const pthread_attr_t *attributes,
                             void *(*entry)(void *), void *argument)
{
    if ((TEAI_ASAN || TEAI_TSAN) && __interceptor_pthread_create != NULL)
        return __interceptor_pthread_create(thread_out, attributes, entry, argument);
    return ((__typeof__(pthread_create) *)create_addr())(thread_out, attributes, entry, argument);
}
