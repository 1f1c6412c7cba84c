//! What outlives the server.

use std::ops::Range;
use std::time::Instant;

use nfs3_types::nfs3::{
    Nfs3Option, SYMLINK3args, SYMLINK3res, createhow3, nfs_fh3, nfspath3, nfsstat3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;
use parking_lot::Mutex;
use rusqlite::Connection;
use svcfs_base::{Caller, Durability, Kind, PathComponent, Protocol as Entry};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{NodeId, WriteAt};

use super::{Served, entry, open};
use crate::export::{ExportTable, NfsExport, REOPEN_INTERVAL};

/// Shows: NFS-12
#[test]
fn handles_are_good_after_a_restart_and_after_every_save() {
    let served = Served::new();
    let root = served.root();
    let folder = served.mkdir(&root, "folder").unwrap();
    let file = served.save(&folder, "a.md", "one\n");
    let (_, first_life) = served.write(&file, 0, b"t", stable_how::UNSTABLE).unwrap();
    let number = served.getattr(&file).unwrap().fileid;
    let served = served.again();
    assert_eq!(served.root(), root);
    assert_eq!(served.read(&file, 0, 10).unwrap().0, b"tne\n");
    served.put("folder/a.md", "two\n");
    assert_eq!(served.read(&file, 0, 10).unwrap().0, b"two\n");
    assert_eq!(served.getattr(&file).unwrap().fileid, number);
    let second_life = served.commit(&file).unwrap();
    assert_ne!(first_life, second_life, "clients send again what was not safe");
}

/// Shows: NFS-3
#[test]
fn names_that_were_changed_are_so_after_the_server_died() {
    let mut served = Served::new();
    for round in 0..5 {
        let root = served.root();
        served.save(&root, "old.md", "# Old\n");
        served.save(&root, "gone.md", "# Gone\n");
        served.save(&root, "draft", &format!("# Draft {round}\n"));
        served.rename((&root, "draft"), (&root, "old.md")).unwrap();
        served = served.died();
        assert_eq!(served.text("old.md"), Some(format!("# Draft {round}\n")), "renamed over a page");
        let root = served.root();
        served.remove(&root, "gone.md").unwrap();
        served = served.died();
        assert_eq!(served.text("gone.md"), None, "removed");
        let (root, link) = (served.root(), format!("link-{round}"));
        let symlink =
            symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data: nfspath3(Opaque::borrowed(b"old.md")) };
        let asked = SYMLINK3args { where_: entry(&root, link.as_bytes()), symlink };
        super::outcome(served.ask::<SYMLINK3res>(10, &asked)).unwrap();
        served = served.died();
        served.lookup(&served.root(), &link).unwrap();
    }
}

/// Shows: NFS-1
#[test]
fn data_acknowledged_as_stable_survives_a_crash() {
    let served = Served::new();
    let root = served.root();
    let old = served.save(&root, "old.md", "before\n");
    let gone = served.save(&root, "gone.md", "x\n");
    let new = served.create(&root, "new.md");
    for (at, part) in [(0, "safe "), (5, "and "), (9, "sound\n")] {
        let (committed, _) = served.write(&new, at, part.as_bytes(), stable_how::FILE_SYNC).unwrap();
        assert_eq!(committed, stable_how::FILE_SYNC);
    }
    served.resize(&old, 0).unwrap();
    served.write(&old, 0, b"after\n", stable_how::DATA_SYNC).unwrap();
    served.write(&gone, 0, b"y", stable_how::FILE_SYNC).unwrap();
    served.remove(&root, "gone.md").unwrap();
    let unsafe_one = served.create(&root, "unstable.md");
    served.write(&unsafe_one, 0, b"perhaps\n", stable_how::UNSTABLE).unwrap();
    assert_eq!(served.text("new.md"), None, "no version for each write");

    let after = served.died();
    assert_eq!(after.read(&new, 0, 100).unwrap().0, b"safe and sound\n");
    assert_eq!(after.read(&old, 0, 100).unwrap().0, b"after\n");
    assert_eq!(after.getattr(&gone).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    assert_eq!(after.text("new.md").as_deref(), Some("safe and sound\n"));
    assert_eq!(after.text("old.md").as_deref(), Some("after\n"));
    let authors = after.commits();
    assert!(authors.contains(&"uid-4711: uid-4711: new.md".to_owned()), "by whoever wrote it: {authors:?}");
    // The client sends it again, to the file that it made.
    after.write(&unsafe_one, 0, b"perhaps\n", stable_how::UNSTABLE).unwrap();
    after.commit(&unsafe_one).unwrap();
    assert_eq!(after.text("unstable.md").as_deref(), Some("perhaps\n"));
}

/// Shows: NFS-7
#[test]
fn saved_data_is_not_replayed_over_another_save_after_a_crash() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one\n");
    served.write(&file, 0, b"nfs", stable_how::FILE_SYNC).unwrap();
    let died = served.died();
    died.put("a.md", "somebody else\n");
    assert_eq!(died.read(&file, 0, 100).unwrap().0, b"somebody else\n");
}

