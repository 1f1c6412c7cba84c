//! The Debian package, tried on a copy of this system that is thrown away, and all files of a
//! release, tried on a fresh Debian 12.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

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

/// Packing writes manual pages and completions into one folder of the target directory.
static PACKING: Mutex<()> = Mutex::new(());

/// Runs a script that packs the program of this test into `packed`; none, with the reason printed,
/// without root or the programs that it needs.
fn pack(place: &Place, script: &str, needed: &str) -> Option<Output> {
    let tools = std::env::var_os("SVCFS_TOOLS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools"),
        PathBuf::from,
    );
    if !rustix::process::geteuid().is_root() || !tools.join("bin").join(needed).exists() {
        println!("skipped: needs root and {needed} (scripts/test.sh installs it)");
        return None;
    }
    let target = Path::new(env!("CARGO_BIN_EXE_svcfs")).parent().unwrap();
    let (folder, target) = (target.file_name().unwrap(), target.parent().unwrap());
    let mut packing = Command::new(workspace().join(script));
    packing.arg("--of").arg(folder).arg("--to").arg(place.path("packed"));
    packing.env("CARGO_TARGET_DIR", target).env("SVCFS_TOOLS", &tools);
    let _guard = PACKING.lock().unwrap();
    let packed = packing.output().unwrap();
    assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
    Some(packed)
}

#[test]
fn the_package_installs_upgrades_and_uninstalls_leaving_pages() {
    let place = Place::new();
    std::fs::create_dir(place.path("system")).unwrap();
    if pack(&place, "scripts/package.sh", "cargo-deb").is_none() {
        return;
    }
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

#[test]
fn the_files_of_a_release_install_and_run_on_a_fresh_debian() {
    let place = Place::new();
    let Some(packed) = pack(&place, "scripts/release.sh", "cargo-cyclonedx") else { return };
    assert!(String::from_utf8_lossy(&packed.stderr).contains("no other library"), "{packed:?}");
    let sums = place.read("packed/SHA256SUMS");
    let mut names: Vec<&str> = sums.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    names.sort_unstable();
    let version = env!("CARGO_PKG_VERSION");
    let machine = std::env::consts::ARCH;
    assert_eq!(names[0], format!("svcfs-{version}-{machine}-linux-gnu.tar.gz"));
    assert_eq!(names[1], format!("svcfs-{version}.cdx.json"));
    assert!(names[2].starts_with(&format!("svcfs_{version}-1_")) && names.len() == 3, "{names:?}");
    let components: serde_json::Value = serde_json::from_str(&place.read(&format!("packed/{}", names[1]))).unwrap();
    let components = components["components"].as_array().unwrap();
    for (name, is_part) in [("libgit2-sys", true), ("libz-sys", true), ("svcfs-store", true), ("proptest", false)] {
        assert_eq!(components.iter().any(|component| component["name"] == name), is_part, "{name}");
    }
    let mut trying = Command::new(workspace().join("scripts/release/try.sh"));
    let tried = trying.arg(place.path("packed")).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&tried.stdout), String::from_utf8_lossy(&tried.stderr));
    assert!(tried.status.success() && out.ends_with("the release works on a fresh Debian 12\n"), "{out}\n{err}");
}
