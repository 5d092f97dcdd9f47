/* tests/load/b45_before_main.cpp -- B45: the collector works before main() and after it: from constructors of the earliest
 * priority, C++ statics and thread-locals, a library's constructors and destructors, exit handlers. Argument: that library.
 * (Reports: microsoft/mimalloc PR 1391; p4lang/p4c PR 2116; dylan-lang/opendylan PR 374.)
 */
#include "tests/load/b45_use.h"

#include <dlfcn.h>

extern "C" struct b45_node *constructor_list;

namespace {

struct EarlyAndLate {
    struct b45_node *list = b45_use();
    ~EarlyAndLate()
    {
        REQUIRE(b45_list_is_whole(list, B45_KEPT));
        b45_use();
    }
};

EarlyAndLate early_and_late;

void use_at_exit()
{
    b45_use();
}

} // namespace

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    REQUIRE(b45_list_is_whole(constructor_list, B45_KEPT));
    REQUIRE(b45_list_is_whole(early_and_late.list, B45_KEPT));
    REQUIRE(tea_gc_count() >= 2);
    REQUIRE(atexit(use_at_exit) == 0);
    void *library = dlopen(argv[1], RTLD_NOW);
    if (library == nullptr)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library != nullptr);
    bool (*is_whole)(void) = reinterpret_cast<bool (*)(void)>(dlsym(library, "library_list_is_whole"));
    REQUIRE(is_whole != nullptr);
    tea_collect();
    REQUIRE(is_whole());
    return 0;
}
