#!/usr/bin/env bash
# Runs the conformance suite of the Model Context Protocol against a server.
set -euo pipefail

usage() {
    cat <<'TEXT'
Run the MCP conformance suite (npm @modelcontextprotocol/conformance) against `svcfs serve`, for 2026-07-28 and 2025-11-25

Usage: scripts/mcp-conformance.sh [SVCFS]

Fails when a check fails that scripts/mcp/expected-failures.txt does not list, and when one that it lists passes. Without the program SVCFS, builds it.

Environment:
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS          Where to install programs from npm (default: ~/.cache/svcfs/tools)
TEXT
}

case "${1:-}" in
    -h | --help) usage && exit ;;
esac

[[ -z ${1:-} ]] || set -- "$(realpath "$1")"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh
# shellcheck source=scripts/server.sh
source scripts/server.sh

export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
need_node_tools
start_server "${1:-}"
suite="$SVCFS_TOOLS/node/node_modules/@modelcontextprotocol/conformance/dist/index.js"
for revision in 2026-07-28 2025-11-25; do
    # It fails where a check fails; which ones may is decided below.
    "$(newest_node)" "$suite" server --url "$url/mcp" --requirements "$revision" -o "$work/results-$revision" \
        >"$work/output" 2>&1 || true
    scripts/mcp/conformance.py "$revision" "$work/results-$revision" || {
        tail -n 100 "$work/output"
        fail "the conformance suite failed for $revision"
    }
done
