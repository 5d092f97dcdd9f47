/* platform/platform.h -- the one door to the operating system and the CPU.
 *
 * Address space is in one of three states:
 *   reserved   ours, inaccessible, not charged to us
 *   ready      readable and writable; bytes never written, or released since, read as zero
 *   none       not ours
 * reserve: none -> reserved; commit: reserved -> ready; release: ready -> ready, contents dropped;
 * unreserve: any -> none.
 *
 * Preconditions, not repeated below: addresses and sizes of memory calls are multiples of the OS page and
 * sizes are above 0. Calls return 0 or an errno value; errno itself is left as it was.
 */
#ifndef TEAI_PLATFORM_H
#define TEAI_PLATFORM_H

#include "base/check.h"
#include "base/config.h"
#include "base/lock_rank.h"

#include <stdatomic.h>

/* --- memory --- */
size_t teai_platform_os_page_bytes(void);
void *teai_platform_reserve(size_t bytes, size_t align_bytes); /* NULL if the kernel does not agree */
void teai_platform_unreserve(void *base, size_t bytes);
int teai_platform_commit(void *base, size_t bytes);
int teai_platform_release(void *base, size_t bytes);  /* on success every byte reads zero */
int teai_platform_populate(void *base, size_t bytes); /* fault pages in for writing, in one call; may fail harmlessly */
int teai_platform_wipe_on_fork(void *base, size_t bytes); /* ready memory reads zero in children made by fork */

/* --- the machine --- */
uint64_t teai_platform_ram_bytes(void);
unsigned teai_platform_ncpus(void);        /* that this process may run on */
bool teai_platform_has_avx512(void);       /* F, BW, VL, DQ, VBMI2 and the kernel saves the state */
bool teai_platform_has_avx2(void);
uint64_t teai_platform_now_ns(void);       /* monotonic */
uint64_t teai_platform_unix_ns(void);
uint64_t teai_platform_process_cpu_ns(void); /* user + system, all threads */
uint64_t teai_platform_thread_cpu_ns(void);

/* --- locks: adaptive, futex based; not recursive --- */
struct teai_lock {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and waited for */
    uint32_t rank;          /* enum teai_lock_rank; checked in debug builds */
};
#define TEAI_LOCK_INIT(rank_) { 0, (rank_) }
void teai_lock_acquire(struct teai_lock *lock);
bool teai_lock_try(struct teai_lock *lock);
void teai_lock_release(struct teai_lock *lock);
/* The thread holds `lock` (or, in release builds, somebody does). */
void teai_lock_assert_held(const struct teai_lock *lock);

/* Wait while *word == expected, until woken (or spuriously). Async-signal-safe. */
void teai_platform_futex_wait(_Atomic uint32_t *word, uint32_t expected);
/* The same, for at most `timeout_ns`. */
void teai_platform_futex_wait_for(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns);
void teai_platform_futex_wake(_Atomic uint32_t *word, uint32_t nwaiters);
void teai_platform_pause(void);  /* one spin iteration */
void teai_platform_yield(void);

/* --- threads --- */
/* A detached helper thread with all signals blocked, named `name` (15 bytes at most), not a mutator. */
int teai_platform_helper_start(const char *name, void (*entry)(void *), void *argument);
/* The same, with a stack as large as any thread's: for code of the client. */
int teai_platform_client_helper_start(const char *name, void (*entry)(void *), void *argument);
int teai_platform_thread_id(void);     /* the kernel's tid */
/* The stack of the calling thread: [*base_out, *limit_out), the limit being where it began. */
int teai_platform_stack_bounds(uintptr_t *base_out, uintptr_t *limit_out);

/* Address of the thread control block: the word at it, or near it, is how thread-locals are found. */
uintptr_t teai_platform_thread_pointer(void);

/* Copy from memory of ours that may not be mapped, without a fault: how many bytes were readable. Async-signal-safe. */
size_t teai_platform_read_memory(void *to, uintptr_t from_addr, size_t nbytes);

/* Spill every register that a callee must preserve, then call fn(sp, argument), sp being below them. */
void teai_platform_with_registers(void (*fn)(uintptr_t sp_addr, void *argument), void *argument);

/* --- output and the end --- */
void teai_platform_stderr(const char *bytes, size_t nbytes);
TEAI_NORETURN void teai_platform_exit(int status);
const char *teai_platform_getenv(const char *name); /* only at start */

#endif
