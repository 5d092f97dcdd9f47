/* tests/bugs/test_bad_input.c -- bad settings and bad requests end in one clear message or a plain refusal.
 *
 * Each case runs in a child process with the real environment and the real stderr. The promise: a malformed GOMEMLIMIT
 * ends a program with status 2, as in Go, unless it starts the collector itself; any other bad setting costs one line and
 * the default is used; when there is no memory, a full collection comes first, then the program's callback, then NULL.
 */
#include "tests/support/objects.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TIMEOUT_S = 60, EXIT_MALFORMED = 2 };

static struct test_child child;

static void run_with(int (*fn)(void *argument), void *argument, const char *setting)
{
    test_child_run(&child, fn, argument, (const char *const[]){setting, NULL}, TIMEOUT_S);
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        n++;
    return n;
}

static void assert_says(const char *part)
{
    if (strstr(child.errors, part) == NULL)
        fail_msg("not said: %s\nbut: %s", part, child.errors);
}

/* What any program does. */
static int allocate_and_collect(void *argument)
{
    (void)argument;
    uintptr_t hidden = test_object_new(64);
    void *volatile kept = test_reveal(hidden);
    test_churn(64, 10000);
    test_collect();
    TEST_REQUIRE(test_object_is_intact(hidden, 64) && kept != NULL);
    puts("done");
    return 0;
}

/* --- GOMEMLIMIT --- */

static const char *const bad_limits[] = {"lots",   "-1",  "10MB",  "1.5GiB",
                                         "64 MiB", "MiB", "0x100", "99999999999GiB"};

static void a_malformed_gomemlimit_ends_the_program_with_status_2(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_limits / sizeof bad_limits[0]; i++) {
        char setting[64];
        snprintf(setting, sizeof setting, "GOMEMLIMIT=%s", bad_limits[i]);
        run_with(allocate_and_collect, NULL, setting);
        assert_int_equal(child.exit_status, EXIT_MALFORMED);
        assert_string_equal(child.output, "");
        assert_says(setting);
        assert_says("KiB, MiB, GiB or TiB, or off");
        assert_int_equal(count_lines(child.errors), 1);
    }
}

static struct test_log messages;

static int init_with_bad_limit(void *limit)
{
    struct tea_options options = TEA_OPTIONS_INIT;
    options.log = test_log_sink;
    options.log_context = &messages;
    TEST_REQUIRE(tea_init(&options) == TEA_ERR_INVALID);
    TEST_REQUIRE(messages.nlines == 1 && strstr(messages.lines[0], limit) != NULL);
    /* A limit in the options stands in for the malformed one. */
    options.memory_limit_bytes = INT64_MAX;
    TEST_REQUIRE(tea_init(&options) == TEA_OK);
    TEST_REQUIRE(messages.nlines == 1);
    return allocate_and_collect(NULL);
}

static void a_malformed_gomemlimit_is_an_error_of_tea_init(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_limits / sizeof bad_limits[0]; i++) {
        char setting[64], limit[64];
        snprintf(setting, sizeof setting, "GOMEMLIMIT=%s", bad_limits[i]);
        snprintf(limit, sizeof limit, "%s", bad_limits[i]);
        run_with(init_with_bad_limit, limit, setting);
        if (child.exit_status != 0)
            fail_msg("%s: %s", setting, child.errors);
        assert_string_equal(child.errors, "");
    }
}

/* --- what only costs a line --- */

static void other_malformed_settings_cost_one_line_each(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "GOGC=fast",           "GOGC=1e2",
        "GOGC=99999999999",    "TEASPAN=gogc=fast",
        "TEASPAN=markers=0",   "TEASPAN=markers=65",
        "TEASPAN=markers=two", "TEASPAN=marker=quick",
        "TEASPAN=mode=slow",   "TEASPAN=stress=-1",
        "TEASPAN=signal=9",    "TEASPAN=signal=SIGUSR1",
        "TEASPAN=pastend=yes", "TEASPAN=colour=blue",
        "TEASPAN=markers",     "TEASPAN=kernel=mmx",
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        run_with(allocate_and_collect, NULL, settings[i]);
        if (child.exit_status != 0 || count_lines(child.errors) != 1 ||
            strncmp(child.errors, "teaspan: ", strlen("teaspan: ")) != 0)
            fail_msg("%s: status %d, said: %s", settings[i], child.exit_status, child.errors);
        assert_string_equal(child.output, "done\n");
    }
}

static void each_of_several_malformed_settings_is_named(void **state)
{
    (void)state;
    test_child_run(
        &child, allocate_and_collect, NULL,
        (const char *const[]){"GOGC=fast", "TEASPAN=markers=none,colour=blue,stress=x", NULL},
        TIMEOUT_S);
    assert_int_equal(child.exit_status, 0);
    assert_int_equal(count_lines(child.errors), 4);
    assert_says("GOGC=fast");
    assert_says("markers=none");
    assert_says("colour");
    assert_says("stress=x");
}

static int require_default_percent(void *argument)
{
    TEST_REQUIRE(tea_set_gc_percent(100) == 100);
    return allocate_and_collect(argument);
}

