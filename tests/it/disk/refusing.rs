//! A disk that refuses while the server runs.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::json;

use super::image::run;
use super::{Image, must_put, page, put, save, save_safely, serve, stop_and_audit, trouble, wait_until_ready};
use crate::crash::server::Binary;
use crate::space::client::Client;
use crate::space::{can_mount, git, tree, wait};

const NO_SPACE: i32 = 28;
const READ_ONLY: i32 = 30;

/// Every door refuses to write, with the same reason, and nothing changes; every door goes on
/// reading.
fn check_refusals(image: &Image, client: &Client, (status, errno, reason): (u16, i32, &str)) {
    let root = image.root();
    let before = (tree::files(&root), git::head(&root));
    for path in ["new.md", "kept.md", "new folder/new.md"] {
        let reply = put(client, path, "# Refused\n\nzebra\n");
        assert_eq!(reply.status, status, "{path}: {}", reply.text());
        let told = reply.json()["error"].as_str().unwrap().to_owned();
        assert!(told.contains(reason), "{path}: {told}");
        assert!(!told.contains(root.to_str().unwrap()), "a caller reads where the server keeps things: {told}");
    }
    let told = client.tool("svc_write", json!({ "path": "agent.md", "content": "# Refused\n\nzebra\n" })).unwrap_err();
    assert!(told.contains(reason), "an agent is told: {told}");
    let told = trouble(client).unwrap_or_else(|| panic!("a server that cannot write is not ready"));
    assert!(told.contains(reason), "/readyz: {told}");
    if can_mount() {
        let at = |path: &str| image.mountpoint().join(path);
        for path in ["saved.md", "kept.md"] {
            let text = "# Refused\n\nzebra\n";
            assert_eq!(save(&at(path), text).unwrap_err().raw_os_error(), Some(errno), "saving {path}");
            assert_eq!(save_safely(&at(path), text).unwrap_err().raw_os_error(), Some(errno), "saving {path} safely");
        }
        // A closed handle is let go of a moment later.
        wait::until("the mount shows the page as it was", || {
            fs::read_to_string(at("kept.md")).is_ok_and(|text| text == "# Kept\n\nwalrus\n")
        });
        wait::until("the mount lists what is there, and no more", || {
            let names = fs::read_dir(at("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.filter(|name| name != ".svc").collect::<BTreeSet<_>>().iter().eq(before.0.keys())
        });
    }
    assert_eq!(page(client, "kept.md").as_deref(), Some("# Kept\n\nwalrus\n"));
    assert_eq!(client.found("walrus"), ["kept.md"]);
    assert_eq!(client.found("zebra"), [""; 0]);
    assert_eq!((tree::files(&root), git::head(&root)), before, "refused writes changed something");
}

/// Shows: FAIL-1
#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    let Some(image) = Image::new() else { return };
    let binary = Binary::build();
    let (server, client) = serve(&binary, &image);
    must_put(&client, "kept.md", "# Kept\n\nwalrus\n");
    image.wait_for_checkpoint();
    image.fill();
    check_refusals(&image, &client, (503, NO_SPACE, "disk full: no space left for `"));
    image.free();
    wait_until_ready(&client);
    let mut expected = vec!["kept.md", "new folder/new.md", "new.md", "seed.md"];
    must_put(&client, "new.md", "# New\n\nlynx\n");
    must_put(&client, "new folder/new.md", "# New\n\nlynx\n");
    if can_mount() {
        save(&image.mountpoint().join("saved.md"), "# Saved\n\nlynx\n").unwrap();
        assert_eq!(page(&client, "saved.md").as_deref(), Some("# Saved\n\nlynx\n"));
        expected.insert(3, "saved.md");
    }
    stop_and_audit(server, &binary, &image);
    assert_eq!(git::head(&image.root()).into_keys().collect::<Vec<_>>(), expected);
    let versions = git::git(&image.root(), &["log", "--format=%s", "--", "kept.md"]);
    assert_eq!(versions.lines().count(), 1, "a refused version is in history: {versions}");
}

/// Shows: FAIL-1
#[test]
fn a_disk_turning_read_only_is_reported_and_loses_nothing() {
    let Some(image) = Image::new() else { return };
    let binary = Binary::build();
    let (mut server, client) = serve(&binary, &image);
    must_put(&client, "kept.md", "# Kept\n\nwalrus\n");
    image.wait_for_checkpoint();
    must_put(&client, "late.md", "# Late\n\notter\n");
    if !image.break_down() {
        return;
    }
    check_refusals(&image, &client, (403, READ_ONLY, "read-only"));
    // A disk that broke down comes back only after it was unmounted, which needs the server gone.
    server.kill();
    drop(server);
    if can_mount() {
        svcfs_mount::unmount(&image.mountpoint()).unwrap();
    }
    image.unmount();
    image.mount("rw").unwrap();
    let (server, client) = serve(&binary, &image);
    assert_eq!(page(&client, "late.md").as_deref(), Some("# Late\n\notter\n"));
    must_put(&client, "kept.md", "# Kept\n\nwalrus and lynx\n");
    stop_and_audit(server, &binary, &image);
}

#[test]
fn an_unwritable_folder_refuses_only_its_own_writes() {
    let Some(image) = Image::new() else { return };
    let frozen = image.root().join("frozen");
    fs::create_dir(&frozen).unwrap();
    fs::write(frozen.join("old.md"), "# Old\n").unwrap();
    let mount = |how: &[&str]| run(Command::new("mount").args(how).arg(&frozen));
    run(Command::new("mount").arg("--bind").arg(&frozen).arg(&frozen)).unwrap();
    mount(&["-o", "remount,bind,ro"]).unwrap();
    let binary = Binary::build();
    let (server, client) = serve(&binary, &image);
    for path in ["frozen/new.md", "frozen/old.md"] {
        let reply = put(&client, path, "# Refused\n");
        assert_eq!(reply.status, 403, "{path}: {}", reply.text());
        assert!(reply.text().contains("read-only"), "{}", reply.text());
        must_put(&client, "beside.md", &format!("# Beside\n\nafter {path}\n"));
        assert_eq!(trouble(&client), None, "one folder is not the whole disk");
    }
    // What can be written there cannot be put in place: nothing is renamed from one mount to
    // another.
    mount(&["-o", "remount,bind,rw"]).unwrap();
    for path in ["frozen/new.md", "frozen/old.md"] {
        let reply = put(&client, path, "# Refused\n");
        assert_eq!(reply.status, 403, "{path}: {}", reply.text());
        assert!(reply.text().contains("below a mount point"), "{}", reply.text());
        must_put(&client, "beside.md", &format!("# Beside\n\nafter {path} once more\n"));
    }
    run(Command::new("umount").arg(&frozen)).unwrap();
    must_put(&client, "frozen/new.md", "# New\n");
    stop_and_audit(server, &binary, &image);
}
