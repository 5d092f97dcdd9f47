/* tests/property/test_mark_graph.c -- random graphs of all kinds and sizes: exactly what the roots reach stays.
 *
 * An oracle knows each object's address and words, hidden from the collector, and works reachability out by itself:
 * a word leads to the object whose bytes it points into, a word of a root also to the object that ends there; leaf
 * objects lead nowhere, typed ones by the words that their type names. After each collection every object that is reached
 * must be there with its contents, every other gone, and the counts must agree exactly. The collector compares its marks
 * with the slow marker's as well (GODEBUG=gccheckmark=1). Then the graph is changed and collected again.
 */
#include "tests/support/heap_fixture.h"
#include "tests/support/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NNEW = TEAI_TSAN || TEAI_ASAN ? 1000 : 4000,
    NROUNDS = 4,
    MAX_NODES = NROUNDS * NNEW,
    NROOTS = 150,
    MAX_POINTERS_LARGE = 60
};

struct node {
    uintptr_t hidden;
    size_t slot_bytes;
    size_t nwords;           /* asked for */
    uintptr_t *hidden_words; /* what they hold */
    enum teai_kind kind;
    const struct tea_type *type;
    bool reached;
};

struct graph {
    struct test_random random;
    bool heap_past_end;
    struct node *nodes; /* by address, those that should be allocated */
    size_t nnodes;
    uintptr_t *roots; /* registered; the collector sees these */
    size_t *reached;  /* stack of the search */
    size_t nreached;
    size_t nkept, ndied; /* over all rounds */
};

/* --- types --- */

static const uint64_t bits_first[] = {1}, bits_alternate[] = {0x5}, bits_none[] = {0},
                      bits_all[] = {0x7f};
static const uint64_t bits_wide[] = {UINT64_C(0x8000000000000001), UINT64_C(0x10)};
static const struct tea_type types[] = {
    {8, 1, bits_first},      /* every word */
    {16, 1, bits_first},     /* the first of two; the bitmap ends before the element does */
    {24, 3, bits_alternate}, /* not aligned to the bitmap's bytes */
    {32, 0, NULL},           /* no references at all */
    {40, 5, bits_none},      {56, 7, bits_all}, {8 * 69, 69, bits_wide}, /* two words of bitmap */
};
enum { NTYPES = sizeof types / sizeof types[0] };

static bool type_names(const struct tea_type *type, size_t word)
{
    word %= type->size_bytes / sizeof(void *);
    return word < type->nwords && (type->pointer_words[word / 64] >> word % 64 & 1) != 0;
}

/* --- making nodes --- */

static size_t random_size(struct test_random *random)
{
    uint32_t which = test_random_below(random, 100);
    return which < 70   ? 16 + test_random_below(random, 200)
           : which < 90 ? 16 + test_random_below(random, 2000)
           : which < 99 ? 16 + test_random_below(random, 40000)
                        : 30000 + test_random_below(random, 400000);
}

static void *alloc_node(struct node *n, struct test_random *random)
{
    size_t bytes = random_size(random) & ~(sizeof(void *) - 1);
    n->kind = (enum teai_kind)test_random_below(random, TEAI_NKINDS);
    n->type = NULL;
    if (n->kind == TEAI_TYPED) {
        n->type = &types[test_random_below(random, NTYPES)];
        size_t count = bytes / n->type->size_bytes + 1;
        n->nwords = count * n->type->size_bytes / sizeof(void *);
        return tea_alloc_typed(n->type, count);
    }
    n->nwords = bytes / sizeof(void *);
    return n->kind == TEAI_LEAF ? tea_alloc_leaf(bytes) : tea_alloc(bytes);
}

static int by_address(const void *a, const void *b)
{
    uintptr_t x = ~((const struct node *)a)->hidden, y = ~((const struct node *)b)->hidden;
    return x < y ? -1 : x > y;
}

static void add_nodes(struct graph *g)
{
    for (size_t i = 0; i < NNEW; i++) {
        struct node *n = &g->nodes[g->nnodes++];
        void *object = alloc_node(n, &g->random);
        TEST_REQUIRE(object != NULL && test_all_bytes(object, 0, n->nwords * sizeof(void *)));
        n->hidden = test_hide(object);
        n->slot_bytes = tea_usable_bytes(object);
        n->hidden_words = malloc(n->nwords * sizeof(uintptr_t));
        memset(n->hidden_words, 0xff, n->nwords * sizeof(uintptr_t));
    }
    qsort(g->nodes, g->nnodes, sizeof *g->nodes, by_address);
}

