/* tests/load/second_copy.c -- a plug-in's own copy of the collector does not start beside the program's, and says why, once.
 * Argument: the plug-in.
 */
#include "tests/load/check.h"

#include <dlfcn.h>
#include <errno.h>

static char message[1024];
static unsigned nmessages;

static void keep_message(const char *text, void *unused)
{
    (void)unused;
    nmessages++;
    snprintf(message, sizeof message, "%s", text);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    REQUIRE(tea_alloc(100) != NULL);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(plugin != NULL);
    enum tea_status (*start)(const struct tea_options *);
    void *(*alloc)(size_t);
    *(void **)&start = dlsym(plugin, "plugin_start");
    *(void **)&alloc = dlsym(plugin, "plugin_alloc");
    REQUIRE(start != NULL && alloc != NULL);
    struct tea_options options = TEA_OPTIONS_INIT;
    options.log = keep_message;
    REQUIRE(start(&options) == TEA_ERR_STATE);
    REQUIRE(nmessages == 1);
    char *own_path = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    REQUIRE(strstr(message, argv[1]) != NULL);
    REQUIRE(strstr(message, own_path) != NULL || strstr(message, "libteaspan.so") != NULL);
    errno = 0;
    REQUIRE(alloc(100) == NULL && errno == ENOMEM);
    REQUIRE(nmessages == 1);

    tea_collect();
    REQUIRE(tea_alloc(100) != NULL);
    return 0;
}
