//! What outlives the server.

use nfs3_types::nfs3::{nfsstat3, stable_how};

use super::Served;

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

#[test]
fn what_was_told_to_be_safe_is_there_after_the_server_died() {
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
    // The client sends it again, to the file that it made.
    after.write(&unsafe_one, 0, b"perhaps\n", stable_how::UNSTABLE).unwrap();
    after.commit(&unsafe_one).unwrap();
    assert_eq!(after.text("unstable.md").as_deref(), Some("perhaps\n"));
}

#[test]
fn what_was_saved_before_the_server_died_is_not_written_over_another_save() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one\n");
    served.write(&file, 0, b"nfs", stable_how::FILE_SYNC).unwrap();
    let died = served.died();
    died.put("a.md", "somebody else\n");
    assert_eq!(died.read(&file, 0, 100).unwrap().0, b"somebody else\n");
}
