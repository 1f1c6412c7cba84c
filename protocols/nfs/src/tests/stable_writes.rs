//! What was told to be safe, and could not be saved in its place when the next server began.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use nfs3_types::nfs3::{nfs_fh3, nfsstat3, stable_how};
use svcfs_base::{Caller, Change, DiskAttributes, ETag, Kind, PathComponent, Protocol as Entry};
use svcfs_store::{FailPoint, FailPoints};
use svcfs_vfs::{Lease, NodeId, StableOperation, StableWrite};

use super::{Served, path};

impl Served {
    fn write_safely(&self, file: &nfs_fh3, offset: u64, text: &str) {
        let (committed, _) = self.write(file, offset, text.as_bytes(), stable_how::FILE_SYNC).unwrap();
        assert_eq!(committed, stable_how::FILE_SYNC);
    }

    fn apply(&self, change: Change) {
        self.server.primary().vfs.apply(&Caller::new(Entry::Http), change).unwrap();
    }

    pub(super) fn lock(&self, place: &str) {
        let lease = Lease {
            token: place.to_owned(),
            path: path(place),
            is_deep: false,
            is_shared: false,
            protocol: Entry::WebDav,
            holder: "ann".to_owned(),
            note: String::new(),
            expires_at: SystemTime::now() + Duration::from_secs(600),
        };
        assert!(self.server.primary().vfs.acquire_lease(lease).unwrap().is_ok());
    }

    /// Why a page was not saved. What was promised is done by then, and asked for no more.
    fn told(&self, place: &str) -> Option<String> {
        let owed = self.protocol.exports().open.remove(0).inode_table.pending_inodes().unwrap();
        assert!(owed.is_empty(), "{owed:?}");
        let vfs = &self.server.primary().vfs;
        let (node, _) = vfs.lookup_path(&Caller::new(Entry::Internal), &path(place)).ok()?;
        let told = vfs.rejection_reason(node);
        vfs.forget(node, 1);
        told
    }

    pub(super) fn assert_kept(&self, place: &str, text: &str, why: &str) {
        let kept = format!(".svc/rejected/{place}");
        let told = self.told(&kept).unwrap_or_default();
        assert_eq!(self.text(&kept).as_deref(), Some(text));
        assert!(told.starts_with("`uid-4711` wrote this over NFS") && told.contains(why), "{told}");
    }

    pub(super) fn assert_nothing_kept(&self, place: &str) {
        assert_eq!((self.told(place), self.text(&format!(".svc/rejected/{place}"))), (None, None));
    }
}

/// Shows: NFS-4
#[test]
fn stable_writes_to_a_locked_page_are_set_aside() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one two\n");
    served.write_safely(&file, 4, "2");
    served.write_safely(&file, 5, "..\n");
    let died = served.died();
    died.lock("a.md");
    died.assert_kept("a.md", "one 2..\n", "locked by `ann`");
    assert_eq!(died.text("a.md").as_deref(), Some("one two\n"));
}

/// Shows: NFS-4
#[test]
fn stable_writes_to_a_page_saved_elsewhere_are_set_aside() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one two\n");
    served.write_safely(&file, 0, "1");
    let died = served.died();
    died.put("a.md", "somebody\n");
    died.put("a.md", "somebody else\n");
    died.assert_kept("a.md", "1ne two\n", "the file was changed since");
    assert_eq!(died.text("a.md").as_deref(), Some("somebody else\n"));
    let again = died.again();
    assert_eq!(again.told("a.md"), None, "it is asked for no more");
    assert_eq!(again.text(".svc/rejected/a.md").as_deref(), Some("1ne two\n"));
}

/// Shows: NFS-4
#[test]
fn stable_writes_to_a_page_created_elsewhere_are_set_aside() {
    let served = Served::new();
    // What was there before it has nothing to say of it.
    served.save(&served.root(), "a.md", "new\n");
    served.remove(&served.root(), "a.md").unwrap();
    let file = served.create(&served.root(), "a.md");
    served.write_safely(&file, 0, "new\n");
    let died = served.died();
    died.put("a.md", "somebody else\n");
    died.assert_kept("a.md", "new\n", "the file was changed since");
}

