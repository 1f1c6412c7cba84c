#!/usr/bin/env bash
# Run pjdfstest in the small machine of scripts/nfs/guest.sh, whose kernel mounts a server of this machine.
set -euo pipefail

usage() {
    cat <<'TEXT'
Run pjdfstest over NFS, with the kernel of a small machine as the client

Usage: scripts/nfs/pjdfstest.sh [SVCFS]

SVCFS is the program to test (default: the one built in CARGO_TARGET_DIR). Each test that fails must be in
scripts/nfs/exclusions.txt, with the reason why, and each test there must fail. Takes one to two minutes.

Environment:
  SVCFS_CACHE          Where machine and suite are kept (default: ~/.cache/svcfs)
  CARGO_TARGET_DIR     Where svcfs was built (default: ~/.cache/svcfs/target)
TEXT
}

case "${1:-}" in
    -h | --help) usage && exit ;;
    -*) usage >&2 && exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly CACHE="${SVCFS_CACHE:-$HOME/.cache/svcfs}"
readonly SVCFS="${1:-${CARGO_TARGET_DIR:-$CACHE/target}/debug/svcfs}"
readonly SUITE="${SVCFS_TOOLS:-$CACHE/tools}/bin/pjdfstest"
scripts/nfs/guest.sh
for program in "$SVCFS" "$SUITE"; do
    [[ -x $program ]] || { echo "pjdfstest.sh: \`$program\` is missing; scripts/test.sh makes it" >&2 && exit 1; }
done

work="$(mktemp -d)"
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# What the suite needs, as a second archive behind that of the machine.
mkdir -p "$work"/first/{bin,etc} "$work/root"
cp "$SUITE" "$work/first/bin/"
ldd "$SUITE" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$work/first$(dirname "$library")"
    cp -L "$library" "$work/first$library"
done
cp tests/it/posix/pjdfstest.toml "$work/first/etc/"
printf '%s\n' 'root:x:0:0:root:/:/bin/sh' 'daemon:x:1:1:daemon:/:/bin/sh' 'nobody:x:65534:65534:nobody:/:/bin/sh' \
    >"$work/first/etc/passwd"
printf '%s\n' 'root:x:0:' 'daemon:x:1:' 'nogroup:x:65534:' >"$work/first/etc/group"
(cd "$work/first" && find . | cpio --quiet -o -H newc | gzip -1) | cat "$CACHE/nfs/initramfs.gz" - >"$work/initramfs.gz"

"$SVCFS" serve --root "$work/root" --port 0 --nfs --nfs-port 0 >"$work/serve.log" 2>&1 &
server=$!
port=
until [[ -n $port ]]; do
    kill -0 "$server" 2>/dev/null || { cat "$work/serve.log" >&2 && exit 1; }
    port="$(sed -n 's|^ *nfs  *nfs://.*:\([0-9]*\)/*$|\1|p' "$work/serve.log")"
    sleep 0.1
done
append="console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=unstable random.trust_cpu=on PORT=$port WORK=pjdfstest"
timeout 1800 qemu-system-x86_64 -accel tcg -cpu max -m 384 -nographic -no-reboot -monitor none -serial stdio \
    -netdev user,id=net -device virtio-net-pci,netdev=net,romfile= -kernel "$CACHE/nfs/vmlinuz" \
    -initrd "$work/initramfs.gz" -append "$append" </dev/null | sed 's/\x1b\[[0-9;]*m//g' | tr -d '\r' >"$work/guest.log"
# A run of which a part is missing says nothing.
if ! grep -q '^guest: all is done$' "$work/guest.log" || [[ $(grep -cE ' (ok|FAILED|skipped)$' "$work/guest.log") -lt 350 ]]; then
    cat "$work/guest.log" "$work/serve.log" >&2
    echo "pjdfstest.sh: the suite did not come to its end" >&2
    exit 1
fi

sed -n 's/^\([^ ]*\) .*FAILED$/\1/p' "$work/guest.log" | sort -u >"$work/failed"
grep -v '^#' scripts/nfs/exclusions.txt | awk 'NF { print $1 }' | sort -u >"$work/excluded"
unexcused="$(comm -23 "$work/failed" "$work/excluded")"
better="$(comm -13 "$work/failed" "$work/excluded")"
if [[ -n $unexcused ]]; then
    cat "$work/guest.log" >&2
    printf 'pjdfstest.sh: these fail and are not in scripts/nfs/exclusions.txt:\n%s\n' "$unexcused" >&2
fi
[[ -z $better ]] || printf 'pjdfstest.sh: these do not fail; take them out of scripts/nfs/exclusions.txt:\n%s\n' "$better" >&2
[[ -z $unexcused$better ]] || exit 1
echo "pjdfstest over NFS: $(grep -cE ' ok$' "$work/guest.log") passed, $(wc -l <"$work/failed") excluded with reasons"
