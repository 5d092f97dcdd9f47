/* tests/bugs/test_b51_huge_allocation.c -- B51: words that look like addresses of new memory do not make allocation loop.
 *
 * A collector that avoids memory which some root word seems to point at may map ever more when such words are many.
 * (Reports: bdwgc/bdwgc #691, #726.) Here the stack and a static array are full of integers that lie where the heap is
 * about to grow; objects of 4 MiB are allocated in numbers, with collections held off and without.
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

enum { OBJECT_BYTES = 4 << 20 };
#define OBJECT_BYTES_U64 ((uint64_t)OBJECT_BYTES)
/* Both arrays together cover this much of the heap's next growth. */
enum { NLOOKALIKES = 512, LOOKALIKE_STEP_BYTES = 64 << 10 };
/* ThreadSanitizer follows each word that is cleared or scanned. */
#define WORST_CALL_NS (UINT64_C(50) * 1000 * 1000 * (TEAI_TSAN ? 20 : 1))

static volatile uintptr_t static_lookalikes[NLOOKALIKES];

static uintptr_t growth_point(void)
{
    const struct tea_heap *h = &teai_default_heap;
    return h->tables.heap_base_addr +
           ((uintptr_t)teai_page_heap_limit(h->pages) << TEAI_PAGE_SHIFT);
}

static void fill_with_lookalikes(volatile uintptr_t *words, uintptr_t first_addr)
{
    for (size_t i = 0; i < NLOOKALIKES; i++)
        words[i] = first_addr + i * LOOKALIKE_STEP_BYTES;
}

/* CPU time of this thread: waiting for a CPU is not the allocator's fault. Returns the worst call's. */
static uint64_t allocate_and_drop(unsigned nobjects)
{
    uint64_t worst_ns = 0;
    for (unsigned i = 0; i < nobjects; i++) {
        uint64_t begin_ns = teai_platform_thread_cpu_ns();
        volatile char *object = tea_alloc(OBJECT_BYTES);
        uint64_t ns = teai_platform_thread_cpu_ns() - begin_ns;
        TEST_REQUIRE(object != NULL);
        object[i % OBJECT_BYTES] =
            1; /* a page of it, so that it is not all fresh when it comes again */
        worst_ns = ns > worst_ns ? ns : worst_ns;
    }
    return worst_ns;
}

static void assert_calls_return_soon(unsigned nobjects)
{
    volatile uintptr_t stack_lookalikes[NLOOKALIKES];
    uintptr_t first_addr = growth_point();
    fill_with_lookalikes(stack_lookalikes, first_addr);
    fill_with_lookalikes(static_lookalikes,
                         first_addr + (uintptr_t)NLOOKALIKES * LOOKALIKE_STEP_BYTES);
    uint64_t worst_ns = allocate_and_drop(nobjects);
    print_message("worst call %zu us\n", (size_t)(worst_ns / 1000));
    assert_in_range(worst_ns, 0, WORST_CALL_NS);
    assert_int_equal(stack_lookalikes[0], first_addr);
}

static void huge_objects_come_at_once_while_collections_are_held_off(void **state)
{
    (void)state;
    enum { NOBJECTS = 10000 };
    tea_disable();
    uint64_t before = test_stats().heap_inuse_bytes;
    if ((uint64_t)teai_default_heap.max_pages << TEAI_PAGE_SHIFT <
        OBJECT_BYTES_U64 * (NOBJECTS + 100))
        heap_test_skip("the kernel gives less address space than all objects need together");
    assert_calls_return_soon(NOBJECTS);
    /* In use, not mapped: address space behind what is in use is made ready in larger steps and costs nothing. */
    uint64_t used = test_stats().heap_inuse_bytes - before;
    assert_in_range(used, OBJECT_BYTES_U64 * NOBJECTS, OBJECT_BYTES_U64 * NOBJECTS * 2);
    assert_int_equal(test_stats().num_gc, 0);
}

static void huge_objects_come_at_once_while_collections_run(void **state)
{
    (void)state;
    /* Each is cleared again and, while a word keeps it, scanned again. */
    enum { NOBJECTS = TEAI_TSAN ? 200 : 2000 };
    tea_collect();
    assert_calls_return_soon(NOBJECTS);
    struct tea_stats stats = test_stats();
    /* Words can keep no more objects than lie where they point, in a heap that holds little else. */
    uint64_t pinned_bytes = (uint64_t)2 * NLOOKALIKES * LOOKALIKE_STEP_BYTES + 2 * OBJECT_BYTES_U64;
    assert_in_range(stats.heap_marked_bytes, 0, pinned_bytes + ((uint64_t)1 << 20));
    assert_in_range(stats.heap_inuse_bytes, 0, 2 * pinned_bytes + 8 * OBJECT_BYTES_U64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(huge_objects_come_at_once_while_collections_are_held_off),
        heap_test(huge_objects_come_at_once_while_collections_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
