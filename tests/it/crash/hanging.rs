//! A killed server that cannot end.
//!
//! The kernel takes a name back under the lock of its directory. Whoever has that lock may wait for
//! an answer of the server, and when the server is killed in this moment, neither ever ends: its
//! root stays locked, and the mount hangs everybody who looks at it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use serde_json::json;
use svcfs_base::{Caller, Change, Fault, Protocol, SystemClock, TreePath};
use svcfs_mount::LocalMount;
use svcfs_vfs::{ProposedFile, Vfs, VfsOptions, WriteGate};

use super::server::Binary;
use crate::space::{can_mount, folder, wait};

/// Where the helper process finds its folder.
const HELPER: &str = "SVCFS_TEST_HANGS_MOUNTED";

/// At so many looks one behind the other it waits, and is not just on its way through the kernel.
const LOOKS: usize = 20;

/// Never lets a save pass that has this word, and says so by making a file.
struct Waits(PathBuf);

impl WriteGate for Waits {
    fn check(&self, _caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        while proposal.content.starts_with(b"WAIT") {
            fs::write(&self.0, "").map_err(Fault::internal)?;
            thread::park();
        }
        Ok(())
    }
}

/// Shows: MNT-42
#[test]
fn a_killed_server_hanging_in_its_mount_is_ended_by_the_next() {
    if !can_mount() {
        return;
    }
    let binary = Binary::build();
    let folder = folder();
    let (root, mountpoint) = (folder.path().join("root"), folder.path().join("mnt"));
    fs::create_dir(root.join("notes")).unwrap();
    fs::write(root.join("notes/old.md"), "# Old\n").unwrap();
    let mut helper = as_helper("crash::hanging::hangs_mounted", folder.path()).spawn().unwrap();
    wait::until("the helper mounts", || mountpoint.join("notes/old.md").exists());
    // A process of its own: a descriptor of the hanging mount would be copied into the server
    // started below.
    let mut renaming = as_helper("crash::hanging::renames_what_is_not_saved", folder.path()).spawn().unwrap();
    let mut looks = 0;
    wait::until("the helper takes a name back and waits for the folder", || {
        looks = if waits_in_the_kernel(&helper) { looks + 1 } else { 0 };
        looks >= LOOKS
    });
    helper.kill().unwrap();
    wait::until("the helper is a zombie", || thread_state(&helper, helper.id()) == Some('Z'));
    assert!(helper.try_wait().unwrap().is_none(), "the helper ended by itself: this test shows nothing");

    let server = binary.serve(&root, Some(&mountpoint));
    assert!(!helper.wait().unwrap().success());
    assert!(!renaming.wait().unwrap().success());
    assert_eq!(
        fs::read_dir(mountpoint.join("notes")).unwrap().count(),
        0,
        "`old.md` was removed, the other never saved"
    );
    server.stop();
}

/// A test of this file as a process of its own.
fn as_helper(test: &str, folder: &Path) -> Command {
    let mut helper = Command::new(std::env::current_exe().unwrap());
    helper.args(["--exact", test]).env(HELPER, folder).stdout(Stdio::null()).stderr(Stdio::null());
    helper
}

/// Whether the thread that takes names back waits where nothing can wake it.
fn waits_in_the_kernel(helper: &Child) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", helper.id())).unwrap();
    let ids = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
    let is_follower = |id: &u32| {
        fs::read_to_string(format!("/proc/{}/task/{id}/comm", helper.id())).is_ok_and(|name| name == "mount-follower\n")
    };
    ids.filter(is_follower).any(|id| thread_state(helper, id) == Some('D'))
}

fn thread_state(helper: &Child, id: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/task/{id}/stat", helper.id())).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn hangs_mounted() {
    // The process that is killed in the test above; on its own it has nothing to do.
    let Some(folder) = std::env::var_os(HELPER) else { return };
    let folder = Path::new(&folder);
    let (root, at, waits) = (folder.join("root"), folder.join("mnt"), folder.join("waits"));
    let clock = Arc::new(SystemClock);
    let gates: Vec<Box<dyn WriteGate>> = vec![Box::new(Waits(waits.clone()))];
    let vfs = Vfs::open(VfsOptions {
        root: root.clone(),
        clock: clock.clone(),
        gates,
        scratch_patterns: vec![],
        hidden_files: svcfs_base::HiddenFiles::default(),
        commit_policy: svcfs_vfs::CommitPolicy::PerSet,
        strategy: svcfs_vfs::VersionStrategy::Git,
        watch: false,
        progress: None,
    })
    .unwrap();
    let options = svcfs_mount::MountOptions::new(clock, 8);
    let _mount = LocalMount::start(Arc::clone(&vfs), &at, &options).unwrap();
    let announced = json!({ "pid": std::process::id(), "url": null, "mounts": [{ "mountpoint": at, "manner": {} }] });
    fs::write(root.join(".svc/state/server.json"), announced.to_string()).unwrap();
    wait::until("somebody locks the folder", || waits.exists());
    let removal =
        Change::Remove { path: TreePath::parse("notes/old.md").unwrap(), precondition: svcfs_base::Precondition::Any };
    vfs.apply(&Caller::new(Protocol::Http), removal).unwrap();
    thread::park();
}

#[test]
fn renames_what_is_not_saved() {
    // Another process of the test above.
    let Some(folder) = std::env::var_os(HELPER) else { return };
    let notes = Path::new(&folder).join("mnt/notes");
    let mut file = fs::File::create(notes.join("new.md")).unwrap();
    file.write_all(b"WAIT").unwrap();
    // Saves the text first, with the folder locked in the kernel.
    fs::rename(notes.join("new.md"), notes.join("newer.md")).unwrap();
}
