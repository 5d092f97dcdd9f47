/* gc/settings.c -- what the environment asks for: GOGC, GOMEMLIMIT, GODEBUG, TEASPAN.
 *
 * GOGC, GOMEMLIMIT and GODEBUG mean what they mean in Go, except that a malformed GOGC, which Go ignores silently, is
 * reported. TEASPAN=key=value,key=value holds what Go has no name for, and gogc= and memlimit=, which override Go's
 * names in programs that start Go programs too. The last of several equal keys wins.
 *
 * Reading is one pass at start, without allocation; messages are kept until there is a sink.
 */
#include "gc/settings.h"

#include "gc/log.h"
#include "gc/mark.h"
#include "pacer/pacer.h"

#include <signal.h>
#include <string.h>

enum { SETTINGS_VALUE_BYTES = 128 };
enum { KERNEL_RT_FIRST = 32 }; /* the kernel's first real-time signal; the C library's SIGRTMIN is above its own */

struct setting_text {
    char key[32];
    char value[SETTINGS_VALUE_BYTES];
};

static char *report_next(struct teai_settings_report *report)
{
    return report->nwarnings < TEAI_SETTINGS_MAX_WARNINGS ? report->warnings[report->nwarnings++]
                                                          : report->warnings[TEAI_SETTINGS_MAX_WARNINGS - 1];
}

static void report_bad(struct teai_settings_report *report, const char *name, const char *value, const char *accepted)
{
    teai_format(report_next(report), TEAI_WARNING_BYTES, "teaspan: %s=%s ignored: %s", name, value, accepted);
}

static const char gogc_accepted[] = "want a whole number of per cent, or off; using 100";
static const char limit_accepted[] = "want a number of bytes with an optional suffix B, KiB, MiB, GiB or TiB, or off";

static void read_gogc(struct teai_settings *s, struct teai_settings_report *report, const char *name, const char *text)
{
    if (!teai_pacer_parse_gogc(text, &s->gc_percent))
        report_bad(report, name, text, gogc_accepted);
}

static void read_memory_limit(struct teai_settings *s, struct teai_settings_report *report, const char *name,
                              const char *text)
{
    if (teai_pacer_parse_memory_limit(text, &s->memory_limit_bytes))
        return;
    report->bad_memory_limit = true;
    teai_format(report->error, TEAI_WARNING_BYTES, "teaspan: malformed %s=%s: %s", name, text, limit_accepted);
}

/* A plain decimal number of at most `most`. */
static bool read_number(const char *text, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t value = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || (value = value * 10 + (uint64_t)(*text - '0')) > most)
            return false;
    }
    if (value < least)
        return false;
    *out = (uint32_t)value;
    return true;
}

/* --- TEASPAN keys: one row each --- */

typedef bool (*setting_read_fn)(struct teai_settings *s, struct teai_settings_report *report, const char *value);

static bool key_gogc(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    read_gogc(s, report, "TEASPAN gogc", value);
    return true;
}

static bool key_memlimit(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    read_memory_limit(s, report, "TEASPAN memlimit", value);
    return true;
}

static bool key_markers(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)report;
    return read_number(value, 1, TEAI_MAX_MARKERS, &s->markers);
}

static bool key_marker(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)report;
    bool by_object = strcmp(value, "object") == 0;
    if (!by_object && strcmp(value, "span") != 0)
        return false;
    s->order = by_object ? TEAI_MARK_BY_OBJECT : TEAI_MARK_BY_SPAN;
    return true;
}

static bool key_kernel(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)report;
    if (strcmp(value, "portable") == 0)
        s->kernel = TEAI_KERNEL_PORTABLE;
    else if (strcmp(value, "avx2") == 0)
        s->kernel = TEAI_KERNEL_AVX2;
    else if (strcmp(value, "avx512") == 0)
        s->kernel = TEAI_KERNEL_AVX512;
    else if (strcmp(value, "auto") == 0)
        s->kernel = TEAI_KERNEL_AUTO;
    else
        return false;
    return true;
}

static bool key_mode(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)s, (void)report;
    return strcmp(value, "auto") == 0 || strcmp(value, "stw") == 0;
}

static bool key_stress(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)report;
    return read_number(value, 0, INT32_MAX, &s->stress);
}

/* A signal that the program can handle and that means no fault of the thread that gets it. Those between the two kinds belong
 * to the C library: cancellation, and changes of the user id. */
static bool signal_can_stop(int number)
{
    sigset_t never;
    sigemptyset(&never);
    sigaddset(&never, SIGKILL);
    sigaddset(&never, SIGSTOP);
    sigaddset(&never, SIGSEGV);
    sigaddset(&never, SIGBUS);
    sigaddset(&never, SIGILL);
    sigaddset(&never, SIGFPE);
    sigaddset(&never, SIGTRAP);
    sigaddset(&never, SIGABRT);
    return sigismember(&never, number) == 0 && (number < KERNEL_RT_FIRST || number >= SIGRTMIN);
}

