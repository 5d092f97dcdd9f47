/* base/config.h -- build choices as constants 0 or 1, and compiler attributes. The one place with such #if. */
#ifndef TEAI_BASE_CONFIG_H
#define TEAI_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(TEASPAN_DEBUG)
#define TEAI_DEBUG 1
#else
#define TEAI_DEBUG 0
#endif

#if defined(__has_feature)
#define TEAI_HAS_FEATURE(x) __has_feature(x)
#else
#define TEAI_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || TEAI_HAS_FEATURE(address_sanitizer)
#define TEAI_ASAN 1
#else
#define TEAI_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || TEAI_HAS_FEATURE(thread_sanitizer)
#define TEAI_TSAN 1
#else
#define TEAI_TSAN 0
#endif

/* Fill freed slots in debug builds, so that a use after free shows. */
#define TEAI_POISON_FREED TEAI_DEBUG
#define TEAI_POISON_BYTE 0xdf

#if defined(__x86_64__)
#define TEAI_X86_64 1
#else
#define TEAI_X86_64 0
#endif
#if defined(__aarch64__)
#define TEAI_AARCH64 1
#else
#define TEAI_AARCH64 0
#endif

/* stdint.h has named the C library by now; the other one we know is musl, which does not name itself. */
#if defined(__GLIBC__)
#define TEAI_GLIBC 1
#else
#define TEAI_GLIBC 0
#endif

#define TEAI_LIKELY(x) __builtin_expect(!!(x), 1)
#define TEAI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TEAI_NOINLINE __attribute__((noinline))
#define TEAI_INLINE static inline __attribute__((always_inline))
#define TEAI_NORETURN __attribute__((noreturn))

/* Functions that read memory of others as words (stacks, static data): no sanitizer may object. */
#define TEAI_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))

/* Every writable static variable of the collector carries this, so that the section's bounds say which
 * static data is the collector's own and never a root (gc/root.c; checked by a test on the archive). */
#define TEAI_STATE __attribute__((section("teaspan_state")))

#endif
