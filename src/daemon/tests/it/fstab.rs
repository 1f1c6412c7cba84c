//! mount(8), as `/etc/fstab` makes it work.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::harness::{Place, Running, can_mount, eventually, svcfs};

/// The helper under a name of its own, for as long as a test runs: mount(8) looks for helpers in
/// one place only.
struct Helper {
    installed: PathBuf,
    kind: String,
}

impl Helper {
    /// None, with the reason printed, where it cannot be installed.
    fn install() -> Option<Self> {
        // A thread is a test here.
        let kind = format!("svcfs-test-{}", nix::unistd::gettid());
        let installed = PathBuf::from(format!("/sbin/mount.fuse.{kind}"));
        match std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_svcfs"), &installed) {
            Ok(()) => Some(Self { installed, kind }),
            Err(error) => {
                println!("skipped: {} cannot be made: {error}", installed.display());
                None
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        std::fs::remove_file(&self.installed).unwrap();
    }
}

fn place() -> Place {
    let place = Place::with_root();
    std::fs::create_dir(place.path("mnt")).unwrap();
    place
}

/// mount(8) with a table of its own.
fn mount(place: &Place, arguments: &[&str]) -> Output {
    Command::new("mount").args(["-T", &place.at("fstab")]).args(arguments).output().unwrap()
}

#[track_caller]
fn succeeded(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn umount(place: &Place, name: &str) {
    succeeded(&Command::new("umount").arg(place.path(name)).output().unwrap());
}

fn line(place: &Place, helper: &Helper, name: &str, options: &str) -> String {
    format!("{} {} fuse.{} {options} 0 0\n", place.canonical("kb"), place.canonical(name), helper.kind)
}

/// Shows: MNT-38
#[test]
fn a_line_of_fstab_mounts_and_umount_ends_its_server() {
    if !can_mount() {
        return;
    }
    let Some(helper) = Helper::install() else { return };
    let place = place();
    place.write("fstab", &line(&place, &helper, "mnt", "noauto,nofail,noexec,actor=0=agent:x"));
    succeeded(&mount(&place, &[&place.at("mnt")]));
    place.write("mnt/saved.md", "# Saved\n");
    let program = place.path("mnt/program");
    std::fs::copy("/bin/true", &program).unwrap();
    let refused = Command::new(&program).status().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "noexec");
    umount(&place, "mnt");
    // It finishes what it accepted, and lets go of the root.
    eventually("the server ends", || !place.has("kb/.svc/state/server.json"));
    // Whoever mounts again at once waits for that.
    succeeded(&mount(&place, &[&place.at("mnt")]));
    assert_eq!(place.read("mnt/saved.md"), "# Saved\n");
    umount(&place, "mnt");
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "saved.md"]), "agent:x");
}

/// Shows: MNT-38
#[test]
fn all_fstab_lines_mount_in_one_server_and_mounted_are_skipped() {
    if !can_mount() {
        return;
    }
    let Some(helper) = Helper::install() else { return };
    let place = place();
    std::fs::create_dir(place.path("shown")).unwrap();
    let server = Running::serve(&place.at("kb"), &[]);
    let lines = [
        line(&place, &helper, "mnt", "defaults"),
        line(&place, &helper, "shown", "ro,x-systemd.requires=svcfs.service"),
    ];
    place.write("fstab", &lines.concat());
    for _ in 0..2 {
        succeeded(&mount(&place, &["-a"]));
    }
    place.write("mnt/saved.md", "# Saved\n");
    assert_eq!(place.read("shown/saved.md"), "# Saved\n");
    assert!(std::fs::write(place.path("shown/saved.md"), "no").is_err());
    umount(&place, "shown");
    svcfs(&["unmount", &place.at("mnt")]).assert().success();
    server.stop();
}

/// Shows: MNT-38
#[test]
fn a_line_of_fstab_that_is_wrong_is_refused_by_name() {
    let Some(helper) = Helper::install() else { return };
    let place = place();
    for (options, told) in [
        ("acl", "`acl` is not a mount option of svcfs"),
        ("actor=agent:x", "use USER=NAME, such as `1000=agent:x`"),
        ("config=/nowhere.toml", "/nowhere.toml"),
    ] {
        place.write("fstab", &line(&place, &helper, "mnt", options));
        let output = mount(&place, &[&place.at("mnt")]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(told), "{options}: {error}");
    }
    std::fs::remove_dir_all(place.path("kb/.svc")).unwrap();
    place.write("fstab", &line(&place, &helper, "mnt", "defaults"));
    let error = mount(&place, &[&place.at("mnt")]).stderr;
    assert!(String::from_utf8_lossy(&error).contains("is not a knowledge root"));
}
