# shellcheck shell=bash
# Packs a program into a tarball that unpacks into /usr/local. The scripts that build releases source this file, in the
# root of the clone. The same files give the same bytes.

# Prints the version of the workspace.
svcfs_version() { sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1; }

# Packs the program $1 as svcfs-VERSION-$2.tar.gz into the folder $3, with the manual pages and completions of the folder
# $4 if it is given. $5 is the compression (default: 9). Prints the name of the tarball.
pack_program() {
    local program="$1" platform="$2" output="$3" generated="${4:-}" level="${5:-9}" folder name base
    name="svcfs-$(svcfs_version)-$platform"
    folder="$(mktemp -d)"
    base="$folder/$name"
    install -D -m 755 "$program" "$base/bin/svcfs"
    if [[ -n $generated ]]; then
        install -D -m 644 -t "$base/share/man/man1" "$generated"/man/*.1.gz
        install -D -m 644 "$generated/completions/svcfs" "$base/share/bash-completion/completions/svcfs"
        install -D -m 644 "$generated/completions/_svcfs" "$base/share/zsh/site-functions/_svcfs"
        install -D -m 644 "$generated/completions/svcfs.fish" "$base/share/fish/vendor_completions.d/svcfs.fish"
    fi
    install -D -m 644 -t "$base/share/doc/svcfs/systemd" systemd/*
    install -D -m 644 -t "$base/share/doc/svcfs" README.md SEMANTICS.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE \
        src/vectors/model/NOTICE
    install -D -m 644 -t "$base/share/doc/svcfs/docs" docs/*.md docs/mount.svg
    install -D -m 644 -t "$base/share/doc/svcfs/docs/semantics" docs/semantics/*.md
    scripts/release/licences.py >"$base/share/doc/svcfs/third-party.txt"
    mkdir -p "$output"
    tar --create --directory "$folder" --sort=name --format=ustar --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner \
        --mtime="@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" "$name" |
        gzip "-$level" --no-name >"$output/$name.tar.gz"
    rm -rf "$folder"
    printf '%s\n' "$name.tar.gz"
}
