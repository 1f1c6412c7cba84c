#!/bin/sh
# Installs, starts, upgrades, removes and purges the package `$1`. Run it only in a temporary system, such as
# src/daemon/tests/it/package.rs creates.
set -eu

say() { printf '%s\n' "$*"; }
fail() { say "$*" && exit 1; }
everywhere='--path-include=/usr/share/man/* --path-include=/usr/share/doc/*'

say 'install'
# shellcheck disable=SC2086
dpkg $everywhere -i "$1"
changed="$(dpkg -V svcfs)"
[ -z "$changed" ] || fail "installed files differ from the packed ones: $changed"
svcfs --version
for page in svcfs svcfs-serve svcfs-token-create; do
    [ -f "/usr/share/man/man1/$page.1.gz" ] || fail "the manual page $page is missing"
done
[ "$(readlink -f /usr/sbin/mount.fuse.svcfs)" = /usr/bin/svcfs ] || fail 'mount(8) does not find mount.fuse.svcfs'
id svcfs
bash -n /usr/share/bash-completion/completions/svcfs

say 'start with the command of the unit'
install -d -o svcfs -g svcfs -m 750 /var/lib/svcfs /var/lib/svcfs/knowledge /var/lib/svcfs/knowledge.mnt
start="$(sed -n 's/^ExecStart=//p' /lib/systemd/system/svcfs.service)"
# Without a mount if the user cannot open /dev/fuse; with `--port 0`, because the port may be in use.
runuser -u svcfs -- test -r /dev/fuse || start="${start%% --mount*}"
mkfifo /run/stdin /run/stdout
# shellcheck disable=SC2086
runuser -u svcfs -- $start --port 0 --until-stdin-closes </run/stdin >/run/stdout &
server=$!
exec 9>/run/stdin
while read -r line; do
    say "$line"
    case "$line" in agents*) break ;; esac
done </run/stdout
runuser -u svcfs -- svcfs status --root /var/lib/svcfs/knowledge
exec 9>&-
wait "$server"

say 'upgrade to the same version'
# shellcheck disable=SC2086
dpkg $everywhere -i "$1"
[ -f /var/lib/svcfs/knowledge/welcome.md ] || fail 'the upgrade removed a page'

say 'remove and purge'
dpkg -r svcfs
[ ! -e /usr/bin/svcfs ] || fail 'the program was not removed'
dpkg -P svcfs
[ -f /var/lib/svcfs/knowledge/welcome.md ] || fail 'the purge removed a page'
remaining="$(find /etc /lib/systemd /usr/bin /usr/lib/sysusers.d /usr/lib/tmpfiles.d /usr/sbin /usr/share -name '*svcfs*' 2>/dev/null)"
[ -z "$remaining" ] || fail "these files were not removed: $remaining"
say 'all of it went well'
