# shellcheck shell=bash disable=SC2034
# What a machine needs before anything here can be built, tested or mounted. Sourced by the other scripts.

# What compiles the C parts (git, SQLite) and links.
readonly BUILD_PACKAGES=(gcc libc6-dev make pkg-config git curl ca-certificates)
# What a person who is not root needs to mount.
readonly MOUNT_PACKAGES=(fuse3)
# The programs that the tests drive against a mount.
readonly TEST_PACKAGES=(vim nano rsync python3 e2fsprogs mount util-linux xz-utils)

# One line per argument, beside what the programs print.
say() { printf '%s\n' "$@" >&2; }
fail() {
    say "$(basename "$0"): $*"
    exit 1
}

# Install those of the named Debian packages that are missing, or say which ones to install.
need_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this is not a Debian-like system; please make sure that these are installed: $*"
        return
    fi
    local package missing=()
    for package in "$@"; do
        # Only the state matters, not the text around it: `un` and `rc` are as good as unknown.
        case "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "$package" 2>/dev/null || true)" in
            ii*) ;;
            *) missing+=("$package") ;;
        esac
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0

    local as_root=()
    if [[ $EUID -ne 0 ]]; then
        command -v sudo >/dev/null || fail "these packages are missing; as root, run: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    # A fresh image has no package lists, and a stale one names versions that are gone.
    "${as_root[@]}" apt-get -qq update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
}

# Find cargo, or install rustup after saying so; rustup then brings the toolchain that rust-toolchain.toml names.
need_rust() {
    if ! command -v cargo >/dev/null && [[ -x ${CARGO_HOME:-$HOME/.cargo}/bin/cargo ]]; then
        PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    fi
    command -v cargo >/dev/null && return
    say "Rust is missing. The packaged one of Debian 12 is too old; rustup from https://rustup.rs brings the right one."
    if [[ -t 0 ]]; then
        local answer
        read -rp "Install rustup into ${CARGO_HOME:-$HOME/.cargo} now? [y/N] " answer
        [[ $answer == [yY]* ]] || fail "install Rust, then run this again"
    fi
    install_rustup
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    command -v cargo >/dev/null || fail "rustup was installed but cargo is not there; see the messages above"
}

# The installer itself rather than a script piped into a shell, and only if it is what its publisher says it is.
install_rustup() {
    local platform folder url
    platform="$(uname -m)-unknown-linux-gnu"
    url="https://static.rust-lang.org/rustup/dist/$platform"
    folder="$(mktemp -d)"
    say "downloading rustup-init from $url"
    curl --proto '=https' --tlsv1.2 -fsS "$url/rustup-init" -o "$folder/rustup-init"
    curl --proto '=https' --tlsv1.2 -fsS "$url/rustup-init.sha256" -o "$folder/rustup-init.sha256"
    local expected
    expected="$(cut -d ' ' -f 1 "$folder/rustup-init.sha256")"
    printf '%s  %s\n' "$expected" "$folder/rustup-init" | sha256sum --check --quiet ||
        fail "rustup-init does not match its checksum; nothing was installed"
    chmod +x "$folder/rustup-init"
    "$folder/rustup-init" -y --profile minimal --default-toolchain none --no-modify-path >&2
    rm -rf "$folder"
}
