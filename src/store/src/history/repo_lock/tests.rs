use super::super::tests::fixture;
use super::*;
use crate::history::History;

/// Shows: GIT-11
#[test]
fn who_only_asks_beside_a_server_leaves_its_files_alone() {
    let fixture = fixture();
    let root = fixture.directory.path().to_owned();
    drop(fixture.history);
    let (served, _) = History::open_locked(&root, &[]).unwrap();
    let (waiting, draft) = (root.join(".git/svcfs/pack-7"), root.join(".git/objects/pack/.svcfs_pack"));
    fs::create_dir_all(draft.parent().unwrap()).unwrap();
    for file in [&waiting, &draft] {
        fs::write(file, "at work").unwrap();
    }
    let (asking, _) = History::open(&root, &[]).unwrap();
    assert_eq!(asking.head().unwrap(), None);
    drop(asking);
    assert!(waiting.exists() && draft.exists());
    let refused = History::open_locked(&root, &[]).err().unwrap();
    assert!(
        matches!(&refused, StoreError::AlreadyServed { process, .. } if *process == std::process::id().to_string())
    );
    served.close();
    drop(History::open_locked(&root, &[]).unwrap());
    assert!(!waiting.exists() && !draft.exists());
}

#[test]
fn recycled_files_go_on_close_and_files_of_the_next_server_stay() {
    let fixture = fixture();
    let root = fixture.directory.path().to_owned();
    let mut head = None;
    for n in 0..20 {
        let path = super::super::tests::at(&format!("{n}.md"));
        head = Some(fixture.commit(head, &[super::super::tests::write(&path, "text")]));
    }
    let waiting = || {
        fs::read_dir(root.join(".git/svcfs"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name() != LOCK)
            .count()
    };
    assert!(waiting() > 0);
    fixture.history.close();
    assert_eq!(waiting(), 0);
    let (_next, _) = History::open_locked(&root, &[]).unwrap();
    fs::write(root.join(".git/svcfs/pack-0"), "the next one's").unwrap();
    drop(fixture.history);
    assert_eq!(waiting(), 1);
}
