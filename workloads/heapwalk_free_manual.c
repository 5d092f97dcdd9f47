/* workloads/heapwalk_free_manual.c -- compaction by hand: what a program can do where the heap does not move objects.
 *
 * As heapwalk_free, but the survivors are copied to fresh objects and all the old ones are dropped.
 */
#include "support_heapwalk_free.h"

int main(int argc, char **argv)
{
    return heapwalk_free_main("heapwalk_free_manual", true, argc, argv);
}
