#!/usr/bin/env bash
# Builds the files of a release: tarball, Debian package, SBOM and checksums.
set -euo pipefail

usage() {
    cat <<'TEXT'
Build the files of a release for this machine's architecture, on Debian 12

Usage: scripts/release.sh [--of FOLDER] [--to DIR] [--try]

Writes into DIR:
  svcfs-VERSION-ARCH-linux-gnu.tar.gz   program, manual pages, completions, systemd units, documentation, licences
  svcfs_VERSION-1_ARCH.deb              the same as a Debian package
  svcfs-VERSION.cdx.json                software bill of materials (CycloneDX)
  SHA256SUMS                            checksums of these files

Without --of, builds the program first (about 10 minutes on 2 cores). With --of, packs an existing build.
Fails if the program needs a shared library other than those of glibc and gcc, or a newer glibc than that of Debian 12.

Options:
  --of FOLDER   Folder below the target directory with the built program: release or debug
  --to DIR      Where to write the files (default: folder `dist` in the target directory); other files there stay
  --try         Then install and run them in a fresh Debian 12 (scripts/release/try.sh); needs root

Environment:
  SOURCE_DATE_EPOCH    Time of all packed files (default: that of the newest commit)
  CARGO_TARGET_DIR     Where to build (default: ~/.cache/svcfs/target)
  SVCFS_TOOLS          Where to install cargo-deb and cargo-cyclonedx (default: ~/.cache/svcfs/tools)

Recipes for other platforms, which no test runs, are in scripts/release.
TEXT
}

built="" output="" tries=false
while [[ $# -gt 0 ]]; do
    case "$1" in
        -h | --help) usage && exit ;;
        --of) built="${2:?--of needs a folder}" && shift 2 ;;
        --to) output="${2:?--to needs a directory}" && shift 2 ;;
        --try) tries=true && shift ;;
        *) usage >&2 && exit 2 ;;
    esac
done

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/prerequisites.sh
source scripts/prerequisites.sh
# shellcheck source=scripts/release/pack.sh
source scripts/release/pack.sh

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/svcfs/target}"
export SVCFS_TOOLS="${SVCFS_TOOLS:-$HOME/.cache/svcfs/tools}"
output="$(realpath -m "${output:-$CARGO_TARGET_DIR/dist}")"
SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH

# The newest glibc that the program may need: that of Debian 12.
readonly GLIBC=2.36

need_packages "${BUILD_PACKAGES[@]}" binutils python3
need_rust
need_tools "${PACKAGE_TOOLS[@]}" "${RELEASE_TOOLS[@]}"
if [[ -z $built ]]; then
    cargo build --locked --release -p svcfs
    built=release
fi
program="$CARGO_TARGET_DIR/$built/svcfs"
version="$(svcfs_version)"

# Fails if the program would not start on Debian 12 without more packages.
check_libraries() {
    local library newest
    while read -r library; do
        case $library in
            libc.so.6 | libm.so.6 | libgcc_s.so.1 | ld-linux-*.so.*) ;;
            *) fail "$program needs the shared library $library; bundle it" ;;
        esac
    done < <(objdump -p "$program" | sed -n 's/^ *NEEDED *//p')
    newest="$(objdump -T "$program" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort --version-sort --unique | tail -1)"
    printf '%s\n' "$newest" "$GLIBC" | sort --version-sort --check=quiet ||
        fail "$program needs glibc $newest, and Debian 12 has $GLIBC; build on Debian 12"
    say "$program needs glibc $newest or newer and no other library"
}

# Describes the crates of the program, with their bundled C libraries. cargo-cyclonedx writes beside every Cargo.toml,
# so it runs in a copy.
write_sbom() {
    local folder
    folder="$(mktemp -d)"
    git ls-files -z -- '*Cargo.toml' Cargo.lock '*.rs' rust-toolchain.toml |
        xargs -0 cp --parents --no-dereference --target-directory "$folder"
    (cd "$folder" && "$SVCFS_TOOLS/bin/cargo-cyclonedx" cyclonedx --manifest-path src/daemon/Cargo.toml --format json \
        --spec-version 1.5 --target "$(uname -m)-unknown-linux-gnu" --override-filename svcfs.cdx --quiet)
    # The folder of the copy is no part of a name.
    sed "s|$folder/||g; s|file://$folder|file://|g" "$folder/src/daemon/svcfs.cdx.json" >"$output/svcfs-$version.cdx.json"
    rm -rf "$folder"
}

check_libraries
mkdir -p "$output"
# Also writes the manual pages and completions that the tarball has.
scripts/package.sh --of "$built" --to "$output" >/dev/null
package="svcfs_$version-1_$(dpkg --print-architecture).deb"
# A tarball for tests is compressed fast.
[[ $built == release ]] && level=9 || level=1
tarball="$(pack_program "$program" "$(uname -m)-linux-gnu" "$output" "$CARGO_TARGET_DIR/$built/package" "$level")"
write_sbom
files=("$tarball" "$package" "svcfs-$version.cdx.json")
(cd "$output" && sha256sum "${files[@]}" >SHA256SUMS && ls -l --human-readable "${files[@]}" SHA256SUMS)
! "$tries" || scripts/release/try.sh "$output"
