/* workloads/binarytrees.c -- build and walk many short-lived binary trees beside one that lives long.
 *
 * What it asks of a heap: small objects of two references, allocated and dropped at the highest rate, most of
 * them young. With several threads each does its share of the trees of every depth.
 *
 * Source. The benchmark of H. Boehm, J. Ellis and P. Kovac in the form of the Computer Language Benchmarks
 * Game: a stretch tree of DEPTH + 1, a long-lived tree of DEPTH, and 2^(DEPTH - d + 4) trees of each depth d.
 */
#include "heap.h"
#include "support_result.h"

#include <inttypes.h>
#include <pthread.h>

enum { MIN_DEPTH = 4, MAX_DEPTH = 30, MAX_THREADS = 64 };

static uint64_t depth_arg;
static uint64_t nthreads_arg = 1;
static const struct arg binarytrees_args[] = {
    {.name = "depth", .kind = ARG_NUMBER, .min = MIN_DEPTH, .max = MAX_DEPTH, .number = &depth_arg},
    {.name = "threads",
     .kind = ARG_NUMBER,
     .min = 1,
     .max = MAX_THREADS,
     .number = &nthreads_arg,
     .optional = 1},
};
static const struct workload binarytrees = {"binarytrees", "DEPTH [THREADS]",
                                            ARGS_OF(binarytrees_args)};

struct node {
    struct node *left, *right;
};

static struct node *tree_build(unsigned depth)
{
    struct node *node = heap_alloc(sizeof *node);
    if (depth > 0) {
        heap_store(&node->left, tree_build(depth - 1));
        heap_store(&node->right, tree_build(depth - 1));
    }
    return node;
}

static uint64_t tree_count(const struct node *node)
{
    return node->left == NULL ? 1 : 1 + tree_count(node->left) + tree_count(node->right);
}

static void tree_release_nodes(struct node *node)
{
    if (node->left != NULL) {
        tree_release_nodes(node->left);
        tree_release_nodes(node->right);
    }
    heap_release(node);
}

static void tree_release(struct node *tree)
{
    if (HEAP_NEEDS_RELEASE)
        tree_release_nodes(tree);
}

static uint64_t tree_nodes(unsigned depth)
{
    return ((uint64_t)1 << (depth + 1)) - 1;
}

static uint64_t trees_of_depth(unsigned max_depth, unsigned depth)
{
    return (uint64_t)1 << (max_depth - depth + MIN_DEPTH);
}

static uint64_t build_count_drop(unsigned depth)
{
    struct node *tree = tree_build(depth);
    uint64_t nnodes = tree_count(tree);
    tree_release(tree);
    return nnodes;
}

/* One thread's share of the short-lived trees. */
struct share {
    unsigned max_depth;
    unsigned index, nthreads;
    uint64_t nnodes; /* result */
};

static void *share_run(void *argument)
{
    struct share *share = argument;
    for (unsigned depth = MIN_DEPTH; depth <= share->max_depth; depth += 2)
        for (uint64_t i = share->index; i < trees_of_depth(share->max_depth, depth);
             i += share->nthreads)
            share->nnodes += build_count_drop(depth);
    return NULL;
}

static void *share_thread(void *argument)
{
    share_run(argument);
    heap_thread_end();
    return NULL;
}

static uint64_t shares_run(unsigned max_depth, unsigned nthreads)
{
    pthread_t threads[MAX_THREADS];
    struct share shares[MAX_THREADS];
    for (unsigned i = 0; i < nthreads; i++) {
        shares[i] = (struct share){.max_depth = max_depth, .index = i, .nthreads = nthreads};
        if (i > 0 && pthread_create(&threads[i], NULL, share_thread, &shares[i]) != 0)
            workload_fail("cannot start thread %u", i);
    }
    share_run(&shares[0]);
    uint64_t nnodes = shares[0].nnodes;
    for (unsigned i = 1; i < nthreads; i++) {
        pthread_join(threads[i], NULL);
        nnodes += shares[i].nnodes;
    }
    return nnodes;
}

static uint64_t nodes_expected(unsigned max_depth)
{
    uint64_t nnodes = tree_nodes(max_depth + 1) + tree_nodes(max_depth);
    for (unsigned depth = MIN_DEPTH; depth <= max_depth; depth += 2)
        nnodes += trees_of_depth(max_depth, depth) * tree_nodes(depth);
    return nnodes;
}

int main(int argc, char **argv)
{
    workload_start(&binarytrees, argc, argv);
    unsigned depth = (unsigned)depth_arg;
    unsigned nthreads = (unsigned)nthreads_arg;

    uint64_t begin_ns = workload_now_ns();
    uint64_t nnodes = build_count_drop(depth + 1);
    struct node *long_lived = tree_build(depth);
    nnodes += shares_run(depth, nthreads);
    nnodes += tree_count(long_lived);
    uint64_t run_ns = workload_now_ns() - begin_ns;

    tree_release(long_lived);
    if (nnodes != nodes_expected(depth))
        workload_fail("counted %" PRIu64 " nodes, not %" PRIu64, nnodes, nodes_expected(depth));
    workload_report(&(struct workload_run){.run_ns = run_ns}, " depth=%u threads=%u", depth,
                    nthreads);
    return 0;
}
