#!/usr/bin/env bash
# Hold a running server against its own description of itself.
set -euo pipefail

usage() {
    cat <<'TEXT'
Ask a server everything that its OpenAPI description allows, and much that it does not (schemathesis)

Usage: scripts/schema.sh

Fails at an answer that is the server's failure (5xx), that the description does not have, that has another shape than it says, or that accepts what it does not
allow, and whatever else schemathesis checks.
Asked are a server without keys, one with keys by somebody who has one, and the same by somebody who has none.

Environment:
  SVCFS_SCHEMA_SECONDS  For how long each of the three is asked (default: 15)
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

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
need_packages "${BUILD_PACKAGES[@]}" python3 python3-venv
need_rust
need_python_tools schemathesis==4.32.5
cargo build --quiet --locked -p svcfs

seconds="${SVCFS_SCHEMA_SECONDS:-15}"
work="$(mktemp -d)"
server=""
# The server ends when its standard input is closed.
trap 'exec {alive}>&- 2>/dev/null; [[ -z $server ]] || wait "$server" || true; rm -rf "$work"' EXIT

# Starts a server of a new root with these settings; its address is in $url.
serve() {
    local settings="$1" root="$work/$2"
    [[ -z $server ]] || { exec {alive}>&-; wait "$server" || true; }
    "$CARGO_TARGET_DIR/debug/svcfs" init --root "$root" --template knowledge >/dev/null
    printf '%s' "$settings" >"$root/.svc/config.toml"
    mkfifo "$root.alive"
    "$CARGO_TARGET_DIR/debug/svcfs" serve --root "$root" --port 0 --until-stdin-closes <"$root.alive" >"$root.said" 2>"$root.log" &
    server=$!
    exec {alive}>"$root.alive"
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        url="$(sed -n 's/^  http *//p' "$root.said")"
        [[ -z $url ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$root.log" >&2
    fail "the server did not start"
}

# The event stream never ends, and the agent protocol has a description of its own.
# Every check is on; scripts/schemathesis.toml says what may be answered to questions that fit the description.
ask() {
    # It leaves what it knows of failures where it is run.
    cd "$work"
    "$SVCFS_TOOLS/python/bin/schemathesis" --config-file "$here/schemathesis.toml" run "$url/api/openapi.json" --max-time "$seconds" --seed "${SVCFS_SCHEMA_SEED:-1}" \
        --exclude-path /api/svc/events --exclude-path /mcp --no-color --warnings off --request-timeout 30 \
        --checks all "$@"
}

say "== without keys"
# Without an audit log `/audit` is 501, as it should be.
serve $'[audit]\nenabled = true\n' open
ask
say "== with a key"
serve $'[auth]\ntype = "apikey"\napi_key = "schema-key"\n[audit]\nenabled = true\n' closed
ask --header "Authorization: Bearer schema-key"
say "== without the key that is asked for"
ask
