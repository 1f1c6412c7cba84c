//! What is changed: contents, names, attributes, and the story that history tells of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nfs3_types::nfs3::{
    Nfs3Option, createhow3, createverf3, nfsstat3, nfstime3, sattr3, sattrguard3, set_mtime, stable_how,
};

use super::Served;

/// Shows: NFS-2
#[test]
fn a_file_that_came_in_many_writes_is_one_version() {
    let served = Served::new();
    let root = served.root();
    let file = served.create(&root, "a.md");
    assert_eq!(served.text("a.md"), None, "nothing was saved yet");
    served.write(&file, 6, b"there\n", stable_how::UNSTABLE).unwrap();
    served.write(&file, 0, b"hello ", stable_how::FILE_SYNC).unwrap();
    assert_eq!(served.read(&file, 0, 100).unwrap(), (b"hello there\n".to_vec(), true));
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("hello there\n"));
    assert_eq!(served.commits(), ["uid-4711: uid-4711: a.md"]);
    // Again, as editors do that write in place.
    served.resize(&file, 0).unwrap();
    served.write(&file, 0, b"bye\n", stable_how::UNSTABLE).unwrap();
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("bye\n"));
    assert_eq!(served.commits().len(), 2);
}

/// Shows: NFS-2
#[test]
fn who_asks_about_history_sees_what_was_written_until_then() {
    let served = Served::new();
    let file = served.create(&served.root(), "a.md");
    served.write(&file, 0, b"x\n", stable_how::UNSTABLE).unwrap();
    assert_eq!(served.commits().len(), 1);
    served.write(&file, 2, b"y\n", stable_how::UNSTABLE).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("x\n"));
    assert_eq!(served.commits().len(), 2);
    assert_eq!(served.text("a.md").as_deref(), Some("x\ny\n"));
}

