#!/usr/bin/env bash
# Prepares an emulated machine whose kernel mounts NFS: Debian's kernel and modules, busybox, mount.nfs. Used by the
# tests in src/daemon/tests/it/protocols.rs.
set -euo pipefail

usage() {
    cat <<'TEXT'
Prepare an emulated machine whose kernel mounts NFS, for the tests

Usage: scripts/nfs/guest.sh

Writes kernel and initramfs to $SVCFS_CACHE/nfs, unless they are up to date. Downloads packages from Debian.

Environment:
  SVCFS_CACHE          Where to store the machine (default: ~/.cache/svcfs)
TEXT
}

case "${1:-}" in
    "") ;;
    -h | --help) usage && exit ;;
    *) usage >&2 && exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh

readonly GUEST="${SVCFS_CACHE:-$HOME/.cache/svcfs}/nfs"
[[ $GUEST/initramfs.gz -nt scripts/nfs/init.sh && $GUEST/initramfs.gz -nt scripts/nfs/guest.sh ]] && exit

need_packages "${GUEST_PACKAGES[@]}"
build="$(mktemp -d)"
trap 'rm -rf "$build"' EXIT
kernel="$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')"
[[ -n $kernel ]] || fail "apt does not know linux-image-cloud-amd64; run apt-get update on Debian"
# apt downloads as an unprivileged user.
chmod a+rwx "$build"
(cd "$build" && apt-get -qq download "$kernel" nfs-common)
dpkg -x "$build"/linux-image-*.deb "$build/kernel"
dpkg -x "$build"/nfs-common_*.deb "$build/client"
modules="$(echo "$build"/kernel/lib/modules/*)"
depmod -b "$build/kernel" "$(basename "$modules")"

first="$build/first"
mkdir -p "$first"/{bin,modules,etc,mnt}
cp -L /bin/busybox "$first/bin/busybox"
cp "$build/client/sbin/mount.nfs" "$first/bin/"
printf 'tcp tpi_cots_ord v inet tcp - -\nudp tpi_clts v inet udp - -\n' >"$first/etc/netconfig"
printf 'tcp 6 TCP\nudp 17 UDP\n' >"$first/etc/protocols"
printf 'root:x:0:0:root:/:/bin/sh\n' >"$first/etc/passwd"
# The shared libraries of mount.nfs; GUEST_PACKAGES has those that a machine may lack.
ldd "$first/bin/mount.nfs" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$first$(dirname "$library")"
    cp -L "$library" "$first$library"
done
for name in virtio_pci virtio_net crc32c-intel crc32c_generic nfsv3; do
    # A module that is built into the kernel has no file.
    awk -F: -v name="/$name.ko" 'index($1, name) {
        n = split($2, needed, " "); for (i = n; i > 0; i--) print needed[i]; print $1 }' "$modules/modules.dep" |
        while read -r file; do
            [[ ! -f $first/modules/$(basename "$file") ]] || continue
            cp "$modules/$file" "$first/modules/"
            echo "/modules/$(basename "$file")" >>"$first/modules/order"
        done
done
install -m 755 scripts/nfs/init.sh "$first/init"
mkdir -p "$GUEST"
cp "$build"/kernel/boot/vmlinuz-* "$GUEST/vmlinuz"
(cd "$first" && find . | cpio --quiet -o -H newc | gzip -1) >"$GUEST/initramfs.gz.new"
mv "$GUEST/initramfs.gz.new" "$GUEST/initramfs.gz"
