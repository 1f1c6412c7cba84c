use std::time::{Duration, SystemTime};

use svcfs_base::{Actor, CommitId, ETag, EventAnnouncement, FileKind, Protocol, Seq, Timestamp, TreePath, VersionId};

use super::*;

pub(super) struct Fixture {
    pub(super) directory: tempfile::TempDir,
    pub(super) log: Log,
}

pub(super) fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let paths = StatePaths::new(directory.path());
    std::fs::create_dir_all(paths.spool()).unwrap();
    let (log, is_new) = Log::open(&paths).unwrap();
    assert!(is_new);
    Fixture { directory, log }
}

pub(super) fn record(seq: u64, path: &str, content: &[u8]) -> LogRecord {
    LogRecord {
        seq: Seq(seq),
        time: Timestamp::from_second(1_800_000_000 + i64::try_from(seq).unwrap()).unwrap(),
        actor: Actor::new("eve"),
        protocol: Protocol::Mcp,
        message: format!("eve: {path}"),
        provenance: Some("run:1".to_owned()),
        announcement: EventAnnouncement::Bulk,
        kind: RecordKind::Commit,
        diff_base: DiffBase::FirstParent,
        commit: Some(CommitId::from_bytes([u8::try_from(seq).unwrap(); 20])),
        request: Some(svcfs_base::RequestMark { id: [7; 16], content: [8; 16] }),
        moves: vec![(TreePath::parse("x").unwrap(), TreePath::parse("y").unwrap())],
        entries: vec![LogEntry {
            path: TreePath::parse(path).unwrap(),
            old: None,
            new: Some(ETag::from_content(content)),
            kind: FileKind::Executable,
            content: Some(Bytes::copy_from_slice(content)),
            attributes: DiskAttributes {
                mode: Some(0o640),
                owner: Some((7, 8)),
                modified: Some(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_890)),
                accessed: None,
            },
            replaces_large: Some(LargeFile {
                size: svcfs_base::MAX_FILE_BYTES as u64 + 1,
                modified: SystemTime::UNIX_EPOCH - Duration::from_nanos(7),
            }),
        }],
    }
}

#[test]
fn a_record_comes_back_as_it_was_logged() {
    let Fixture { directory, log } = fixture();
    let logged = record(1, "a.md", b"one");
    log.append(std::slice::from_ref(&logged)).unwrap();
    log.close().unwrap();
    let (log, is_new) = Log::open(&StatePaths::new(directory.path())).unwrap();
    assert!(!is_new);
    let unsettled = log.pending_records().unwrap();
    assert_eq!(format!("{unsettled:?}"), format!("{:?}", [logged]));
}

/// Shows: DUR-6
#[test]
fn an_orphan_spool_file_after_a_crash_is_swept_at_opening() {
    let Fixture { directory, log } = fixture();
    let big = vec![7; spool::MAX_INLINE_BYTES + 1];
    log.append(&[record(1, "settled", b"s"), record(2, "big", &big)]).unwrap();
    log.checkpoint(Seq(1), None).unwrap();
    drop(log);
    let paths = StatePaths::new(directory.path());
    let of_big = Some(ETag::from_content(&big));
    for name in [spool::file_name(Seq(1), 0, of_big), spool::file_name(Seq(3), 0, of_big)] {
        std::fs::write(paths.spool().join(name), &big).unwrap();
    }
    let (log, _) = Log::open(&paths).unwrap();
    let left: Vec<_> = std::fs::read_dir(paths.spool()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [&*spool::file_name(Seq(2), 0, of_big)]);
    assert_eq!(log.pending_records().unwrap()[0].entries[0].content.as_deref(), Some(&*big));
}

#[test]
fn large_contents_are_spooled_and_let_go_when_settled() {
    let Fixture { directory, log } = fixture();
    let big = vec![7; spool::MAX_INLINE_BYTES + 1];
    log.append(&[record(1, "big", &big), record(2, "small", b"s")]).unwrap();
    let spool = StatePaths::new(directory.path()).spool();
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 1);
    assert_eq!(log.pending_records().unwrap()[0].entries[0].content.as_deref(), Some(&big[..]));
    log.checkpoint(Seq(2), None).unwrap();
    assert_eq!(std::fs::read_dir(&spool).unwrap().count(), 0);
    assert!(log.pending_records().unwrap().is_empty());
    assert_eq!(log.records_after(Seq(0), 10).unwrap().len(), 2);
}

#[test]
fn settling_keeps_what_came_later() {
    let Fixture { directory: _directory, log } = fixture();
    let big = vec![7; spool::MAX_INLINE_BYTES + 1];
    log.append(&[record(1, "a", b"a"), record(2, "b", &big)]).unwrap();
    let head = CommitId::from_bytes([9; 20]);
    log.checkpoint(Seq(1), Some(head)).unwrap();
    assert_eq!(log.last_checkpoint().unwrap(), (Seq(1), Some(head)));
    let unsettled = log.pending_records().unwrap();
    assert_eq!(unsettled.len(), 1);
    assert_eq!(unsettled[0].entries[0].content.as_ref().map(Bytes::len), Some(big.len()));
}

