#!/usr/bin/env bash
# Runs the official clients of the Model Context Protocol against a server.
set -euo pipefail

usage() {
    cat <<'TEXT'
Run the steps of scripts/mcp/steps.json with the official MCP clients, over HTTP and over standard input and output

Usage: scripts/mcp-clients.sh [SVCFS]

The clients: the Python SDK (2026-07-28 and 2025), the TypeScript SDKs of version 1 (2025) and 2 (2026-07-28), and the
command line of the Inspector. Each run has a root of its own. Without the program SVCFS, builds it.

Environment:
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS          Where to install programs from pip and npm (default: ~/.cache/svcfs/tools)
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
need_packages python3 python3-venv
need_python_tools "${MCP_TOOLS[@]}"
need_node_tools

python="$SVCFS_TOOLS/python/bin/python"
clients=(
    "$python scripts/mcp/client.py auto"
    "$python scripts/mcp/client.py legacy"
    "node scripts/mcp/client.mjs 1"
    "node scripts/mcp/client.mjs 2"
    "$python scripts/mcp/inspector.py"
)
for client in "${clients[@]}"; do
    read -r -a command <<<"$client"
    start_server "${1:-}"
    "${command[@]}" http "$url/mcp"
    stop_server
    make_root
    "${command[@]}" stdio "$program" mcp --root "$root"
done
