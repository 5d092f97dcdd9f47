/* tests/load/b05_module.c -- a library whose writable data hold references; see b05_dlopened_data.c. */
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

/* .data, .bss, and the page behind the part that is made read-only after relocation, which begins with .data. */
EXPORT void *in_data = &in_data;
EXPORT void *in_bss;
EXPORT void *in_large_bss[10000];
EXPORT _Thread_local void *in_thread_local;

EXPORT void **slot(unsigned i)
{
    void **slots[] = {&in_data, &in_bss, &in_large_bss[0], &in_large_bss[9999], &in_thread_local};
    return i < sizeof slots / sizeof slots[0] ? slots[i] : NULL;
}
