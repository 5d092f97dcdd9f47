/* platform/linux.c -- memory, time, threads and output by way of the Linux kernel.
 *
 * States of address space (platform.h). Reserved memory is a private PROT_NONE mapping with
 * MAP_NORESERVE, which neither overcommit accounting nor a memory cgroup charges; mprotect() makes
 * it ready, and only then does strict overcommit count it. Releasing uses MADV_DONTNEED: MADV_FREE
 * keeps old contents until the kernel wants the page, so nothing could be said about what it reads
 * as.
 *
 * errno. These functions are called in the middle of the client's code, from malloc-like calls that
 * must not disturb it: each one that uses errno puts it back.
 *
 * Nothing here takes a lock of the C library or allocates, with two exceptions:
 * teai_platform_helper_start() takes the loader's lock, for symbols and the size of thread-locals,
 * and teai_platform_stack_bounds() has glibc allocate, and read /proc/self/maps for the main thread.
 */
#define _GNU_SOURCE
#include "platform/platform.h"

#include "base/word.h"
#include "platform/pthread_real.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Since Linux 5.14; older headers lack the name, older kernels answer EINVAL. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* --- memory --- */

size_t teai_platform_os_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The result of a call that follows the -1 and errno convention, as 0 or an errno value. */
static int error_of(int result, int saved_errno)
{
    int error = result == 0 ? 0 : errno;
    errno = saved_errno;
    return error;
}

/* Give back what lies outside the aligned part of an over-long mapping. A failure leaves address
 * space reserved that nobody uses: harmless. */
static uint8_t *reserve_trim(uint8_t *mapping, size_t mapping_bytes, size_t bytes,
                             size_t align_bytes)
{
    size_t head_bytes = teai_round_up((uintptr_t)mapping, align_bytes) - (uintptr_t)mapping;
    size_t tail_bytes = mapping_bytes - head_bytes - bytes;
    if (head_bytes > 0)
        munmap(mapping, head_bytes);
    if (tail_bytes > 0)
        munmap(mapping + head_bytes + bytes, tail_bytes);
    return mapping + head_bytes;
}

void *teai_platform_reserve(size_t bytes, size_t align_bytes)
{
    size_t os_page_bytes = teai_platform_os_page_bytes();
    size_t align = align_bytes > os_page_bytes ? align_bytes : os_page_bytes;
    size_t mapping_bytes = bytes + (align - os_page_bytes);
    if (mapping_bytes < bytes)
        return NULL;
    int saved_errno = errno;
    void *mapping =
        mmap(NULL, mapping_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *base = mapping == MAP_FAILED ? NULL : reserve_trim(mapping, mapping_bytes, bytes, align);
    errno = saved_errno;
    return base;
}

void teai_platform_unreserve(void *base, size_t bytes)
{
    int saved_errno = errno;
    /* Fails when it would split one mapping too many: then the range stays, unused. */
    munmap(base, bytes);
    errno = saved_errno;
}

int teai_platform_commit(void *base, size_t bytes)
{
    int saved_errno = errno;
    return error_of(mprotect(base, bytes, PROT_READ | PROT_WRITE), saved_errno);
}

int teai_platform_release(void *base, size_t bytes)
{
    int saved_errno = errno;
    return error_of(madvise(base, bytes, MADV_DONTNEED), saved_errno);
}

int teai_platform_populate(void *base, size_t bytes)
{
    int saved_errno = errno;
    return error_of(madvise(base, bytes, MADV_POPULATE_WRITE), saved_errno);
}

int teai_platform_wipe_on_fork(void *base, size_t bytes)
{
    int saved_errno = errno;
    return error_of(madvise(base, bytes, MADV_WIPEONFORK), saved_errno);
}

/* --- the machine --- */

uint64_t teai_platform_ram_bytes(void)
{
    int saved_errno = errno;
    struct sysinfo info;
    uint64_t bytes = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
    errno = saved_errno;
    return bytes;
}

unsigned teai_platform_ncpus(void)
{
    /* The system call, because it says how much it wrote whatever the number of CPUs the kernel was
     * built for. */
    uint64_t mask[1024 / sizeof(uint64_t)] = {0};
    int saved_errno = errno;
    long nbytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);
    errno = saved_errno;
    unsigned ncpus = 0;
    for (long i = 0; i < nbytes / (long)sizeof mask[0]; i++)
        ncpus += (unsigned)__builtin_popcountll(mask[i]);
    return ncpus > 0 ? ncpus : 1;
}

