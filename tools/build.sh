# tools/build.sh -- shell functions: configure and build a preset of CMakePresets.json. Sourced by run and test.

preset_dir() {
    if [ "$1" = release ]; then echo build; else echo "build/$1"; fi
}

# configure_and_build PRESET JOBS [TARGET...]: silent unless something is wrong or a person watches.
configure_and_build() {
    local preset=$1 jobs=$2 build log
    shift 2
    cmake --preset "$preset" --log-level=NOTICE >/dev/null || die "configuring the $preset preset failed"
    build=(cmake --build "$(preset_dir "$preset")" -j "$jobs" ${1:+--target "$@"})
    if [ -t 1 ]; then
        "${build[@]}"
    else
        log=$("${build[@]}" -- --quiet 2>&1) || { echo "$log" >&2 && false; }
    fi || die "building the $preset preset failed"
}
