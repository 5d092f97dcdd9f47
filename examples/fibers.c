/* examples/fibers.c -- coroutines on stacks of their own, whose references the collector finds while they are parked.
 *
 * A producer walks a tree and hands out its names one at a time; the consumer asks for the next one when it likes. The tree
 * and all of the producer's recursion are known to nobody but the parked coroutine, and collections happen while it is parked.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <teaspan/teaspan.h>

#if defined(__GLIBC__)

#include <ucontext.h>

enum { STACK_BYTES = 64 << 10, DEPTH = 8, GARBAGE_BYTES = 64 << 10 };

struct tree {
    struct tree *left, *right;
    char *name;
};

/* Two stacks: the caller's, and the coroutine's own. */
struct coroutine {
    ucontext_t context, caller;
    struct tea_fiber *fiber;
    void (*run)(struct coroutine *);
    void *value; /* handed over by the last switch */
    bool has_ended;
    char stack[STACK_BYTES];
};

static void coroutine_switch(struct tea_fiber *to, ucontext_t *from_context, ucontext_t *to_context)
{
    if (tea_fiber_switch_begin(to) != TEA_OK)
        abort();
    swapcontext(from_context, to_context);
    if (tea_fiber_switch_end() != TEA_OK)
        abort();
}

/* The first function on the coroutine's stack: it is what ends the switch that led here. */
static void coroutine_entry(void)
{
    tea_fiber_switch_end();
    struct coroutine *co = tea_fiber_argument(tea_fiber_current());
    co->run(co);
    co->has_ended = true;
    coroutine_switch(NULL, &co->context, &co->caller);
}

/* In the collector's heap, stack and all, and the argument of its own fiber: alive until that ends. */
static struct coroutine *coroutine_new(void (*run)(struct coroutine *), void *value)
{
    struct coroutine *co = tea_alloc(sizeof *co);
    if (co == NULL || tea_fiber_create(co->stack, co->stack + STACK_BYTES, co, &co->fiber) != TEA_OK)
        abort();
    co->run = run;
    co->value = value;
    getcontext(&co->context);
    co->context.uc_stack.ss_sp = co->stack;
    co->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&co->context, coroutine_entry, 0);
    return co;
}

static void coroutine_yield(struct coroutine *co, void *value)
{
    co->value = value;
    coroutine_switch(NULL, &co->context, &co->caller);
}

/* The next value; NULL when there is none left. */
static void *coroutine_next(struct coroutine *co)
{
    if (!co->has_ended)
        coroutine_switch(co->fiber, &co->caller, &co->context);
    return co->has_ended ? NULL : co->value;
}

static struct tree *tree_new(int depth, const char *name)
{
    struct tree *tree = tea_alloc(sizeof *tree);
    if (tree == NULL)
        abort();
    tree->name = tea_strdup(name);
    if (depth > 0) {
        char child_name[DEPTH + 1];
        snprintf(child_name, sizeof child_name, "%sl", name);
        tree->left = tree_new(depth - 1, child_name);
        snprintf(child_name, sizeof child_name, "%sr", name);
        tree->right = tree_new(depth - 1, child_name);
    }
    return tree;
}

static void walk(struct coroutine *co, const struct tree *tree)
{
    if (tree == NULL)
        return;
    walk(co, tree->left);
    coroutine_yield(co, tree->name);
    walk(co, tree->right);
}

static void produce_names(struct coroutine *co)
{
    walk(co, tree_new(DEPTH, ""));
}

int main(void)
{
    struct coroutine *names = coroutine_new(produce_names, NULL);
    unsigned count = 0;
    size_t total_length = 0;
    for (const char *name; (name = coroutine_next(names)) != NULL; count++) {
        total_length += strlen(name);
        if (tea_alloc_leaf(GARBAGE_BYTES) == NULL)
            return 1;
    }
    tea_fiber_end(names->fiber);

    size_t expected_length = 0;
    for (size_t depth = 1; depth <= DEPTH; depth++)
        expected_length += depth << depth;
    printf("%u names, %zu letters, %s\n", count, total_length,
           tea_gc_count() > 0 ? "some of them after a collection" : "without any collection");
    return count == (2u << DEPTH) - 1 && total_length == expected_length && tea_gc_count() > 0 ? 0 : 1;
}

#else

int main(void)
{
    puts("skipped: this C library has no swapcontext()");
    return 77;
}

#endif
