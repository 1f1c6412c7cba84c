#!/usr/bin/env bash
# Tests a running server against its OpenAPI description.
set -euo pipefail

usage() {
    cat <<'TEXT'
Test a server with valid and invalid requests, generated from its OpenAPI description (schemathesis)

Usage: scripts/schema.sh

Fails when an answer is a server error (5xx), is not in the description, has another schema, or accepts an invalid
request, and on every other check of schemathesis.
There are three runs: a server without authentication, a server with authentication and a valid key, and the same
server without a key.

Environment:
  SVCFS_SCHEMA_SECONDS  Seconds for each of the three runs (default: 15)
  SVCFS_SCHEMA_SEED     Seed of the generated requests (default: 1)
  CARGO_TARGET_DIR      Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS           Where to install schemathesis (default: ~/.cache/svcfs/tools)
TEXT
}

case "${1:-}" in
    "") ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
esac

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh
# shellcheck source=scripts/server.sh
source scripts/server.sh

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
need_packages python3 python3-venv
need_python_tools schemathesis==4.32.5

seconds="${SVCFS_SCHEMA_SECONDS:-15}"

# Runs schemathesis with all checks. scripts/schemathesis.toml lists the allowed status codes of valid requests.
# Excluded: the event stream, which never ends, MCP, which OpenAPI does not describe, and clips, which need a network.
run_schemathesis() {
    # schemathesis writes its failure database into the current folder.
    cd "$work"
    "$SVCFS_TOOLS/python/bin/schemathesis" --config-file "$here/schemathesis.toml" run "$url/api/openapi.json" \
        --max-time "$seconds" --seed "${SVCFS_SCHEMA_SEED:-1}" \
        --exclude-path /api/svc/events --exclude-path /mcp --exclude-path /api/svc/clip --no-color --warnings off --request-timeout 30 \
        --checks all "$@" || {
        say "== errors in the logs of the servers"
        grep -h ERROR "$work"/*.log | tail -n 20
        return 1
    }
}

# Parts are on that otherwise return 501 or 503: `/audit`, `/backup`, `/webhooks` and search by meaning.
mkdir "$work/backups"
parts="$(printf '[audit]\nenabled = true\n[webhooks]\nenabled = true\n[search.vector]\nenabled = true\n[backup]\nremote = "%s/backups"\n' "$work")"
say "== without authentication"
start_server "" "$parts"
run_schemathesis
say "== with authentication and a key"
start_server "" $'[auth]\ntype = "apikey"\napi_key = "schema-key"\n'"$parts"
run_schemathesis --header "Authorization: Bearer schema-key"
say "== with authentication, without a key"
run_schemathesis