const MIB: usize = 1 << 20;

/// Writes whole MiB, each filled with its own number, and is told that they are safe.
fn write_safely(served: &Served, file: &nfs_fh3, which: Range<usize>) {
    for at in which {
        let data = vec![at as u8; MIB];
        let (committed, _) = served.write(file, (at * MIB) as u64, &data, stable_how::FILE_SYNC).unwrap();
        assert_eq!(committed, stable_how::FILE_SYNC);
    }
}

fn assert_written(served: &Served, file: &nfs_fh3, which: Range<usize>) {
    assert_eq!(served.getattr(file).unwrap().size, (which.end * MIB) as u64);
    for at in which {
        let (data, _) = served.read(file, (at * MIB) as u64, MIB as u32).unwrap();
        assert!(data == vec![at as u8; MIB], "MiB {at} begins with {:?}", data.first());
    }
}

#[test]
fn a_new_file_beyond_the_version_limit_survives_a_crash() {
    let served = Served::new();
    let file = served.create(&served.root(), "big.bin");
    write_safely(&served, &file, 0..70);
    let after = served.died();
    assert_written(&after, &file, 0..70);
    write_safely(&after, &file, 70..75);
    after.commit(&file).unwrap();
    assert_written(&after, &file, 0..75);
}

#[test]
fn a_file_extended_by_unstable_writes_keeps_old_data_in_a_crash() {
    let served = Served::new();
    let file = served.create(&served.root(), "big.bin");
    write_safely(&served, &file, 0..5);
    for at in 5..70 {
        served.write(&file, (at * MIB) as u64, &vec![at as u8; MIB], stable_how::UNSTABLE).unwrap();
    }
    assert_written(&served.died(), &file, 0..5);
    served.commit(&file).unwrap();
    assert_written(&served.died(), &file, 0..70);
}

#[test]
fn a_stable_write_of_a_new_file_never_overwrites_a_foreign_file() {
    let served = Served::new();
    let file = served.create(&served.root(), "big.bin");
    served.write(&file, 0, &[7; 1000], stable_how::FILE_SYNC).unwrap();
    let (vfs, caller) = (&served.server.primary().vfs, Caller::new(Entry::WebDav));
    let [part, name] = ["part.bin", "big.bin"].map(|name| PathComponent::parse(name).unwrap());
    let (node, _, handle) = vfs.create(&caller, NodeId::ROOT, &part, 0o644).unwrap();
    for at in 0..70 {
        vfs.write_node(&caller, handle, WriteAt::Offset((at * MIB) as u64), &vec![at as u8; MIB]).unwrap();
    }
    vfs.publish(&caller, node, Durability::Now).unwrap();
    vfs.rename_node(&caller, (NodeId::ROOT, &part), (NodeId::ROOT, &name), true).unwrap();
    assert_written(&served.died(), &file, 0..70);
}

#[test]
fn stable_writes_of_a_shrunk_large_file_survive_a_crash() {
    let served = Served::new();
    let file = served.create(&served.root(), "big.bin");
    write_safely(&served, &file, 0..70);
    served.resize(&file, 0).unwrap();
    served.write(&file, 0, b"small now\n", stable_how::FILE_SYNC).unwrap();
    let after = served.died();
    assert_eq!(after.read(&file, 0, 100).unwrap().0, b"small now\n");
    assert_eq!(after.text("big.bin").as_deref(), Some("small now\n"));
}

