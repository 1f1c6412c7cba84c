# shellcheck shell=bash
# A server for tests from outside. Other scripts source this file after prerequisites.sh, in the folder of the clone.

work="$(mktemp -d)"
server="" program="" url="" root="" roots=0
trap 'stop_server; rm -rf "$work"' EXIT

# Starts a server with a new root: PROGRAM, that of an earlier call if it is empty, or else one that is built. SETTINGS
# replace those of the template. Sets $url, $root and $program.
start_server() {
    program="${1:-$program}"
    if [[ -z $program ]]; then
        export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
        need_packages "${BUILD_PACKAGES[@]}"
        need_rust
        cargo build --quiet --locked -p svcfs
        program="$CARGO_TARGET_DIR/debug/svcfs"
    fi
    stop_server
    make_root
    [[ -z ${2:-} ]] || printf '%s' "$2" >"$root/.svc/config.toml"
    mkfifo "$root.alive"
    # The server opens it only when its standard input is open.
    : >"$root.stdout"
    "$program" serve --root "$root" --port 0 --until-stdin-closes <"$root.alive" >"$root.stdout" 2>"$root.log" &
    server=$!
    exec {alive}>"$root.alive"
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        url="$(sed -n 's/^  http *//p' "$root.stdout")"
        [[ -z $url ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$root.log" >&2
    fail "the server did not start"
}

# Makes a new root. Sets $root.
make_root() {
    roots=$((roots + 1))
    root="$work/root-$roots"
    "$program" init --root "$root" --template knowledge >/dev/null
}

# Stops the server, if one runs: it stops when its standard input is closed.
stop_server() {
    [[ -n $server ]] || return 0
    exec {alive}>&-
    wait "$server" || true
    server=""
}

# Prints the newest node: that of npm, which the conformance suite needs (22), or that of the machine.
newest_node() {
    local node
    for node in "$SVCFS_TOOLS"/node/node_modules/node-linux-*/bin/node; do
        if [[ -x $node ]]; then
            echo "$node"
            return
        fi
    done
    command -v node
}
