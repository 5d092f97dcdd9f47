/* workloads/support_heapwalk_free.h -- drop nine objects in ten and see what the tenth keeps from being reused. */
#ifndef WORKLOADS_SUPPORT_HEAPWALK_FREE_H
#define WORKLOADS_SUPPORT_HEAPWALK_FREE_H

#include <stdbool.h>

/* The whole program. `copy_survivors`: they are copied to fresh objects before all the old ones are dropped. */
int heapwalk_free_main(const char *name, bool copy_survivors, int argc, char **argv);

#endif
