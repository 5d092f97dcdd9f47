# tools/install_deps.sh -- shell functions: install the Debian packages that are missing. Sourced by run and test.

packages_to_build="cmake ninja-build gcc g++ pkg-config libcmocka-dev libgc-dev python3 python3-rich time util-linux"
# Without these some tests are skipped.
packages_to_test="clang-14 musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

missing_packages() {
    local package
    for package; do
        dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || echo "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "installing packages needs root or sudo; install them yourself and pass --no-install: $missing"
    fi
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@" >/dev/null
}

# install_deps REQUIRED OPTIONAL: two lists of packages. Does nothing, and runs no apt, when all are there.
install_deps() {
    local required optional missing
    command -v dpkg >/dev/null ||
        die "this is no Debian system; install the equivalents yourself and pass --no-install: $1"
    required=$(missing_packages $1)
    optional=$(missing_packages $2)
    missing=$(echo $required $optional)
    [ -n "$missing" ] || return 0
    echo "installing: $missing"
    as_root apt-get update -qq || die "apt-get update failed; see above"
    [ -z "$required" ] || apt_install $required || die "could not install: $(echo $required)"
    [ -z "$optional" ] || apt_install $optional ||
        echo "note: could not install: $(echo $optional); tests that need them are skipped" >&2
}
