/* tests/load/b45_library.c -- a library whose constructor uses the collector, without being linked with it. */
#include "tests/load/b45_use.h"

static struct b45_node *library_list;

__attribute__((constructor)) static void use_early(void)
{
    library_list = b45_use();
}

__attribute__((destructor)) static void use_late(void)
{
    REQUIRE(b45_list_is_whole(library_list, B45_KEPT));
    b45_use();
}

__attribute__((visibility("default"))) bool library_list_is_whole(void)
{
    return b45_list_is_whole(library_list, B45_KEPT);
}
