#!/usr/bin/env bash
# NOT BUILT HERE: no test runs this recipe, because the target's standard library cannot be downloaded where svcfs is
# tested. Please report what you had to change.
set -euo pipefail

usage() {
    cat <<'TEXT'
Build a static svcfs for x86_64 (musl), which runs on any Linux

Usage: scripts/release/musl.sh [--to DIR]

Writes svcfs-VERSION-x86_64-linux-musl.tar.gz and its checksum into DIR (default: folder `dist` in the target
directory).
The allocator of musl is slower with many threads than that of glibc; prefer the normal build on a server.
NOT BUILT HERE: this recipe is complete but not tested.
TEXT
}

case "${1:-}" in
    -h | --help) usage && exit ;;
esac
[[ $# -eq 0 || ($# -eq 2 && $1 == --to) ]] || { usage >&2 && exit 2; }
output="$(realpath -m "${2:-${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}/dist}")"

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh
# shellcheck source=scripts/release/pack.sh
source scripts/release/pack.sh

target=x86_64-unknown-linux-musl
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
need_packages "${BUILD_PACKAGES[@]}" musl-tools binutils
need_rust
rustup target add "$target"
# git, SQLite and zlib are C code and need the compiler of musl.
CC_x86_64_unknown_linux_musl=musl-gcc cargo build --locked --release --target "$target" -p svcfs
program="$CARGO_TARGET_DIR/$target/release/svcfs"
! objdump -p "$program" | grep -q NEEDED || fail "$program is not static"
tarball="$(pack_program "$program" x86_64-linux-musl "$output")"
(cd "$output" && sha256sum "$tarball" >"$tarball.sha256" && ls -l --human-readable "$tarball")
