#!/usr/bin/env bash
# Runs pjdfstest in the emulated machine of scripts/nfs/guest.sh, whose kernel mounts a server on this machine.
set -euo pipefail

usage() {
    cat <<'TEXT'
Run pjdfstest over NFS, with the kernel of an emulated machine as the client

Usage: scripts/nfs/pjdfstest.sh [SVCFS]

SVCFS is the program to test (default: the debug build in CARGO_TARGET_DIR). Exactly the tests listed in
scripts/nfs/exclusions.txt must fail; the file has the reasons. Takes one to two minutes.

Environment:
  SVCFS_CACHE          Where the emulated machine is stored (default: ~/.cache/svcfs)
  SVCFS_TOOLS          Where pjdfstest is installed (default: ~/.cache/svcfs/tools)
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
    [[ -x $program ]] || { echo "pjdfstest.sh: \`$program\` is missing; run scripts/test.sh first" >&2 && exit 1; }
done

work="$(mktemp -d)"
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

# The suite and its files, as a second archive after the initramfs of the machine.
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
# An incomplete run proves nothing.
if ! grep -q '^guest: all is done$' "$work/guest.log" || [[ $(grep -cE ' (ok|FAILED|skipped)$' "$work/guest.log") -lt 350 ]]; then
    cat "$work/guest.log" "$work/serve.log" >&2
    echo "pjdfstest.sh: the suite did not finish; see the output above" >&2
    exit 1
fi

sed -n 's/^\([^ ]*\) .*FAILED$/\1/p' "$work/guest.log" | sort -u >"$work/failed"
grep -v '^#' scripts/nfs/exclusions.txt | awk 'NF { print $1 }' | sort -u >"$work/excluded"
unexpected="$(comm -23 "$work/failed" "$work/excluded")"
passing="$(comm -13 "$work/failed" "$work/excluded")"
if [[ -n $unexpected ]]; then
    cat "$work/guest.log" >&2
    printf 'pjdfstest.sh: these fail and are not in scripts/nfs/exclusions.txt:\n%s\n' "$unexpected" >&2
fi
[[ -z $passing ]] || printf 'pjdfstest.sh: these pass; remove them from scripts/nfs/exclusions.txt:\n%s\n' "$passing" >&2
[[ -z $unexpected$passing ]] || exit 1
echo "pjdfstest over NFS: $(grep -cE ' ok$' "$work/guest.log") passed, $(wc -l <"$work/failed") excluded with reasons"
