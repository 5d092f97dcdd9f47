/* tests/load/b05_dlopened_data.c -- B05: data of libraries loaded late are roots, until the library is gone. Arguments: two
 * libraries made of b05_module.c. (Reports: ysbaddaden/gc #25; dlang/druntime PR 416.)
 */
#include "tests/load/check.h"

#include <dlfcn.h>

enum { NSLOTS = 5 };

struct library {
    void *handle;
    uintptr_t hidden[NSLOTS];
};

static __attribute__((noinline)) void library_open(struct library *library, const char *path)
{
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library->handle != NULL);
    void **(*slot)(unsigned);
    *(void **)&slot = dlsym(library->handle, "slot");
    REQUIRE(slot != NULL);
    for (unsigned i = 0; i < NSLOTS; i++)
        library->hidden[i] = put_object(slot(i));
    REQUIRE(slot(NSLOTS) == NULL);
}

static void churn(void)
{
    for (unsigned i = 0; i < 100000; i++)
        REQUIRE(tea_alloc(64) != NULL);
}

static unsigned count_alive(const struct library *library)
{
    unsigned nalive = 0;
    for (unsigned i = 0; i < NSLOTS; i++)
        nalive += is_alive(library->hidden[i]);
    return nalive;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3);
    tea_collect();
    struct library first, second;
    library_open(&first, argv[1]);
    library_open(&second, argv[2]);
    collect();
    churn();
    REQUIRE(count_alive(&first) == NSLOTS);
    REQUIRE(count_alive(&second) == NSLOTS);
    REQUIRE(dlclose(first.handle) == 0);
    if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL) {
        puts("skipped: this C library does not unload libraries");
        return 77;
    }
    collect();
    churn();
    REQUIRE(count_alive(&first) == 0);
    REQUIRE(count_alive(&second) == NSLOTS);
    return 0;
}
