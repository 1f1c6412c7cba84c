//! The Debian package, tried on a copy of this system that is thrown away.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::Place;

/// A copy of the whole system in memory, written to without a trace: an overlay over `/` in a mount
/// namespace of its own.
const THROWN_AWAY: &str = "
set -eu
mount -t tmpfs none \"$1\"
mkdir \"$1/upper\" \"$1/work\" \"$1/root\"
mount -t overlay overlay -o \"lowerdir=/,upperdir=$1/upper,workdir=$1/work\" \"$1/root\"
mount --rbind /proc \"$1/root/proc\"
mount --rbind /dev \"$1/root/dev\"
mount -t tmpfs none \"$1/root/run\"
cp \"$2\" \"$1/root/run/svcfs.deb\"
cp \"$3\" \"$1/root/run/try.sh\"
[ $# -eq 3 ] || exit 0
exec chroot \"$1/root\" sh /run/try.sh /run/svcfs.deb
";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn thrown_away(place: &Place, package: &Path, more: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", THROWN_AWAY, "sh"]).arg(place.path("system"));
    command.arg(package).arg(workspace().join("scripts/deb/try.sh")).args(more);
    command
}

#[test]
fn the_package_installs_upgrades_and_uninstalls_leaving_pages() {
    let tools = std::env::var_os("SVCFS_TOOLS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools"),
        PathBuf::from,
    );
    if !rustix::process::geteuid().is_root() || !tools.join("bin/cargo-deb").exists() {
        return println!("skipped: needs root and cargo-deb (scripts/test.sh installs it)");
    }
    let place = Place::new();
    std::fs::create_dir(place.path("system")).unwrap();
    let target = Path::new(env!("CARGO_BIN_EXE_svcfs")).parent().unwrap();
    let (folder, target) = (target.file_name().unwrap(), target.parent().unwrap());
    let mut packing = Command::new(workspace().join("scripts/package.sh"));
    packing.arg("--of").arg(folder).arg("--to").arg(place.path("packed"));
    packing.env("CARGO_TARGET_DIR", target).env("SVCFS_TOOLS", &tools);
    let packed = packing.output().unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    let package = std::fs::read_dir(place.path("packed")).unwrap().next().unwrap().unwrap().path();
    // A fourth argument ends it once everything is mounted.
    let possible = thrown_away(&place, &package, &["only"]).output().unwrap();
    if !possible.status.success() {
        return println!("skipped: no overlay over this system: {}", String::from_utf8_lossy(&possible.stderr));
    }
    let tried = thrown_away(&place, &package, &[]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&tried.stdout), String::from_utf8_lossy(&tried.stderr));
    assert!(tried.status.success() && out.ends_with("all of it went well\n"), "{out}\n{err}");
}