static uint64_t clock_ns(clockid_t clock)
{
    int saved_errno = errno;
    struct timespec t = {0};
    clock_gettime(clock, &t); /* these clocks exist on every kernel that we run on */
    errno = saved_errno;
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t teai_platform_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t teai_platform_unix_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

uint64_t teai_platform_process_cpu_ns(void)
{
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t teai_platform_thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* --- waiting --- */

/* From linux/futex.h, which not every C library's compiler wrapper finds. */
enum { FUTEX_PRIVATE = 128, FUTEX_WAIT = 0 | FUTEX_PRIVATE, FUTEX_WAKE = 1 | FUTEX_PRIVATE };

void teai_platform_futex_wait_for(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    int saved_errno = errno;
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
    errno = saved_errno;
}

/* ThreadSanitizer puts signals off until the thread next comes by its run-time library, and the kernel restarts this call after
 * a signal: so that a thread that waits here can be stopped all the same, it then wakes up now and then. */
enum { TSAN_WAIT_NS = 10 * 1000 * 1000 };

void teai_platform_futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    if (TEAI_TSAN) {
        teai_platform_futex_wait_for(word, expected, TSAN_WAIT_NS);
        return;
    }
    int saved_errno = errno;
    syscall(SYS_futex, word, FUTEX_WAIT, expected, NULL, NULL, 0);
    errno = saved_errno;
}

void teai_platform_futex_wake(_Atomic uint32_t *word, uint32_t nwaiters)
{
    int saved_errno = errno;
    syscall(SYS_futex, word, FUTEX_WAKE, nwaiters < INT_MAX ? nwaiters : INT_MAX, NULL, NULL, 0);
    errno = saved_errno;
}

void teai_platform_yield(void)
{
    sched_yield(); /* cannot fail on Linux */
}

/* --- threads --- */

enum { HELPER_STACK_BYTES = 256 * 1024 };

/* Lives on the starter's stack, until the helper has read it. */
struct helper_start {
    const char *name;
    void (*entry)(void *);
    void *argument;
    _Atomic uint32_t taken;
};

static void *helper_main(void *start_argument)
{
    struct helper_start *start = start_argument;
    void (*entry)(void *) = start->entry;
    void *argument = start->argument;
    prctl(PR_SET_NAME, start->name, 0, 0, 0);
    /* release: pairs with the acquire in helper_await(); `start` is gone after this, its address
     * may even be unmapped: a wake-up on such an address does nothing. */
    _Atomic uint32_t *taken = &start->taken;
    atomic_store_explicit(taken, 1, memory_order_release);
    teai_platform_futex_wake(taken, 1);
    entry(argument);
    return NULL;
}

static void helper_await(struct helper_start *start)
{
    /* acquire: pairs with the release in helper_main(). */
    while (atomic_load_explicit(&start->taken, memory_order_acquire) == 0)
        teai_platform_futex_wait(&start->taken, 0);
}

static int tls_add_object(struct dl_phdr_info *object, size_t info_bytes, void *total_bytes)
{
    (void)info_bytes;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)total_bytes += object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
    return 0;
}

/* glibc takes the program's thread-locals out of a new thread's stack, and some programs have
 * megabytes of them. */
static size_t helper_stack_bytes(void)
{
    size_t tls_bytes = 0;
    dl_iterate_phdr(tls_add_object, &tls_bytes);
    return teai_round_up(HELPER_STACK_BYTES + (size_t)PTHREAD_STACK_MIN + tls_bytes,
                         teai_platform_os_page_bytes());
}

enum { KERNEL_SIGSET_BYTES = 8 };

/* The new thread starts with its creator's signal mask: block everything around its creation, by system call, because
 * the C library's way may lead to us, who keep the stop signal out. sigfillset() leaves out what the C library needs. */
static int helper_create(const pthread_attr_t *attributes, struct helper_start *start)
{
    sigset_t all, before;
    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, KERNEL_SIGSET_BYTES);
    pthread_t thread;
    int error = teai_pthread_create_real(&thread, attributes, helper_main, start);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, KERNEL_SIGSET_BYTES);
    return error;
}

/* stack_bytes 0: what the C library gives a thread. */
static int helper_start_with_stack(size_t stack_bytes, const char *name, void (*entry)(void *), void *argument)
{
    int saved_errno = errno;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        goto restore_errno;
    struct helper_start start = {name, entry, argument, 0};
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_bytes != 0)
        pthread_attr_setstacksize(&attributes, stack_bytes);
    error = helper_create(&attributes, &start);
    if (error == 0)
        helper_await(&start);
    pthread_attr_destroy(&attributes);
