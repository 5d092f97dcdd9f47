/* examples/plugin.c -- a program that loads a plug-in, lets it allocate, and unloads it.
 *
 * The plug-in (examples/plugins/words.c) registers nothing: its data are scanned while it is loaded. Once it is
 * unloaded, what only it referred to is garbage. The check at the end: the heap is about as small as before.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <teaspan/teaspan.h>
#include <unistd.h>

enum { WORDS = 2000, ROUNDS = 3 };

/* The plug-in lies beside the program. */
static void *plugin_open(void)
{
    char path[1000];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        return NULL;
    path[length] = '\0';
    char *name = strrchr(path, '/') + 1;
    snprintf(name, sizeof path - (size_t)(name - path), "plugin_words.so");
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static bool plugin_use(void *plugin)
{
    bool (*add)(const char *);
    unsigned (*count)(const char *);
    *(void **)&add = dlsym(plugin, "words_add"); /* the conversion that POSIX asks to work */
    *(void **)&count = dlsym(plugin, "words_count");
    if (add == NULL || count == NULL)
        return false;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < WORDS; i++) {
            char word[32];
            snprintf(word, sizeof word, "word %d", i);
            if (!add(word))
                return false;
        }
    tea_collect();
    return count("word 0") == ROUNDS && count("word 1999") == ROUNDS && count("no such word") == 0;
}

static uint64_t objects_in_use(void)
{
    tea_collect();
    struct tea_stats stats = {.struct_bytes = sizeof stats};
    return tea_stats_read(&stats) == TEA_OK ? stats.heap_objects : UINT64_MAX;
}

int main(void)
{
    uint64_t before = objects_in_use();
    void *plugin = plugin_open();
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (!plugin_use(plugin))
        return 1;
    uint64_t loaded = objects_in_use();
    dlclose(plugin);
    uint64_t after = objects_in_use();
    printf("the plug-in kept %s objects; unloaded, %s\n", loaded >= before + WORDS ? "its" : "too few",
           after < before + WORDS / 10 ? "none of them is left" : "they are still there");
    return loaded >= before + WORDS && after < before + WORDS / 10 ? 0 : 1;
}
