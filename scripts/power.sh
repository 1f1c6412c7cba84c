#!/usr/bin/env bash
# Repeatedly cuts the power of an emulated machine under load and checks its disk.
set -euo pipefail

usage() {
    cat <<'TEXT'
Repeatedly cut the power of an emulated machine under load and check its disk

Usage: scripts/power.sh [ROUNDS]

Starts an emulated machine (qemu, Debian's cloud kernel; no hardware support needed). In it, clients write to svcfs
over HTTP and through the mount. The machine reports every acknowledgement over its serial line. Then it is stopped
under load.

The script makes three disks from the recorded disk writes: with all writes, without the writes that were never flushed,
and with a part of these. It opens svcfs on each disk and compares it with the acknowledged changes.
A round takes 15 seconds; the default is 50 rounds.

Needs root (it mounts disks) and amd64. Downloads a kernel from Debian once.

Environment:
  SVCFS_POWER_SEED     Seed of an earlier run, to repeat its choices
  SVCFS_CACHE          Where to store kernel and guest (default: ~/.cache/svcfs)
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
TEXT
}

case "${1:-}" in
    -h | --help) usage && exit ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh

readonly GUEST="${SVCFS_CACHE:-$HOME/.cache/svcfs}/guest"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
export SVCFS_POWER_ROUNDS="${1:-${SVCFS_POWER_ROUNDS:-50}}"
export SVCFS_POWER_GUEST="$GUEST"

[[ $EUID -eq 0 ]] || fail "mounting disks needs root; run this as root"
[[ $(uname -m) == x86_64 ]] || fail "the guest is an amd64 machine; run this on amd64"

# Prepares Debian's kernel and the modules for a disk and a mount, each after its dependencies.
prepare_kernel() {
    [[ ! -f $GUEST/initramfs.gz ]] || return 0
    local kernel modules build
    build="$(mktemp -d)"
    kernel="$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')"
    [[ -n $kernel ]] || fail "apt does not know linux-image-cloud-amd64; run apt-get update on Debian"
    (cd "$build" && chmod a+rwx . && apt-get -qq download "$kernel" && dpkg -x linux-image-*.deb kernel)
    modules="$(echo "$build"/kernel/lib/modules/*)"
    depmod -b "$build/kernel" "$(basename "$modules")"

    local first="$build/first" name file
    mkdir -p "$first"/{bin,modules,guest}
    cp -L /bin/busybox "$first/bin/busybox"
    for name in virtio_pci virtio_blk crc32c-intel crc32c_generic ext4 fuse; do
        # A module that is built into the kernel has no file.
        awk -F: -v name="/$name.ko" 'index($1, name) {
            n = split($2, needed, " "); for (i = n; i > 0; i--) print needed[i]; print $1 }' "$modules/modules.dep" |
            while read -r file; do
                [[ ! -f $first/modules/$(basename "$file") ]] || continue
                cp "$modules/$file" "$first/modules/"
                echo "/modules/$(basename "$file")" >>"$first/modules/order"
            done
    done
    install -m 755 scripts/power/init.sh "$first/init"
    mkdir -p "$GUEST"
    cp "$build"/kernel/boot/vmlinuz-* "$GUEST/vmlinuz"
    (cd "$first" && find . | cpio --quiet -o -H newc | gzip -1) >"$GUEST/initramfs.gz.new"
    mv "$GUEST/initramfs.gz.new" "$GUEST/initramfs.gz"
    rm -rf "$build"
}

# Writes the programs and their libraries to the guest's disk image; the guest has no other files.
prepare_programs() {
    local tests="$1" world program library
    world="$(mktemp -d)"
    mkdir -p "$world"/{proc,sys,dev,tmp,work,etc,usr/bin}
    printf 'root:x:0:0:root:/:/bin/sh\n' >"$world/etc/passwd"
    cp "$CARGO_TARGET_DIR/release/svcfs" "$world/usr/bin/svcfs"
    cp "$tests" "$world/usr/bin/tests"
    for program in "$world"/usr/bin/*; do
        strip "$program"
        for library in $(ldd "$program" | grep -o '/[^ ]*'); do
            mkdir -p "$world$(dirname "$library")"
            cp -L "$library" "$world$library"
        done
    done
    rm -f "$GUEST/programs.img"
    mkfs.ext4 -q -F -d "$world" "$GUEST/programs.img" 256M 2>/dev/null
    rm -rf "$world"
}

need_packages "${BUILD_PACKAGES[@]}" "${MOUNT_PACKAGES[@]}" "${TEST_PACKAGES[@]}" \
    binutils busybox-static cpio kmod qemu-system-x86
need_rust
cargo build --quiet --locked --release --package svcfs
tests="$(cargo test --quiet --locked --package svcfs-tests --test it --no-run --message-format json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)"
prepare_kernel
prepare_programs "$tests"
exec cargo test --locked --package svcfs-tests --test it -- --nocapture --exact \
    power::guest::nothing_acknowledged_is_lost_when_a_machine_loses_its_power
