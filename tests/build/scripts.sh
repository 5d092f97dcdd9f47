#!/usr/bin/env bash
# tests/build/scripts.sh -- ./test and ./run refuse bad options in two lines; the installer runs apt only for what is missing.
# Argument: SOURCE_DIR
set -euo pipefail
cd "$1"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "failed: $*"
    exit 1
}

refused() {
    local status=0
    "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
    [ $status = 2 ] || fail "$*: status $status, expected 2"
    [ ! -s "$scratch/out" ] || fail "$*: wrote to standard output"
    [ "$(wc -l <"$scratch/err")" = 2 ] || fail "$*: not two lines on standard error"
    sed -n 2p "$scratch/err" | grep -q '^usage: ' || fail "$*: no usage line"
    sed -n 1p "$scratch/err" | grep -qF -- "${!#}" || fail "$*: the error does not name ${!#}"
}

# A machine whose installed packages are the words of $scratch/installed and where apt can install those of
# $scratch/available. Every apt-get call is recorded.
mkdir "$scratch/bin"
cat >"$scratch/bin/dpkg" <<'STUB'
#!/bin/sh
grep -qw -- "$2" "${0%/bin/dpkg}/installed" && echo "Status: install ok installed"
STUB
cat >"$scratch/bin/apt-get" <<'STUB'
#!/bin/sh
scratch=${0%/bin/apt-get}
echo "$*" >>"$scratch/calls"
[ "$1" = install ] || exit 0
shift
for word; do
    case $word in -*) ;; *) grep -qw -- "$word" "$scratch/available" || exit 100 ;; esac
done
STUB
printf '#!/bin/sh\n"$@"\n' >"$scratch/bin/sudo"
chmod +x "$scratch/bin/"*

# install_on INSTALLED AVAILABLE: run the installer for required "one two" and optional "three".
install_on() {
    echo "$1" >"$scratch/installed"
    echo "$2" >"$scratch/available"
    : >"$scratch/calls"
    PATH=$scratch/bin:$PATH bash -c '. tools/install_deps.sh; install_deps "one two" three' >"$scratch/log" 2>&1
}

refused ./test --bogus
refused ./test --label
refused ./test --preset fast
refused ./test -j none
refused ./run --no-install --bogus

install_on "one two three" "" || fail "nothing is missing, yet the installer failed"
[ ! -s "$scratch/calls" ] || fail "apt ran although nothing is missing"

install_on "one" "two three" || fail "the installer failed"
[ "$(grep -c ^install "$scratch/calls")" = 2 ] && grep -q ' two$' "$scratch/calls" && grep -q ' three$' "$scratch/calls" &&
    ! grep -qw one "$scratch/calls" || fail "apt was not asked for exactly what is missing"

install_on "one two" "" || fail "an optional package that apt does not have stopped the installer"
grep -q 'could not install: three' "$scratch/log" || fail "a missing optional package was not mentioned"

! install_on "one three" "" || fail "a required package that apt does not have went unnoticed"
grep -q 'could not install: two' "$scratch/log" || fail "the missing required package was not named"
