/* examples/hello_list.c -- a linked list that is built many times over and never freed.
 *
 * Each round drops the list of the round before by no longer pointing at it; that is all there is to do. The check at
 * the end: what is left after a collection is about one list, whatever the number of rounds was.
 */
#include <stdio.h>
#include <string.h>
#include <teaspan/teaspan.h>

enum { ROUNDS = 1000, NODES = 1000, SHOWN = 3 };

struct node {
    struct node *next;
    char *name;
};

static struct node *push(struct node *list, int number)
{
    char name[32];
    snprintf(name, sizeof name, "node %d", number);
    struct node *n = tea_alloc(sizeof *n); /* zeroed; its words may hold references */
    if (n == NULL)
        return NULL;
    n->next = list;
    n->name = tea_strdup(name); /* a leaf: text holds no references, so it is never scanned */
    return n->name != NULL ? n : NULL;
}

static struct node *build(int count)
{
    struct node *list = NULL;
    for (int number = count; number > 0; number--) {
        list = push(list, number);
        if (list == NULL)
            return NULL;
    }
    return list;
}

static struct node *reverse(struct node *list)
{
    struct node *reversed = NULL;
    while (list != NULL) {
        struct node *next = list->next;
        list->next = reversed;
        reversed = list;
        list = next;
    }
    return reversed;
}

/* The names are those of nodes `count` down to 1. */
static bool is_reversed(const struct node *list, int count)
{
    char name[32];
    for (; list != NULL; list = list->next, count--) {
        snprintf(name, sizeof name, "node %d", count);
        if (strcmp(list->name, name) != 0)
            return false;
    }
    return count == 0;
}

int main(void)
{
    struct node *list = NULL;
    for (int round = 0; round < ROUNDS; round++)
        if ((list = build(NODES)) == NULL)
            return 1;
    list = reverse(list);
    int shown = 0;
    for (const struct node *n = list; n != NULL && shown < SHOWN; n = n->next, shown++)
        printf("%s\n", n->name);

    tea_collect();
    struct tea_stats stats = {.struct_bytes = sizeof stats};
    if (tea_stats_read(&stats) != TEA_OK)
        return 1;
    bool is_bounded = stats.heap_objects < 4 * NODES;
    printf("%d lists were made, the heap holds about %s\n", ROUNDS,
           is_bounded ? "one" : "too many");
    return is_bounded && is_reversed(list, NODES) ? 0 : 1;
}
