/* tests/load/b45_constructor.c -- a constructor of the earliest priority; see b45_before_main.cpp. */
#include "tests/load/b45_use.h"

struct b45_node *constructor_list;

__attribute__((constructor(101))) static void use_early(void)
{
    constructor_list = b45_use();
}
