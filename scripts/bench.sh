#!/usr/bin/env bash
# Measures the tables of docs/benchmarks.md on this machine's disk.
set -euo pipefail

usage() {
    cat <<'TEXT'
Measure svcfs, git and the bare filesystem side by side, and print the tables of docs/benchmarks.md

Usage: scripts/bench.sh [OPTIONS]

Options:
  --only PARTS  Measure only these parts, separated by commas: writing, reading, committer, scale, large, mounted,
                files, doors, pauses, history, links, questions, ranking, searching, answers, large-trees
  --large       Also measure a tree of a million pages; needs some more minutes and 24 GiB of disk
  --quick       Check that the benchmark works: small trees, less than a minute. Do not compare the figures
  --write       Also replace the tables in docs/benchmarks.md
  -h, --help    Show this help

Builds the release binaries first: the first time about 10 minutes on 2 cores. A full run takes about 45 minutes; do not
use the machine for anything else.
Without /dev/fuse the rows of the mount are missing. A run removes its files when it ends, fails or is interrupted.

Environment:
  SVCFS_BENCH_DIR      Directory on the disk to measure (default: ~/.cache/svcfs/bench)
  SVCFS_TOOLS          Where to install WsgiDAV, one of the compared servers (default: ~/.cache/svcfs/tools)
  SVCFS_CORPORA        Directory with tldr.tar.xz (default: ../shared/corpora); without it a generated tree is used
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
# A server that cannot be installed is not compared; the table says so.
(need_python_tools "${RIVAL_PYTHON_TOOLS[@]}") || say "WsgiDAV cannot be installed; it is not measured"
(need_packages nfs-ganesha-vfs rpcbind) || say "NFS-Ganesha cannot be installed; it is not measured"
need_proxies nginx || say "nginx cannot be downloaded; it is not measured"
cargo build --release --locked -p svcfs -p svcfs-bench
exec "$CARGO_TARGET_DIR/release/svcfs-bench" --dir "${SVCFS_BENCH_DIR:-$HOME/.cache/svcfs/bench}" "${options[@]}"
