/* pacer/settings.c -- read the texts of GOGC and GOMEMLIMIT as Go reads them.
 *
 * Problem. An operator who knows Go must get the same meaning from the same text, the odd forms included:
 * "+50" and "-0" are numbers, " 50", "0x10" and "1_000" are not. The C library's strtoll skips spaces and asks the
 * locale, so the digits are read here.
 *
 * Callers. Start-up, on the texts of the environment; tests. Takes no lock and allocates nothing.
 *
 * Source. Go 1.26 runtime: readGOGC, readGOMEMLIMIT (mgcpacer.go), parseByteCount (string.go); strconv.ParseInt.
 */
#include "pacer/pacer.h"

#include <string.h>

enum { GOGC_OFF = -1, GOGC_DEFAULT = 100 };
enum { UNIT_STEP_SHIFT = 10 }; /* each unit is 1024 of the one before */

static bool settings_is_empty(const char *text)
{
    return text == NULL || text[0] == '\0';
}

/* An optional sign and at least one decimal digit, nothing else; false also if it does not fit. */
static bool settings_parse_integer(const char *text, size_t length, int64_t *value_out)
{
    bool negative = length > 0 && text[0] == '-';
    size_t first_digit = length > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    if (first_digit == length)
        return false;
    int64_t value = 0;
    for (size_t i = first_digit; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        /* Negative numbers are built downwards, because the smallest has no positive twin. */
        int digit = negative ? '0' - text[i] : text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *value_out = value;
    return true;
}

/* Take "B", "KiB", "MiB", "GiB" or "TiB" off the end of a text; returns log2 of the unit. What is no unit stays, and
 * settings_parse_integer() then refuses it. */
static unsigned settings_take_unit(const char *text, size_t *length)
{
    static const char prefixes[] = {'K', 'M', 'G', 'T'};
    size_t n = *length;
    if (n == 0 || text[n - 1] != 'B')
        return 0;
    *length = n - 1;
    if (n < 3 || text[n - 2] != 'i')
        return 0;
    for (unsigned i = 0; i < sizeof prefixes; i++) {
        if (text[n - 3] == prefixes[i]) {
            *length = n - 3;
            return (i + 1) * UNIT_STEP_SHIFT;
        }
    }
    return 0;
}

bool teai_pacer_parse_gogc(const char *text, int32_t *percent_out)
{
    *percent_out = GOGC_DEFAULT;
    if (settings_is_empty(text))
        return true;
    if (strcmp(text, "off") == 0) {
        *percent_out = GOGC_OFF;
        return true;
    }
    int64_t percent;
    if (!settings_parse_integer(text, strlen(text), &percent) || percent < INT32_MIN ||
        percent > INT32_MAX)
        return false;
    *percent_out = percent < 0 ? GOGC_OFF : (int32_t)percent;
    return true;
}

bool teai_pacer_parse_memory_limit(const char *text, int64_t *limit_bytes_out)
{
    if (settings_is_empty(text) || strcmp(text, "off") == 0) {
        *limit_bytes_out = TEAI_PACER_NO_LIMIT;
        return true;
    }
    size_t length = strlen(text);
    unsigned unit_shift = settings_take_unit(text, &length);
    int64_t count;
    if (!settings_parse_integer(text, length, &count) || count < 0 ||
        count > INT64_MAX >> unit_shift)
        return false;
    *limit_bytes_out = count << unit_shift;
    return true;
}
