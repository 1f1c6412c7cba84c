#!/usr/bin/env bash
# Install what the tests need and run all of them.
set -euo pipefail

usage() {
    cat <<'TEXT'
Install what the tests need and run all of them with plain `cargo test`

Usage: scripts/test.sh [CARGO-TEST-ARGUMENTS...]

Arguments are handed to `cargo test --workspace`, for example:
  scripts/test.sh                            everything
  scripts/test.sh rename                     tests with `rename` in their name
  scripts/test.sh -- --nocapture             show what tests print

Tests that mount are skipped, with a printed reason, where /dev/fuse is missing.

Environment:
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS          Where to install what comes with cargo and pip (default: ~/.cache/svcfs/tools)
TEXT
}

case "${1:-}" in
    -h | --help) usage && exit ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
need_packages "${BUILD_PACKAGES[@]}" "${MOUNT_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
need_rust
export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
need_tools "${TEST_TOOLS[@]}" "${PACKAGE_TOOLS[@]}"
need_python_tools "${PYTHON_TOOLS[@]}"
# A machine of its own, because only a kernel that is somebody else's can be asked to mount what is served.
[[ $(uname -m) != x86_64 ]] || scripts/nfs/guest.sh
exec cargo test --workspace --locked "$@"