/// Shows: NFS-4
#[test]
fn stable_writes_to_a_page_without_its_name_are_set_aside() {
    let served = Served::new();
    let root = served.root();
    let folder = served.mkdir(&root, "folder").unwrap();
    let [removed, renamed] = ["removed.md", "renamed.md"].map(|name| served.save(&root, name, "one two\n"));
    let of_folder = served.save(&folder, "a.md", "one two\n");
    let fresh = served.create(&folder, "fresh.md");
    for file in [&removed, &renamed, &of_folder, &fresh] {
        served.write_safely(file, 0, "1");
    }
    let died = served.died();
    let kept = |place: &str| died.folder.path().join("root/.svc/rejected").join(place);
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(died.folder.path().join("root/removed.md"), private).unwrap();
    died.apply(Change::remove(path("removed.md")));
    died.apply(Change::rename(path("renamed.md"), path("new.md")));
    died.apply(Change::rename(path("folder"), path("other")));
    for place in ["removed.md", "renamed.md", "folder/a.md"] {
        died.assert_kept(place, "1ne two\n", "the file was removed since");
    }
    died.assert_kept("folder/fresh.md", "1", "");
    assert_eq!(died.text("new.md").as_deref(), Some("one two\n"));
    let mode = |place: &str| std::fs::metadata(kept(place)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("removed.md"), mode("renamed.md")), (0o600, 0o644), "for those who could read it");
}

/// Shows: NFS-4
#[test]
fn stable_writes_below_a_file_replacing_a_dir_are_set_aside() {
    let served = Served::new();
    let folder = served.mkdir(&served.root(), "folder").unwrap();
    let fresh = served.create(&folder, "fresh.md");
    served.write_safely(&fresh, 0, "fresh\n");
    let died = served.died();
    died.apply(Change::RemoveDir { path: path("folder") });
    died.put("folder", "a file\n");
    died.assert_kept("folder/fresh.md", "fresh\n", "");
}

/// Shows: NFS-4
#[test]
fn stable_writes_rejected_by_lint_are_set_aside() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "# Fine\n");
    served.write_safely(&file, 0, "---\ntitle: [\n---\n");
    let died = served.died();
    died.assert_kept("a.md", "---\ntitle: [\n---\n", "frontmatter");
    assert_eq!(died.text("a.md").as_deref(), Some("# Fine\n"));
}

/// Shows: NFS-4
#[test]
fn stable_writes_contained_in_a_version_are_not_set_aside() {
    let served = Served::new();
    let root = served.root();
    let [here, since, cut, resized] =
        ["here.md", "since.md", "cut.md", "resized.md"].map(|name| served.save(&root, name, "one two\n"));
    served.write_safely(&here, 4, "2");
    served.write_safely(&since, 4, "2");
    served.write_safely(&cut, 4, "2");
    served.resize(&cut, 3).unwrap();
    served.resize(&resized, 3).unwrap();
    let died = served.died();
    died.put("here.md", "somebody has2\n");
    died.put("here.md", "two 2 two\n");
    died.put("since.md", "one 2wo\n");
    ["since.md", "cut.md", "resized.md"].iter().for_each(|name| died.put(name, "somebody else\n"));
    for place in ["here.md", "since.md", "cut.md", "resized.md"] {
        died.assert_nothing_kept(place);
    }
}

/// Shows: NFS-5
#[test]
fn stable_writes_of_a_removed_file_end_when_its_name_is_reused() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one two\n");
    served.write_safely(&file, 0, "1");
    let (vfs, caller) = (&served.server.primary().vfs, Caller::new(Entry::Fuse));
    vfs.unlink(&caller, NodeId::ROOT, &PathComponent::parse("a.md").unwrap()).unwrap();
    let file = served.create(&served.root(), "a.md");
    served.write_safely(&file, 0, "new\n");
    served.commit(&file).unwrap();
    let died = served.died();
    died.assert_nothing_kept("a.md");
    assert_eq!(died.text("a.md").as_deref(), Some("new\n"));
}

/// Shows: NFS-4
#[test]
fn stable_writes_before_and_after_another_save_are_set_aside() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one\n");
    served.write_safely(&file, 0, "1");
    let number = served.getattr(&file).unwrap().fileid;
    let base = Some(ETag::from_content(b"two\n"));
    let died = served.died();
    died.put("a.md", "two\n");
    died.put("a.md", "three\n");
    let numbers = died.server.primary().vfs.inode_table().unwrap();
    let later = StableWrite {
        inode: number,
        base_etag: base,
        operation: StableOperation::Write(0, b"2".to_vec()),
        author: None,
        attributes: DiskAttributes::default(),
    };
    numbers.record_write(&later, true).unwrap();
    drop(numbers);
    assert_eq!(died.told("a.md").unwrap().split_once(' ').unwrap().0, "`nfs`");
    assert_eq!(died.text(".svc/rejected/a.md").as_deref(), Some("2wo\n"));
    assert_eq!(died.text(".svc/rejected/a.md.1").as_deref(), Some("1ne\n"));
}

/// Shows: LINT-6, NFS-4
#[test]
fn set_aside_content_ends_with_the_next_accepted_save() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one two\n");
    served.write_safely(&file, 0, "1");
    let died = served.died();
    died.put("a.md", "somebody else\n");
    died.assert_kept("a.md", "1ne two\n", "the file was changed since");
    died.write_safely(&file, 0, "S");
    assert_eq!(died.text(".svc/rejected/a.md").as_deref(), Some("1ne two\n"), "nothing is saved yet");
    died.commit(&file).unwrap();
    assert_eq!(died.text("a.md").as_deref(), Some("Somebody else\n"));
    died.assert_nothing_kept("a.md");
}