/* --- making references --- */

static uintptr_t random_reference(struct graph *g)
{
    const struct node *n = &g->nodes[test_random_below(&g->random, (uint32_t)g->nnodes)];
    uintptr_t base = ~n->hidden;
    switch (test_random_below(&g->random, 10)) {
    case 0:
        return base + n->slot_bytes;
    case 1:
        return base + test_random_below(&g->random, (uint32_t)n->slot_bytes);
    case 2: /* anything in the heap; perhaps a free slot */
        return teai_default_heap.tables.heap_base_addr +
               test_random_next(&g->random) %
                   ((size_t)teai_page_heap_limit(teai_default_heap.pages) << TEAI_PAGE_SHIFT);
    case 3:
        return base + (test_random_below(&g->random, (uint32_t)n->slot_bytes) & ~7u);
    default:
        return base;
    }
}

static void write_word(const struct node *n, size_t word, uintptr_t value)
{
    ((uintptr_t *)test_reveal(n->hidden))[word] = value;
    n->hidden_words[word] = ~value;
}

/* About one reference a node, so that much of the graph is reached and much is not. */
static void add_references(struct graph *g, const struct node *n)
{
    size_t npointers = test_random_below(&g->random, n->nwords < 4096 ? 4 : MAX_POINTERS_LARGE);
    for (size_t i = 0; i < npointers; i++)
        write_word(n, test_random_below(&g->random, (uint32_t)n->nwords), random_reference(g));
    write_word(n, test_random_below(&g->random, (uint32_t)n->nwords),
               test_random_below(&g->random, 100000));
}

static void set_roots(struct graph *g, uint32_t one_in)
{
    for (size_t i = 0; i < NROOTS; i++)
        if (test_random_below(&g->random, one_in) == 0)
            g->roots[i] = random_reference(g);
}

/* --- the oracle --- */

