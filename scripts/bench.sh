#!/usr/bin/env bash
# The tables of docs/benchmarks.md, on this machine's disk.
set -euo pipefail

usage() {
    cat <<'TEXT'
Measure svcfs beside git and beside the bare filesystem, and print the tables of docs/benchmarks.md

Usage: scripts/bench.sh [OPTIONS]

Options:
  --only PARTS  Only these, with commas between: writing, reading, committer, scale, large, mounted, files, doors,
                pauses, history, links, questions, ranking, searching, answers
  --large       Also a tree of a million pages, which takes minutes more and 24 GiB of disk
  --quick       Less than a minute with small trees, to see that it works; the figures are worth little
  --write       Also replace the tables in docs/benchmarks.md
  -h, --help    Show this

Builds the release binaries first. The whole run takes about three quarters of an hour; let the machine do nothing else meanwhile.
Without /dev/fuse the rows of the mount are left out. What a run makes is removed when it ends, fails or is interrupted.

Environment:
  SVCFS_BENCH_DIR      Directory on the disk to measure (default: ~/.cache/svcfs/bench)
  SVCFS_TOOLS          Where WsgiDAV is installed, which is measured beside (default: ~/.cache/svcfs/tools)
  SVCFS_CORPORA        Directory with tldr.tar.xz (default: ../shared/corpora); without it a generated tree is searched
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
TEXT
}

options=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        -h | --help) usage && exit ;;
        --only) options+=(--only "${2:?--only needs a list of parts}") && shift ;;
        --large | --quick) options+=("$1") ;;
        --write) options+=(--write docs/benchmarks.md) ;;
        *) usage >&2 && exit 2 ;;
    esac
    shift
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
export SVCFS_CORPORA="${SVCFS_CORPORA:-../shared/corpora}"
export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
need_packages "${BUILD_PACKAGES[@]}" "${MOUNT_PACKAGES[@]}" bindfs xz-utils rclone python3-venv
need_rust
# Whatever cannot be had is not measured beside, and the table says so.
(need_python_tools "${RIVAL_PYTHON_TOOLS[@]}") || say "WsgiDAV is left out"
(need_packages nfs-ganesha-vfs rpcbind) || say "NFS-Ganesha is left out"
need_nginx || say "nginx cannot be downloaded; it is left out"
cargo build --release --locked -p svcfs -p svcfs-bench
exec "$CARGO_TARGET_DIR/release/svcfs-bench" --dir "${SVCFS_BENCH_DIR:-$HOME/.cache/svcfs/bench}" "${options[@]}"