/// Shows: NFS-5
#[test]
fn stable_writes_refused_by_disk_at_startup_remain_pending() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one two\n");
    let number = served.getattr(&file).unwrap().fileid;
    let export = served.protocol.exports().open.remove(0);
    let (base, act) = (Some(ETag::from_content(b"one two\n")), StableOperation::Write(0, b"1".to_vec()));
    export
        .inode_table
        .record_write(
            &StableWrite {
                inode: number,
                base_etag: base,
                operation: act,
                author: None,
                attributes: DiskAttributes::default(),
            },
            true,
        )
        .unwrap();
    served.write_safely(&file, 4, "2");
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("one 2wo\n"));
    assert_eq!(export.inode_table.pending_writes(number).unwrap().len(), 1);
    drop(export);
    let again = served.again();
    assert!(again.told("a.md").unwrap().contains("the file was changed since"));
    assert_eq!(again.text(".svc/rejected/a.md").as_deref(), Some("1ne two\n"));
}

/// Shows: NFS-5
#[test]
fn stable_writes_refused_by_a_full_disk_are_saved_on_restart() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one two\n");
    served.write_safely(&file, 4, "2");
    let died = served.died();
    let points = FailPoints::new(&died.folder.path().join("root"));
    points.inject_error(FailPoint::LogWrite, 28);
    assert_eq!(died.protocol.exports().open.remove(0).inode_table.pending_inodes().unwrap().len(), 1);
    points.clear(FailPoint::LogWrite);
    once_there_is_room(|| died.write(&file, 0, b"one", stable_how::UNSTABLE));
    let again = died.again();
    again.assert_nothing_kept("a.md");
    assert_eq!(again.text("a.md").as_deref(), Some("one 2wo\n"));
}

/// Asks until the disk takes it.
fn once_there_is_room<T>(mut ask: impl FnMut() -> Result<T, nfsstat3>) -> T {
    loop {
        match ask() {
            Err(nfsstat3::NFS3ERR_NOSPC) => std::thread::yield_now(),
            outcome => return outcome.unwrap(),
        }
    }
}

/// Shows: NFS-5
#[test]
fn stable_writes_on_a_full_disk_are_saved_once_space_is_free() {
    let served = Served::new();
    let root = served.root();
    let file = served.save(&root, "a.md", "one two\n");
    served.write_safely(&file, 4, "2");
    let points = FailPoints::new(&served.folder.path().join("root"));
    points.inject_error(FailPoint::LogWrite, 28);
    let (vfs, caller) = (&served.server.primary().vfs, Caller::new(Entry::Http));
    // A write is refused for as long as it is known that the disk is full.
    let is_refused = || {
        vfs.apply(&caller, Change::put(path("b.md"), "b\n")).unwrap_err();
        served.write(&file, 0, b"one", stable_how::UNSTABLE).is_err()
    };
    while !is_refused() {}
    assert_eq!(served.commit(&file).unwrap_err(), nfsstat3::NFS3ERR_NOSPC);
    let died = served.died();
    assert_eq!(died.read(&file, 0, 100).unwrap().0, b"one 2wo\n");
    points.clear(FailPoint::LogWrite);
    once_there_is_room(|| served.commit(&file));
    assert_eq!(served.text("a.md").as_deref(), Some("one 2wo\n"));
    served.assert_nothing_kept("a.md");
}

/// Shows: NFS-5
#[test]
fn stable_writes_survive_a_rename_elsewhere_on_a_full_disk() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one two\n");
    served.write_safely(&file, 4, "2");
    let (vfs, caller) = (&served.server.primary().vfs, Caller::new(Entry::Fuse));
    let points = FailPoints::new(&served.folder.path().join("root"));
    vfs.apply(&caller, Change::rename(path("a.md"), path("b.md"))).unwrap();
    vfs.apply(&caller, Change::put(path("a.md"), "another\n")).unwrap();
    points.inject_error(FailPoint::LogWrite, 28);
    assert_eq!(vfs.apply(&caller, Change::put(path("c.md"), "c\n")).unwrap_err().kind(), Kind::NoSpace);
    assert!(served.write(&file, 0, b"no", stable_how::UNSTABLE).is_err());
    points.clear(FailPoint::LogWrite);
    once_there_is_room(|| served.write(&file, 0, b"yes", stable_how::UNSTABLE));
    once_there_is_room(|| served.commit(&file));
    assert_eq!(served.text("b.md").as_deref(), Some("one 2wo\n"));
    assert_eq!(served.text("a.md").as_deref(), Some("yesther\n"));
}