static bool key_signal(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)report;
    uint32_t number;
    if (!read_number(value, 1, (uint32_t)SIGRTMAX, &number) || !signal_can_stop((int)number))
        return false;
    s->stop_signal = (int)number;
    return true;
}

static bool key_past_end(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)report;
    uint32_t on;
    if (!read_number(value, 0, 1, &on))
        return false;
    s->heap_past_end = on != 0;
    return true;
}

static bool key_finalizers(struct teai_settings *s, struct teai_settings_report *report, const char *value)
{
    (void)report;
    bool on_demand = strcmp(value, "demand") == 0;
    if (!on_demand && strcmp(value, "thread") != 0)
        return false;
    s->finalize_on_demand = on_demand;
    return true;
}

static const struct setting_key {
    const char *key;
    setting_read_fn read;
    const char *accepted;
} setting_keys[] = {
    { "gogc", key_gogc, gogc_accepted },
    { "memlimit", key_memlimit, limit_accepted },
    { "markers", key_markers, "want 1 to 64" },
    { "marker", key_marker, "want span or object" },
    { "kernel", key_kernel, "want auto, portable, avx2 or avx512" },
    { "mode", key_mode, "want auto or stw" },
    { "stress", key_stress, "want 0 (off) or a number of refills" },
    { "signal", key_signal, "want the number of a signal that can be caught" },
    { "pastend", key_past_end, "want 0 or 1" },
    { "finalizers", key_finalizers, "want thread or demand" },
};

static void read_teaspan_key(struct teai_settings *s, struct teai_settings_report *report,
                             const struct setting_text *text)
{
    for (unsigned i = 0; i < sizeof setting_keys / sizeof setting_keys[0]; i++) {
        const struct setting_key *k = &setting_keys[i];
        if (strcmp(k->key, text->key) != 0)
            continue;
        if (!k->read(s, report, text->value)) {
            char name[48];
            teai_format(name, sizeof name, "TEASPAN %s", k->key);
            report_bad(report, name, text->value, k->accepted);
        }
        return;
    }
    char known[160];
    size_t n = 0;
    for (unsigned i = 0; i < sizeof setting_keys / sizeof setting_keys[0]; i++)
        n += teai_format(known + n, sizeof known - n, i ? " %s" : "%s", setting_keys[i].key);
    teai_format(report_next(report), TEAI_WARNING_BYTES, "teaspan: TEASPAN: unknown key %s (known: %s)", text->key,
                known);
}

/* --- comma-separated key=value lists --- */

/* Copy up to one of the two stops; too long a text is cut, which makes it unknown or malformed. */
static const char *copy_until(const char *text, const char *stops, char *out, size_t out_bytes)
{
    size_t n = strcspn(text, stops);
    size_t kept = n < out_bytes - 1 ? n : out_bytes - 1;
    memcpy(out, text, kept);
    out[kept] = '\0';
    return text + n;
}

static const char *next_setting(const char *text, struct setting_text *out)
{
    out->value[0] = '\0';
    text = copy_until(text, "=,", out->key, sizeof out->key);
    if (*text == '=')
        text = copy_until(text + 1, ",", out->value, sizeof out->value);
    return *text == ',' ? text + 1 : text;
}

static void read_teaspan(struct teai_settings *s, struct teai_settings_report *report, const char *text)
{
    struct setting_text setting;
    while (*text != '\0') {
        text = next_setting(text, &setting);
        if (setting.key[0] != '\0')
            read_teaspan_key(s, report, &setting);
    }
}

/* Unknown GODEBUG names are ignored, as in Go: they may be meant for a Go program. */
static void read_godebug(struct teai_settings *s, const char *text)
{
    struct setting_text setting;
    while (*text != '\0') {
        text = next_setting(text, &setting);
        uint32_t value;
        if (!read_number(setting.value, 0, INT32_MAX, &value))
            continue;
        if (strcmp(setting.key, "gctrace") == 0)
            s->gctrace = value != 0;
        else if (strcmp(setting.key, "gccheckmark") == 0)
            s->check_mark = value != 0;
        else if (strcmp(setting.key, "clobberfree") == 0)
            s->clobber_free = value != 0;
    }
}

void teai_settings_read(struct teai_settings *s, struct teai_settings_report *report, teai_getenv_fn get)
{
    memset(s, 0, sizeof *s);
    memset(report, 0, sizeof *report);
    s->gc_percent = 100;
    s->memory_limit_bytes = TEAI_PACER_NO_LIMIT;
    const char *text;
    if ((text = get("GOGC")) != NULL && *text != '\0')
        read_gogc(s, report, "GOGC", text);
    if ((text = get("GOMEMLIMIT")) != NULL)
        read_memory_limit(s, report, "GOMEMLIMIT", text);
    if ((text = get("GODEBUG")) != NULL)
        read_godebug(s, text);
    if ((text = get("TEASPAN")) != NULL)
        read_teaspan(s, report, text);
}
