/* tests/build/client.c -- what a C program sees of an installed teaspan: allocate, drop, collect, read the figures. */
#include <stdio.h>
#include <string.h>
#include <teaspan/teaspan.h>

struct node {
    struct node *next;
    char *text;
};

static struct node *push(struct node *next, int i)
{
    char text[24];
    snprintf(text, sizeof(text), "node %d", i);
    struct node *n = tea_alloc(sizeof(*n));
    if (n) {
        n->next = next;
        n->text = tea_strdup(text);
    }
    return n;
}

int main(void)
{
    enum { NODES = 1000, ROUNDS = 20 };
    struct node *list = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        list = NULL;
        for (int i = 0; i < NODES; i++)
            list = push(list, i);
        tea_collect();
    }
    int expected = NODES;
    for (struct node *n = list; n; n = n->next) {
        char text[24];
        snprintf(text, sizeof(text), "node %d", --expected);
        if (strcmp(n->text, text) != 0)
            return 1;
    }
    if (expected != 0 || tea_gc_count() < ROUNDS)
        return 1;
    return strcmp(tea_version(), TEA_VERSION_STRING) == 0 ? 0 : 1;
}
