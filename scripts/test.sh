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
that fails again fails the run. One that passes is listed as flaky; this is a bug to fix as well.

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
need_tools "${TEST_TOOLS[@]}" "${PACKAGE_TOOLS[@]}"
need_python_tools "${PYTHON_TOOLS[@]}"
need_node_tools
need_nginx || fail "nginx could not be downloaded; run: apt-get update"
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
    local file=$1 output=(--show-output)
    shift
    # Arguments of the test programs follow the first `--`.
    [[ " $* " == *" -- "* ]] || output=(-- --show-output)
    cargo test --locked --no-fail-fast "$@" "${output[@]}" 2>&1 | filter_successes | tee "$file"
}

list_skipped() {
    local skipped
    mapfile -t skipped < <(sed -n 's/^skipped \(.*: .*\)$/\1/p' "$printed/all" | sort -u)
    ((${#skipped[@]} == 0)) || say "" "${#skipped[@]} tests were skipped:" "${skipped[@]/#/  }"
}

# Prints the names of failed tests from an output file.
failed_tests() {
    sed -n -E 's/^test (.*) \.\.\. FAILED$/\1/p' "$1" | sed -E 's/ - should panic$//' | sort -u
}

# Prints the failed targets as cargo arguments, one target on each line.
failed_targets() {
    # shellcheck disable=SC2016 # cargo prints them between backquotes
    sed -n -E 's/^    `(-p .*)`$/\1/p' "$1"
}

printed=$(mktemp -d)
trap 'rm -rf "$printed"' EXIT
outcome=0
run_tests "$printed/all" --workspace "$@" || outcome=$?
list_skipped
((outcome != 0)) || exit 0
mapfile -t tests < <(failed_tests "$printed/all")
mapfile -t targets < <(failed_targets "$printed/all")
# No second run after a failed build, which lists no tests, or a killed process, which has not run all its tests.
((${#tests[@]} > 0 && ${#targets[@]} > 0)) && ! grep -q '(signal: ' "$printed/all" || exit "$outcome"
say "" "== second run, one after the other: ${tests[*]}"
passed=0
for target in "${targets[@]}"; do
    read -r -a target <<<"$target"
    run_tests "$printed/second" "${target[@]}" -- --exact --test-threads=1 "${tests[@]}" || exit
    ran=$(sed -n -E 's/^test result: ok\. ([0-9]+) passed.*/\1/p' "$printed/second" | tail -1)
    # A failed target must have run at least one of the failed tests.
    ((${ran:-0} > 0)) || exit "$outcome"
    passed=$((passed + ran))
done
((passed >= ${#tests[@]})) || exit "$outcome"
say "" "FLAKY, failed in parallel and passed alone, fix them: ${tests[*]}"
