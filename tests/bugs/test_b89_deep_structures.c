/* tests/bugs/test_b89_deep_structures.c -- B89: deep and wide structures are marked without recursion, in little memory.
 *
 * Elsewhere marking a long list overflows the stack or a mark stack, aborts on an overflow it did not expect, or overflows
 * thousands of times in one cycle. (Reports: crystal-lang/crystal #773, bdwgc/bdwgc #410, #572.)
 *
 * Each structure is built and collected by a thread with a stack of 64 KiB. Memory of the work lists must stay below 2 %
 * of what was marked. Then the same with work lists that cannot grow: slower, and as complete.
 */
#include "tests/support/objects.h"
#include "tests/support/random.h"

#include <limits.h>
#include <pthread.h>

enum { IS_SLOW_BUILD = TEAI_ASAN || TEAI_TSAN || TEAI_DEBUG };
/* Sanitizers make frames many times larger, and take room of their own. */
enum { SMALL_STACK_BYTES = (TEAI_ASAN || TEAI_TSAN) ? 512 << 10 : 64 << 10 };
/* Each overflow costs a walk over the heap's tables; few of them find everything, since each walk scans what it finds. */
enum { WORKLIST_PERCENT = 2, MOST_OVERFLOWS = 100 };

enum {
    LIST_NODES = IS_SLOW_BUILD ? 1000000 : 20000000,
    ARRAY_POINTERS = IS_SLOW_BUILD ? 2500000 : 50000000,
    COMB_LISTS = 1000,
    COMB_NODES = IS_SLOW_BUILD ? 1000 : 20000, /* of each list */
    GRAPH_NODES = IS_SLOW_BUILD ? 250000 : 5000000,
    GRAPH_EDGES = 4,
    MEDIUM_NODES = IS_SLOW_BUILD ? 50000 : 1000000
};

static void *alloc_or_end(size_t size_bytes)
{
    void *object = tea_alloc(size_bytes);
    TEST_REQUIRE(object != NULL);
    return object;
}

/* --- the structures: built under a static root, checked against what they were built as --- */

struct node {
    struct node *next;
    uint64_t number;
};

static struct node *list;

/* Newest first, so that marking walks from the highest address to the lowest. */
static struct node *list_new(uint64_t nnodes)
{
    struct node *head = NULL;
    for (uint64_t i = 0; i < nnodes; i++) {
        struct node *node = alloc_or_end(sizeof *node);
        *node = (struct node){head, i};
        head = node;
    }
    return head;
}

static void list_check(const struct node *node, uint64_t nnodes)
{
    for (uint64_t i = nnodes; i-- > 0; node = node->next)
        TEST_REQUIRE(node->number == i);
    TEST_REQUIRE(node == NULL);
}

static void build_list(void)
{
    list = list_new(LIST_NODES);
}

static void check_list(void)
{
    list_check(list, LIST_NODES);
}

/* Distinct objects behind every 16th pointer, so that all of it fits the memory of a small machine. */
enum { ARRAY_SHARING = 16 };
static uint64_t **array;

static void build_array(void)
{
    array = alloc_or_end(ARRAY_POINTERS * sizeof *array);
    for (size_t i = 0; i < ARRAY_POINTERS; i++) {
        array[i] = i % ARRAY_SHARING == 0 ? alloc_or_end(16) : array[i - 1];
        *array[i] = i / ARRAY_SHARING;
    }
}

static void check_array(void)
{
    for (size_t i = 0; i < ARRAY_POINTERS; i++)
        TEST_REQUIRE(*array[i] == i / ARRAY_SHARING);
}

static struct node **comb;

/* The teeth grow in turns: a tooth's neighbours in memory belong to other teeth. */
static void build_comb(void)
{
    comb = alloc_or_end(COMB_LISTS * sizeof *comb);
    for (uint64_t i = 0; i < COMB_NODES; i++)
        for (size_t tooth = 0; tooth < COMB_LISTS; tooth++) {
            struct node *node = alloc_or_end(sizeof *node);
            *node = (struct node){comb[tooth], i};
            comb[tooth] = node;
        }
}

static void check_comb(void)
{
    for (size_t tooth = 0; tooth < COMB_LISTS; tooth++)
        list_check(comb[tooth], COMB_NODES);
}

struct vertex {
    struct vertex *edges[GRAPH_EDGES];
    uint64_t number, check;
};

static struct vertex **graph;
static uint64_t graph_seed;

static void build_graph(void)
{
    struct test_random random = {graph_seed};
    graph = alloc_or_end(GRAPH_NODES * sizeof *graph);
    for (size_t i = 0; i < GRAPH_NODES; i++) {
        graph[i] = alloc_or_end(sizeof *graph[i]);
        graph[i]->number = i;
        graph[i]->check = ~(uint64_t)i;
    }
    for (size_t i = 0; i < GRAPH_NODES; i++)
        for (size_t edge = 0; edge < GRAPH_EDGES; edge++)
            graph[i]->edges[edge] = graph[test_random_below(&random, GRAPH_NODES)];
    /* Only one vertex is a root: the rest, nearly all, is found through edges. */
    graph = (struct vertex **)(void *)graph[0];
}

static void check_graph(void)
{
    struct test_random random = {graph_seed};
    const struct vertex *first = (const struct vertex *)(void *)graph;
    uint32_t expected[GRAPH_EDGES];
    for (size_t edge = 0; edge < GRAPH_EDGES; edge++)
        expected[edge] = test_random_below(&random, GRAPH_NODES);
    for (size_t edge = 0; edge < GRAPH_EDGES; edge++)
        TEST_REQUIRE(first->edges[edge]->number == expected[edge]);
    /* A walk that meets a few percent of the vertices. */
    const struct vertex *at = first;
    for (size_t i = 0; i < GRAPH_NODES / 10; i++) {
        TEST_REQUIRE(at->check == ~at->number && at->number < GRAPH_NODES);
        at = at->edges[test_random_below(&random, GRAPH_EDGES)];
    }
}

