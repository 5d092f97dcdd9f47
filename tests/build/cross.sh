#!/usr/bin/env bash
# tests/build/cross.sh -- the library builds for another C library or CPU, and a program linked with it runs. Skipped
# (status 77) without the compiler. Arguments: musl|aarch64 CMAKE SOURCE_DIR BUILD_DIR
set -euo pipefail
target=$1 cmake=$2 source_dir=$3 build_dir=$4

case $target in
musl) compiler=musl-gcc package=musl-tools emulator= ;;
aarch64) compiler=aarch64-linux-gnu-gcc package="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" emulator=qemu-aarch64 ;;
esac

command -v "$compiler" >/dev/null || {
    echo "skipped: $compiler is not installed (Debian: $package)"
    exit 77
}

"$cmake" -S "$source_dir" -B "$build_dir" -G Ninja --log-level=NOTICE \
    -DCMAKE_TOOLCHAIN_FILE="$source_dir/cmake/toolchain-$target.cmake" -DCMAKE_COMPILE_WARNING_AS_ERROR=ON \
    -DTEASPAN_TESTS=OFF -DTEASPAN_PROGRAMS=OFF
"$cmake" --build "$build_dir" -- --quiet

"$compiler" -std=c11 -O1 -Wall -Wextra -Werror -I"$source_dir/include" "$source_dir/tests/build/client.c" \
    -static -o "$build_dir/client" "$build_dir/libteaspan.a" -pthread -lm

if [ -n "$emulator" ] && ! command -v "$emulator" >/dev/null; then
    echo "built, not run: $emulator is not installed (Debian: qemu-user)"
    exit 0
fi
$emulator "$build_dir/client"
