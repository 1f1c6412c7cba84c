#!/usr/bin/env bash
# Runs the tests in their long form, for a nightly job.
set -euo pipefail

usage() {
    cat <<'TEXT'
Run the tests in their long form

Usage: scripts/nightly.sh [CARGO-TEST-ARGUMENTS...]

Runs the tests of scripts/test.sh. Tests with random input or repetitions read their limits from these variables.
Without arguments, these follow: scripts/schema.sh, scripts/bench.sh --quick, scripts/browser.sh, scripts/memory.sh,
scripts/release.sh --try and `cargo install` (as root), scripts/nfs/pjdfstest.sh (on amd64) and scripts/power.sh (as root
on amd64).

Environment (a variable that is set already is not changed):
  SVCFS_CRASH_ROUNDS   Times the server is killed under load and opened again (default here: 200)
  SVCFS_CLAIM_ROUNDS   Times the server is killed while workers claim tasks (default here: 50)
  SVCFS_DRAFT_ROUNDS   Times the server is killed while drafts are written and merged (default here: 50)
  SVCFS_FLEET_SECONDS  Seconds for which 64 agents read, edit, search and claim (default here: 600)
  SVCFS_FSX_OPERATIONS Random operations on an asset and on a page of the mount (default here: 1000000)
  SVCFS_LINEAR_SECONDS Seconds of concurrent writes through all protocols in the linearizability test (default here: 60)
  SVCFS_OTHERS_TIMES   Factor for the git commands in the root while agents write (default here: 10)
  SVCFS_POWER_ROUNDS   Loads whose disk loses power at nine moments, and machines that lose power (default here: 50)
  SVCFS_UNDO_ROUNDS    Times the server is killed during an undo (default here: 50)
  SVCFS_STRESS_SECONDS Seconds of stress-ng with unusual system calls on the mount (default here: 120)
  SVCFS_DOOR_FILES     Small files uploaded and downloaded over WebDAV, S3 and NFS (default here: 10000)
  SVCFS_DOOR_MIB       MiB of a file copied through every protocol with little memory (default here: 2048)
  SVCFS_SLOW_CLIENTS   Clients that send one byte a second while other requests are answered (default here: 1000)
  SVCFS_SLOW_SECONDS   Seconds for which the slow clients send (default here: 90)
  SVCFS_CROWD_SPACES   Spaces of one server whose threads and memory are counted (default here: 200)
  SVCFS_CROWD_PAGES    Pages in each of these spaces (default here: 500)
  SVCFS_SCHEMA_SECONDS Seconds for each of the three API checks of scripts/schema.sh (default here: 300)
  SVCFS_SOAK_SECONDS   Seconds of load under which a server's memory must not grow (default here: 600)
  SVCFS_FIDELITY_CASES Random sequences of system calls on the mount, compared with a plain disk (default here: 3000)
  SVCFS_MODEL_CASES    Random sequences of operations, compared with the model (default here: 10000)
  PROPTEST_CASES       Random cases per property (default here: 20000)
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
TEXT
}

case "${1:-}" in
    -h | --help) usage && exit ;;
esac

export SVCFS_CRASH_ROUNDS="${SVCFS_CRASH_ROUNDS:-200}"
export SVCFS_CLAIM_ROUNDS="${SVCFS_CLAIM_ROUNDS:-50}"
export SVCFS_DRAFT_ROUNDS="${SVCFS_DRAFT_ROUNDS:-50}"
export SVCFS_FLEET_SECONDS="${SVCFS_FLEET_SECONDS:-600}"
export SVCFS_FSX_OPERATIONS="${SVCFS_FSX_OPERATIONS:-1000000}"
export SVCFS_UNDO_ROUNDS="${SVCFS_UNDO_ROUNDS:-50}"
export SVCFS_STRESS_SECONDS="${SVCFS_STRESS_SECONDS:-120}"
export SVCFS_LINEAR_SECONDS="${SVCFS_LINEAR_SECONDS:-60}"
export SVCFS_OTHERS_TIMES="${SVCFS_OTHERS_TIMES:-10}"
export SVCFS_POWER_ROUNDS="${SVCFS_POWER_ROUNDS:-50}"
export SVCFS_CROWD_SPACES="${SVCFS_CROWD_SPACES:-200}"
export SVCFS_CROWD_PAGES="${SVCFS_CROWD_PAGES:-500}"
export SVCFS_SCHEMA_SECONDS="${SVCFS_SCHEMA_SECONDS:-300}"
export SVCFS_SOAK_SECONDS="${SVCFS_SOAK_SECONDS:-600}"
export SVCFS_FIDELITY_CASES="${SVCFS_FIDELITY_CASES:-3000}"
export SVCFS_MODEL_CASES="${SVCFS_MODEL_CASES:-10000}"
export SVCFS_DOOR_FILES="${SVCFS_DOOR_FILES:-10000}"
export SVCFS_DOOR_MIB="${SVCFS_DOOR_MIB:-2048}"
export SVCFS_SLOW_CLIENTS="${SVCFS_SLOW_CLIENTS:-1000}"
export SVCFS_SLOW_SECONDS="${SVCFS_SLOW_SECONDS:-90}"
# The slow clients and the server are one process, which holds both ends of each connection.
ulimit -n "$(ulimit -Hn)"
export PROPTEST_CASES="${PROPTEST_CASES:-20000}"
scripts="$(dirname "${BASH_SOURCE[0]}")"

# shellcheck source=scripts/prerequisites.sh
source "$scripts/prerequisites.sh"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"

# Builds the optimised release, and installs it in each documented way. The tests do so with the program that they have.
try_release() {
    local folder
    [[ $EUID -eq 0 ]] || return 0
    need_rust
    folder="$(mktemp -d)"
    "$scripts/release.sh" --to "$folder/dist" --try
    # The command of docs/install.md, into another folder and with what is built already.
    (cd "$scripts/.." && cargo install --locked --path src/daemon --root "$folder/cargo")
    "$folder/cargo/bin/svcfs" --version
    rm -r "$folder"
}

"$scripts/test.sh" "$@"
# With arguments only the named tests run: no benchmark and no emulated machine.
[[ $# -eq 0 ]] || exit 0
"$scripts/schema.sh"
"$scripts/bench.sh" --quick
# With the program that the benchmark built.
"$scripts/browser.sh" "$CARGO_TARGET_DIR/release/svcfs"
"$scripts/memory.sh" "$CARGO_TARGET_DIR/release/svcfs"
try_release
[[ $(uname -m) != x86_64 ]] || "$scripts/nfs/pjdfstest.sh"
[[ $EUID -eq 0 && $(uname -m) == x86_64 ]] || exit 0
exec "$scripts/power.sh"