restore_errno:
    errno = saved_errno;
    return error;
}

int teai_platform_helper_start(const char *name, void (*entry)(void *), void *argument)
{
    return helper_start_with_stack(helper_stack_bytes(), name, entry, argument);
}

int teai_platform_client_helper_start(const char *name, void (*entry)(void *), void *argument)
{
    return helper_start_with_stack(0, name, entry, argument);
}

int teai_platform_thread_id(void)
{
    return (int)syscall(SYS_gettid); /* cannot fail */
}

/* Stacks without a limit reach down to whatever is mapped there; no program is known to need as much as this. */
static const uintptr_t stack_unlimited_bytes = (uintptr_t)1 << 30;

/* musl tells how far the main thread's stack is mapped at the moment; the kernel lets it grow to the limit. */
static uintptr_t stack_base_when_grown(uintptr_t base_addr, uintptr_t limit_addr)
{
    struct rlimit rlimit;
    if (TEAI_GLIBC || teai_platform_thread_id() != getpid() || getrlimit(RLIMIT_STACK, &rlimit) != 0)
        return base_addr;
    uintptr_t bytes = rlimit.rlim_cur < limit_addr ? (uintptr_t)rlimit.rlim_cur : stack_unlimited_bytes;
    uintptr_t grown_addr = teai_round_up(limit_addr - bytes, teai_platform_os_page_bytes());
    return grown_addr < base_addr ? grown_addr : base_addr;
}

int teai_platform_stack_bounds(uintptr_t *base_out, uintptr_t *limit_out)
{
    int saved_errno = errno;
    pthread_attr_t attributes;
    void *base;
    size_t bytes;
    int error = pthread_getattr_np(pthread_self(), &attributes);
    if (error == 0) {
        error = pthread_attr_getstack(&attributes, &base, &bytes);
        pthread_attr_destroy(&attributes);
    }
    if (error == 0) {
        *limit_out = (uintptr_t)base + bytes;
        /* Of the main thread: as far as it may grow, mapped or not. */
        *base_out = stack_base_when_grown((uintptr_t)base, *limit_out);
    }
    errno = saved_errno;
    return error;
}

size_t teai_platform_read_memory(void *to, uintptr_t from_addr, size_t nbytes)
{
    int saved_errno = errno;
    struct iovec local = {to, nbytes}, remote = {(void *)from_addr, nbytes};
    ssize_t nread = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (nread < 0 && errno != EFAULT) {
        /* A sandbox refuses the call: all that is left is to read. */
        memcpy(to, (const void *)from_addr, nbytes);
        nread = (ssize_t)nbytes;
    }
    errno = saved_errno;
    return nread > 0 ? (size_t)nread : 0;
}

/* --- output and the end --- */

void teai_platform_stderr(const char *bytes, size_t nbytes)
{
    int saved_errno = errno;
    while (nbytes > 0) {
        ssize_t nwritten = write(STDERR_FILENO, bytes, nbytes);
        if (nwritten < 0 && errno != EINTR)
            break; /* nowhere left to say so */
        if (nwritten > 0) {
            bytes += nwritten;
            nbytes -= (size_t)nwritten;
        }
    }
    errno = saved_errno;
}

/* Handlers of atexit() are skipped: the client's data may be in any state. */
void teai_platform_exit(int status)
{
    _exit(status);
}

const char *teai_platform_getenv(const char *name)
{
    return getenv(name);
}

/* A line put together without stdio; what does not fit is left out. */
struct fatal_line {
    char text[512];
    size_t length;
};

static void fatal_append(struct fatal_line *line, const char *text)
{
    size_t room = sizeof line->text - 1 - line->length; /* one byte kept for the newline */
    size_t nbytes = strnlen(text, room);
    memcpy(line->text + line->length, text, nbytes);
    line->length += nbytes;
}

static void fatal_append_number(struct fatal_line *line, unsigned number)
{
    char digits[sizeof "4294967295"];
    char *first = digits + sizeof digits - 1;
    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    fatal_append(line, first);
}

void teai_fatal(const char *file, int line_number, const char *text)
{
    struct fatal_line line;
    line.length = 0;
    fatal_append(&line, "teaspan: fatal: ");
    fatal_append(&line, file);
    fatal_append(&line, ":");
    fatal_append_number(&line, (unsigned)line_number);
    fatal_append(&line, ": ");
    fatal_append(&line, text);
    line.text[line.length++] = '\n';
    teai_platform_stderr(line.text, line.length);
    abort();
}