static void a_malformed_gogc_leaves_the_default(void **state)
{
    (void)state;
    run_with(require_default_percent, NULL, "GOGC=fast");
    assert_int_equal(child.exit_status, 0);
}

static void settings_for_go_programs_are_passed_over_in_silence(void **state)
{
    (void)state;
    static const char *const settings[] = {"GODEBUG=madvdontneed=1,http2debug=2",
                                           "GODEBUG=",
                                           "GODEBUG=,,=,",
                                           "GOGC=",
                                           "GOMEMLIMIT=",
                                           "TEASPAN="};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        run_with(allocate_and_collect, NULL, settings[i]);
        assert_int_equal(child.exit_status, 0);
        assert_string_equal(child.errors, "");
    }
}

/* --- out of memory --- */

enum { PIECE_BYTES = 1 << 20, SMALL_HEAP_BYTES = 64 << 20 };

/* A table, not a list: a stale word keeps one piece and not all of them. */
static void *volatile pieces[2 * SMALL_HEAP_BYTES / PIECE_BYTES];
static size_t npieces;

static void drop_pieces(void)
{
    while (npieces > 0)
        pieces[--npieces] = NULL;
}

/* False when the heap is full; `errno` then says so. */
static TEAI_NOINLINE bool hold_one_more_piece(void)
{
    void *piece = tea_alloc(PIECE_BYTES);
    if (piece != NULL)
        pieces[npieces++] = piece;
    return piece != NULL;
}

struct oom {
    unsigned ncalls;
    uint32_t ncycles_before; /* collections seen when the last allocation began */
    bool collected_first;
    bool drops_pieces;
};

static bool out_of_memory(size_t size_bytes, void *context)
{
    struct oom *oom = context;
    oom->ncalls++;
    oom->collected_first = tea_gc_count() > oom->ncycles_before;
    TEST_REQUIRE(size_bytes == PIECE_BYTES);
    if (oom->drops_pieces)
        drop_pieces();
    return oom->drops_pieces && oom->ncalls == 1;
}

/* Until the callback was asked or an allocation refused; whether it was refused. */
static bool fill_until_asked(struct oom *oom)
{
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        oom->ncycles_before = tea_gc_count();
        errno = 0;
        bool held = hold_one_more_piece();
        TEST_REQUIRE(held || errno == ENOMEM);
        if (oom->ncalls != 0)
            return !held;
    }
    TEST_REQUIRE(!"asked before twice the heap is held");
    return true;
}

static void start_small_heap(struct oom *oom)
{
    struct tea_options options = TEA_OPTIONS_INIT;
    options.max_heap_bytes = SMALL_HEAP_BYTES;
    options.oom = out_of_memory;
    options.oom_context = oom;
    TEST_REQUIRE(tea_init(&options) == TEA_OK);
    tea_disable(); /* collections that allocation starts are not those of interest */
}

static void a_refusal_follows_a_full_collection_and_the_callback(void **state)
{
    (void)state;
    struct oom oom = {0};
    start_small_heap(&oom);
    assert_true(fill_until_asked(&oom));
    assert_int_equal(oom.ncalls, 1);
    assert_true(oom.collected_first);
    teai_verify_heap(&teai_default_heap, NULL);
    drop_pieces();
    assert_true(hold_one_more_piece());
}

static void a_callback_that_drops_references_lets_the_request_succeed(void **state)
{
    (void)state;
    struct oom oom = {.drops_pieces = true};
    start_small_heap(&oom);
    assert_false(fill_until_asked(&oom));
    assert_int_equal(oom.ncalls, 1);
    assert_true(oom.collected_first);
}

/* --- requests --- */

static void null_may_be_freed_before_anything_was_allocated(void **state)
{
    (void)state;
    tea_free(NULL);
    assert_int_equal(tea_usable_bytes(NULL), 0);
    assert_null(tea_base(NULL));
    assert_false(tea_is_heap_pointer(NULL));
}

static void products_that_overflow_are_refused_and_harm_nothing(void **state)
{
    (void)state;
    uintptr_t hidden = test_object_new(64);
    void *volatile object = test_reveal(hidden);
    volatile size_t many = (size_t)1 << 33; /* volatile: the compiler would warn of the product */
    errno = 0;
    assert_null(tea_calloc(many, many));
    assert_int_equal(errno, ENOMEM);
    errno = 0;
    assert_null(tea_reallocarray(object, many, many));
    assert_int_equal(errno, ENOMEM);
    assert_true(test_object_is_intact(hidden, 64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_malformed_gomemlimit_ends_the_program_with_status_2),
        cmocka_unit_test(a_malformed_gomemlimit_is_an_error_of_tea_init),
        cmocka_unit_test(other_malformed_settings_cost_one_line_each),
        cmocka_unit_test(each_of_several_malformed_settings_is_named),
        cmocka_unit_test(a_malformed_gogc_leaves_the_default),
        cmocka_unit_test(settings_for_go_programs_are_passed_over_in_silence),
        heap_test(a_refusal_follows_a_full_collection_and_the_callback),
        heap_test(a_callback_that_drops_references_lets_the_request_succeed),
        heap_test(null_may_be_freed_before_anything_was_allocated),
        heap_test(products_that_overflow_are_refused_and_harm_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
