#!/bin/sh
# What a user does with a release on a fresh Debian 12: install it, serve, write, search, read the history. Runs in the
# system that scripts/release/try.sh makes, as root; the files of the release are in /release.
# shellcheck disable=SC2086 # $as_ann is split into words
set -eu

say() { printf '%s\n' "$*"; }
fail() {
    say "$*"
    exit 1
}

# Runs a command as an ordinary user. Not a function: `$!` is then the command itself.
as_ann='setpriv --reuid ann --regid ann --init-groups env HOME=/home/ann USER=ann'

# Serves a new knowledge base in the home of ann, writes two pages, and reads them back in several ways.
serve_and_use() {
    notes="/home/ann/notes-$1"
    say "$1: serve, write, search, history"
    $as_ann svcfs init --root "$notes"
    set -- serve --root "$notes" --port 0
    [ ! -e /dev/fuse ] || set -- "$@" --mount "$notes.mnt"
    $as_ann mkdir -p "$notes.mnt"
    $as_ann svcfs "$@" >/run/greeting 2>/run/log &
    server=$!
    url=""
    while [ -z "$url" ]; do
        sleep 0.1
        kill -0 "$server" || fail "the server ended: $(cat /run/log)"
        url="$(sed -n 's/^ *http  *//p' /run/greeting)"
    done
    while ! curl -fs -o /dev/null "$url/readyz"; do sleep 0.1; done
    curl -fsS -X PUT --data-binary '# Tides' -H 'X-Actor: agent-7' "$url/api/svc/file?path=tides.md"
    say ""
    [ "$($as_ann git -C "$notes" log -1 --format=%an)" = agent-7 ] || fail "the commit of the page has another author"
    if [ -e /dev/fuse ]; then
        while ! grep -qF " $notes.mnt fuse" /proc/mounts; do sleep 0.1; done
        [ "$($as_ann cat "$notes.mnt/tides.md")" = '# Tides' ] || fail "the mount shows another page"
        $as_ann sh -c "echo '# Moon' > '$notes.mnt/moon.md'"
        curl -fsS "$url/api/svc/search?q=moon" | grep -qF moon.md || fail "search does not find a page of the mount"
    else
        say "skipped: the mount, because this machine has no /dev/fuse"
    fi
    $as_ann svcfs call read path=tides.md --root "$notes" | grep -q Tides || fail "svcfs call reads another page"
    kill -TERM "$server"
    wait "$server" || fail "the server ended with exit code $?: $(cat /run/log)"
    ! grep -qF " $notes.mnt fuse" /proc/mounts || fail "the mount is left behind"
    $as_ann git -C "$notes" fsck --strict --no-progress || fail "git finds errors"
}

say 'tools of this story: curl, git, fuse3'
apt-get -qq update
DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends ca-certificates curl git fuse3 >/run/output 2>&1 ||
    fail "apt failed: $(cat /run/output)"
useradd --create-home ann

# Runs the commands of the documentation in the folder of the release.
as_documented() {
    (cd /release && DEBIAN_FRONTEND=noninteractive sh -eux "/run/story/$1.sh") >/run/output 2>&1 || fail "$1: $(cat /run/output)"
}

say 'tarball'
as_documented tarball
[ "$(command -v svcfs)" = /usr/local/bin/svcfs ] || fail 'svcfs is not on the PATH'
svcfs --version
[ -f /usr/local/share/man/man1/svcfs.1.gz ] || fail 'the manual page is missing'
[ -s /usr/local/share/doc/svcfs/third-party.txt ] || fail 'the licences are missing'
[ -s /usr/local/share/doc/svcfs/NOTICE ] || fail 'the notice of the embedded model is missing'
serve_and_use tarball
# Everything that was unpacked has the name of the program in its path.
find /usr/local -name '*svcfs*' -prune -exec rm -r {} +

say 'Debian package'
as_documented package
hash -r
[ "$(command -v svcfs)" = /usr/bin/svcfs ] || fail 'svcfs is not on the PATH'
[ -s /usr/share/doc/svcfs/third-party.txt.gz ] || fail 'the licences are missing'
[ -s /usr/share/doc/svcfs/NOTICE ] || fail 'the notice of the embedded model is missing'
serve_and_use package

say 'upgrade'
# A chroot has no systemd, and no server runs.
printf '#!/bin/sh\necho "systemctl $*"\n' >/usr/local/bin/systemctl
chmod +x /usr/local/bin/systemctl
mkdir -p /var/lib/svcfs
svcfs init --root /var/lib/svcfs/knowledge
svcfs reindex --root /var/lib/svcfs/knowledge
as_documented upgrade
cat /run/output
DEBIAN_FRONTEND=noninteractive apt-get -qq purge -y svcfs >/run/output 2>&1 || fail "apt failed: $(cat /run/output)"
[ -f /var/lib/svcfs/knowledge/welcome.md ] || fail 'the purge removed a page'
say 'the release works on a fresh Debian 12'
