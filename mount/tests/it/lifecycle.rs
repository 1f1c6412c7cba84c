//! Mounting, refusing to mount, and taking away.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use svcfs_base::{Protocol, TreePath};
use svcfs_mount::{LocalMount, MountError, MountNamespace, MountOptions, check_mountpoint, unmount};

use crate::mounted::{LIMIT, Mounted, can_mount, open, options, wait_for};

const HELPER: &str = "SVCFS_TEST_DIES_MOUNTED";
const STOPS: &str = "SVCFS_TEST_STOPS_MOUNTED";

#[test]
fn a_directory_that_does_not_serve_is_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().canonicalize().unwrap().join(name);
    for directory in ["root/inside", "full/something", "empty"] {
        fs::create_dir_all(path(directory)).unwrap();
    }
    fs::write(path("file"), "").unwrap();
    let vfs = open(&path("root"));
    let refusal = |at: &Path| LocalMount::start(vfs.clone(), at, &options()).err().map(|error| error.to_string());
    let (root, shown) = (path("root"), folder.path().canonicalize().unwrap());
    let (root, shown) = (root.display(), shown.display());
    for (name, expected) in [
        ("none", format!("mountpoint `{shown}/none` does not exist; create it with `mkdir -p {shown}/none`")),
        ("file", format!("mountpoint `{shown}/file` is not a directory; choose an empty directory")),
        (
            "full",
            format!(
                "mountpoint `{shown}/full` is not empty: its files would be hidden while mounted; choose an empty directory"
            ),
        ),
        (
            "root",
            format!(
                "mountpoint `{shown}/root` overlaps the root `{root}`; choose a directory outside, such as `{root}.mnt`, or start the server with the root itself as its mountpoint"
            ),
        ),
        (
            "root/inside",
            format!(
                "mountpoint `{shown}/root/inside` overlaps the root `{root}`; choose a directory outside, such as `{root}.mnt`, or start the server with the root itself as its mountpoint"
            ),
        ),
        (
            "",
            format!(
                "mountpoint `{shown}` overlaps the root `{root}`; choose a directory outside, such as `{root}.mnt`, or start the server with the root itself as its mountpoint"
            ),
        ),
    ] {
        // The last one is named without its final slash.
        let at = if name.is_empty() { folder.path().to_owned() } else { path(name) };
        assert_eq!(refusal(&at).as_deref(), Some(expected.as_str()));
    }
    vfs.close().unwrap();
}

#[test]
fn unmounting_a_foreign_mount_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [Path::new("/"), Path::new("/proc"), folder.path()] {
        assert!(matches!(unmount(path), Err(MountError::NotMounted(_))), "{path:?}");
    }
    assert!(Path::new("/proc/self").exists());
}

#[test]
fn a_mountpoint_in_use_is_refused_and_free_again_after_unmount() {
    let Some(mut space) = Mounted::new() else { return };
    fs::create_dir(space.folder().join("other")).unwrap();
    let other = open(&space.folder().join("other"));
    let again = LocalMount::start(other.clone(), &space.at(""), &options());
    assert!(matches!(again.err(), Some(MountError::AlreadyMounted(_))));
    unmount(&space.at("")).unwrap();
    assert!(matches!(unmount(&space.at("")), Err(MountError::NotMounted(_))));
    // Stopping a mount that somebody took away is no failure.
    space.stop(LIMIT).unwrap();
    LocalMount::start(other.clone(), &space.at(""), &options()).unwrap().stop(LIMIT).unwrap();
    other.close().unwrap();
}

/// Shows: MNT-41
#[test]
fn an_externally_unmounted_mount_ends_without_affecting_others() {
    let Some(mut space) = Mounted::new() else { return };
    let (tell, told) = channel();
    let on_end: Arc<dyn Fn() + Send + Sync> = Arc::new(move || tell.send(()).unwrap());
    let (other, at) = space.another(&MountOptions { on_end: Some(on_end), ..options() });
    let mut open = File::create(at.join("page.md")).unwrap();
    open.write_all(b"text").unwrap();
    unmount(&at).unwrap();
    // Busy: it goes out of sight at once, and is over when the last file is closed.
    assert!(!at.join("page.md").exists() && !other.is_unmounted());
    let (again, _) = space.another(&options());
    drop(open);
    told.recv_timeout(LIMIT).unwrap();
    assert!(other.is_unmounted());
    other.stop(LIMIT).unwrap();
    assert_eq!(fs::read(at.join("page.md")).unwrap(), b"text", "the next mount at the same place is untouched");
    again.stop(LIMIT).unwrap();
    assert_eq!(fs::read(space.at("page.md")).unwrap(), b"text");
    space.stop(LIMIT).unwrap();
}

