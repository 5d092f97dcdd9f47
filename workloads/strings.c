/* workloads/strings.c -- short-lived strings: parts that share their text, and numbers formatted.
 *
 *   trim  texts padded with blanks are trimmed; the trimmed part shares the bytes of its text. Parts are taken
 *         into a table of 1,000 places, each dropping the part that was there. Texts are replaced by fresh
 *         ones once every one of them has been trimmed 20 times.
 *   itoa  0..N formatted to strings, each dropped at once.
 *
 * What they ask of a heap. trim: to let a text live as long as any of its parts, at no cost a part, which
 * tracing gets for nothing and counting pays for. A program on malloc cannot know that from the part alone: it
 * releases texts when it clears the table. itoa: the smallest leaves at the highest rate.
 */
#include "heap.h"
#include "support_result.h"
#include "support_text.h"

#include <inttypes.h>

enum {
    NTEXTS = 1000,
    TRIMS_PER_TEXT = 20,
    TEXT_BYTES = 47, /* fills one 48-byte slot in every heap */
    WORD_BYTES = 15, /* "record-" and the number */
    NUMBER_WIDTH = 8,
    MAX_ALLOCS = 1000000000
};

static uint64_t nallocs = 10000000;
static const char *variant;
static const struct arg strings_args[] = {
    {.name = "--allocs", .kind = ARG_NUMBER, .min = 1, .max = MAX_ALLOCS, .number = &nallocs},
    {.name = "variant", .kind = ARG_CHOICE, .choices = "trim|itoa", .text = &variant},
};
static const struct workload strings = {"strings", "[--allocs N] trim|itoa", ARGS_OF(strings_args)};

static struct text make_padded(uint64_t number)
{
    char *bytes = heap_alloc_leaf_uninit(TEXT_BYTES);
    memset(bytes, ' ', TEXT_BYTES);
    char *word = bytes + number % (TEXT_BYTES - WORD_BYTES);
    memcpy(word, "record-", WORD_BYTES - NUMBER_WIDTH);
    text_format_number(word + WORD_BYTES - NUMBER_WIDTH, number, NUMBER_WIDTH);
    return (struct text){bytes, TEXT_BYTES};
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct text trim(struct text text)
{
    while (text.nbytes > 0 && is_blank(text.bytes[0])) {
        text.bytes++;
        text.nbytes--;
    }
    while (text.nbytes > 0 && is_blank(text.bytes[text.nbytes - 1]))
        text.nbytes--;
    return text;
}

static void text_store(struct text *slot, struct text text)
{
    heap_store(&slot->bytes, text.bytes);
    slot->nbytes = text.nbytes;
}

static void replace_texts(struct text *texts, struct text *parts, uint64_t first_number)
{
    memset(parts, 0, NTEXTS * sizeof parts[0]);
    for (uint64_t i = 0; i < NTEXTS; i++) {
        text_release(texts[i]);
        text_store(&texts[i], make_padded(first_number + i));
    }
}

/* A sum over a string that shows whether it is the right one. */
static uint64_t digest(struct text text)
{
    return text.nbytes + (uint64_t)(uint8_t)text.bytes[text.nbytes - 1];
}

static uint64_t trim_all(void)
{
    struct text *texts = heap_alloc(NTEXTS * sizeof texts[0]);
    struct text *parts = heap_alloc(NTEXTS * sizeof parts[0]);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < nallocs; i++) {
        if (i % (NTEXTS * TRIMS_PER_TEXT) == 0)
            replace_texts(texts, parts, i / TRIMS_PER_TEXT);
        struct text part = trim(texts[i % NTEXTS]);
        text_store(&parts[i % NTEXTS], part);
        sum += digest(part);
    }
    for (size_t i = 0; i < NTEXTS; i++)
        text_release(texts[i]);
    heap_release(parts);
    heap_release(texts);
    return sum;
}

/* NTEXTS is a multiple of 10, so the last digits go round as i does. */
static uint64_t trim_expected(void)
{
    uint64_t sum = nallocs * (WORD_BYTES + '0');
    return sum + nallocs / 10 * 45 + nallocs % 10 * (nallocs % 10 - 1) / 2;
}

static uint64_t itoa_all(void)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < nallocs; i++) {
        struct text text = text_from_number(i);
        sum += digest(text);
        text_release(text);
    }
    return sum;
}

/* Every number has one digit, those from 10 one more, those from 100 one more yet. */
static uint64_t itoa_expected(void)
{
    uint64_t sum = nallocs * (1 + '0') + nallocs / 10 * 45 + nallocs % 10 * (nallocs % 10 - 1) / 2;
    for (uint64_t power = 10; power < nallocs; power *= 10)
        sum += nallocs - power;
    return sum;
}

int main(int argc, char **argv)
{
    workload_start(&strings, argc, argv);
    bool trimming = strcmp(variant, "trim") == 0;

    uint64_t begin_ns = workload_now_ns();
    uint64_t sum = trimming ? trim_all() : itoa_all();
    uint64_t run_ns = workload_now_ns() - begin_ns;

    uint64_t expected = trimming ? trim_expected() : itoa_expected();
    if (sum != expected)
        workload_fail("the sum is %" PRIu64 ", not %" PRIu64, sum, expected);
    workload_report(&(struct workload_run){.variant = variant, .allocs = nallocs, .run_ns = run_ns},
                    " sum=%" PRIu64, sum);
    return 0;
}