#[test]
fn records_are_appended_all_or_none() {
    let Fixture { directory: _directory, log } = fixture();
    log.append(&[record(1, "a", b"a")]).unwrap();
    assert!(log.append(&[record(2, "b", b"b"), record(1, "c", b"c")]).is_err());
    assert_eq!(log.last_seq(), Seq(1));
}

#[test]
fn versions_of_a_path_come_newest_first_and_commits_are_found() {
    let Fixture { directory: _directory, log } = fixture();
    for seq in 1..=5 {
        log.append(&[record(seq, if seq % 2 == 1 { "odd" } else { "even" }, &[u8::try_from(seq).unwrap()])]).unwrap();
    }
    let versions = log.versions(&TreePath::parse("odd").unwrap(), Seq(u64::MAX), 2).unwrap();
    assert_eq!(versions.iter().map(|version| version.seq.0).collect::<Vec<_>>(), [5, 3]);
    let older = log.versions(&TreePath::parse("odd").unwrap(), Seq(5), 9).unwrap();
    assert_eq!(older.iter().map(|version| version.seq.0).collect::<Vec<_>>(), [3, 1]);
    for (hash, position) in [
        (CommitId::from_bytes([4; 20]).to_string(), Some(Seq(4))),
        ("0404040".to_owned(), Some(Seq(4))),
        ("040".to_owned(), None),
        (CommitId::from_bytes([99; 20]).to_string(), None),
        ("nonsense".to_owned(), None),
    ] {
        assert_eq!(log.find_seq(&hash).unwrap(), position, "{hash}");
    }
    let newest = log.newest_changes(2).unwrap().changes;
    assert_eq!(newest.iter().map(|change| change.id.commit().unwrap().as_bytes()[0]).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn an_abbreviation_that_fits_two_commits_is_no_position() {
    let Fixture { directory: _directory, log } = fixture();
    for (seq, last) in [(1, 1), (2, 2), (3, 2)] {
        let mut hash = [7; 20];
        hash[19] = last;
        log.append(&[LogRecord { commit: Some(CommitId::from_bytes(hash)), ..record(seq, "a", b"a") }]).unwrap();
    }
    assert_eq!(log.find_seq("0707").unwrap(), None);
    // One commit may stand at two places: followers go on behind the later one.
    assert_eq!(log.find_seq(&format!("{}02", "07".repeat(19))).unwrap(), Some(Seq(3)));
}

/// Shows: HTTP-8
#[test]
fn a_stretch_of_changes_tells_when_it_ends_within_a_commit() {
    let Fixture { directory: _directory, log } = fixture();
    let mut many = record(1, "a", b"a");
    many.entries = ["a", "b", "c"].iter().flat_map(|path| record(1, path, b"x").entries).collect();
    log.append(&[many, record(2, "d", b"d")]).unwrap();
    for (skip, max, told, is_split) in [
        (0, 2, &["a", "b"][..], true),
        (0, 3, &["a", "b", "c"], false),
        (2, 9, &["c", "d"], false),
        (3, 1, &["d"], false),
    ] {
        let page = log.changes_after(Seq(1), skip, max).unwrap();
        let paths: Vec<_> = page.changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!((&paths[..], page.is_split), (told, is_split), "{skip} {max}");
    }
}

/// What undoes the upgrades to the newest form, each to the form of its number.
const DOWNGRADES: [(i64, &str); 8] = [
    (9, "DROP INDEX sets_by_request; ALTER TABLE sets DROP COLUMN request;"),
    (7, "ALTER TABLE contents DROP COLUMN over_size; ALTER TABLE contents DROP COLUMN over_modified;"),
    (6, "DROP TABLE journal;"),
    (5, "DROP INDEX changes_by_path; CREATE INDEX changes_by_path ON changes (path, seq);"),
    (4, "DROP INDEX moments; ALTER TABLE settled DROP COLUMN strategy;"),
    (
        3,
        "ALTER TABLE contents DROP COLUMN mode; ALTER TABLE contents DROP COLUMN uid; ALTER TABLE contents DROP COLUMN gid;",
    ),
    (2, "ALTER TABLE sets RENAME COLUMN role TO is_foreign;"),
    (1, "DROP INDEX jumps; ALTER TABLE sets DROP COLUMN against;"),
];

/// A log of an earlier form with somebody else's commit and one of ours, opened again.
fn of_form(form: i64) -> Fixture {
    let Fixture { directory, log } = fixture();
    let records = [(RecordKind::ExternalCommit, "a"), (RecordKind::Change, "b")].into_iter().zip(1..);
    let records: Vec<_> =
        records.map(|((role, path), seq)| LogRecord { kind: role, ..record(seq, path, path.as_bytes()) }).collect();
    log.append(&records).unwrap();
    log.close().unwrap();
    drop(log);
    let paths = StatePaths::new(directory.path());
    let steps = DOWNGRADES.iter().filter(|(earlier, _)| *earlier >= form).map(|(_, step)| *step);
    let steps = steps.collect::<String>();
    let database = Connection::open(paths.log()).unwrap();
    database.execute_batch(&format!("{steps} PRAGMA user_version = {form};")).unwrap();
    drop(database);
    let (log, is_new) = Log::open(&paths).unwrap();
    assert!(!is_new);
    Fixture { directory, log }
}

#[test]
fn a_log_of_any_earlier_form_is_taken_over() {
    for form in 1..SCHEMA_NUMBER {
        let Fixture { directory: _directory, log } = of_form(form);
        let roles: Vec<_> = log.records_after(Seq(0), 9).unwrap().iter().map(|record| record.kind).collect();
        assert_eq!(roles, [RecordKind::ExternalCommit, RecordKind::Change], "form {form}");
        log.append(&[record(3, "c", b"c")]).unwrap();
        assert_eq!(log.records_after(Seq(2), 9).unwrap()[0].kind, RecordKind::Commit, "form {form}");
        assert_eq!(log.strategy().unwrap(), "git", "form {form}");
    }
}

#[test]
fn a_first_format_log_may_have_differences_without_commits() {
    let Fixture { directory: _directory, log } = of_form(1);
    // It did not say which commits of others came from there: any may have.
    let against: Vec<_> = log.records_after(Seq(0), 9).unwrap().iter().map(|record| record.diff_base).collect();
    assert_eq!(against, [DiffBase::FirstParent, DiffBase::Parent]);
}

#[test]
fn commits_dropped_from_the_branch_are_in_the_feed_only() {
    let Fixture { log, directory: _directory } = fixture();
    let told = |record: LogRecord| LogRecord { entries: record.entries, kind: RecordKind::ExternalCommit, ..record };
    let jump = LogRecord {
        diff_base: DiffBase::PreviousHead,
        commit: record(1, "a.md", b"").commit,
        ..told(record(3, "a.md", b"one"))
    };
    let again = LogRecord { diff_base: DiffBase::AfterSwitch, ..told(record(4, "b.md", b"came")) };
    log.append(&[record(1, "a.md", b"one"), told(record(2, "a.md", b"left"))]).unwrap();
    assert_eq!(log.select_changes(&ChangeFilter::default(), 0, 9).unwrap().1, 2);
    log.mark_dropped(&[record(2, "", b"").commit.unwrap()]).unwrap();
    log.append(&[jump.clone(), again]).unwrap();
    let seqs = |path: &str| {
        let path = TreePath::parse(path).unwrap();
        let versions = log.versions(&path, Seq(9), 9).unwrap();
        assert_eq!(log.count_versions(&NamePeriod::always(path.clone())).unwrap(), versions.len());
        versions.iter().map(|version| version.seq.0).collect::<Vec<_>>()
    };
    // Before and after rows are made of them.
    assert_eq!((seqs("a.md"), seqs("b.md"), seqs("a.md")), (vec![1], vec![4], vec![1]));
    let (lately, count) = log.select_changes(&ChangeFilter::default(), 0, 9).unwrap();
    assert_eq!((lately.iter().map(|found| found.seq.0).collect::<Vec<_>>(), count), (vec![4, 1], 2));
    let feed = log.changes_after(Seq(0), 0, 9).unwrap().changes;
    assert_eq!(feed.iter().map(|change| change.seq.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        feed.iter().map(|change| log.find_seq(&change.id.to_string()).unwrap()).collect::<Vec<_>>(),
        [1, 2, 3].map(|seq| Some(Seq(seq)))
    );
    assert_eq!(feed[2].id, VersionId::Timestamp(jump.time));
    assert_eq!(log.find_seq(&record(4, "", b"").commit.unwrap().to_string()).unwrap(), Some(Seq(4)));
    assert_eq!(log.last_branch_switch().unwrap(), Some(Seq(3)));
    // Killed in between, and built again on the branch.
    log.set_commits(&[(Seq(2), record(5, "", b"").commit.unwrap())]).unwrap();
    assert_eq!(seqs("a.md"), [2, 1]);
}

#[test]
fn a_log_of_a_newer_svcfs_is_not_changed() {
    let Fixture { directory, log } = fixture();
    log.close().unwrap();
    drop(log);
    let paths = StatePaths::new(directory.path());
    Connection::open(paths.log()).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let Err(error) = Log::open(&paths) else { panic!("opened it") };
    assert!(error.to_string().contains("schema number 99"), "{error}");
}
