//! What is appended is there whole, or not at all.

use super::super::tests::{Fixture, fixture, record};
use super::super::*;
use super::*;

/// Opens what a server left that was killed.
fn killed(Fixture { directory, log }: Fixture) -> Fixture {
    // Nothing is done at the end of a process that is killed: what this one would do is done
    // elsewhere.
    let copy = tempfile::tempdir().unwrap();
    let (from, to) = (StatePaths::new(directory.path()), StatePaths::new(copy.path()));
    std::fs::create_dir_all(to.spool()).unwrap();
    for (from, to) in [(from.directory(), to.directory()), (&from.spool(), &to.spool())] {
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    drop(log);
    let (log, is_new) = Log::open(&to).unwrap();
    assert!(!is_new);
    Fixture { directory: copy, log }
}

fn unsettled(log: &Log) -> Vec<u64> {
    log.pending_records().unwrap().iter().map(|record| record.seq.0).collect()
}

fn keys() -> [JournalKey; FILES] {
    [[1; 16], [2; 16]]
}

fn nothing_spooled(_: Seq, _: i64, _: Option<ETag>) -> Result<Bytes, StoreError> {
    unreachable!("nothing is large")
}

fn read_back(paths: &[PathBuf; FILES], keys: &[JournalKey; FILES]) -> Vec<String> {
    read(paths, keys, &nothing_spooled).unwrap().into_iter().map(|batch| format!("{batch:?}")).collect()
}

struct Files {
    directory: tempfile::TempDir,
    paths: [PathBuf; FILES],
    journal: Journal,
}

fn files() -> Files {
    let directory = tempfile::tempdir().unwrap();
    let paths = [0, 1].map(|number| directory.path().join(number.to_string()));
    let journal = Journal::start(&paths, keys(), directory.path()).unwrap();
    Files { directory, paths, journal }
}

fn append(Files { directory, journal, .. }: &mut Files, after: u64, records: &[LogRecord]) {
    let appended = journal.append(Seq(after), records, &FailPoints::new(directory.path()));
    assert!(appended.is_ok());
}

#[test]
fn batches_come_back_as_they_were_appended() {
    let mut files = files();
    let batches =
        [(0, vec![record(1, "a.md", b"one"), record(2, "b.md", b"")]), (2, vec![record(3, "c.md", b"three")])];
    for (after, records) in &batches {
        append(&mut files, *after, records);
    }
    let told = batches.map(|(after, records)| format!("{:?}", (Seq(after), records)));
    assert_eq!(read_back(&files.paths, &keys()), told);
    assert!(read_back(&files.paths, &[[9; 16]; FILES]).is_empty(), "under other keys they are nothing");
}

/// Shows: DUR-6
#[test]
fn a_torn_batch_is_discarded_and_earlier_ones_are_intact() {
    let mut files = files();
    append(&mut files, 0, &[record(1, "a.md", b"one")]);
    let begin = usize::try_from(files.journal.files[0].end).unwrap();
    append(&mut files, 1, &[record(2, "a.md", b"two")]);
    let end = usize::try_from(files.journal.files[0].end).unwrap();
    let whole = std::fs::read(&files.paths[0]).unwrap();
    assert_eq!(read_back(&files.paths, &keys()).len(), 2);
    for at in begin..end {
        let mut torn = whole.clone();
        torn[at] ^= 0x40;
        std::fs::write(&files.paths[0], &torn).unwrap();
        assert_eq!(read_back(&files.paths, &keys()).len(), 1, "byte {at} is another");
        std::fs::write(&files.paths[0], &whole[..at]).unwrap();
        assert_eq!(read_back(&files.paths, &keys()).len(), 1, "cut at byte {at}");
    }
}

#[test]
fn files_are_filled_in_turn_once_the_other_is_needed_no_more() {
    let mut files = files();
    let large = vec![b'x'; 1 << 20];
    let mut seq = 0;
    let mut fill = |files: &mut Files| {
        for _ in 0..8 {
            append(files, seq, &[record(seq + 1, "a.md", &large)]);
            seq += 1;
        }
        seq
    };
    let made = fill(&mut files);
    assert_eq!(files.journal.current, 0, "the other's turn comes with the next batch");
    fill(&mut files);
    assert_eq!(files.journal.current, 1);
    assert_eq!(files.journal.inactive(), Some((0, Seq(made))));
    let last = fill(&mut files);
    assert_eq!(files.journal.current, 1, "what the first has is needed still");
    assert_eq!(read_back(&files.paths, &keys()).len(), usize::try_from(last).unwrap());
    files.journal.reset(0, [3; 16]);
    fill(&mut files);
    assert_eq!(files.journal.current, 0);
    assert_eq!(read_back(&files.paths, &[[3; 16], [2; 16]]).len(), 24, "of the first only what is new");
}

/// Shows: DUR-6
#[test]
fn what_was_appended_is_there_after_a_kill_with_its_contents() {
    let mut space = fixture();
    let big = vec![7; spool::MAX_INLINE_BYTES + 1];
    for (seq, content) in [(1, &b"one"[..]), (2, &big), (3, b"")] {
        space.log.append(&[record(seq, "a.md", content)]).unwrap();
    }
    for life in 0..3 {
        space = killed(space);
        let logged = space.log.pending_records().unwrap();
        let wanted = [record(1, "a.md", b"one"), record(2, "a.md", &big), record(3, "a.md", b"")];
        assert_eq!(format!("{:?}", &logged[..3]), format!("{wanted:?}"));
        let seq = 4 + life;
        assert_eq!(space.log.last_seq(), Seq(seq - 1));
        space.log.append(&[record(seq, "b.md", b"more")]).unwrap();
    }
    space.log.checkpoint(Seq(2), None).unwrap();
    assert_eq!(unsettled(&killed(space).log), [3, 4, 5, 6]);
}

#[test]
fn journal_records_become_rows_in_bulk_and_its_size_is_bounded() {
    let space = fixture();
    let paths = StatePaths::new(space.directory.path());
    let content = vec![b'x'; 1 << 20];
    for seq in 1..=60 {
        space.log.append(&[record(seq, "a.md", &content)]).unwrap();
    }
    assert_eq!(unsettled(&space.log).len(), 60);
    let lengths = paths.journal().map(|path| std::fs::metadata(path).unwrap().len());
    assert!(lengths.iter().all(|length| *length < 40 << 20), "{lengths:?}");
    assert_eq!(unsettled(&killed(space).log).len(), 60);
}

#[test]
fn records_beyond_the_journal_limit_become_rows_immediately() {
    let space = fixture();
    space.log.append(&[record(1, "a.md", b"one")]).unwrap();
    let many: Vec<_> = (2..42).map(|seq| record(seq, "b.md", &vec![b'x'; 1 << 19])).collect();
    space.log.append(&many).unwrap();
    assert!(space.log.writer.tail().is_empty());
    space.log.append(&[record(42, "a.md", b"two")]).unwrap();
    assert_eq!(unsettled(&killed(space).log), (1..=42).collect::<Vec<_>>());
}

#[test]
fn path_state_is_known_before_its_journal_records_become_rows() {
    let Fixture { directory: _directory, log } = fixture();
    log.append(&[record(1, "d/a.md", b"one"), record(2, "e.md", b"two")]).unwrap();
    let removal = |seq, path: &str| {
        let LogRecord { entries, .. } = record(seq, path, b"");
        let entries = entries.into_iter().map(|entry| LogEntry { new: None, content: None, ..entry }).collect();
        LogRecord { entries, ..record(seq, path, b"") }
    };
    log.append(&[removal(3, "e.md")]).unwrap();
    let versions = |path: &TreePath, before, max| {
        let told = log.versions(path, Seq(before), max).unwrap();
        told.into_iter().map(|version| (version.seq.0, version.new.is_some())).collect::<Vec<_>>()
    };
    let (a, e) = (TreePath::parse("d/a.md").unwrap(), TreePath::parse("e.md").unwrap());
    for is_made in [false, true] {
        let state = |content: &[u8]| Some((ETag::from_content(content), FileKind::Executable));
        assert_eq!(log.states_at(&[&a, &e], Seq(3)).unwrap(), [state(b"one"), None]);
        assert_eq!(log.states_at(&[&a, &e], Seq(2)).unwrap(), [state(b"one"), state(b"two")]);
        let below: Vec<_> = log.list_states(&TreePath::root()).unwrap().into_iter().map(|(path, ..)| path).collect();
        assert_eq!(below, std::slice::from_ref(&a));
        assert_eq!(versions(&e, 9, 9), [(3, false), (2, true)]);
        assert_eq!((versions(&e, 9, 1), versions(&e, 3, 9)), (vec![(3, false)], vec![(2, true)]));
        assert!(
            log.has_content(&e, ETag::from_content(b"two")).unwrap()
                && !log.has_content(&e, ETag::from_content(b"one")).unwrap()
        );
        assert_eq!(log.writer.tail().is_empty(), is_made, "no rows are made for it");
        log.writer.apply_tail().unwrap();
    }
}

#[test]
fn a_look_from_outside_counts_what_is_in_the_journal_only() {
    let space = fixture();
    let paths = StatePaths::new(space.directory.path());
    space.log.append(&[record(1, "a.md", b"one")]).unwrap();
    space.log.checkpoint(Seq(1), None).unwrap();
    space.log.append(&[record(2, "a.md", b"two"), record(3, "b.md", b"three")]).unwrap();
    let found = Log::check(&paths).unwrap().unwrap();
    assert_eq!((found.last_seq, found.checkpoint_seq, found.pending_records), (Seq(3), Seq(1), 2));
    assert_eq!(space.log.writer.tail().len(), 2, "looking changed nothing");
    let big = vec![7; spool::MAX_INLINE_BYTES + 1];
    space.log.append(&[record(4, "b.md", &big)]).unwrap();
    let found = Log::check(&paths).unwrap().unwrap();
    assert_eq!((found.last_seq, found.pending_records), (Seq(4), 3), "in the journal, rows, or both");
    assert!(found.damage.is_empty() && found.missing_spool.is_empty() && found.leftover_spool.is_empty(), "{found:?}");
    std::fs::remove_file(paths.spool().join(spool::file_name(Seq(4), 0, Some(ETag::from_content(&big))))).unwrap();
    assert_eq!(Log::check(&paths).unwrap().unwrap().missing_spool.len(), 1);
}

#[cfg(feature = "fail-points")]
mod refused {
    use super::*;

    /// Shows: FAIL-8
    #[test]
    fn records_of_a_failed_flush_stay_absent_after_the_next_append() {
        for is_closed in [false, true] {
            let space = fixture();
            let points = FailPoints::new(space.directory.path());
            space.log.append(&[record(1, "a.md", b"one")]).unwrap();
            points.inject_error(FailPoint::LogFlush, 5);
            assert!(space.log.append(&[record(2, "a.md", b"refused"), record(3, "b.md", b"refused")]).is_err());
            points.clear(FailPoint::LogFlush);
            assert_eq!(space.log.last_seq(), Seq(1));
            if is_closed {
                space.log.close().unwrap();
                assert_eq!(unsettled(&killed(space).log), [1]);
            } else {
                space.log.append(&[record(2, "a.md", b"two")]).unwrap();
                let space = killed(space);
                let logged = space.log.pending_records().unwrap();
                assert_eq!(logged[1].entries[0].content.as_deref(), Some(&b"two"[..]));
                assert_eq!(logged.len(), 2);
            }
        }
    }

    /// As SQLite says it, which may have written all of a transaction.
    fn failed() -> StoreError {
        rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC), None).into()
    }

    #[test]
    fn the_record_after_an_unflushed_transaction_uses_a_new_one() {
        let space = fixture();
        space.log.append(&[record(1, "a.md", b"one")]).unwrap();
        assert!(space.log.writer.write(|_| Err::<(), _>(failed())).is_err());
        let keys = || writer::keys(&Connection::open(StatePaths::new(space.directory.path()).log()).unwrap()).unwrap();
        let before = keys();
        space.log.append(&[record(2, "a.md", b"two")]).unwrap();
        assert_ne!(keys(), before, "what may have been written is overwritten, or no batch is looked for behind it");
        assert_eq!(unsettled(&killed(space).log), [1, 2]);
    }

    #[test]
    fn behind_a_batch_that_could_not_be_flushed_a_large_set_is_safe() {
        let space = fixture();
        let points = FailPoints::new(space.directory.path());
        space.log.append(&[record(1, "a.md", b"one")]).unwrap();
        points.inject_error(FailPoint::LogFlush, 5);
        let refused: Vec<_> = (2..9).map(|seq| record(seq, "b.md", b"refused")).collect();
        assert!(space.log.append(&refused).is_err());
        points.clear(FailPoint::LogFlush);
        let many: Vec<_> = (2..42).map(|seq| record(seq, "b.md", &vec![b'x'; 1 << 19])).collect();
        space.log.append(&many[..36]).unwrap();
        assert_eq!(unsettled(&killed(space).log), (1..38).collect::<Vec<_>>());
    }

    #[test]
    fn a_large_content_stays_for_a_record_that_may_come_back() {
        let space = fixture();
        let points = FailPoints::new(space.directory.path());
        let big = vec![7; spool::MAX_INLINE_BYTES + 1];
        points.inject_error(FailPoint::LogFlush, 5);
        assert!(space.log.append(&[record(1, "a.md", &big)]).is_err());
        points.inject_error(FailPoint::LogSpoolFlush, 5);
        assert!(space.log.append(&[record(1, "a.md", &big)]).is_err(), "tried again");
        for point in [FailPoint::LogFlush, FailPoint::LogSpoolFlush] {
            points.clear(point);
        }
        let logged = killed(space).log.pending_records().unwrap();
        assert_eq!(logged[0].entries[0].content.as_deref(), Some(&big[..]));
    }

    #[test]
    fn a_large_blob_of_a_rejected_record_is_not_used_by_the_next() {
        let space = fixture();
        let points = FailPoints::new(space.directory.path());
        points.inject_error(FailPoint::LogFlush, 5);
        let contents = [1, 2].map(|byte| vec![byte; spool::MAX_INLINE_BYTES + 1]);
        for content in &contents {
            assert!(space.log.append(&[record(1, "a.md", content)]).is_err());
        }
        points.clear(FailPoint::LogFlush);
        for record in killed(space).log.pending_records().unwrap() {
            let entry = &record.entries[0];
            assert_eq!(entry.new, entry.content.as_deref().map(ETag::from_content), "whichever came back");
        }
    }

    #[test]
    fn rows_refused_by_the_disk_are_written_once_it_recovers() {
        for point in [FailPoint::RowsWrite, FailPoint::RowsCommit] {
            let space = fixture();
            let points = FailPoints::new(space.directory.path());
            space.log.append(&[record(1, "a.md", b"one")]).unwrap();
            points.inject_error(point, 28);
            space.log.append(&[record(2, "a.md", b"two")]).unwrap();
            assert!(space.log.records_after(Seq(0), 9).is_err(), "who asks is told");
            assert_eq!(space.log.last_seq(), Seq(2));
            points.clear(point);
            assert_eq!(space.log.records_after(Seq(0), 9).unwrap().len(), 2);
            assert_eq!(unsettled(&killed(space).log), [1, 2]);
        }
    }
}

#[test]
fn a_batch_of_a_program_that_knew_of_no_large_files_is_read() {
    let records = [LogRecord {
        entries: record(1, "a.md", b"one")
            .entries
            .into_iter()
            .map(|entry| LogEntry { replaces_large: None, ..entry })
            .collect(),
        request: None,
        ..record(1, "a.md", b"one")
    }];
    let now = record::encode(Seq(0), &records, 0).unwrap();
    let (nothing, before) = now.split_last().unwrap();
    assert_eq!(*nothing, 0, "nothing is said behind the batch");
    let (after, read) = record::read(before, &nothing_spooled).unwrap();
    assert_eq!((after, format!("{read:?}")), (Seq(0), format!("{records:?}")));
}