static struct node *node_at(const struct graph *g, uintptr_t addr)
{
    size_t low = 0, high = g->nnodes;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (~g->nodes[middle].hidden <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    struct node *n = low > 0 ? &g->nodes[low - 1] : NULL;
    return n != NULL && addr - ~n->hidden < n->slot_bytes ? n : NULL;
}

static void reach(struct graph *g, uintptr_t word, bool past_end)
{
    struct node *found[2] = {node_at(g, word),
                             past_end && word % sizeof(void *) == 0 ? node_at(g, word - 1) : NULL};
    for (int i = 0; i < 2; i++)
        if (found[i] != NULL && !found[i]->reached) {
            found[i]->reached = true;
            g->reached[g->nreached++] = (size_t)(found[i] - g->nodes);
        }
}

static void reach_from(struct graph *g, const struct node *n)
{
    for (size_t i = 0; i < n->nwords && n->kind != TEAI_LEAF; i++)
        if (n->kind == TEAI_CONSERVATIVE || type_names(n->type, i))
            reach(g, ~n->hidden_words[i], g->heap_past_end && n->kind == TEAI_CONSERVATIVE);
}

static size_t reach_all(struct graph *g)
{
    for (size_t i = 0; i < g->nnodes; i++)
        g->nodes[i].reached = false;
    g->nreached = 0;
    for (size_t i = 0; i < NROOTS; i++)
        reach(g, g->roots[i], true);
    size_t next = 0;
    while (next < g->nreached)
        reach_from(g, &g->nodes[g->reached[next++]]);
    return g->nreached;
}

/* --- checking --- */

static bool node_is_intact(const struct node *n)
{
    const uintptr_t *words = test_reveal(n->hidden);
    for (size_t i = 0; i < n->nwords; i++)
        if (words[i] != ~n->hidden_words[i])
            return false;
    return true;
}

static void check_node(const struct node *n)
{
    bool alive = tea_base(test_reveal(n->hidden)) == test_reveal(n->hidden);
    if (alive == n->reached && (!alive || node_is_intact(n)))
        return;
    fprintf(stderr, "object of kind %d, %zu words, slot of %zu bytes, %s: %s\n", n->kind, n->nwords,
            n->slot_bytes, n->reached ? "reached" : "not reached",
            alive ? (n->reached ? "changed" : "alive") : "gone");
    abort();
}

/* Forget the dead. */
static void check_nodes(void *argument)
{
    struct graph *g = argument;
    size_t nkept = 0;
    for (size_t i = 0; i < g->nnodes; i++) {
        check_node(&g->nodes[i]);
        if (g->nodes[i].reached)
            g->nodes[nkept++] = g->nodes[i];
        else
            free(g->nodes[i].hidden_words);
    }
    g->nkept += nkept;
    g->ndied += g->nnodes - nkept;
    g->nnodes = nkept;
}

static void change_graph(void *argument)
{
    struct graph *g = argument;
    for (size_t i = 0; i < g->nnodes; i++)
        if (test_random_below(&g->random, 8) == 0)
            add_references(g, &g->nodes[i]);
    size_t nold = g->nnodes;
    add_nodes(g);
    for (size_t i = 0; i < g->nnodes; i++)
        if (test_random_below(&g->random, (uint32_t)(g->nnodes / (g->nnodes - nold))) == 0)
            add_references(g, &g->nodes[i]);
    set_roots(g, nold == 0 ? 1 : 4);
}

static void exactly_what_is_reachable_survives(void **state)
{
    (void)state;
    static struct graph graph;
    static struct test_log log;
    struct graph *g = &graph;
    test_log_capture(&log);
    g->random = test_random_start("test_mark_graph");
    g->heap_past_end = teai_default_heap.settings.heap_past_end;
    g->nodes = malloc(MAX_NODES * sizeof *g->nodes);
    g->reached = malloc(MAX_NODES * sizeof *g->reached);
    g->roots = calloc(NROOTS, sizeof *g->roots);
    assert_int_equal(tea_root_add(g->roots, g->roots + NROOTS), TEA_OK);
    tea_disable(); /* no collection while objects are known to the test alone */
    for (int round = 0; round < NROUNDS; round++) {
        test_apart(change_graph, g);
        size_t nreached = reach_all(g);
        assert_int_equal(test_objects_after_collect(), nreached);
        assert_int_equal(test_census_objects(), nreached);
        test_apart(check_nodes, g);
    }
    assert_int_equal(log.nlines, 0);
    printf("%zu kept, %zu died\n", g->nkept, g->ndied);
    assert_true(g->nkept > NNEW / 10 && g->ndied > NNEW / 10);
}

#define MARK_TEST(settings)                                                                        \
    heap_test_with(exactly_what_is_reachable_survives, "GODEBUG=gccheckmark=1", "TEASPAN=" settings)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MARK_TEST("markers=1,marker=span,kernel=portable"),
        MARK_TEST("markers=1,marker=span,kernel=avx512"),
        MARK_TEST("markers=1,marker=span,kernel=avx2"),
        MARK_TEST("markers=1,marker=object,kernel=portable"),
        MARK_TEST("markers=1,marker=object,kernel=avx512"),
        MARK_TEST("markers=1,marker=object,kernel=avx2"),
        MARK_TEST("markers=2,marker=span,kernel=portable"),
        MARK_TEST("markers=2,marker=span,kernel=avx512"),
        MARK_TEST("markers=2,marker=span,kernel=avx2"),
        MARK_TEST("markers=2,marker=object,kernel=portable"),
        MARK_TEST("markers=2,marker=object,kernel=avx512"),
        MARK_TEST("markers=2,marker=object,kernel=avx2"),
        MARK_TEST("markers=4,marker=span,kernel=portable"),
        MARK_TEST("markers=4,marker=span,kernel=avx512"),
        MARK_TEST("markers=4,marker=span,kernel=avx2"),
        MARK_TEST("markers=4,marker=object,kernel=portable"),
        MARK_TEST("markers=4,marker=object,kernel=avx512"),
        MARK_TEST("markers=4,marker=object,kernel=avx2"),
        MARK_TEST("markers=1,pastend=1"),
        MARK_TEST("markers=2,pastend=1"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
