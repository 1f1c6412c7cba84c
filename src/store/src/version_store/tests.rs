use svcfs_base::{Actor, EventAnnouncement, Protocol};

use super::*;
use crate::{DiffBase, LogEntry, LogRecord, StatePaths};

struct Fixture {
    directory: tempfile::TempDir,
    log: Arc<Log>,
    memory: VersionStore,
}

fn fixture(strategy: VersionStrategy) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let tree = Arc::new(WorkTree::open(directory.path()).unwrap());
    let log = Arc::new(Log::open(&StatePaths::new(directory.path())).unwrap().0);
    let (memory, _) = VersionStore::open(strategy, directory.path(), (&tree, &log), &[]).unwrap();
    Fixture { directory, log, memory }
}

fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn write<'a>(path: &'a TreePath, content: &'a [u8]) -> FileEdit<'a> {
    FileEdit::Write { path, kind: FileKind::Regular, content }
}

fn stage(memory: &VersionStore, tip: WriteTip, edits: &[FileEdit<'_>]) -> VersionResult<WriteTip> {
    memory.stage(tip, edits, &CommitAuthor { actor: &Actor::new("eve"), email: None, time: second(1), message: "m" })
}

fn state(content: &[u8]) -> PathState {
    Some((ETag::from_content(content), FileKind::Regular))
}

const START: WriteTip = WriteTip { commit: None, seq: Seq(0) };

#[test]
fn prepared_sets_count_for_later_sets_unless_rejected() {
    for strategy in [VersionStrategy::Git, VersionStrategy::Snapshots { max_snapshots: None }, VersionStrategy::LogOnly]
    {
        let Fixture { memory, directory: _directory, .. } = fixture(strategy);
        let (a, b) = (at("a.md"), at("d/b.md"));
        let one = stage(&memory, START, &[write(&a, b"one")]).unwrap();
        let two = stage(&memory, one, &[write(&a, b"two"), write(&b, b"b")]).unwrap();
        assert_eq!(memory.staged_states(one, &[&a, &b]).unwrap(), [state(b"one"), None], "{strategy:?}");
        assert_eq!(memory.staged_states(two, &[&a, &b]).unwrap(), [state(b"two"), state(b"b")]);
        assert_eq!(memory.current_states(&[&a]).unwrap(), [None], "nobody sees what is not logged");
        // The second is refused, another takes its place.
        let other = stage(&memory, one, &[FileEdit::Remove { path: &a }, write(&b, b"other")]).unwrap();
        assert_eq!(memory.staged_states(other, &[&a, &b]).unwrap(), [None, state(b"other")]);
        memory.discard();
        assert_eq!(memory.staged_states(START, &[&a, &b]).unwrap(), [None, None]);
    }
}

#[test]
fn a_file_and_a_directory_cannot_have_one_name() {
    for strategy in [VersionStrategy::Git, VersionStrategy::Snapshots { max_snapshots: None }, VersionStrategy::LogOnly]
    {
        let Fixture { memory, directory: _directory, .. } = fixture(strategy);
        let (a, below, beside) = (at("a"), at("a/b.md"), at("a.md"));
        let refused = |tip, edits: &[FileEdit<'_>]| match stage(&memory, tip, edits) {
            Err(StoreError::Unrecordable { path, .. }) => path,
            other => panic!("{strategy:?}: {other:?}"),
        };
        let file = stage(&memory, START, &[write(&a, b"a"), write(&beside, b"beside")]).unwrap();
        assert_eq!(refused(file, &[write(&below, b"b")]), below);
        let directory = stage(&memory, file, &[FileEdit::Remove { path: &a }, write(&below, b"b")]).unwrap();
        assert_eq!(refused(directory, &[write(&a, b"a")]), a);
        stage(&memory, directory, &[FileEdit::Remove { path: &below }, write(&a, b"a")]).unwrap();
    }
}

/// Shows: COW-2
#[test]
fn moments_that_name_sets_only_ever_grow() {
    let Fixture { memory, log, directory } = fixture(VersionStrategy::LogOnly);
    let moments: Vec<_> = [second(5), second(5), second(3)].map(|now| memory.record_timestamp(now)).to_vec();
    assert_eq!(moments[0], second(5));
    assert!(moments[0] < moments[1] && moments[1] < moments[2]);
    let entry = LogEntry {
        path: at("a.md"),
        old: None,
        new: Some(ETag::from_content(b"a")),
        kind: FileKind::Regular,
        content: None,
        attributes: svcfs_base::DiskAttributes::default(),
        replaces_large: None,
    };
    let record = LogRecord {
        seq: Seq(1),
        time: second(9),
        actor: Actor::new("eve"),
        protocol: Protocol::Http,
        message: "m".to_owned(),
        provenance: None,
        announcement: EventAnnouncement::Files,
        kind: crate::RecordKind::Change,
        diff_base: DiffBase::Parent,
        commit: None,
        request: None,
        moves: Vec::new(),
        entries: vec![entry],
    };
    log.append(&[record]).unwrap();
    let tree = Arc::new(WorkTree::open(directory.path()).unwrap());
    let (again, _) = VersionStore::open(VersionStrategy::LogOnly, directory.path(), (&tree, &log), &[]).unwrap();
    assert!(again.record_timestamp(second(1)) > second(9), "also after a restart with a clock that was set back");
}

#[test]
fn git_is_neither_created_nor_touched_unless_requested() {
    for strategy in [VersionStrategy::Snapshots { max_snapshots: None }, VersionStrategy::LogOnly] {
        let Fixture { memory, directory, .. } = fixture(strategy);
        std::fs::write(directory.path().join(".gitignore"), "build/\n").unwrap();
        assert!(memory.rules().is_ignored(&at("build/x")) && !memory.rules().is_ignored(&at("x")));
        assert!(!directory.path().join(".git").exists());
    }
}

#[test]
fn only_the_newest_snapshots_are_retained() {
    let Fixture { memory, directory, .. } = fixture(VersionStrategy::Snapshots { max_snapshots: NonZeroUsize::new(2) });
    let VersionStore::Snapshots { snapshots, .. } = &memory else { panic!("there are snapshots") };
    let page = at("d/a.md");
    for (moment, text) in [(1, "one"), (2, "two"), (3, "three")] {
        snapshots.save(&page, second(moment), text.as_bytes()).unwrap();
    }
    assert_eq!(snapshots.list(&page).unwrap(), [second(2), second(3)]);
    assert_eq!(snapshots.read(&page, second(1)).unwrap(), None);
    assert_eq!(snapshots.read(&page, second(3)).unwrap().unwrap(), "three");
    assert!(directory.path().join(".versions/d/a.md/0000000003000000000.md").is_file());
}

#[test]
fn user_files_among_snapshots_are_ignored_and_not_followed() {
    let Fixture { memory, directory, .. } = fixture(VersionStrategy::Snapshots { max_snapshots: NonZeroUsize::new(1) });
    let VersionStore::Snapshots { snapshots, .. } = &memory else { panic!("there are snapshots") };
    let folder = directory.path().join(".versions/a.md");
    std::fs::create_dir_all(folder.join("0000000004000000000.md")).unwrap();
    std::fs::write(folder.join("notes.txt"), "mine").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.join("0000000005000000000.md")).unwrap();
    snapshots.save(&at("a.md"), second(6), b"six").unwrap();
    assert_eq!(snapshots.list(&at("a.md")).unwrap(), [second(6)]);
    for moment in [4, 5] {
        assert_eq!(snapshots.read(&at("a.md"), second(moment)).unwrap(), None);
    }
    std::os::unix::fs::symlink("/etc", directory.path().join(".versions/b.md")).unwrap();
    snapshots.save(&at("b.md"), second(7), b"b").unwrap_err();
}

#[test]
fn snapshot_names_and_paths_too_long_for_one_are_refused() {
    let Fixture { memory, directory: _directory, .. } = fixture(VersionStrategy::Snapshots { max_snapshots: None });
    let long = at(&format!("{}x.md", "d/".repeat(2040)));
    for path in [at("a.md/1234567890123456789.md"), at("1234567890123456789.md/b.md"), long] {
        assert!(!memory.can_record(&path), "{path}");
        assert!(matches!(stage(&memory, START, &[write(&path, b"x")]), Err(StoreError::Unrecordable { .. })));
    }
    assert!(memory.can_record(&at("123456789012345678.md")));
}
