#!/usr/bin/env bash
# tests/build/static_data.sh -- all writable static data of the collector lies in the section teaspan_state (TEAI_STATE
# in base/config.h): what lies elsewhere would be scanned as roots of the program. Arguments: ARCHIVE COMPILER
set -euo pipefail
archive=$1 compiler=$2

# Sections with contents that are writable while the program runs. Relocated constants and initialiser
# tables are read-only by then; thread-locals are not static data.
writable_sections() {
    objdump -hw "$1" | awk '
        /file format/ { object = $1 }
        $1 ~ /^[0-9]+$/ && /ALLOC/ && !/READONLY/ && !/THREAD_LOCAL/ && $3 !~ /^0+$/ &&
        $2 !~ /^(teaspan_state$|\.data\.rel\.ro|\.(preinit|init|fini)_array)/ { print object, $2, "0x" $3 " bytes" }'
}

# The check itself must be able to fail.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo 'static int counter; int next(void); int next(void) { return ++counter; }' >"$scratch/planted.c"
"$compiler" -c "$scratch/planted.c" -o "$scratch/planted.o"
ar rc "$scratch/planted.a" "$scratch/planted.o"
[ -n "$(writable_sections "$scratch/planted.a")" ] || {
    echo "a planted static variable was not noticed"
    exit 1
}

found=$(writable_sections "$archive")
[ -z "$found" ] || {
    echo "writable static data outside teaspan_state:"
    echo "$found"
    exit 1
}
