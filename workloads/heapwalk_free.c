/* workloads/heapwalk_free.c -- what a few survivors pin.
 *
 * 50,000 objects of 32, 64 and 128 bytes; nine in ten are dropped and collected. A heap that does not move objects
 * must keep every span that a survivor lies in.
 */
#include "support_heapwalk_free.h"

int main(int argc, char **argv)
{
    return heapwalk_free_main("heapwalk_free", false, argc, argv);
}