/// Shows: NFS-2
#[test]
fn a_rename_saves_pending_writes_and_the_handle_follows() {
    let served = Served::new();
    let root = served.root();
    let folder = served.mkdir(&root, "folder").unwrap();
    let file = served.create(&root, "a.md");
    served.write(&file, 0, b"x\n", stable_how::UNSTABLE).unwrap();
    let replaced = served.save(&folder, "b.md", "old\n");
    served.rename((&root, "a.md"), (&folder, "b.md")).unwrap();
    assert_eq!(served.text("folder/b.md").as_deref(), Some("x\n"));
    assert_eq!(served.text("a.md"), None);
    assert_eq!(served.lookup(&folder, "b.md").unwrap(), file);
    assert_eq!(served.read(&file, 0, 10).unwrap().0, b"x\n");
    assert_eq!(served.getattr(&replaced).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    // And one in a folder that is renamed.
    served.rename((&root, "folder"), (&root, "other")).unwrap();
    assert_eq!(served.read(&file, 0, 10).unwrap().0, b"x\n");
    served.write(&file, 0, b"z", stable_how::UNSTABLE).unwrap();
    served.commit(&file).unwrap();
    assert_eq!(served.text("other/b.md").as_deref(), Some("z\n"));
}

#[test]
fn files_and_folders_are_removed_each_by_its_own_procedure() {
    let served = Served::new();
    let root = served.root();
    let folder = served.mkdir(&root, "folder").unwrap();
    let file = served.create(&folder, "a.md");
    served.write(&file, 0, b"never saved", stable_how::UNSTABLE).unwrap();
    assert_eq!(served.rmdir(&root, "folder"), Err(nfsstat3::NFS3ERR_NOTEMPTY));
    assert_eq!(served.remove(&root, "folder"), Err(nfsstat3::NFS3ERR_ISDIR));
    assert_eq!(served.rmdir(&folder, "a.md"), Err(nfsstat3::NFS3ERR_NOTDIR));
    served.remove(&folder, "a.md").unwrap();
    assert_eq!(served.getattr(&file).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    assert_eq!(served.write(&file, 0, b"x", stable_how::UNSTABLE).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    served.rmdir(&root, "folder").unwrap();
    assert_eq!(served.remove(&root, "folder"), Err(nfsstat3::NFS3ERR_NOENT));
    assert!(served.commits().is_empty());
}

/// Shows: NFS-11
#[test]
fn a_retransmitted_request_is_answered_again_but_executed_once() {
    let served = Served::new();
    let root = served.root();
    served.save(&root, "a.md", "x\n");
    let asked = nfs3_types::nfs3::REMOVE3args { object: super::entry(&root, b"a.md") };
    let message = served.message((nfs3_types::nfs3::PROGRAM, 12), &asked);
    let answer = served.send(&message).unwrap();
    served.save(&root, "a.md", "y\n");
    assert_eq!(served.send(&message).unwrap(), answer);
    assert_eq!(served.text("a.md").as_deref(), Some("y\n"));
}

#[test]
fn a_creation_says_what_it_does_when_the_name_is_taken() {
    let served = Served::new();
    let root = served.root();
    let file = served.save(&root, "a.md", "x\n");
    let guarded = || createhow3::GUARDED(sattr3::default());
    assert_eq!(served.create_as(&root, "a.md", guarded()).unwrap_err(), nfsstat3::NFS3ERR_EXIST);
    assert_eq!(served.create(&root, "a.md"), file);
    assert_eq!(served.text("a.md").as_deref(), Some("x\n"));
    let emptied = sattr3 { size: Nfs3Option::Some(0), ..sattr3::default() };
    assert_eq!(served.create_as(&root, "a.md", createhow3::UNCHECKED(emptied)).unwrap(), file);
    assert_eq!(served.getattr(&file).unwrap().size, 0);
    served.mkdir(&root, "folder").unwrap();
    let unchecked = createhow3::UNCHECKED(sattr3::default());
    assert_eq!(served.create_as(&root, "folder", unchecked).unwrap_err(), nfsstat3::NFS3ERR_EXIST);
    assert_eq!(served.mkdir(&root, "folder").unwrap_err(), nfsstat3::NFS3ERR_EXIST);
    // One that asks again is told the same; another one is not.
    let exclusive = |verifier: &[u8; 8]| createhow3::EXCLUSIVE(createverf3(*verifier));
    let mine = served.create_as(&root, "mine.md", exclusive(b"12345678")).unwrap();
    let served = served.again();
    assert_eq!(served.create_as(&root, "mine.md", exclusive(b"12345678")).unwrap(), mine);
    assert_eq!(served.create_as(&root, "mine.md", exclusive(b"87654321")).unwrap_err(), nfsstat3::NFS3ERR_EXIST);
}

#[test]
fn attributes_are_set_unless_the_guard_or_the_owner_forbids_it() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "x\n");
    let before = served.getattr(&file).unwrap();
    let mode = |mode| sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() };
    let wrong = nfstime3 { seconds: before.ctime.seconds - 1, ..before.ctime };
    assert_eq!(served.set(&file, mode(0o600), sattrguard3::Some(wrong)), Err(nfsstat3::NFS3ERR_NOT_SYNC));
    assert_eq!(served.getattr(&file).unwrap().mode, before.mode);
    served.set(&file, mode(0o600), sattrguard3::Some(before.ctime)).unwrap();
    assert_eq!(served.getattr(&file).unwrap().mode, 0o600);
    served.set(&file, mode(0o4711), sattrguard3::None).unwrap();
    assert_eq!(served.getattr(&file).unwrap().mode, 0o711, "no rights of another user");
    let owner = |uid| sattr3 { uid: Nfs3Option::Some(uid), ..sattr3::default() };
    assert_eq!(served.set(&file, owner(before.uid), sattrguard3::None), Ok(()));
    assert_eq!(served.set(&file, owner(before.uid + 1), sattrguard3::None), Err(nfsstat3::NFS3ERR_PERM));
    let time = nfstime3 { seconds: 1_000_000_000, nseconds: 5 };
    let times = sattr3 { mtime: set_mtime::SET_TO_CLIENT_TIME(time), ..sattr3::default() };
    served.set(&file, times, sattrguard3::None).unwrap();
    assert_eq!(served.getattr(&file).unwrap().mtime, time);
    served.resize(&file, 5).unwrap();
    assert_eq!(served.read(&file, 0, 10).unwrap().0, b"x\n\0\0\0");
}

