/* gc/log.h -- messages to the sink; formatting without malloc or stdio. */
#ifndef TEAI_LOG_H
#define TEAI_LOG_H

#include "platform/platform.h"
#include "teaspan/init.h"

struct teai_log {
    struct teai_lock lock;
    tea_log_fn sink;      /* NULL: stderr */
    void *context;
};

void teai_log_init(struct teai_log *log);
void teai_log_set_sink(struct teai_log *log, tea_log_fn sink, void *context);

/* One line, without newline. Conversions: %s %p (as 0x...) %u (unsigned) %d (int) %U (uint64_t) %z (size_t) %%.
 * Takes no lock that the allocator holds; call it with no collector lock held and the world running. */
void teai_log_line(struct teai_log *log, const char *format, ...);
/* The same, formatted into `buffer`; returns the length (cut to fit). */
size_t teai_format(char *buffer, size_t buffer_bytes, const char *format, ...);
/* Finished text. */
void teai_log_text(struct teai_log *log, const char *text, size_t nbytes);

#endif
