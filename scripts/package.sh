#!/usr/bin/env bash
# Builds a Debian package of svcfs.
set -euo pipefail

usage() {
    cat <<'TEXT'
Build a Debian package of svcfs

Usage: scripts/package.sh [--of PROFILE-FOLDER] [--to DIR]

Without --of the release build is made first. With --of the existing build is packed unchanged.
The tests install the package of `--of debug`.

Options:
  --of FOLDER   Folder below the target directory with the built program: release or debug
  --to DIR      Where to write the package (default: folder `debian` in the target directory)

Environment:
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS          Where to install cargo-deb if it is missing (default: ~/.cache/svcfs/tools)
TEXT
}

built="" output=""
while [[ $# -gt 0 ]]; do
    case "$1" in
        -h | --help) usage && exit ;;
        --of) built="${2:?--of needs a folder}" && shift 2 ;;
        --to) output="${2:?--to needs a directory}" && shift 2 ;;
        *) usage >&2 && exit 2 ;;
    esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
need_packages python3
need_rust
need_tools "${PACKAGE_TOOLS[@]}"
output="$(realpath -m "${output:-$CARGO_TARGET_DIR/debian}")"

profile="${built:-release}"
[[ $profile != debug ]] || profile=dev
if [[ -z $built ]]; then
    cargo build --locked --release -p svcfs
    built=release
fi

# Manual pages and completions, and links that cargo-deb packs as links.
program="$CARGO_TARGET_DIR/$built/svcfs"
stage="$CARGO_TARGET_DIR/$built/package"
rm -rf "$stage"
mkdir -p "$stage/completions"
"$program" man --all "$stage/man"
gzip -9 --no-name "$stage"/man/*.1
"$program" completions bash >"$stage/completions/svcfs"
"$program" completions zsh >"$stage/completions/_svcfs"
"$program" completions fish >"$stage/completions/svcfs.fish"
scripts/release/licences.py | gzip -9 --no-name >"$stage/third-party.txt.gz"
ln -s ../bin/svcfs "$stage/mount.fuse.svcfs"
ln -s ../man1/svcfs-mount.1.gz "$stage/mount.fuse.svcfs.8.gz"
# Debian requires a changelog with the package version; it refers to the changelog of the program.
version="$("$program" --version)"
{
    printf 'svcfs (%s-1) unstable; urgency=medium\n\n  * See changelog.gz for the changes.\n\n' "${version##* }"
    printf ' -- svcfs developers <svcfs@localhost>  %s\n' "$(date --rfc-email --date="@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}")"
} | gzip -9 --no-name >"$stage/changelog.Debian.gz"

# A package for tests is compressed fast; the best compression takes a minute.
[[ $built == release ]] && fast=() || fast=(--fast)
"$SVCFS_TOOLS/bin/cargo-deb" --manifest-path src/daemon/Cargo.toml --no-build --no-strip --profile "$profile" "${fast[@]}" \
    --locked --output "$output/"