/* Objects just too large to be found span by span, reached all at once: the most work list a byte of heap can need. */
struct medium {
    struct medium *next;
    uint64_t number;
    char padding[TEAI_SPAN_SCAN_MAX_BYTES];
};
static struct medium **medium;

static void build_medium(void)
{
    medium = alloc_or_end(MEDIUM_NODES * sizeof *medium);
    for (size_t i = 0; i < MEDIUM_NODES; i++) {
        medium[i] = alloc_or_end(sizeof *medium[i]);
        medium[i]->number = i;
        medium[i]->next = i != 0 ? medium[i - 1] : NULL;
    }
}

static void check_medium(void)
{
    for (size_t i = 0; i < MEDIUM_NODES; i++)
        TEST_REQUIRE(medium[i]->number == i && (i == 0 || medium[i]->next == medium[i - 1]));
}

/* --- the runs --- */

struct structure {
    void (*build)(void);
    void (*check)(void);
    uint64_t live_bytes; /* at the least */
    bool is_wide;        /* many objects are grey at once, so that small work lists overflow */
};

struct run {
    const struct structure *structure;
    bool denied;
};

/* Work lists keep what they have from small collections before, and get no more. */
static void deny_worklists(void)
{
    test_collect();
    atomic_store(&teai_default_heap.metadata.deny_after, 0);
    teai_default_heap.mark.pool.limit_bytes = 0;
}

static void grant_worklists(void)
{
    atomic_store(&teai_default_heap.metadata.deny_after, UINT32_MAX);
    teai_default_heap.mark.pool.limit_bytes = UINT64_MAX;
}

static void *run_on_small_stack(void *argument)
{
    const struct run *run = argument;
    tea_disable();
    if (run->denied)
        deny_worklists();
    run->structure->build();
    for (int i = 0; i < 2; i++) {
        test_collect();
        run->structure->check();
    }
    grant_worklists(); /* main() has yet to become a mutator */
    return NULL;
}

static void run_structure(const struct structure *structure, bool denied)
{
    if (teai_platform_ram_bytes() < structure->live_bytes * 2)
        heap_test_skip("not enough RAM");
    graph_seed = test_random_start("deep structures").state;
    struct run run = {structure, denied};
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_on_small_stack, &run), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    struct tea_stats stats = test_stats();
    print_message("marked %zu MiB, worklists at most %zu KiB, %zu overflows, mark %zu ms\n",
                  (size_t)stats.heap_marked_bytes >> 20, (size_t)stats.worklist_peak_bytes >> 10,
                  (size_t)stats.mark_overflows,
                  (size_t)(teai_default_heap.cycle.marked_ns - teai_default_heap.cycle.stopped_ns) /
                      1000000);
    assert_in_range(stats.heap_marked_bytes, structure->live_bytes, SIZE_MAX);
    assert_in_range(stats.worklist_peak_bytes, 1, stats.heap_marked_bytes * WORKLIST_PERCENT / 100);
    if (!denied)
        assert_int_equal(stats.mark_overflows, 0);
    else
        assert_in_range(stats.mark_overflows, structure->is_wide, MOST_OVERFLOWS);
    teai_verify_heap(&teai_default_heap, NULL);
}

#define NODE_BYTES sizeof(struct node)
static const struct structure list_structure = {build_list, check_list,
                                                (uint64_t)LIST_NODES *NODE_BYTES, false};
static const struct structure array_structure = {
    build_array, check_array, (uint64_t)ARRAY_POINTERS *(sizeof(void *) + 16 / ARRAY_SHARING),
    true};
static const struct structure comb_structure = {
    build_comb, check_comb, (uint64_t)COMB_LISTS *COMB_NODES *NODE_BYTES, false};
/* Random edges do not reach everything: of 4 to a vertex, all but 2 % (e^-4). */
static const struct structure graph_structure = {
    build_graph, check_graph, (uint64_t)GRAPH_NODES * sizeof(struct vertex) / 100 * 95, true};
static const struct structure medium_structure = {
    build_medium, check_medium, (uint64_t)MEDIUM_NODES * sizeof(struct medium), true};

#define DEEP_TESTS(name)                                                                           \
    static void name##_is_marked_in_little_memory(void **state)                                    \
    {                                                                                              \
        (void)state;                                                                               \
        run_structure(&name##_structure, false);                                                   \
    }                                                                                              \
    static void name##_is_marked_without_any(void **state)                                         \
    {                                                                                              \
        (void)state;                                                                               \
        run_structure(&name##_structure, true);                                                    \
    }

DEEP_TESTS(list)
DEEP_TESTS(array)
DEEP_TESTS(comb)
DEEP_TESTS(graph)
DEEP_TESTS(medium)

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(list_is_marked_in_little_memory),
        heap_test(list_is_marked_without_any),
        heap_test(array_is_marked_in_little_memory),
        heap_test(array_is_marked_without_any),
        heap_test(comb_is_marked_in_little_memory),
        heap_test(comb_is_marked_without_any),
        heap_test(graph_is_marked_in_little_memory),
        heap_test(graph_is_marked_without_any),
        heap_test(medium_is_marked_in_little_memory),
        heap_test(medium_is_marked_without_any),
        heap_test_with(graph_is_marked_without_any, "TEASPAN=marker=object"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
