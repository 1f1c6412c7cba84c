#!/usr/bin/env bash
# Cut the power of a small machine under load, again and again, and look at what its disk holds.
set -euo pipefail

usage() {
    cat <<'TEXT'
Cut the power of a small machine under load, again and again, and look at what its disk holds

Usage: scripts/power.sh [ROUNDS]

Starts an emulated machine (qemu, Debian's cloud kernel; no hardware support needed) in which svcfs is loaded over HTTP
and through its mount. Every acknowledgement leaves the machine over its serial line. Then the machine is gone in the
middle of its work, and what its disk was told up to there is opened and audited here: as it was told, without what was
never flushed, and with parts of that. A round takes a quarter of a minute; 50 are the default.

Needs root (disks are mounted) and amd64; downloads a kernel from Debian once.

Environment:
  SVCFS_POWER_SEED     Plays the choices of an earlier run again
  SVCFS_CACHE          Where kernel and guest are kept (default: ~/.cache/svcfs)
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

[[ $EUID -eq 0 ]] || fail "disks are mounted, which takes root"
[[ $(uname -m) == x86_64 ]] || fail "the guest is an amd64 machine"

# Debian's kernel, and of its modules those that a disk and a mount need, each after what it needs itself.
prepare_kernel() {
    [[ ! -f $GUEST/initramfs.gz ]] || return 0
    local kernel modules build
    build="$(mktemp -d)"
    kernel="$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')"
    [[ -n $kernel ]] || fail "no package linux-image-cloud-amd64 is known; run apt-get update on a Debian"
    (cd "$build" && chmod a+rwx . && apt-get -qq download "$kernel" && dpkg -x linux-image-*.deb kernel)
    modules="$(echo "$build"/kernel/lib/modules/*)"
    depmod -b "$build/kernel" "$(basename "$modules")"

    local first="$build/first" name file
    mkdir -p "$first"/{bin,modules,guest}
    cp -L /bin/busybox "$first/bin/busybox"
    for name in virtio_pci virtio_blk crc32c-intel crc32c_generic ext4 fuse; do
        # What is built into the kernel has no file.
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

# The programs and their libraries, as the guest's whole world: it has no other files.
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
