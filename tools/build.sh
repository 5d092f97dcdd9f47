# tools/build.sh -- shell functions: configure and build a preset of CMakePresets.json. Sourced by run and test.

preset_dir() {
    if [ "$1" = release ]; then echo build; else echo "build/$1"; fi
}

# configure_and_build PRESET JOBS [TARGET...]: quiet unless something is wrong or a person watches.
configure_and_build() {
    local preset=$1 jobs=$2 quiet=--quiet
    shift 2
    [ ! -t 1 ] || quiet=
    cmake --preset "$preset" --log-level=NOTICE >/dev/null || die "configuring the $preset preset failed"
    cmake --build "$(preset_dir "$preset")" -j "$jobs" ${1:+--target "$@"} -- $quiet ||
        die "building the $preset preset failed"
}
