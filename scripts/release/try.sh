#!/usr/bin/env bash
# Installs and runs the files of a release in a fresh Debian 12.
set -euo pipefail

usage() {
    cat <<'TEXT'
Install and run the tarball and the Debian package of a release in a fresh Debian 12

Usage: scripts/release/try.sh DIR

DIR is the output of scripts/release.sh. debootstrap installs a minimal Debian 12 once. Each run uses a copy of it in
memory, in its own mount namespace. Nothing else is installed on this machine. Needs root.

Environment:
  SVCFS_DEBIAN         Folder of the minimal Debian 12 (default: ~/.cache/svcfs/debian12)
  SVCFS_MIRROR         Debian mirror (default: http://deb.debian.org/debian)
TEXT
}

case "${1:-}" in
    -h | --help) usage && exit ;;
    "" | -*) usage >&2 && exit 2 ;;
esac

here="$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=scripts/prerequisites.sh
source "$here/../prerequisites.sh"

files="$(realpath -e "$1")"
debian="${SVCFS_DEBIAN:-$HOME/.cache/svcfs/debian12}"
mirror="${SVCFS_MIRROR:-http://deb.debian.org/debian}"
[[ $EUID -eq 0 ]] || fail "chroot and mounts need root; run it as root, or with sudo"
(cd "$files" && sha256sum --check --quiet SHA256SUMS) || fail "the files of $files do not match their SHA256SUMS"

# Makes the minimal system, at its final name only when it is complete.
need_debian() {
    [[ ! -e $debian/etc/debian_version ]] || return 0
    need_packages debootstrap
    local building="$debian.$$" log="$debian.log"
    mkdir -p "$(dirname "$debian")"
    say "making a minimal Debian 12 in $debian"
    if ! debootstrap --variant=minbase bookworm "$building" "$mirror" >"$log" 2>&1; then
        rm -rf "$building"
        fail "no Debian 12 from $mirror; is the mirror reachable? The log is $log"
    fi
    # Another run may have been faster.
    mv --no-target-directory "$building" "$debian" 2>/dev/null || rm -rf "$building"
}

# Runs in a mount namespace of its own: $1 is an empty folder, $2 the system, $3 the files, $4 the folder of the story.
# shellcheck disable=SC2016 # a script of its own
readonly IN_COPY='
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
root="$1/root"
mount -t proc none "$root/proc"
mount -t tmpfs -o mode=755 none "$root/dev"
mount -t tmpfs -o mode=755 none "$root/run"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/zero" c 1 5
mknod -m 666 "$root/dev/random" c 1 8
mknod -m 666 "$root/dev/urandom" c 1 9
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm" && chmod 1777 "$root/dev/shm"
# Without FUSE on this machine the story leaves out the mount.
[ ! -e /dev/fuse ] || mknod -m 666 "$root/dev/fuse" c 10 229
ln -s ../proc/self/mounts "$root/etc/mtab"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/release"
mount --bind "$3" "$root/release"
cp -r "$4" "$root/run/story"
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    chroot "$root" sh /run/story/story.sh
'

# Writes the commands of a marked block of the documentation, with the version of these files, as a script.
copy_commands() {
    local page="$1" name="$2" version
    version="$(basename "$(echo "$files"/svcfs-*-linux-gnu.tar.gz)" | cut -d - -f 2)"
    sed -n "/^<!-- test: $name -->\$/,/^\`\`\`\$/ s/^[#\$] //p" "$page" | sed "s/0\.1\.0/$version/g" >"$story/$name.sh"
    [[ -s $story/$name.sh ]] || fail "$page has no block $name"
}

need_debian
copy="$(mktemp -d)"
story="$(mktemp -d)"
# The namespace ends with its last process, and its mounts with it.
trap 'rmdir "$copy"; rm -r "$story"' EXIT
cp "$here/story.sh" "$story"
copy_commands "$here/../../docs/install.md" tarball
copy_commands "$here/../../docs/install.md" package
copy_commands "$here/../../docs/operating.md" upgrade
unshare --mount --pid --fork --kill-child --propagation private sh -c "$IN_COPY" sh "$copy" "$debian" "$files" "$story"