#[test]
fn an_open_file_is_saved_at_unmount() {
    let Some(mut space) = Mounted::new() else { return };
    let mut file = File::create(space.at("page.md")).unwrap();
    file.write_all(b"not closed yet").unwrap();
    let stopped = space.stop(Duration::from_millis(50));
    assert!(matches!(stopped, Err(MountError::StillOpen { writers: 1, .. })), "{stopped:?}");
    let saved = space.vfs.read(Protocol::Http, &TreePath::parse("page.md").unwrap()).unwrap();
    assert_eq!(saved.content, "not closed yet");
    drop(file);
}

/// Shows: MNT-43
#[test]
fn a_read_only_mount_changes_nothing_and_shows_other_changes() {
    let Some(space) = Mounted::with(&MountOptions { is_read_only: true, ..options() }) else { return };
    space.put("page.md", "text");
    wait_for(|| space.at("page.md").exists());
    assert_eq!(fs::read(space.at("page.md")).unwrap(), b"text");
    let refusals = [
        fs::write(space.at("page.md"), "other"),
        fs::write(space.at("new.md"), "other"),
        fs::create_dir(space.at("d")),
        fs::remove_file(space.at("page.md")),
        fs::rename(space.at("page.md"), space.at("other.md")),
        fs::set_permissions(space.at("page.md"), std::os::unix::fs::PermissionsExt::from_mode(0o600)),
    ];
    for refused in refusals {
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
    space.put("page.md", "changed");
    wait_for(|| fs::read(space.at("page.md")).unwrap() == b"changed");
}

#[test]
fn a_mount_that_is_dropped_is_taken_away() {
    let Some(mut space) = Mounted::new() else { return };
    fs::write(space.at("page.md"), "text").unwrap();
    space.forsake();
    assert!(matches!(unmount(&space.at("")), Err(MountError::NotMounted(_))));
    assert!(!space.at("page.md").exists());
}

#[test]
fn a_mount_whose_server_died_is_taken_away_at_the_next_start() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (root, at) = (folder.path().join("root"), folder.path().join("a mount"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&at).unwrap();
    for through_start in [true, false] {
        assert!(!helper(folder.path()).status().unwrap().success());
        let dead = fs::metadata(&at).unwrap_err();
        assert_eq!(dead.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()));
        if through_start {
            let vfs = open(&root);
            LocalMount::start(vfs.clone(), &at, &options()).unwrap().stop(LIMIT).unwrap();
            vfs.close().unwrap();
        } else {
            unmount(&at).unwrap();
        }
        assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    }
}

#[test]
fn a_mount_with_an_unresponsive_server_fails_and_can_be_removed() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("a mount");
    fs::create_dir(folder.path().join("root")).unwrap();
    fs::create_dir(&at).unwrap();
    let mut helper = helper(folder.path()).env(STOPS, "").spawn().unwrap();
    let stat = format!("/proc/{}/stat", helper.id());
    wait_for(|| fs::read_to_string(&stat).unwrap().contains(") T "));
    let refusal = check_mountpoint(&at, &folder.path().join("root"), &MountNamespace::default()).unwrap_err();
    assert!(matches!(refusal, MountError::Unresponsive(_)), "{refusal}");
    // A program that waits for the server is let go.
    let waiting = thread::spawn({
        let page = at.join("page.md");
        move || fs::read(page).unwrap_err()
    });
    unmount(&at).unwrap();
    waiting.join().unwrap();
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    helper.kill().unwrap();
    helper.wait().unwrap();
}

/// Another process that mounts.
fn helper(folder: &Path) -> Command {
    let mut helper = Command::new(std::env::current_exe().unwrap());
    helper.args(["--exact", "lifecycle::dies_mounted"]).env(HELPER, folder).stdout(Stdio::null()).stderr(Stdio::null());
    helper
}

#[test]
fn dies_mounted() {
    // The process that dies or stops in the tests above; on its own it has nothing to do.
    let Some(folder) = std::env::var_os(HELPER) else { return };
    let folder = Path::new(&folder);
    let _mount = LocalMount::start(open(&folder.join("root")), &folder.join("a mount"), &options()).unwrap();
    if std::env::var_os(STOPS).is_some() {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP).unwrap();
        // The signal may reach another thread first.
        thread::park_timeout(LIMIT);
    }
    std::process::abort();
}
