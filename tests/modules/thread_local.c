/* tests/modules/thread_local.c -- a library to load late, with thread-local variables that are made for each thread on demand. */
#include <stddef.h>

__attribute__((visibility("default"))) void **module_slot(size_t i);

enum { NSLOTS = 3000 }; /* too large for the spare room of the static block */
static _Thread_local void *slots[NSLOTS];

void **module_slot(size_t i)
{
    return &slots[i];
}
