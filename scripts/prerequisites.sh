# shellcheck shell=bash disable=SC2034
# What a machine needs before anything here can be built, tested or mounted. Sourced by the other scripts.

# What compiles the C parts (git, SQLite) and links.
readonly BUILD_PACKAGES=(gcc libc6-dev make pkg-config git curl ca-certificates)
# What a person who is not root needs to mount.
readonly MOUNT_PACKAGES=(fuse3)
# The programs that the tests drive against a mount.
readonly TEST_PACKAGES=(vim nano emacs-nox rsync sqlite3 attr fio stress-ng python3 python3-venv python3-prometheus-client rclone openssl e2fsprogs libnfs-utils litmus cadaver davfs2 bindfs mount util-linux xz-utils)
# What only PyPI has: servers and clients that the tests talk to, each with the one version whose behaviour is known.
readonly PYTHON_TOOLS=(oidc-provider-mock==0.3.4 awscli==1.46.3 boto3==1.44.5 awscrt==0.38.1 s3cmd==2.4.0 mcp==2.3.0)
# What only npm has is named in scripts/clients, with its whole dependency tree: clients of the agent protocol. The Inspector's command line
# of version 1 is the newest that runs on node 18 and 20; version 2 needs 22.
readonly NODE_PACKAGES=(nodejs npm)
# The suites that no Debian package has, each with the one version whose outcomes are known (tests/it/posix).
readonly TEST_TOOLS=(pjdfstest@0.2.2 fsx@0.3.2)
# What the small machine is made of whose kernel mounts NFS (scripts/nfs/guest.sh).
readonly GUEST_PACKAGES=(busybox-static cpio kmod libtirpc3 qemu-system-x86)
# What the doors are measured beside (tests/bench, the part `doors`), beside rclone, which is among those above, and nginx.
readonly RIVAL_PYTHON_TOOLS=(wsgidav==4.4.0 cheroot==11.1.2)
# What makes a Debian package.
readonly PACKAGE_TOOLS=(cargo-deb@3.7.0)

# One line per argument, beside what the programs print.
say() { printf '%s\n' "$@" >&2; }
fail() {
    say "$(basename "$0"): $*"
    exit 1
}

# Install those of the named Debian packages that are missing, or say which ones to install.
need_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this is not a Debian-like system; please make sure that these are installed: $*"
        return
    fi
    local package missing=()
    for package in "$@"; do
        # Only the state matters, not the text around it: `un` and `rc` are as good as unknown.
        case "$(dpkg-query --show --showformat='${db:Status-Abbrev}' "$package" 2>/dev/null || true)" in
            ii*) ;;
            *) missing+=("$package") ;;
        esac
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0

    local as_root=()
    if [[ $EUID -ne 0 ]]; then
        command -v sudo >/dev/null || fail "these packages are missing; as root, run: apt-get install ${missing[*]}"
        as_root=(sudo)
    fi
    say "installing ${missing[*]}"
    # A fresh image has no package lists, and a stale one names versions that are gone.
    "${as_root[@]}" apt-get -qq update
    # A machine that has just booted may still be installing updates by itself: the lock is waited for. Without the
    # terminal, what is left of the progress is one line a package.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${missing[@]}" >&2
}

# Install those of the named programs (NAME@VERSION) that are missing from crates.io, into $SVCFS_TOOLS.
need_tools() {
    local tool there missing=()
    there="$(cargo install --list --root "$SVCFS_TOOLS" 2>/dev/null || true)"
    for tool in "$@"; do
        grep -qxF "${tool%@*} v${tool#*@}:" <<<"$there" || missing+=("$tool")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    say "installing ${missing[*]} into $SVCFS_TOOLS"
    # One folder for what they have in common. Not optimised: they wait for the kernel.
    local build
    build="$(mktemp -d)"
    CARGO_TARGET_DIR="$build" CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --debug --locked --root "$SVCFS_TOOLS" "${missing[@]}" ||
        fail "${missing[*]} could not be installed; see the messages above"
    rm -rf "$build"
}

# Install those of the named Python packages (NAME==VERSION) that are missing, into $SVCFS_TOOLS/python.
need_python_tools() {
    local there="$SVCFS_TOOLS/python" tool frozen missing=()
    [[ -x $there/bin/pip ]] || python3 -m venv "$there"
    frozen="$("$there/bin/pip" freeze --disable-pip-version-check)"
    for tool in "$@"; do
        grep -qixF "$tool" <<<"$frozen" || missing+=("$tool")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    say "installing ${missing[*]} into $there"
    "$there/bin/pip" install --quiet --disable-pip-version-check "${missing[@]}" ||
        fail "${missing[*]} could not be installed; see the messages above"
}

