use svcfs_base::{Actor, Announcement, CommitId, Door, ETag, FileKind, Seq, Timestamp, TreePath};

use super::*;

struct Fixture {
    directory: tempfile::TempDir,
    log: Log,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let paths = StatePaths::of(directory.path());
    std::fs::create_dir_all(paths.spool()).unwrap();
    let (log, is_new) = Log::open(&paths).unwrap();
    assert!(is_new);
    Fixture { directory, log }
}

fn record(seq: u64, path: &str, content: &[u8]) -> Record {
    Record {
        seq: Seq(seq),
        time: Timestamp::from_second(1_800_000_000 + i64::try_from(seq).unwrap()).unwrap(),
        actor: Actor::new("eve"),
        door: Door::Mcp,
        message: format!("eve: {path}"),
        provenance: Some("run:1".to_owned()),
        announcement: Announcement::Bulk,
        foreign: false,
        commit: Some(CommitId::from_bytes([u8::try_from(seq).unwrap(); 20])),
        moves: vec![(TreePath::parse("x").unwrap(), TreePath::parse("y").unwrap())],
        entries: vec![Entry {
            path: TreePath::parse(path).unwrap(),
            old: None,
            new: Some(ETag::of(content)),
            kind: FileKind::Executable,
            content: Some(Bytes::copy_from_slice(content)),
            modified: Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_nanos(1_234_567_890)),
        }],
    }
}

#[test]
fn a_record_comes_back_as_it_was_logged() {
    let Fixture { directory, log } = fixture();
    let logged = record(1, "a.md", b"one");
    log.append(std::slice::from_ref(&logged)).unwrap();
    log.close().unwrap();
    let (log, is_new) = Log::open(&StatePaths::of(directory.path())).unwrap();
    assert!(!is_new);
    let unsettled = log.unsettled().unwrap();
    assert_eq!(format!("{unsettled:?}"), format!("{:?}", [logged]));
}

#[test]
fn large_contents_are_spooled_and_let_go_when_settled() {
    let Fixture { directory, log } = fixture();
    let big = vec![7; SPOOL_ABOVE + 1];
    log.append(&[record(1, "big", &big), record(2, "small", b"s")]).unwrap();
    let spool = StatePaths::of(directory.path()).spool();
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 1);
    assert_eq!(log.unsettled().unwrap()[0].entries[0].content.as_deref(), Some(&big[..]));
    log.settle(Seq(2), None).unwrap();
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0);
    assert!(log.unsettled().unwrap().is_empty());
    assert_eq!(log.after(Seq(0), 10).unwrap().len(), 2);
}

#[test]
fn settling_keeps_what_came_later() {
    let Fixture { directory: _directory, log } = fixture();
    let big = vec![7; SPOOL_ABOVE + 1];
    log.append(&[record(1, "a", b"a"), record(2, "b", &big)]).unwrap();
    let head = CommitId::from_bytes([9; 20]);
    log.settle(Seq(1), Some(head)).unwrap();
    assert_eq!(log.settled().unwrap(), (Seq(1), Some(head)));
    let unsettled = log.unsettled().unwrap();
    assert_eq!(unsettled.len(), 1);
    assert_eq!(unsettled[0].entries[0].content.as_ref().map(Bytes::len), Some(big.len()));
}

#[test]
fn records_are_appended_all_or_none() {
    let Fixture { directory: _directory, log } = fixture();
    log.append(&[record(1, "a", b"a")]).unwrap();
    assert!(log.append(&[record(2, "b", b"b"), record(1, "c", b"c")]).is_err());
    assert_eq!(log.last().unwrap(), Seq(1));
}

#[test]
fn versions_of_a_path_come_newest_first_and_commits_are_found() {
    let Fixture { directory: _directory, log } = fixture();
    for seq in 1..=5 {
        log.append(&[record(seq, if seq % 2 == 1 { "odd" } else { "even" }, &[u8::try_from(seq).unwrap()])]).unwrap();
    }
    let versions = log.versions(&TreePath::parse("odd").unwrap(), 2).unwrap();
    assert_eq!(versions.iter().map(|version| version.seq.0).collect::<Vec<_>>(), [5, 3]);
    assert_eq!(log.position_of(CommitId::from_bytes([4; 20])).unwrap(), Some(Seq(4)));
    assert_eq!(log.position_of(CommitId::from_bytes([99; 20])).unwrap(), None);
    let newest = log.newest_changes(2).unwrap();
    assert_eq!(newest.iter().map(|change| change.commit.as_bytes()[0]).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn a_log_of_a_newer_svcfs_is_left_alone() {
    let Fixture { directory, log } = fixture();
    log.close().unwrap();
    drop(log);
    let paths = StatePaths::of(directory.path());
    Connection::open(paths.log()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let Err(error) = Log::open(&paths) else { panic!("opened it") };
    assert!(error.to_string().contains("schema number 99"), "{error}");
}
