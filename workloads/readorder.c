/* workloads/readorder.c -- collections of a large graph whose nodes are met in memory order, or not.
 *
 * What it asks of a heap: to mark and sweep 2 M small live objects, again and again, with nothing allocated in
 * between. The marker starts from an index, an array of references.
 *   packed     the index holds the nodes as they were allocated; each refers to the four after it
 *   scattered  the index holds the nodes in random order; each refers to four random ones
 *   FILE.idx   little-endian uint32 node numbers are the index; each node refers to the four after it there
 * The random graph has a fixed seed: it is the same for every heap and in Go.
 *
 * ms_per_gc is the mean over the timed collections, each with its sweep. One more before them, untimed, takes
 * what building left behind.
 */
#include "heap.h"
#include "support_random.h"
#include "support_result.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NREFS = 4,
    SEED = 1,
    DEFAULT_NODES = 2000000,
    MAX_NODES = 1 << 30,
    MAX_GCS = 1000000,
    NODES_PER_FRESH = 16 /* the check allocates one node for so many in the graph */
};

static uint64_t nnodes_arg; /* 0: DEFAULT_NODES, or as many as the file names */
static uint64_t ngcs_arg = 100;
static const char *variant;
static const struct arg readorder_args[] = {
    {.name = "--nodes", .kind = ARG_NUMBER, .min = 1, .max = MAX_NODES, .number = &nnodes_arg},
    {.name = "--gcs", .kind = ARG_NUMBER, .min = 1, .max = MAX_GCS, .number = &ngcs_arg},
    {.name = "variant", .kind = ARG_TEXT, .text = &variant},
};
static const struct workload readorder = {
    "readorder", "[--nodes N] [--gcs N] packed|scattered|FILE.idx", ARGS_OF(readorder_args)};

struct node {
    struct node *refs[NREFS];
};

struct graph {
    size_t nnodes;
    struct node **nodes; /* every node once; NULL where a collector finds those not in the index */
    size_t nindex;
    struct node **index;
    bool random_refs;
    struct rng rng; /* as it was before the first reference was drawn */
};

static struct node **nodes_new(size_t nnodes)
{
    struct node **nodes = heap_alloc(nnodes * sizeof nodes[0]);
    for (size_t i = 0; i < nnodes; i++)
        heap_store(&nodes[i], heap_alloc(sizeof(struct node)));
    return nodes;
}

static void nodes_shuffle(struct node **nodes, size_t nnodes, struct rng *rng)
{
    for (size_t i = nnodes - 1; i > 0; i--) {
        size_t j = rng_below(rng, (uint32_t)i + 1);
        struct node *node = nodes[i];
        heap_store(&nodes[i], nodes[j]);
        heap_store(&nodes[j], node);
    }
}

/* The node that reference `k` of the node at position `i` leads to. Call in order of i and k. */
static struct node *graph_target(const struct graph *graph, size_t i, size_t k, struct rng *rng)
{
    size_t at =
        graph->random_refs ? rng_below(rng, (uint32_t)graph->nindex) : (i + 1 + k) % graph->nindex;
    return graph->index[at];
}

static void graph_link(struct graph *graph)
{
    struct rng rng = graph->rng;
    for (size_t i = 0; i < graph->nindex; i++)
        for (size_t k = 0; k < NREFS; k++)
            heap_store(&graph->index[i]->refs[k], graph_target(graph, i, k, &rng));
}

/* References that lead where graph_link() let them: all, unless a file names a node twice. */
static uint64_t graph_intact_refs(const struct graph *graph)
{
    uint64_t nintact = 0;
    struct rng rng = graph->rng;
    for (size_t i = 0; i < graph->nindex; i++)
        for (size_t k = 0; k < NREFS; k++)
            nintact += graph->index[i]->refs[k] == graph_target(graph, i, k, &rng);
    return nintact;
}

static struct graph graph_in_order(void)
{
    size_t nnodes = nnodes_arg != 0 ? nnodes_arg : DEFAULT_NODES;
    struct node **nodes = nodes_new(nnodes);
    return (struct graph){.nnodes = nnodes, .nodes = nodes, .nindex = nnodes, .index = nodes};
}

static struct graph graph_at_random(void)
{
    struct graph graph = graph_in_order();
    graph.random_refs = true;
    graph.rng.state = SEED;
    nodes_shuffle(graph.nodes, graph.nnodes, &graph.rng);
    return graph;
}

