#!/bin/sh
# Installs, upgrades, starts, removes and purges the package `$1`. Only for a system that is thrown away: tests/it/package.rs makes one.
set -eu

told() { printf '%s\n' "$*"; }
refuse() { told "$*" && exit 1; }
everywhere='--path-include=/usr/share/man/* --path-include=/usr/share/doc/*'

told 'install'
# shellcheck disable=SC2086
dpkg $everywhere -i "$1"
changed="$(dpkg -V svcfs)"
[ -z "$changed" ] || refuse "installed otherwise than packed: $changed"
svcfs --version
for page in svcfs svcfs-serve svcfs-token-create; do
    [ -f "/usr/share/man/man1/$page.1.gz" ] || refuse "there is no manual page $page"
done
[ "$(readlink -f /usr/sbin/mount.fuse.svcfs)" = /usr/bin/svcfs ] || refuse 'mount(8) does not find the program'
id svcfs
bash -n /usr/share/bash-completion/completions/svcfs

told 'start as the unit does'
install -d -o svcfs -g svcfs -m 750 /var/lib/svcfs /var/lib/svcfs/knowledge /var/lib/svcfs/knowledge.mnt
start="$(sed -n 's/^ExecStart=//p' /lib/systemd/system/svcfs.service)"
# Without a folder where a user cannot mount; `--port 0` because the port may be somebody's.
runuser -u svcfs -- test -r /dev/fuse || start="${start%% --mount*}"
mkfifo /run/hold /run/said
# shellcheck disable=SC2086
runuser -u svcfs -- $start --port 0 --until-stdin-closes </run/hold >/run/said &
server=$!
exec 9>/run/hold
while read -r line; do
    told "$line"
    case "$line" in agents*) break ;; esac
done </run/said
runuser -u svcfs -- svcfs status --root /var/lib/svcfs/knowledge
exec 9>&-
wait "$server"

told 'upgrade over itself'
# shellcheck disable=SC2086
dpkg $everywhere -i "$1"
[ -f /var/lib/svcfs/knowledge/welcome.md ] || refuse 'the upgrade lost a page'

told 'remove and purge'
dpkg -r svcfs
[ ! -e /usr/bin/svcfs ] || refuse 'the program is still there'
dpkg -P svcfs
[ -f /var/lib/svcfs/knowledge/welcome.md ] || refuse 'the purge removed a page'
left="$(find /etc /lib/systemd /usr/bin /usr/lib/sysusers.d /usr/lib/tmpfiles.d /usr/sbin /usr/share -name '*svcfs*' 2>/dev/null)"
[ -z "$left" ] || refuse "left behind: $left"
told 'all of it went well'
