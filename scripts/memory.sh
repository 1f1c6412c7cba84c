#!/usr/bin/env bash
# Asks svcfs the questions of public memory benchmarks, for a nightly job.
set -euo pipefail

usage() {
    cat <<'TEXT'
Ask a server the questions of public memory benchmarks

Usage: scripts/memory.sh SVCFS

Starts the program SVCFS with an empty root and runs the benchmarks of `benchd-harness` (PyPI) whose data is in that
package: conversations are stored with svc_remember, questions answered with svc_recall. Questions whose answers only
a model can judge are counted, not asked. Fails if a tool fails, not for a wrong answer. Other memory benchmarks
(LongMemEval, LOCOMO) download their data, and need a model: they are not run.
TEXT
}

case "${1:-}" in
    "" | -h | --help) usage && exit ;;
esac
set -- "$(realpath "$1")"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh
# shellcheck source=scripts/server.sh
source scripts/server.sh
export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
need_packages python3 python3-venv
need_python_tools "${MEMORY_TOOLS[@]}"

start_server "$1"
"$SVCFS_TOOLS/python/bin/python" scripts/memory/provider.py "$url"