#[test]
fn pending_writes_are_accounted_by_memory_not_by_length() {
    const MIB: u64 = 1 << 20;
    let served = Served::new();
    let root = served.root();
    let export = served.protocol.exports().open.remove(0);
    let resized = served.create(&root, "resized.bin");
    served.resize(&resized, MIB).unwrap();
    assert_eq!(export.sessions.buffered_bytes(), MIB, "nothing was written");
    let sparse = served.create(&root, "sparse.bin");
    served.write(&sparse, 2 * MIB - 1, b"x", stable_how::UNSTABLE).unwrap();
    assert_eq!(export.sessions.buffered_bytes(), 3 * MIB);
    export.save_all();
    assert_eq!(export.sessions.buffered_bytes(), 0);
}

/// Shows: NFS-7
#[test]
fn concurrent_writes_of_two_protocols_are_not_lost() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one\n");
    served.write(&file, 4, b"from nfs\n", stable_how::UNSTABLE).unwrap();
    served.put("a.md", "from http\n");
    assert_eq!(served.commit(&file).unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(served.text("a.md").as_deref(), Some("from http\n"));
    assert_eq!(served.text(".svc/rejected/a.md").as_deref(), Some("one\nfrom nfs\n"));
    // The client goes on with what is there.
    served.write(&file, 10, b"more\n", stable_how::UNSTABLE).unwrap();
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("from http\nmore\n"));
}

/// Shows: NFS-6
#[test]
fn an_asynchronous_rejection_is_returned_to_the_next_request() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "# Fine\n");
    served.resize(&file, 0).unwrap();
    served.write(&file, 0, b"---\ntitle: [\n---\n", stable_how::UNSTABLE).unwrap();
    // Somebody asks about history.
    assert_eq!(served.commits().len(), 1);
    assert_eq!(served.text("a.md").as_deref(), Some("# Fine\n"));
    assert_eq!(served.text(".svc/rejected/a.md").as_deref(), Some("---\ntitle: [\n---\n"));
    assert_eq!(served.commit(&file).unwrap_err(), nfsstat3::NFS3ERR_INVAL);
    served.commit(&file).unwrap();
}

/// Shows: NFS-6
#[test]
fn a_save_rejected_during_a_history_query_is_not_acknowledged() {
    let served = Served::new();
    let root = served.root();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                served.server.primary().vfs.wait_committed().unwrap();
            }
        });
        let answers = (0..300).map(|number| {
            let file = served.create(&root, &format!("{number}.md"));
            let written = served.write(&file, 0, b"---\ntitle: [\n---\n", stable_how::UNSTABLE);
            written.and_then(|_| served.commit(&file)).err()
        });
        let answers: Vec<_> = answers.collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(answers, vec![Some(nfsstat3::NFS3ERR_INVAL); 300]);
    });
}

#[test]
fn inode_numbers_of_files_removed_elsewhere_are_released() {
    let served = Served::new();
    let root = served.root();
    ["gone.md", "stays.md", "back.md"].iter().for_each(|name| served.put(name, "x\n"));
    let [gone, stays, back] = ["gone.md", "stays.md", "back.md"].map(|name| served.lookup(&root, name).unwrap());
    let fresh = served.create(&root, "fresh.md");
    let vfs = &served.server.primary().vfs;
    let caller = svcfs_base::Caller::new(svcfs_base::Protocol::Http);
    let export = served.protocol.exports().open.remove(0);
    let rows = || export.inode_table.list_inodes(0, 100).unwrap().len();
    for name in ["gone.md", "back.md"] {
        vfs.apply(&caller, svcfs_base::Change::remove(super::path(name))).unwrap();
    }
    let before = rows();
    export.remove_stale_inodes().unwrap();
    assert_eq!(rows(), before, "what is gone for a moment keeps its number");
    served.put("back.md", "y\n");
    export.remove_stale_inodes().unwrap();
    assert_eq!(rows(), before - 1);
    assert_eq!(served.getattr(&gone).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    for handle in [&stays, &back, &fresh] {
        served.getattr(handle).unwrap();
    }
    assert_eq!(served.lookup(&root, "back.md").unwrap(), back);
}
