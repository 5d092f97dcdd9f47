/* tests/bugs/test_b33_fibers.c -- B33: coroutines keep their references while parked, on whatever thread they were and will be.
 * (Reports: bdwgc/bdwgc #150, #274, #362; vlang/v PR 20771.)
 */
#define _GNU_SOURCE
#include "tests/support/objects.h"

#if defined(__GLIBC__)

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if TEAI_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#endif

enum {
    NFIBERS = TEAI_ASAN ? 100 : 1000,
    NTHREADS = 4,
    NROUNDS = 30, /* a fiber is parked this many times */
    STACK_BYTES = 64 << 10,
    OBJECT_BYTES = 48
};

/* A stack that can be switched to: a coroutine's, or a scheduling thread's own. From malloc(), where the collector does not
 * look: registers saved in the context are found by other means. */
struct routine {
    ucontext_t context;
    struct tea_fiber *fiber; /* NULL: the thread's own stack */
    void *tsan_fiber;
    struct routine *scheduler; /* that runs it now */
    struct routine *next;
    bool has_ended;
    char *stack;
    uintptr_t hidden;
};

static void switch_to(struct routine *from, struct routine *to)
{
    TEST_REQUIRE(tea_fiber_switch_begin(to->fiber) == TEA_OK);
#if TEAI_TSAN
    __tsan_switch_to_fiber(to->tsan_fiber, 0);
#endif
    TEST_REQUIRE(swapcontext(&from->context, &to->context) == 0);
    TEST_REQUIRE(tea_fiber_switch_end() == TEA_OK);
}

/* makecontext() passes ints. */
static void entry(unsigned high, unsigned low);

static struct routine *routine_new(void (*run)(struct routine *))
{
    struct routine *r = calloc(1, sizeof *r);
    TEST_REQUIRE(r != NULL);
    r->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TEST_REQUIRE(r->stack != MAP_FAILED);
    TEST_REQUIRE(tea_fiber_create(r->stack, r->stack + STACK_BYTES, (void *)(uintptr_t)run, &r->fiber) == TEA_OK);
    TEST_REQUIRE(getcontext(&r->context) == 0);
    r->context.uc_stack.ss_sp = r->stack;
    r->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&r->context, (void (*)(void))entry, 2, (unsigned)((uintptr_t)r >> 32), (unsigned)(uintptr_t)r);
#if TEAI_TSAN
    r->tsan_fiber = __tsan_create_fiber(0);
#endif
    return r;
}

static void routine_delete(struct routine *r)
{
    TEST_REQUIRE(tea_fiber_end(r->fiber) == TEA_OK);
    munmap(r->stack, STACK_BYTES);
    free(r);
}

static void scheduler_init(struct routine *scheduler)
{
    memset(scheduler, 0, sizeof *scheduler);
#if TEAI_TSAN
    scheduler->tsan_fiber = __tsan_get_current_fiber();
#endif
}

static void entry(unsigned high, unsigned low)
{
    TEST_REQUIRE(tea_fiber_switch_end() == TEA_OK);
    struct routine *r = (struct routine *)((uintptr_t)high << 32 | low);
    TEST_REQUIRE(tea_fiber_current() == r->fiber);
    void (*run)(struct routine *) = (void (*)(struct routine *))(uintptr_t)tea_fiber_argument(r->fiber);
    run(r);
    r->has_ended = true;
    switch_to(r, r->scheduler);
    abort(); /* nobody switches to it again */
}

/* --- a thousand of them on four threads --- */