/// Shows: NFS-10
#[test]
fn a_space_that_cannot_be_served_says_why_and_keeps_no_other() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let spaces = folders.each_ref().map(|folder| open(folder.path()));
    let numbers = folders[1].path().join(".svc/state/nfs.db");
    std::fs::create_dir(&numbers).unwrap();
    let exports = Mutex::<ExportTable>::default();
    let now = Instant::now();
    ExportTable::sync_with(&exports, &spaces, now);
    let is_first = |export: &crate::export::NfsExport| std::sync::Arc::ptr_eq(&export.space, &spaces[0]);
    {
        let exports = exports.lock();
        assert_eq!(exports.open.len(), 1);
        assert!(exports.single().unwrap().is_none());
        assert!(exports.find(is_first, |_| true).unwrap().is_some());
        assert!(exports.find(|_| false, |_| true).is_err(), "it may be a file of the other one");
        assert!(exports.find(|_| false, |_| false).unwrap().is_none());
    }
    std::fs::remove_dir(&numbers).unwrap();
    ExportTable::sync_with(&exports, &spaces, now + REOPEN_INTERVAL / 2);
    assert_eq!(exports.lock().open.len(), 1, "each of these tries may take seconds");
    ExportTable::sync_with(&exports, &spaces, Instant::now() + REOPEN_INTERVAL);
    assert_eq!(exports.lock().open.len(), 2, "it is not tried again");
    assert!(exports.lock().find(|_| false, |_| true).unwrap().is_none());
}

/// Shows: NFS-10
#[test]
fn a_space_whose_open_panics_is_refused_and_opened_by_a_retry() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let spaces = folders.each_ref().map(|folder| open(folder.path()));
    let (exports, now) = (Mutex::<ExportTable>::default(), Instant::now());
    let is_first = |space: &Space| std::ptr::eq(space, &raw const *spaces[0]);
    let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ExportTable::sync_with_opener(&exports, &spaces, now, |space| {
            assert!(!is_first(&space), "a slip of ours");
            NfsExport::open(space)
        });
    }));
    assert!(asked.is_ok(), "whoever asks for another space is not answered");
    let refused = exports.lock().find(|_| false, is_first).map(drop).unwrap_err();
    assert_eq!(refused.kind(), Kind::Unavailable, "{refused}");
    assert!(!refused.message().contains("is being opened"), "{refused}");
    assert_eq!(exports.lock().open.len(), 1, "the other one");
    ExportTable::sync_with(&exports, &spaces, Instant::now() + REOPEN_INTERVAL);
    assert_eq!(exports.lock().open.len(), 2);
}

#[test]
fn a_slow_space_opening_blocks_no_other_request() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let spaces = folders.each_ref().map(|folder| open(folder.path()));
    let database = Connection::open(folders[1].path().join(".svc/state/nfs.db")).unwrap();
    database.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (exports, now) = (Mutex::<ExportTable>::default(), Instant::now());
    let is_second = |space: &Space| std::ptr::eq(space, &raw const *spaces[1]);
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| ExportTable::sync_with(&exports, &spaces, now));
        let being_opened = loop {
            assert!(!opening.is_finished(), "nobody was answered before it was open");
            match exports.lock().find(|_| false, is_second) {
                Err(fault) => break fault,
                Ok(_) => std::thread::yield_now(),
            }
        };
        assert_eq!(being_opened.kind(), Kind::Unavailable, "{being_opened}");
        ExportTable::sync_with(&exports, &spaces, now);
        assert_eq!(exports.lock().open.len(), 1);
        database.execute_batch("COMMIT").unwrap();
    });
    assert_eq!(exports.lock().open.len(), 2);
}

#[test]
fn a_new_file_with_stable_writes_keeps_owner_and_mode_on_crash() {
    let served = Served::new();
    let root = served.root();
    let set = sattr3 { mode: Nfs3Option::Some(0o600), ..sattr3::default() };
    let file = served.create_as(&root, "secret.md", createhow3::UNCHECKED(set)).unwrap();
    served.write(&file, 0, b"secret\n", stable_how::FILE_SYNC).unwrap();
    let before = served.getattr(&file).unwrap();
    let now = served.died().getattr(&file).unwrap();
    assert_eq!((now.mode & 0o777, now.uid, now.gid), (0o600, before.uid, before.gid));
    assert_eq!(now.size, 7);
}
