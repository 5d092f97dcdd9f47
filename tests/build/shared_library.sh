#!/usr/bin/env bash
# tests/build/shared_library.sh -- the shared library exports what the headers declare and nothing else, under its
# soname, and is never unloaded. Arguments: LIBRARY INCLUDE_DIR COMPILER
set -euo pipefail
library=$1 include_dir=$2 compiler=$3

# Functions of the C and C++ libraries that are interposed, besides the public interface.
interposed="pthread_create pthread_join pthread_tryjoin_np pthread_timedjoin_np pthread_detach pthread_exit
pthread_sigmask sigprocmask sigsuspend pselect ppoll epoll_pwait sigwait sigwaitinfo sigtimedwait sigaction signal
__cxa_allocate_exception __cxa_free_exception"

declared() {
    echo '#include <teaspan/teaspan.h>' | "$compiler" -x c -E -P -I"$include_dir" - | tr -d '\n' | tr ';{}' '\n' |
        grep -F 'visibility("default")' | grep -oE '\btea_[a-z0-9_]+ ?\(' | tr -d ' ('
    tr ' ' '\n' <<<"$interposed"
}

exported() {
    nm -D --defined-only --without-symbol-versions "$library" | awk '$2 != "A" {print $3}'
}

difference=$(diff <(declared | grep . | sort -u) <(exported | sort -u)) || {
    echo "declared (<) and exported (>) names differ:"
    echo "$difference"
    exit 1
}

dynamic=$(readelf -dW "$library")
for wanted in '(SONAME).*\[libteaspan\.so\.0\]' 'NODELETE'; do
    grep -q "$wanted" <<<"$dynamic" || {
        echo "$library: no $wanted in the dynamic section"
        exit 1
    }
done

# A program that loads us late has only the spare room of the C library's static thread-local block left for our
# initial-exec thread-locals; other libraries want some of it too.
tls_max_bytes=64
tls_bytes=$(($(readelf -lW "$library" | awk '$1 == "TLS" {print $6}') + 0))
[ "$tls_bytes" -le $tls_max_bytes ] || {
    echo "$library: $tls_bytes bytes of thread-locals, more than $tls_max_bytes"
    exit 1
}