static struct queue {
    pthread_mutex_t lock;
    struct routine *head, *tail;
    unsigned nleft;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void queue_push(struct routine *r)
{
    pthread_mutex_lock(&queue.lock);
    r->next = NULL;
    if (queue.tail != NULL)
        queue.tail->next = r;
    else
        queue.head = r;
    queue.tail = r;
    pthread_mutex_unlock(&queue.lock);
}

/* NULL: none just now, or none left at all. */
static struct routine *queue_pop(bool *any_left_out)
{
    pthread_mutex_lock(&queue.lock);
    struct routine *r = queue.head;
    if (r != NULL)
        queue.head = r->next;
    if (queue.head == NULL)
        queue.tail = NULL;
    *any_left_out = queue.nleft != 0;
    pthread_mutex_unlock(&queue.lock);
    return r;
}

static void queue_one_ended(void)
{
    pthread_mutex_lock(&queue.lock);
    queue.nleft--;
    pthread_mutex_unlock(&queue.lock);
}

/* The only reference to the object is in this frame, or in a register that the switch saves. */
static void keep_one_object(struct routine *r)
{
    uintptr_t *object = tea_alloc(OBJECT_BYTES);
    TEST_REQUIRE(object != NULL);
    test_object_fill(object, OBJECT_BYTES);
    r->hidden = test_hide(object);
    for (unsigned round = 0; round < NROUNDS; round++) {
        test_churn(OBJECT_BYTES, 20);
        __asm__ volatile("" : "+r"(object)); /* the reference itself, not its hidden form, is what is kept */
        switch_to(r, r->scheduler);
        __asm__ volatile("" : "+r"(object));
        TEST_REQUIRE(r->hidden == test_hide(object));
        TEST_REQUIRE(test_object_is_intact(r->hidden, OBJECT_BYTES));
    }
}

static void *schedule(void *seed)
{
    struct routine self;
    scheduler_init(&self);
    unsigned nswitches = (unsigned)(uintptr_t)seed;
    bool any_left = true;
    while (any_left) {
        struct routine *r = queue_pop(&any_left);
        if (r == NULL) {
            sched_yield();
            continue;
        }
        r->scheduler = &self;
        switch_to(&self, r);
        if (r->has_ended) {
            routine_delete(r);
            queue_one_ended();
        } else {
            queue_push(r);
        }
        if (++nswitches % (NFIBERS / 4) == 0)
            tea_collect();
    }
    return NULL;
}

static void parked_fibers_keep_what_they_refer_to(void **state)
{
    (void)state;
    if (TEAI_TSAN)
        heap_test_skip("ThreadSanitizer gives a signal to the fiber that runs, and it is lost when that is parked");
    queue.nleft = NFIBERS;
    for (unsigned i = 0; i < NFIBERS; i++)
        queue_push(routine_new(keep_one_object));
    pthread_t threads[NTHREADS];
    for (uintptr_t i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, schedule, (void *)(i * 100)), 0);
    for (unsigned i = 0; i < NTHREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(tea_gc_count() > 10);
    test_census();
}

/* --- one of them --- */

static TEAI_NOINLINE void hold_on_the_stack_alone(struct routine *r)
{
    void *volatile object = test_reveal(test_object_new(OBJECT_BYTES));
    r->hidden = test_hide(object);
    test_scrub();
    switch_to(r, r->scheduler);
    (void)object;
}

static void collect_here(struct routine *r)
{
    void *volatile object = test_reveal(test_object_new(OBJECT_BYTES));
    r->hidden = test_hide(object);
    test_collect();
    TEST_REQUIRE(test_object_is_intact(r->hidden, OBJECT_BYTES));
}

/* Runs the routine until it parks or ends. */
static TEAI_NOINLINE void run_once(struct routine *r)
{
    struct routine self;
    scheduler_init(&self);
    r->scheduler = &self;
    switch_to(&self, r);
}

static void what_an_ended_fiber_referred_to_is_dead(void **state)
{
    (void)state;
    struct routine *r = routine_new(hold_on_the_stack_alone);
    run_once(r);
    uintptr_t hidden = r->hidden;
    test_collect();
    assert_true(test_object_is_intact(hidden, OBJECT_BYTES));
    routine_delete(r);
    test_collect();
    assert_false(test_is_alive(hidden));
}

static void a_collection_on_a_fiber_scans_the_threads_own_stack(void **state)
{
    (void)state;
    void *volatile object = test_reveal(test_object_new(OBJECT_BYTES));
    uintptr_t hidden = test_hide(object);
    struct routine *r = routine_new(collect_here);
    run_once(r);
    assert_true(r->has_ended);
    assert_true(test_object_is_intact(hidden, OBJECT_BYTES));
    assert_ptr_equal(object, test_reveal(hidden));
    routine_delete(r);
}

#if defined(__x86_64__)

/* The reference is in r15 alone, which swapcontext() saves in the context, in memory from malloc(). What
 * tea_fiber_switch_begin() has pushed is overwritten. */
static TEAI_NOINLINE void hold_in_a_register_alone(struct routine *r)
{
    r->hidden = test_object_new(OBJECT_BYTES);
    test_scrub();
    register uintptr_t kept __asm__("r15");
    __asm__ volatile("movq %1, %0\n\tnotq %0" : "=r"(kept) : "m"(r->hidden));
    TEST_REQUIRE(tea_fiber_switch_begin(r->scheduler->fiber) == TEA_OK);
    __asm__ volatile("" : "+r"(kept));
    test_scrub();
    TEST_REQUIRE(swapcontext(&r->context, &r->scheduler->context) == 0);
    TEST_REQUIRE(tea_fiber_switch_end() == TEA_OK);
    __asm__ volatile("" : "+r"(kept));
    TEST_REQUIRE(kept == ~r->hidden);
}

static void a_register_saved_outside_the_stack_is_a_root(void **state)
{
    (void)state;
    if (TEAI_ASAN || TEAI_TSAN)
        heap_test_skip("a sanitizer needs to be told of the switch, or keeps registers on the stack");
    struct routine *r = routine_new(hold_in_a_register_alone);
    run_once(r);
    test_collect();
    assert_true(test_object_is_intact(r->hidden, OBJECT_BYTES));
    run_once(r);
    assert_true(r->has_ended);
    routine_delete(r);
}

#endif

static void the_argument_of_a_fiber_is_alive_until_it_ends(void **state)
{
    (void)state;
    uintptr_t hidden = test_object_new(OBJECT_BYTES);
    static char stack[4096];
    struct tea_fiber *fiber;
    assert_int_equal(tea_fiber_create(stack, stack + sizeof stack, test_reveal(hidden), &fiber), TEA_OK);
    test_collect();
    assert_true(test_object_is_intact(hidden, OBJECT_BYTES));
    assert_int_equal(test_stats().fibers, 1);
    assert_int_equal(test_stats().fibers_scanned_whole, 1); /* it has not run */
    assert_int_equal(tea_fiber_end(fiber), TEA_OK);
    test_collect();
    assert_false(test_is_alive(hidden));
    assert_int_equal(test_stats().fibers, 0);
    assert_int_equal(test_stats().fibers_scanned_whole, 0);
}

/* --- wrong use --- */

static struct test_log messages;

static void end_the_running_fiber(struct routine *r)
{
    TEST_REQUIRE(tea_fiber_end(r->fiber) == TEA_ERR_STATE);
    TEST_REQUIRE(tea_fiber_switch_begin(r->fiber) == TEA_ERR_STATE);
}

static void ending_a_running_fiber_is_refused(void **state)
{
    (void)state;
    test_log_capture(&messages);
    struct routine *r = routine_new(end_the_running_fiber);
    run_once(r);
    test_log_expect(&messages, 2, "is running; ignored");
    routine_delete(r);
}

static void wrong_calls_are_named_and_change_nothing(void **state)
{
    (void)state;
    test_log_capture(&messages);
    char *stack = malloc(STACK_BYTES);
    assert_non_null(stack);
    struct tea_fiber *fiber = NULL;
    assert_int_equal(tea_fiber_create(stack, stack, NULL, &fiber), TEA_ERR_INVALID);
    test_log_expect(&messages, 1, "is not a stack");
    assert_int_equal(tea_fiber_switch_end(), TEA_ERR_STATE);
    test_log_expect(&messages, 2, "no switch has begun");
    assert_int_equal(tea_fiber_switch_begin(NULL), TEA_ERR_STATE);
    test_log_expect(&messages, 3, "is running");

    assert_int_equal(tea_fiber_create(stack, stack + STACK_BYTES, NULL, &fiber), TEA_OK);
    assert_int_equal(tea_fiber_switch_begin(fiber), TEA_OK);
    assert_int_equal(tea_fiber_switch_begin(fiber), TEA_ERR_STATE);
    test_log_expect(&messages, 4, "has begun on this thread and not ended");
    assert_int_equal(tea_fiber_switch_begin(fiber), TEA_OK);
    assert_int_equal(tea_fiber_switch_end(), TEA_ERR_STATE);
    test_log_expect(&messages, 5, "still on the old stack");
    assert_null(tea_fiber_current());
    assert_int_equal(tea_fiber_end(fiber), TEA_OK);
    assert_int_equal(tea_fiber_end(fiber), TEA_ERR_NOT_FOUND);
    test_log_expect(&messages, 6, "has ended");
    free(stack);
    test_collect();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        heap_test(parked_fibers_keep_what_they_refer_to),
        heap_test_with(parked_fibers_keep_what_they_refer_to, "GODEBUG=gccheckmark=1", "TEASPAN=markers=2"),
        heap_test(what_an_ended_fiber_referred_to_is_dead),
        heap_test(a_collection_on_a_fiber_scans_the_threads_own_stack),
#if defined(__x86_64__)
        heap_test(a_register_saved_outside_the_stack_is_a_root),
#endif
        heap_test(the_argument_of_a_fiber_is_alive_until_it_ends),
        heap_test(ending_a_running_fiber_is_refused),
        heap_test(wrong_calls_are_named_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("skipped: this C library has no swapcontext()");
    return 77;
}

#endif
