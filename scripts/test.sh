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

Tests that need what a machine lacks (/dev/fuse, root, a program that cannot be installed) are skipped; the run ends with a
list of them and the reasons. No test needs anything beside the clone.

Tests run beside each other and keep every processor busy: what fails then is asked once more with nothing beside it. A test
that fails again is red; one that does not is listed as unsteady, and is a defect to be mended all the same.

Environment:
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS          Where to install what comes with cargo, pip and npm (default: ~/.cache/svcfs/tools)
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
# A machine of its own, because only a kernel that is somebody else's can be asked to mount what is served.
[[ $(uname -m) != x86_64 ]] || scripts/nfs/guest.sh

# Drops the output of tests that passed, except for the reason why one was skipped.
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

# Runs `cargo test` with arguments, and writes what is printed to a file, too.
run_tests() {
    local file=$1 output=(--show-output)
    shift
    # Arguments of the test programs stand behind the first `--`.
    [[ " $* " == *" -- "* ]] || output=(-- --show-output)
    cargo test --locked --no-fail-fast "$@" "${output[@]}" 2>&1 | filter_successes | tee "$file"
}

list_skipped() {
    local skipped
    mapfile -t skipped < <(sed -n 's/^skipped \(.*: .*\)$/\1/p' "$printed/all" | sort -u)
    ((${#skipped[@]} == 0)) || say "" "${#skipped[@]} tests were skipped:" "${skipped[@]/#/  }"
}

# The names of tests that failed, from what was printed.
failed_tests() {
    sed -n -E 's/^test (.*) \.\.\. FAILED$/\1/p' "$1" | sed -E 's/ - should panic$//' | sort -u
}

# The targets that failed, as arguments of cargo, one in each line.
failed_targets() {
    # shellcheck disable=SC2016 # cargo prints them between these
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
# A build that failed names no test, and a process that died not all that it should have run.
((${#tests[@]} > 0 && ${#targets[@]} > 0)) && ! grep -q '(signal: ' "$printed/all" || exit "$outcome"
say "" "== once more, alone: ${tests[*]}"
asked=0
for target in "${targets[@]}"; do
    read -r -a target <<<"$target"
    run_tests "$printed/again" "${target[@]}" -- --exact --test-threads=1 "${tests[@]}" || exit
    ran=$(sed -n -E 's/^test result: ok\. ([0-9]+) passed.*/\1/p' "$printed/again" | tail -1)
    # What failed of this target must have been asked.
    ((${ran:-0} > 0)) || exit "$outcome"
    asked=$((asked + ran))
done
((asked >= ${#tests[@]})) || exit "$outcome"
say "" "UNSTEADY, failed beside others and not alone, to be mended: ${tests[*]}"
