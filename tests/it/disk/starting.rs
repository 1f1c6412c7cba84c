//! A disk that refuses before the server is up.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::image::run;
use super::{Image, must_put, page, serve, stop_and_audit};
use crate::crash::server::Binary;
use crate::space::folder;

/// Starts a server that cannot start; the code it ends with, and the last line it says.
fn refused(command: &mut Command, root: &Path) -> (Option<i32>, String) {
    let output = command.args(["serve", "--port", "0", "--root"]).arg(root).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn a_full_disk_at_startup_is_reported_as_such() {
    let Some(image) = Image::new() else { return };
    let root = image.root();
    let binary = Binary::build();
    let check = |what: &str| {
        let (code, said) = refused(&mut Command::new(binary.path()), &root);
        assert_eq!(code, Some(1), "{what}: {said}");
        assert!(said.contains("no space left"), "{what}: {said}");
    };
    fs::create_dir_all(root.join(".svc")).unwrap();
    image.fill();
    check("a root that never was served");
    image.free();
    let (server, client) = serve(&binary, &image);
    must_put(&client, "kept.md", "# Kept\n\nwalrus\n");
    stop_and_audit(server, &binary, &image);
    image.fill();
    check("a root that was served");
    for gone in ["index.db", "log.db"] {
        fs::remove_file(root.join(".svc/state").join(gone)).unwrap();
        image.fill();
        check(&format!("a root without its {gone}"));
    }
    image.free();
    let (server, client) = serve(&binary, &image);
    assert_eq!(page(&client, "kept.md").as_deref(), Some("# Kept\n\nwalrus\n"));
    must_put(&client, "new.md", "# New\n");
    stop_and_audit(server, &binary, &image);
}

#[test]
fn a_root_on_a_read_only_disk_is_reported_as_such() {
    let Some(image) = Image::new() else { return };
    let binary = Binary::build();
    let (server, client) = serve(&binary, &image);
    must_put(&client, "kept.md", "# Kept\n\nwalrus\n");
    stop_and_audit(server, &binary, &image);
    image.unmount();
    image.mount("ro").unwrap();
    let (code, said) = refused(&mut Command::new(binary.path()), &image.root());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("read-only") && said.contains(image.root().to_str().unwrap()), "{said}");
}

#[test]
fn a_root_owned_by_another_user_is_reported_as_such() {
    let Some(nobody) = nix::unistd::User::from_name("nobody").unwrap().filter(|_| nix::unistd::geteuid().is_root())
    else {
        println!("skipped: only root can become somebody else");
        return;
    };
    let folder = folder();
    let root = folder.path().join("root");
    let program = folder.path().join("svcfs");
    // Where it is built others may not look. Not copied by this process: a program that another
    // test starts in this moment would hold the copy open for writing, and what is written cannot
    // be run.
    run(Command::new("cp").arg(Binary::build().path()).arg(&program)).unwrap();
    let check = |what: &str| {
        let mut command = Command::new(&program);
        command.uid(nobody.uid.as_raw()).gid(nobody.gid.as_raw()).env("HOME", "/nonexistent");
        let (code, said) = refused(&mut command, &root);
        assert_eq!(code, Some(3), "{what}: {said}");
        assert!(said.contains("permission denied") && said.contains(root.to_str().unwrap()), "{what}: {said}");
    };
    let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    fs::create_dir(root.join(".svc")).unwrap();
    allow(&root, 0o755);
    check("the root");
    fs::create_dir(root.join(".svc/state")).unwrap();
    check("the state below it");
    allow(&root.join(".svc/state"), 0o777);
    fs::create_dir(root.join(".svc/state/tmp")).unwrap();
    check("a part of the state");
}
