/* gc/exception_names.c -- the C++ library's names for getting and freeing an exception object, exported by the shared library.
 *
 * Not by the archive: there the linker could redirect the program's own calls, but not those that a shared C++ library makes
 * itself, and an exception noted by one side and freed by the other would be scanned for ever. tea::root<T> serves there.
 *
 * The C++ library's own functions are the next ones in symbol lookup. If there are none (a program in C that loads a library
 * in C++ privately) the caller's own scope has them.
 *
 * Source. Itanium C++ ABI, Exception Handling, 2.4.2.
 */
#define _GNU_SOURCE
#include "base/config.h"

#if !defined(TEASPAN_WRAPPED)

#include "base/check.h"
#include "gc/exception.h"

#include <dlfcn.h>

typedef void *(*exception_allocate_fn)(size_t);
typedef void (*exception_free_fn)(void *);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *__cxa_allocate_exception(size_t size_bytes);
EXPORTED void __cxa_free_exception(void *object);

static void *exception_find_in_scope(const char *name, const void *caller)
{
    Dl_info info;
    if (dladdr(caller, &info) == 0)
        return NULL;
    void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (object == NULL)
        return NULL;
    void *function = dlsym(object, name);
    dlclose(object); /* the caller is in it: it stays */
    return function;
}

static void *exception_find(const char *name, const void *caller)
{
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL)
        function = exception_find_in_scope(name, caller);
    if (function == NULL)
        teai_fatal(__FILE__, __LINE__, "a C++ exception is thrown, but there is no C++ library");
    return function;
}

void *__cxa_allocate_exception(size_t size_bytes)
{
    exception_allocate_fn allocate;
    *(void **)&allocate = exception_find("__cxa_allocate_exception", __builtin_return_address(0));
    void *object = allocate(size_bytes);
    teai_exception_add(object, size_bytes);
    return object;
}

void __cxa_free_exception(void *object)
{
    exception_free_fn free_object;
    *(void **)&free_object = exception_find("__cxa_free_exception", __builtin_return_address(0));
    teai_exception_remove(object);
    free_object(object);
}

#endif
