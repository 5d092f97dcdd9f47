/* tests/load/b41_late_dlopen.c -- B41: our library can be loaded by a program that knows nothing of it, after other libraries
 * have taken most of the C library's spare static thread-local room. Arguments: libteaspan.so and those libraries.
 * (Reports: jemalloc/jemalloc #937, #1237, #1249; microsoft/mimalloc #147.)
 */
#include "tests/load/check.h"

#include <dlfcn.h>
#include <pthread.h>

static struct {
    void *(*alloc)(size_t);
    void (*collect)(void);
    uint32_t (*gc_count)(void);
    void *(*base)(const void *);
} tea;

static _Thread_local void *kept;

static void *use(void *unused)
{
    (void)unused;
    char *object = tea.alloc(100);
    REQUIRE(object != NULL);
    kept = object;
    for (unsigned i = 0; i < 100000; i++)
        REQUIRE(tea.alloc(100) != NULL);
    tea.collect();
    REQUIRE(tea.base((char *)kept + 50) == kept);
    return NULL;
}

int main(int argc, char **argv)
{
    REQUIRE(argc > 2);
    for (int i = 2; i < argc; i++)
        if (dlopen(argv[i], RTLD_NOW) == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
    void *library = dlopen(argv[1], RTLD_NOW);
    if (library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(library != NULL);
    *(void **)&tea.alloc = dlsym(library, "tea_alloc");
    *(void **)&tea.collect = dlsym(library, "tea_collect");
    *(void **)&tea.gc_count = dlsym(library, "tea_gc_count");
    *(void **)&tea.base = dlsym(library, "tea_base");
    REQUIRE(tea.alloc != NULL && tea.collect != NULL && tea.gc_count != NULL && tea.base != NULL);
    use(NULL);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, use, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(tea.gc_count() >= 2);
    return 0;
}
