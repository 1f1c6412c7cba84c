#!/usr/bin/env bash
# Installs the prerequisites of the tests and runs all tests.
set -euo pipefail

usage() {
    cat <<'TEXT'
Install the prerequisites of the tests and run all tests with `cargo test`

Usage: scripts/test.sh [CARGO-TEST-ARGUMENTS...]

Passes its arguments to `cargo test --workspace`, for example:
  scripts/test.sh                            all tests
  scripts/test.sh rename                     tests with `rename` in their name
  scripts/test.sh -- --nocapture             show the output of the tests

A test is skipped when the machine lacks something it needs: /dev/fuse, root, or a program that cannot be installed.
The run ends with a list of skipped tests and the reasons. No test needs files outside the clone.

Tests run in parallel and use all processors. The tests that fail then run a second time, one after the other. A test
that fails again fails the run. One that passes is listed as flaky; this is a bug to fix as well. When no test ends for
10 minutes, the test programs are killed, and run again in the same way.

Environment:
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS          Where to install programs from cargo, pip and npm (default: ~/.cache/svcfs/tools)
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
need_tools "${TEST_TOOLS[@]}" "${PACKAGE_TOOLS[@]}" "${RELEASE_TOOLS[@]}"
need_python_tools "${PYTHON_TOOLS[@]}"
need_node_tools
need_proxies nginx caddy || fail "nginx and caddy could not be downloaded; run: apt-get update"
# An emulated machine: its kernel mounts the NFS export without changing this machine.
[[ $(uname -m) != x86_64 ]] || scripts/nfs/guest.sh

# Removes the output of passed tests, except the reasons of skipped ones.
filter_successes() {
    local line test="" in_successes=false
    while IFS= read -r line; do
        if ! "$in_successes"; then
            if [[ $line == successes: ]]; then in_successes=true; else printf '%s\n' "$line"; fi
            continue
        fi
        case $line in
            "---- "*" stdout ----") test=${line#---- } && test=${test% stdout ----} ;;
            "skipped: "*) printf 'skipped %s: %s\n' "$test" "${line#skipped: }" ;;
            failures: | "test result: "*) in_successes=false && printf '%s\n' "$line" ;;
        esac
    done
}

# Runs `cargo test` with these arguments; prints the output and writes it to a file.
run_tests() {
    local file=$1 output=(--show-output) watchdog outcome=0
    shift
    # Arguments of the test programs follow the first `--`.
    [[ " $* " == *" -- "* ]] || output=(-- --show-output)
    : >"$file.raw"
    end_stalls "$file.raw" &
    watchdog=$!
    cargo test --locked --no-fail-fast "$@" "${output[@]}" 2>&1 | tee "$file.raw" | filter_successes | tee "$file" ||
        outcome=$?
    kill "$watchdog" || true
    return "$outcome"
}

# Prints the processes that run programs below the target directory, one `PID PROGRAM` on each line.
list_test_processes() {
    local process program
    for process in /proc/[0-9]*; do
        program=$(readlink "$process/exe") || continue
        [[ $program != "$CARGO_TARGET_DIR"/* ]] || printf '%s %s\n' "${process#/proc/}" "${program% (deleted)}"
    done
}

# Kills the test programs when the output file does not grow for `STALL_SECONDS`, so that a test that waits forever
# fails this run with a report. A CI that is stopped from outside reports nothing.
end_stalls() {
    local pid program thread waits connection
    while sleep 15; do
        (($(date +%s) - $(stat --format=%Y "$1") >= STALL_SECONDS)) || continue
        say "" "== STALLED: no output for $STALL_SECONDS s; threads that wait in the kernel:"
        while read -r pid program; do
            for thread in "/proc/$pid/task/"*; do
                waits=$(cat "$thread/wchan" 2>/dev/null) || true
                [[ $waits == futex* ]] || say "$program $(cat "$thread/comm" 2>/dev/null): $waits"
            done
        done < <(list_test_processes) | head -200 || true
        while read -r pid program; do kill -KILL "$pid" || true; done < <(list_test_processes)
        # A process that waits for its own mount ends when the connection of the mount does.
        for connection in /sys/fs/fuse/connections/*; do
            [[ ! -w $connection/abort || $(cat "$connection/waiting") == 0 ]] || echo 1 >"$connection/abort"
        done
        touch "$1"
    done
}

list_skipped() {
    local skipped
    mapfile -t skipped < <(sed -n 's/^skipped \(.*: .*\)$/\1/p' "$printed/all" | sort -u)
    ((${#skipped[@]} == 0)) || say "" "${#skipped[@]} tests were skipped:" "${skipped[@]/#/  }"
}

# Prints the names of failed tests. They are read from the lists at the end, because child processes write into the
# middle of result lines.
failed_tests() {
    awk '/^failures:$/ { listing = 1; next } listing && /^    [^ ]/ { print $1; next } { listing = 0 }' "$1" | sort -u
}

# Prints the failed targets as cargo arguments, one target on each line.
failed_targets() {
    # shellcheck disable=SC2016 # cargo prints them between backquotes
    sed -n -E 's/^    `(-p .*)`$/\1/p' "$1"
}

# Prints the targets whose process was killed by a signal. They have not run all their tests.
killed_targets() {
    # shellcheck disable=SC2016 # cargo prints them between backquotes
    awk -F '`' '/^error: test failed, to rerun pass/ { target = $2 } /\(signal: / { print target }' "$1" | sort -u
}

# Runs each failed test once more, and each killed target. Returns 0 when all pass.
repeat_failed() {
    local target tests
    while read -r -a target; do
        say "" "== second run of a killed target: ${target[*]}"
        run_tests "$printed/second" "${target[@]}" </dev/null || return
    done < <(killed_targets "$printed/all")
    mapfile -t tests < <(failed_tests "$printed/all")
    ((${#tests[@]} > 0)) || return 0
    say "" "== second run, one after the other: ${tests[*]}"
    local passed=0 ran
    while read -r -a target; do
        run_tests "$printed/second" "${target[@]}" -- --exact --test-threads=1 "${tests[@]}" </dev/null || return
        ran=$(sed -n -E 's/^test result: ok\. ([0-9]+) passed.*/\1/p' "$printed/second" | tail -1)
        # A failed target must have run at least one of the failed tests.
        ((${ran:-0} > 0)) || return 1
        passed=$((passed + ran))
    done < <(comm -23 <(failed_targets "$printed/all" | sort -u) <(killed_targets "$printed/all"))
    ((passed >= ${#tests[@]}))
}

# Without output for this time, a test is considered to wait forever.
STALL_SECONDS=${SVCFS_STALL_SECONDS:-600}
printed=$(mktemp -d)
trap 'rm -rf "$printed"' EXIT
outcome=0
run_tests "$printed/all" --workspace "$@" || outcome=$?
list_skipped
((outcome != 0)) || exit 0
# No second run after a failed build, which lists no targets.
[[ -n $(failed_targets "$printed/all") ]] || exit "$outcome"
mapfile -t unreliable < <(killed_targets "$printed/all" && failed_tests "$printed/all")
if repeat_failed; then
    say "" "FLAKY, failed in parallel and passed alone, fix them:" "${unreliable[@]/#/  }"
    exit 0
fi
sed -n '/^failures:$/,$p' "$printed/second" || true
say "" "FAILED:" "${unreliable[@]/#/  }"
exit "$outcome"