# Install what scripts/clients names from npm, into $SVCFS_TOOLS/node.
need_node_tools() {
    local clients there="$SVCFS_TOOLS/node"
    clients="$(dirname "${BASH_SOURCE[0]}")/clients"
    # A node from elsewhere brings an npm of its own, which the packages would replace.
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        need_packages "${NODE_PACKAGES[@]}"
    fi
    cmp --quiet "$clients/package-lock.json" "$there/installed" && return
    say "installing $(sed -n 's/^    "\(@.*\)": "\(.*[0-9]\)",\{0,1\}$/\1 \2/p' "$clients/package.json" | paste -s -d ,) into $there"
    mkdir -p "$there"
    cp "$clients/package.json" "$clients/package-lock.json" "$there"
    npm ci --prefix "$there" --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
        fail "the packages of $clients could not be installed; see the messages above"
    cp "$clients/package-lock.json" "$there/installed"
}

# nginx, beside what is installed: a package would begin to serve on port 80.
need_nginx() {
    [[ ! -x /usr/sbin/nginx && ! -x $SVCFS_TOOLS/nginx/usr/sbin/nginx ]] || return 0
    local folder outcome=0
    folder="$(mktemp -d)"
    # As the user apt downloads as.
    chmod a+rwx "$folder"
    (cd "$folder" && apt-get -qq download nginx >&2 && dpkg -x nginx_*.deb "$SVCFS_TOOLS/nginx") || outcome=$?
    rm -rf "$folder"
    return "$outcome"
}

# Find a cargo that is new enough, or install rustup after saying so; rustup then brings the toolchain that
# rust-toolchain.toml names.
need_rust() {
    local clone needed rustup_programs="${CARGO_HOME:-$HOME/.cargo}/bin"
    clone="$(dirname "${BASH_SOURCE[0]}")/.."
    needed="$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$clone/Cargo.toml")"
    ! cargo_is_at_least "$needed" "$clone" || return 0
    if [[ -x $rustup_programs/cargo && $(command -v cargo) != "$rustup_programs/cargo" ]]; then
        # Not on PATH in the shell that installed it, or behind a packaged one.
        PATH="$rustup_programs:$PATH"
        ! cargo_is_at_least "$needed" "$clone" || return 0
    fi
    ! command -v rustup >/dev/null ||
        fail "rustup is there but not Rust $needed; see the messages above, or run in $(realpath "$clone"): rustup toolchain install"
    say "Rust $needed or newer is missing (Debian 12 packages 1.63); rustup from https://rustup.rs brings the right one."
    if [[ -t 0 ]]; then
        local answer
        read -rp "Install rustup into ${rustup_programs%/bin} now? [y/N] " answer
        [[ $answer == [yY]* ]] || fail "install Rust $needed from https://rustup.rs, then run this again"
    fi
    install_rustup
    PATH="$rustup_programs:$PATH"
    cargo_is_at_least "$needed" "$clone" || fail "rustup was installed but Rust $needed is not there; see the messages above"
}

# Asked inside the clone, where rustup answers for the toolchain that is built with and not for the user's default.
cargo_is_at_least() {
    local needed="$1" clone="$2" found
    command -v cargo >/dev/null || return 1
    found="$(cd "$clone" && cargo --version | cut -d ' ' -f 2)" || return 1
    printf '%s\n' "$needed" "$found" | sort --version-sort --check=quiet
}

# The installer itself rather than a script piped into a shell, and only if it is what its publisher says it is.
install_rustup() {
    local platform folder url
    platform="$(uname -m)-unknown-linux-gnu"
    url="https://static.rust-lang.org/rustup/dist/$platform"
    folder="$(mktemp -d)"
    say "downloading rustup-init from $url"
    local file
    for file in rustup-init rustup-init.sha256; do
        curl --proto '=https' --tlsv1.2 -fsS "$url/$file" -o "$folder/$file" ||
            fail "$url/$file cannot be downloaded; install Rust another way, then run this again"
    done
    local expected
    expected="$(cut -d ' ' -f 1 "$folder/rustup-init.sha256")"
    printf '%s  %s\n' "$expected" "$folder/rustup-init" | sha256sum --check --quiet ||
        fail "rustup-init does not match its checksum; nothing was installed"
    chmod +x "$folder/rustup-init"
    "$folder/rustup-init" -y --profile minimal --default-toolchain none --no-modify-path >&2
    rm -rf "$folder"
}
