/* tests/load/b45_use.h -- what each part of the program of B45 does as early as it can. C and C++. */
#ifndef TEST_LOAD_B45_USE_H
#define TEST_LOAD_B45_USE_H

#include "tests/load/check.h"

#include <pthread.h>

struct b45_node {
    struct b45_node *next;
    size_t number;
};

static inline struct b45_node *b45_list_new(size_t nnodes)
{
    struct b45_node *head = NULL;
    for (size_t i = 0; i < nnodes; i++) {
        struct b45_node *node = (struct b45_node *)tea_alloc(sizeof *node);
        REQUIRE(node != NULL);
        node->next = head;
        node->number = i;
        head = node;
    }
    return head;
}

static inline bool b45_list_is_whole(const struct b45_node *head, size_t nnodes)
{
    for (; head != NULL && nnodes > 0; head = head->next)
        if (head->number != --nnodes)
            return false;
    return head == NULL && nnodes == 0;
}

enum { B45_OBJECTS = 100000, B45_KEPT = 1000 };

static inline void *b45_thread(void *list)
{
    b45_list_new(B45_OBJECTS);
    return list;
}

/* 100,000 objects, a thread, a collection; a list that is checked when main() has begun. */
static inline struct b45_node *b45_use(void)
{
    struct b45_node *list = b45_list_new(B45_KEPT);
    b45_list_new(B45_OBJECTS);
    pthread_t thread;
    void *returned;
    REQUIRE(pthread_create(&thread, NULL, b45_thread, list) == 0);
    tea_collect();
    REQUIRE(pthread_join(thread, &returned) == 0);
    REQUIRE(returned == list);
    return list;
}

#endif
