#!/usr/bin/env bash
# Builds svcfs and serves a mounted, searchable, versioned folder of markdown, in one command.
set -euo pipefail

usage() {
    cat <<'TEXT'
Build svcfs, serve a folder of markdown on 127.0.0.1 and mount it at DIR.mnt

Usage: scripts/quickstart.sh [OPTIONS] [DIR]

DIR is the folder to serve (default: ./knowledge). A new or empty folder is filled from a template. In a folder with
files, the files do not change; settings and a git repository are added. In a git repository with uncommitted changes,
the script first asks whether to commit them, unless --adopt is given.

Options:
  --port PORT          Port to serve on (default: 3333)
  --template TEMPLATE  knowledge, wiki, runbook, research, tasks or blank (default: knowledge)
  --adopt[=tracked]    Commit uncommitted changes of a git repository without a question; with `tracked`,
                       only those of files that git tracks
  -h, --help           Show this help

Installs missing packages with apt-get; without root and sudo it prints the command to run.
Ctrl-C completes every accepted write, unmounts and stops.

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
adopt=()
while [[ $# -gt 0 ]]; do
    case "$1" in
        -h | --help) usage && exit ;;
        --port) port="${2:?--port needs a number}" && shift 2 ;;
        --adopt | --adopt=tracked) adopt=("$1") && shift ;;
        --template) template="${2:?--template needs a name}" && shift 2 ;;
        -*) usage >&2 && exit 2 ;;
        *)
            [[ -z $directory ]] || { usage >&2 && exit 2; }
            directory="$1" && shift
            ;;
    esac
done
# Not `realpath -s`: for a link to a folder, the target is served, and the mountpoint is next to the target.
directory="$(realpath -m -- "${directory:-knowledge}")"
mountpoint="$directory.mnt"
log="${XDG_CACHE_HOME:-$HOME/.cache}/svcfs/quickstart.log"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"

prepare() {
    need_packages "${BUILD_PACKAGES[@]}" "${MOUNT_PACKAGES[@]}"
    need_rust
    [[ -c /dev/fuse ]] ||
        fail "/dev/fuse is missing; load the kernel module \`fuse\`," \
            "or start the container with --device /dev/fuse --cap-add SYS_ADMIN"
    # Without root, unmounting uses fusermount3, which reads /etc/mtab. A chroot that never booted has no such file.
    [[ $EUID -eq 0 || -e /etc/mtab ]] ||
        fail "/etc/mtab is missing, so unmounting would fail; as root, run: ln -s ../proc/self/mounts /etc/mtab"
}

build() {
    say "building svcfs (the first time: about 10 minutes on 2 cores)"
    # From inside the clone, so that rust-toolchain.toml is found.
    (cd "$here" && cargo build --release --locked -p svcfs)
    svcfs="$CARGO_TARGET_DIR/release/svcfs"
}

initialise() {
    [[ ! -e $directory/.svc/config.toml ]] || return 0
    # A folder with files is adopted without example pages.
    if [[ -d $directory && -n $(ls -A "$directory") ]]; then
        template=blank
    fi
    # Print only the first line, the result. The next step that `init` suggests is done below.
    "$svcfs" init --root "$directory" --template "$template" "${adopt[@]}" | sed -n 1p
    adopt=()
}

server=""
stopping=no
made_mountpoint=no

# Sends one signal; the server completes the accepted writes and unmounts by itself.
stop() {
    stopping=yes
    [[ -z $server ]] || kill -TERM "$server" 2>/dev/null || true
}

# shellcheck disable=SC2317 # called by the trap
remove_mountpoint() {
    [[ $made_mountpoint == no ]] || rmdir "$mountpoint" 2>/dev/null || true
}

is_mounted() { grep -qF " ${mountpoint// /\\040} fuse" /proc/mounts; }

start() {
    # The stale mount of an earlier server does not look like a folder; the new server unmounts it.
    if ! is_mounted && [[ ! -d $mountpoint ]]; then
        mkdir -p "$mountpoint"
        made_mountpoint=yes
    fi
    mkdir -p "$(dirname "$log")"
    trap stop INT TERM HUP
    trap remove_mountpoint EXIT
    # In its own session: Ctrl-C reaches only this script, so that the server gets one signal.
    setsid "$svcfs" serve --root "$directory" --host 127.0.0.1 --port "$port" --mount "$mountpoint" "${adopt[@]}" >"$log" 2>&1 &
    server=$!
}

# Waits until the server answers and the folder is mounted. Fails when the server ends, and after 600 attempts.
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
  history  ls '$mountpoint/.svc/history/hello.md/'
  browse   http://127.0.0.1:$port/api/docs
  agents   http://127.0.0.1:$port/mcp
  more     '$svcfs' --help

Ctrl-C unmounts and stops. The log is $log
TEXT
}

# Returns the exit code of the server. A signal to this script ends `wait` early; a second `wait` returns the code.
wait_for_server() {
    local status=0 second=0
    wait "$server" || status=$?
    if [[ $status -gt 128 ]]; then
        wait "$server" 2>/dev/null || second=$?
        # 127: the server had ended before; the first code says which signal killed it.
        [[ $second -eq 127 ]] || status=$second
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
