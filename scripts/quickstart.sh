#!/usr/bin/env bash
# From a clone to a mounted, searchable, versioned folder of markdown in one command.
set -euo pipefail

usage() {
    cat <<'TEXT'
Build svcfs, serve a folder of markdown on 127.0.0.1 and mount it beside itself

Usage: scripts/quickstart.sh [OPTIONS] [DIR]

DIR is the folder to serve (default: ./knowledge). A new or empty one is filled from a template; one that has pages
keeps them as they are and gets settings and a git repository. It is mounted at DIR.mnt.

Options:
  --port PORT          Port to serve on (default: 3333)
  --template TEMPLATE  knowledge, wiki, runbook, research, tasks or blank (default: knowledge)
  -h, --help           Show this

Installs what is missing: with apt-get where it may, else it says what to install.
Ctrl-C finishes every accepted write, unmounts and stops.

Environment:
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
TEXT
}

here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=scripts/prerequisites.sh
source "$here/scripts/prerequisites.sh"

directory=""
port=3333
template=knowledge
while [[ $# -gt 0 ]]; do
    case "$1" in
        -h | --help) usage && exit ;;
        --port) port="${2:?--port needs a number}" && shift 2 ;;
        --template) template="${2:?--template needs a name}" && shift 2 ;;
        -*) usage >&2 && exit 2 ;;
        *)
            [[ -z $directory ]] || { usage >&2 && exit 2; }
            directory="$1" && shift
            ;;
    esac
done
# Without `realpath -s`: a link to a folder is served as the folder it leads to, and its mountpoint lies beside that.
directory="$(realpath -m -- "${directory:-knowledge}")"
mountpoint="$directory.mnt"
log="${XDG_CACHE_HOME:-$HOME/.cache}/svcfs/quickstart.log"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"

prepare() {
    need_packages "${BUILD_PACKAGES[@]}" "${MOUNT_PACKAGES[@]}"
    need_rust
    [[ -c /dev/fuse ]] ||
        fail "/dev/fuse is missing; load the kernel module \`fuse\`, or start the container with --device /dev/fuse --cap-add SYS_ADMIN"
    # Who is not root unmounts with fusermount3, which wants it; a chroot that never booted has none.
    [[ $EUID -eq 0 || -e /etc/mtab ]] ||
        fail "/etc/mtab is missing, nothing could be unmounted; as root, run: ln -s ../proc/self/mounts /etc/mtab"
}

build() {
    say "building svcfs (a few minutes the first time)"
    # From inside the clone, so that rust-toolchain.toml is found.
    (cd "$here" && cargo build --release --locked -p svcfs)
    svcfs="$CARGO_TARGET_DIR/release/svcfs"
}

initialise() {
    [[ ! -e $directory/.svc/config.toml ]] || return 0
    # A folder that has something in it is adopted as it is, without example pages.
    if [[ -d $directory && -n $(ls -A "$directory") ]]; then
        template=blank
    fi
    # Only what became of the directory: the next step that `init` names is taken here anyway.
    "$svcfs" init --root "$directory" --template "$template" | sed -n 1p
}

server=""
stopping=no
made_mountpoint=no

# Ask once; the server finishes what it accepted and unmounts by itself.
stop() {
    stopping=yes
    [[ -z $server ]] || kill -TERM "$server" 2>/dev/null || true
}

# shellcheck disable=SC2317 # called by the trap
leave() {
    [[ $made_mountpoint == no ]] || rmdir "$mountpoint" 2>/dev/null || true
}

is_mounted() { grep -qF " ${mountpoint// /\\040} fuse" /proc/mounts; }

start() {
    # What an earlier server left mounted is not even a folder any more; the new one takes care of it.
    if ! is_mounted && [[ ! -d $mountpoint ]]; then
        mkdir -p "$mountpoint"
        made_mountpoint=yes
    fi
    mkdir -p "$(dirname "$log")"
    trap stop INT TERM HUP
    trap leave EXIT
    # In a session of its own, so that the terminal's Ctrl-C reaches only this script and the server is told once.
    setsid "$svcfs" serve --root "$directory" --host 127.0.0.1 --port "$port" --mount "$mountpoint" >"$log" 2>&1 &
    server=$!
}

# The server answers and the folder is mounted, or the server is gone.
wait_until_ready() {
    local attempt
    for ((attempt = 0; attempt < 600; attempt++)); do
        if ! kill -0 "$server" 2>/dev/null; then
            return 1
        fi
        if curl -fs --max-time 2 -o /dev/null "http://127.0.0.1:$port/readyz" && is_mounted; then
            return 0
        fi
        sleep 0.1
    done
    return 1
}

show() {
    cat <<TEXT

$directory is served, and mounted at $mountpoint. Try in another terminal:

  write    printf -- '---\ntitle: Hello\n---\n\nHigh water at noon.\n' > '$mountpoint/hello.md'
  read     curl http://127.0.0.1:$port/raw/hello.md
  search   curl 'http://127.0.0.1:$port/api/svc/search?q=noon'
  history  git -C '$directory' log --stat -1
  browse   http://127.0.0.1:$port/api/docs
  agents   http://127.0.0.1:$port/mcp

Ctrl-C unmounts and stops. The log is $log
TEXT
}

# The exit code of the server. A signal to us ends a `wait` early, and the next one then has the real answer.
wait_for_server() {
    local status=0 again=0
    wait "$server" || status=$?
    if [[ $status -gt 128 ]]; then
        wait "$server" 2>/dev/null || again=$?
        # 127: there was nothing left to wait for, it was the server itself that a signal ended.
        [[ $again -eq 127 ]] || status=$again
    fi
    return "$status"
}

prepare
build
initialise
start
if ! wait_until_ready && [[ $stopping == no ]]; then
    stop
    wait_for_server || true
    say "" "svcfs did not start. The end of its log, $log:"
    tail -n 20 "$log" >&2
    exit 1
fi
[[ $stopping == yes ]] || show
status=0
wait_for_server || status=$?
if [[ $status -ne 0 ]]; then
    say "svcfs ended with exit code $status. The end of its log, $log:"
    tail -n 20 "$log" >&2
fi
exit "$status"