static uint8_t *file_read(const char *path, size_t *nbytes_out)
{
    FILE *file = fopen(path, "rb");
    long nbytes = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0)
        nbytes = ftell(file);
    if (nbytes < 0 || fseek(file, 0, SEEK_SET) != 0)
        workload_fail("cannot read %s", path);
    if (nbytes == 0 || nbytes % 4 != 0)
        workload_fail("%s is not a list of uint32 numbers", path);
    uint8_t *bytes = heap_alloc_leaf_uninit((size_t)nbytes);
    if (fread(bytes, 1, (size_t)nbytes, file) != (size_t)nbytes)
        workload_fail("cannot read %s", path);
    fclose(file);
    *nbytes_out = (size_t)nbytes;
    return bytes;
}

static uint32_t file_number(const uint8_t *bytes, size_t i)
{
    const uint8_t *b = bytes + 4 * i;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static size_t file_nnodes(const uint8_t *bytes, size_t nnumbers, const char *path)
{
    size_t nnodes = 0;
    for (size_t i = 0; i < nnumbers; i++)
        if (file_number(bytes, i) >= nnodes)
            nnodes = (size_t)file_number(bytes, i) + 1;
    size_t limit = nnodes_arg != 0 ? nnodes_arg : MAX_NODES;
    if (nnodes > limit)
        workload_fail("%s names node %zu, but there are %zu", path, nnodes - 1, limit);
    return nnodes_arg != 0 ? nnodes_arg : nnodes;
}

static struct graph graph_from_file(const char *path)
{
    size_t nbytes;
    uint8_t *bytes = file_read(path, &nbytes);
    struct graph graph = {.nindex = nbytes / 4};
    graph.nnodes = file_nnodes(bytes, graph.nindex, path);
    graph.nodes = nodes_new(graph.nnodes);
    graph.index = heap_alloc(graph.nindex * sizeof graph.index[0]);
    for (size_t i = 0; i < graph.nindex; i++)
        heap_store(&graph.index[i], graph.nodes[file_number(bytes, i)]);
    heap_release(bytes);
    if (!HEAP_NEEDS_RELEASE)
        graph.nodes = NULL;
    return graph;
}

static struct graph graph_new(void)
{
    struct graph graph = strcmp(variant, "packed") == 0      ? graph_in_order()
                         : strcmp(variant, "scattered") == 0 ? graph_at_random()
                                                             : graph_from_file(variant);
    graph_link(&graph);
    return graph;
}

static void graph_release(struct graph *graph)
{
    if (!HEAP_NEEDS_RELEASE)
        return;
    for (size_t i = 0; i < graph->nnodes; i++)
        heap_release(graph->nodes[i]);
    if (graph->nodes != graph->index)
        heap_release(graph->nodes);
    heap_release(graph->index);
}

/* If a collection had freed a node of the graph, one of these would have taken its place and cleared it. */
static void allocate_over_freed(size_t nfresh)
{
    struct node *chain = NULL;
    for (size_t i = 0; i < nfresh; i++) {
        struct node *fresh = heap_alloc(sizeof *fresh);
        heap_store(&fresh->refs[0], chain);
        chain = fresh;
    }
    while (HEAP_NEEDS_RELEASE && chain != NULL) {
        struct node *next = chain->refs[0];
        heap_release(chain);
        chain = next;
    }
}

static void check_variant(void)
{
    size_t length = strlen(variant);
    bool file = length > 4 && strcmp(variant + length - 4, ".idx") == 0;
    if (!file && strcmp(variant, "packed") != 0 && strcmp(variant, "scattered") != 0)
        args_reject(&readorder, "unknown variant", variant);
}

int main(int argc, char **argv)
{
    workload_start(&readorder, argc, argv);
    check_variant();

    uint64_t begin_ns = workload_now_ns();
    struct graph graph = graph_new();
    uint64_t build_ns = workload_now_ns() - begin_ns;
    uint64_t nintact = graph_intact_refs(&graph);
    heap_collect();

    begin_ns = workload_now_ns();
    for (uint64_t i = 0; i < ngcs_arg; i++)
        heap_collect();
    uint64_t gcs_ns = workload_now_ns() - begin_ns;

    allocate_over_freed(graph.nnodes / NODES_PER_FRESH);
    if (graph_intact_refs(&graph) != nintact)
        workload_fail("the graph has changed");
    struct workload_run run = {
        .variant = variant, .allocs = graph.nnodes, .run_ns = build_ns + gcs_ns};
    workload_report(&run, " gcs=%" PRIu64 " ms_per_gc=%.3f", ngcs_arg,
                    (double)gcs_ns / 1e6 / (double)ngcs_arg);
    graph_release(&graph);
    return 0;
}
