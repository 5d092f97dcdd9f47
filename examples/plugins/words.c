/* examples/plugins/words.c -- a plug-in of examples/plugin.c: it counts words, and keeps them in static data of its own.
 *
 * A plug-in is linked with libteaspan.so like the program, so that there is one collector. Its static and thread-local data are
 * found when it is loaded, and forgotten when it is unloaded.
 */
#include <string.h>
#include <teaspan/teaspan.h>

struct word {
    struct word *next;
    char *text;
    unsigned count;
};

static struct word *words;

__attribute__((visibility("default"))) bool words_add(const char *text);
__attribute__((visibility("default"))) unsigned words_count(const char *text);

static struct word *words_find(const char *text)
{
    struct word *w = words;
    while (w != NULL && strcmp(w->text, text) != 0)
        w = w->next;
    return w;
}

bool words_add(const char *text)
{
    struct word *w = words_find(text);
    if (w == NULL) {
        w = tea_alloc(sizeof *w);
        if (w == NULL || (w->text = tea_strdup(text)) == NULL)
            return false;
        w->next = words;
        words = w;
    }
    w->count++;
    return true;
}

unsigned words_count(const char *text)
{
    const struct word *w = words_find(text);
    return w != NULL ? w->count : 0;
}
