/* gc/log.c -- messages to the sink; formatting without malloc or stdio.
 *
 * Messages may be written while the C library is in any state (inside malloc's caller, in a constructor), so
 * lines are put together in a stack buffer by a small formatter and written with one write(2).
 */
#include "gc/log.h"

#include <stdarg.h>
#include <string.h>

void teai_log_init(struct teai_log *log)
{
    log->lock.rank = TEAI_RANK_LOG;
    log->sink = NULL;
    log->context = NULL;
}

void teai_log_set_sink(struct teai_log *log, tea_log_fn sink, void *context)
{
    teai_lock_acquire(&log->lock);
    log->sink = sink;
    log->context = context;
    teai_lock_release(&log->lock);
}

struct format_out {
    char *bytes;
    size_t used, room; /* room excludes the final NUL */
};

static void format_char(struct format_out *out, char c)
{
    if (out->used < out->room)
        out->bytes[out->used++] = c;
}

static void format_text(struct format_out *out, const char *text)
{
    for (text = text ? text : "(null)"; *text; text++)
        format_char(out, *text);
}

static void format_unsigned(struct format_out *out, uint64_t value, unsigned radix)
{
    char digits[24];
    unsigned n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % radix];
        value /= radix;
    } while (value != 0);
    while (n > 0)
        format_char(out, digits[--n]);
}

static void format_signed(struct format_out *out, int64_t value)
{
    if (value < 0)
        format_char(out, '-');
    format_unsigned(out, value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value, 10);
}

static void format_conversion(struct format_out *out, char conversion, va_list *args)
{
    switch (conversion) {
    case 's':
        format_text(out, va_arg(*args, const char *));
        break;
    case 'p':
        format_text(out, "0x");
        format_unsigned(out, (uint64_t)(uintptr_t)va_arg(*args, const void *), 16);
        break;
    case 'u':
        format_unsigned(out, va_arg(*args, unsigned), 10);
        break;
    case 'd':
        format_signed(out, va_arg(*args, int));
        break;
    case 'U':
        format_unsigned(out, va_arg(*args, uint64_t), 10);
        break;
    case 'z':
        format_unsigned(out, va_arg(*args, size_t), 10);
        break;
    default:
        format_char(out, conversion);
        break;
    }
}

static size_t format_list(char *buffer, size_t buffer_bytes, const char *format, va_list *args)
{
    struct format_out out = { buffer, 0, buffer_bytes - 1 };
    for (; *format; format++) {
        if (*format != '%')
            format_char(&out, *format);
        else if (*++format == '\0')
            break;
        else
            format_conversion(&out, *format, args);
    }
    out.bytes[out.used] = '\0';
    return out.used;
}

size_t teai_format(char *buffer, size_t buffer_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t n = format_list(buffer, buffer_bytes, format, &args);
    va_end(args);
    return n;
}

void teai_log_text(struct teai_log *log, const char *text, size_t nbytes)
{
    teai_lock_acquire(&log->lock);
    tea_log_fn sink = log->sink;
    void *context = log->context;
    teai_lock_release(&log->lock);
    if (sink != NULL) {
        sink(text, context);
        return;
    }
    char line[1024];
    size_t n = nbytes < sizeof line - 1 ? nbytes : sizeof line - 1;
    memcpy(line, text, n);
    line[n] = '\n';
    teai_platform_stderr(line, n + 1);
}

void teai_log_line(struct teai_log *log, const char *format, ...)
{
    char text[1000];
    va_list args;
    va_start(args, format);
    size_t n = format_list(text, sizeof text, format, &args);
    va_end(args);
    teai_log_text(log, text, n);
}
