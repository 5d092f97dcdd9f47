/* pacer/gctrace.c -- one collection as the line that Go's GODEBUG=gctrace=1 prints.
 *
 * Problem. Tools and people read these lines, so every field, separator and cut digit has to be Go's. The line is
 * made where neither malloc nor a lock of the C library may be taken, so nothing of stdio is used: digits are
 * written by hand into the caller's buffer, and what does not fit is cut off.
 *
 * Callers. The thread that finished a collection. Any context: no allocation, no lock, no errno, bounded stack.
 *
 * Source. Go 1.26 runtime, mgc.go: gcMarkTermination, fmtNSAsMS, itoaDiv.
 */
#include "pacer/pacer.h"

enum { MB_SHIFT = 20, U64_MAX_DIGITS = 20 };
static const uint64_t ns_per_ms = 1000 * 1000;
static const uint64_t ns_per_us = 1000;

/* Text under construction: always room for a final NUL. */
struct trace_text {
    char *buffer;
    size_t capacity_bytes;
    size_t length;
};

static struct trace_text text_begin(char *buffer, size_t buffer_bytes)
{
    return (struct trace_text){.buffer = buffer, .capacity_bytes = buffer_bytes};
}

static size_t text_end(struct trace_text *text)
{
    if (text->capacity_bytes > 0)
        text->buffer[text->length] = '\0';
    return text->length;
}

static void put_char(struct trace_text *text, char c)
{
    if (text->length + 1 < text->capacity_bytes)
        text->buffer[text->length++] = c;
}

static void put_string(struct trace_text *text, const char *s)
{
    while (*s != '\0')
        put_char(text, *s++);
}

static void put_u64(struct trace_text *text, uint64_t value)
{
    char reversed[U64_MAX_DIGITS];
    unsigned ndigits = 0;
    do {
        reversed[ndigits++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (ndigits > 0)
        put_char(text, reversed[--ndigits]);
}

/* value / 10^decimals with exactly that many decimals. */
static void put_decimal(struct trace_text *text, uint64_t value, unsigned decimals)
{
    uint64_t unit = 1;
    for (unsigned i = 0; i < decimals; i++)
        unit *= 10;
    put_u64(text, value / unit);
    if (decimals > 0)
        put_char(text, '.');
    for (uint64_t place = unit / 10; place > 0; place /= 10)
        put_char(text, (char)('0' + value / place % 10));
}

/* Whole milliseconds from 10 ms on; below that two significant digits, but no finer than a microsecond. */
static void put_ms(struct trace_text *text, uint64_t ns)
{
    if (ns >= 10 * ns_per_ms) {
        put_u64(text, ns / ns_per_ms);
        return;
    }
    uint64_t digits = ns / ns_per_us;
    if (digits == 0) {
        put_char(text, '0');
        return;
    }
    unsigned decimals = 3;
    for (; digits >= 100; digits /= 10)
        decimals--;
    put_decimal(text, digits, decimals);
}

static void put_mb(struct trace_text *text, uint64_t bytes)
{
    put_u64(text, bytes >> MB_SHIFT);
}

static void put_heading(struct trace_text *text, const struct teai_gctrace *trace)
{
    put_string(text, "gc ");
    put_u64(text, trace->cycle);
    put_string(text, " @");
    put_decimal(text, trace->start_ns / ns_per_ms, 3);
    put_string(text, "s ");
    put_u64(text, trace->gc_cpu_percent);
    put_string(text, "%: ");
}

static void put_wall_clock(struct trace_text *text, const struct teai_gctrace *trace)
{
    put_ms(text, trace->sweep_term_ns);
    put_char(text, '+');
    put_ms(text, trace->mark_ns);
    put_char(text, '+');
    put_ms(text, trace->mark_term_ns);
    put_string(text, " ms clock, ");
}

static void put_cpu_time(struct trace_text *text, const struct teai_gctrace *trace)
{
    put_ms(text, trace->stw_procs * trace->sweep_term_ns);
    put_char(text, '+');
    put_ms(text, trace->assist_cpu_ns);
    put_char(text, '/');
    put_ms(text, trace->background_cpu_ns);
    put_char(text, '/');
    put_ms(text, trace->idle_cpu_ns);
    put_char(text, '+');
    put_ms(text, trace->stw_procs * trace->mark_term_ns);
    put_string(text, " ms cpu, ");
}

static void put_heap(struct trace_text *text, const struct teai_gctrace *trace)
{
    put_mb(text, trace->heap_start_bytes);
    put_string(text, "->");
    put_mb(text, trace->heap_term_bytes);
    put_string(text, "->");
    put_mb(text, trace->heap_marked_bytes);
    put_string(text, " MB, ");
    put_mb(text, trace->goal_bytes);
    put_string(text, " MB goal, ");
    put_mb(text, trace->stacks_bytes);
    put_string(text, " MB stacks, ");
    put_mb(text, trace->globals_bytes);
    put_string(text, " MB globals, ");
}

size_t teai_gctrace_format_ms(uint64_t ns, char *buffer, size_t buffer_bytes)
{
    struct trace_text text = text_begin(buffer, buffer_bytes);
    put_ms(&text, ns);
    return text_end(&text);
}

size_t teai_gctrace_format(const struct teai_gctrace *trace, char *buffer, size_t buffer_bytes)
{
    struct trace_text text = text_begin(buffer, buffer_bytes);
    put_heading(&text, trace);
    put_wall_clock(&text, trace);
    put_cpu_time(&text, trace);
    put_heap(&text, trace);
    put_u64(&text, trace->procs);
    put_string(&text, " P");
    if (trace->forced)
        put_string(&text, " (forced)");
    return text_end(&text);
}
