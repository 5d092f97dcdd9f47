/* include/teaspan/base.h -- what every public header needs: linkage, attributes, status codes, version. */
#ifndef TEASPAN_BASE_H
#define TEASPAN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEA_VERSION_MAJOR 0
#define TEA_VERSION_MINOR 1
#define TEA_VERSION_PATCH 0
#define TEA_VERSION_STRING "0.1.0"

#ifdef __cplusplus
#define TEA_BEGIN_DECLS extern "C" {
#define TEA_END_DECLS }
#else
#define TEA_BEGIN_DECLS
#define TEA_END_DECLS
#endif

#if defined(__GNUC__)
#define TEA_API __attribute__((visibility("default")))
#define TEA_NODISCARD __attribute__((warn_unused_result))
#define TEA_MALLOC __attribute__((malloc))
#define TEA_ALLOC_SIZE(...) __attribute__((alloc_size(__VA_ARGS__)))
#define TEA_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TEA_API
#define TEA_NODISCARD
#define TEA_MALLOC
#define TEA_ALLOC_SIZE(...)
#define TEA_PRINTF(fmt, args)
#endif

TEA_BEGIN_DECLS

/* What a fallible call that is not an allocation returns. */
enum tea_status {
    TEA_OK = 0,
    TEA_ERR_INVALID,   /* an argument or setting is malformed or out of range */
    TEA_ERR_NOMEM,     /* the kernel gave no memory or address space */
    TEA_ERR_STATE,     /* the call does not fit the present state (already initialised, not enabled, ...) */
    TEA_ERR_NOT_FOUND, /* what was to be removed is not there */
    TEA_ERR_SYSTEM     /* the operating system refused something that is needed; see the log */
};

/* tea_status_string -- a short English text for a status.
 *
 * Shape:    a static string; "unknown status" for a value outside enum tea_status.
 * Threads:  any; async-signal-safe.
 */
TEA_API const char *tea_status_string(enum tea_status status);

/* tea_version -- the version of the library that is loaded, which may differ from TEA_VERSION_STRING,
 * the version of the headers.
 *
 * Shape:    a static string "MAJOR.MINOR.PATCH".
 * Threads:  any; async-signal-safe.
 */
TEA_API const char *tea_version(void);

TEA_END_DECLS
#endif
