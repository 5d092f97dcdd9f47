#!/usr/bin/env bash
# tests/build/install.sh -- an installed tree, moved elsewhere, serves C and C++ programs through pkg-config and
# find_package, shared and static. Arguments: CMAKE BUILD_DIR LIBDIR COMPILER
set -euo pipefail
cmake=$1 build_dir=$2 libdir=$3 cc=$4
here=$(cd "$(dirname "$0")" && pwd)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$cmake" --install "$build_dir" --prefix "$scratch/first" >"$scratch/install.log"
prefix=$scratch/moved
mv "$scratch/first" "$prefix"

step() {
    echo "$*"
    "$@"
}

run_with_pkg_config() {
    export PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig
    local c="$cc -std=c11 -Wall -Wextra -Werror $here/client.c" cxx="c++ -std=c++17 -Wall -Wextra -Werror $here/client.cpp"
    local shared static
    shared=$(pkg-config --cflags --libs teaspan)
    static=$(pkg-config --static --cflags --libs teaspan)
    step $c -o "$scratch/c-shared" $shared -Wl,-rpath,"$prefix/$libdir"
    step $cxx -o "$scratch/cxx-shared" $shared -Wl,-rpath,"$prefix/$libdir"
    step $c -o "$scratch/c-archive" ${static/-lteaspan/-l:libteaspan.a}
    step $cxx -o "$scratch/cxx-archive" ${static/-lteaspan/-l:libteaspan.a}
    step $c -static -o "$scratch/c-static" $static
    for program in c-shared cxx-shared c-archive cxx-archive c-static; do
        step "$scratch/$program"
    done
}

run_with_find_package() {
    step "$cmake" -S "$here/consumer" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/consumer.log"
    step "$cmake" --build "$scratch/consumer" >>"$scratch/consumer.log"
    for program in "$scratch"/consumer/client_*; do
        step "$program"
    done
}

run_with_pkg_config
run_with_find_package
