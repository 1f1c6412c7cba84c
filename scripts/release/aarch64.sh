#!/usr/bin/env bash
# NOT BUILT HERE: no test runs this recipe, because the target's standard library cannot be downloaded where svcfs is
# tested. Please report what you had to change.
set -euo pipefail

usage() {
    cat <<'TEXT'
Cross-compile svcfs for 64-bit ARM (glibc) on Debian 12

Usage: scripts/release/aarch64.sh [--to DIR]

Writes svcfs-VERSION-aarch64-linux-gnu.tar.gz and its checksum into DIR (default: folder `dist` in the target
directory).
On an ARM machine scripts/release.sh builds the same, and a Debian package.
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

target=aarch64-unknown-linux-gnu
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
need_packages "${BUILD_PACKAGES[@]}" gcc-aarch64-linux-gnu libc6-dev-arm64-cross
need_rust
rustup target add "$target"
CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
    cargo build --locked --release --target "$target" -p svcfs
tarball="$(pack_program "$CARGO_TARGET_DIR/$target/release/svcfs" aarch64-linux-gnu "$output")"
(cd "$output" && sha256sum "$tarball" >"$tarball.sha256" && ls -l --human-readable "$tarball")
