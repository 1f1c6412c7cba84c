//! Writes to the log: the journal immediately, the rows later.
//!
//! Invariant: a record is in the journal or in the rows, and queries see no difference. A helper
//! applies the journal tail to the rows when enough records are waiting; queries and other writes
//! apply it first. Lock order: database, journal, tail; the tail lock is never held while waiting
//! for the disk.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::{Connection, params};
use svcfs_base::Seq;
use tracing::debug;

use super::cache_drop::{self, DatabaseFile};
use super::journal::{AppendError, FILES, Journal, JournalKey, new_key};
use super::{LogRecord, LogResult, journal, rows, spool};
use crate::{FailPoint, FailPoints, StoreError};

/// Number of records, or bytes of contents, at which the helper applies the tail.
const APPLY_RECORDS: usize = 64;
const APPLY_BYTES: usize = 1 << 20;
/// Number of records, or bytes, at which the writer applies the tail itself, to bound memory and
/// journal.
const MAX_TAIL_RECORDS: usize = 4096;
const MAX_TAIL_BYTES: usize = 32 << 20;
/// Larger batches are written as rows directly, in bytes.
const MAX_JOURNAL_BATCH_BYTES: usize = 16 << 20;

/// Maximum number of tail changes to scan for one query; beyond it the tail is applied first.
const MAX_TAIL_SCANS: usize = 1 << 14;

/// The writer of a log.
pub(super) struct LogWriter {
    connection: Mutex<Connection>,
    /// None until the first append.
    journal: Mutex<Option<Journal>>,
    tail: Mutex<JournalTail>,
    paths: [PathBuf; FILES],
    spool: PathBuf,
    /// Whether a job of the helper is queued.
    is_scheduled: AtomicBool,
    fail: FailPoints,
    pub(super) database: Arc<DatabaseFile>,
}

/// The journal tail that is not applied to the rows.
struct JournalTail {
    /// Records in the journal that are not rows yet, in order.
    records: VecDeque<Arc<LogRecord>>,
    bytes: usize,
    changes: usize,
    /// The newest record.
    last: Seq,
    /// Whether the journal must be restarted: before the first append, or after a failed flush.
    needs_restart: bool,
    /// Whether refused records may be on the disk.
    may_have_refused: bool,
    /// The journal file that is not being filled, and its newest record.
    inactive: Option<(usize, Seq)>,
    /// A journal file that is not needed any more, with its new key.
    reset: Option<(usize, JournalKey)>,
}

impl JournalTail {
    fn is_full(&self) -> bool {
        self.records.len() >= MAX_TAIL_RECORDS || self.bytes >= MAX_TAIL_BYTES
    }

    fn push(&mut self, records: impl IntoIterator<Item = LogRecord>) {
        for record in records {
            self.bytes += size(&record, true);
            self.changes += record.entries.len();
            self.last = record.seq;
            self.records.push_back(Arc::new(record));
        }
    }

    /// The journal file that can be reused once rows exist up to a record.
    fn reusable_file(&self, last_row: Seq) -> Option<usize> {
        self.inactive.filter(|(_, newest)| *newest <= last_row && !self.needs_restart).map(|(file, _)| file)
    }
}

impl LogWriter {
    /// Opens the writer of a database, and reads the journal tail.
    pub(super) fn open(
        database: DatabaseFile,
        paths: [PathBuf; FILES],
        (connection, spool): (Connection, &spool::SpoolFiles),
        fail: FailPoints,
    ) -> LogResult<Self> {
        let last = newest_row(&connection)?;
        // Records that are rows need no content, and may have none any more.
        let content = |seq, ordinal, etag| if seq > last { spool.read(seq, ordinal, etag) } else { Ok(Bytes::new()) };
        let records = unapplied(journal::read(&paths, &keys(&connection)?, &content)?, last)?;
        let mut tail = JournalTail {
            records: VecDeque::new(),
            bytes: 0,
            changes: 0,
            last,
            needs_restart: true,
            may_have_refused: false,
            inactive: None,
            reset: None,
        };
        tail.push(records);
        Ok(Self {
            connection: Mutex::new(connection),
            journal: Mutex::default(),
            tail: Mutex::new(tail),
            paths,
            spool: spool.directory().to_owned(),
            is_scheduled: AtomicBool::new(false),
            fail,
            database: Arc::new(database),
        })
    }

    /// Appends and flushes records; returns true when the tail should be applied. Callers are
    /// serialized.
    pub(super) fn append(&self, records: &[LogRecord]) -> Result<bool, AppendError> {
        let Some(newest) = records.last().map(|record| record.seq) else { return Ok(false) };
        check_order(self.last(), records)?;
        let is_due = {
            let tail = self.tail.lock();
            tail.needs_restart || tail.is_full()
        };
        if is_due {
            self.start()?;
        }
        if records.iter().map(|record| size(record, false)).sum::<usize>() > MAX_JOURNAL_BATCH_BYTES {
            return self.append_rows(records, newest);
        }
        let mut journal = self.journal.lock();
        let (after, reset) = {
            let mut tail = self.tail.lock();
            (tail.last, tail.reset.take())
        };
        let Some(active) = &mut *journal else {
            return Err(StoreError::Damaged("the journal of `log.db` is not open".to_owned()).into());
        };
        if let Some((file, key)) = reset {
            active.reset(file, key);
        }
        let appended = active.append(after, records, &self.fail);
        let mut tail = self.tail.lock();
        tail.inactive = active.inactive();
        if let Err(refusal) = appended {
            if refusal.may_be_on_disk {
                self.mark_failed(tail);
                cache_drop::drop_cached(&self.paths);
            }
            return Err(refusal);
        }
        tail.push(records.iter().cloned());
        Ok(tail.records.len() >= APPLY_RECORDS || tail.bytes >= APPLY_BYTES)
    }

    /// Appends a batch that is too large for the journal.
    fn append_rows(&self, records: &[LogRecord], newest: Seq) -> Result<bool, AppendError> {
        let outcome = self.write(|connection| {
            self.fail.check(FailPoint::LogWrite)?;
            let transaction = connection.transaction()?;
            records.iter().try_for_each(|record| rows::insert(&transaction, record))?;
            self.fail.check(FailPoint::LogFlush)?;
            transaction.commit()?;
            self.tail.lock().last = newest;
            self.fail.hit(FailPoint::LogFlushed);
            Ok(false)
        });
        outcome.map_err(|error| AppendError { may_be_on_disk: cache_drop::may_be_on_disk(&error), error })
    }

    /// Applies the tail, and opens the journal if necessary.
    fn start(&self) -> LogResult<()> {
        let mut connection = self.connection.lock();
        let restart = self.tail.lock().needs_restart;
        let Some(keys) = self.apply(&mut connection, restart)? else { return Ok(()) };
        *self.journal.lock() = Some(Journal::start(&self.paths, keys, &self.spool)?);
        let mut tail = self.tail.lock();
        (tail.needs_restart, tail.may_have_refused, tail.inactive, tail.reset) = (false, false, None, None);
        Ok(())
    }

    /// Called after a failed flush. Refused records may come back until the next append commits a
    /// transaction, which changes the keys of both files.
    fn mark_failed(&self, mut tail: MutexGuard<'_, JournalTail>) {
        (tail.needs_restart, tail.may_have_refused) = (true, true);
    }

    /// Whether refused records may be on the disk.
    pub(super) fn may_have_refused(&self) -> bool {
        self.tail.lock().may_have_refused
    }

    /// Runs a write on the database, after applying the tail. Writes are serialized.
    pub(super) fn write<T>(&self, work: impl FnOnce(&mut Connection) -> LogResult<T>) -> LogResult<T> {
        let mut connection = self.connection.lock();
        self.apply(&mut connection, false)?;
        self.check_failure(work(&mut connection))
    }

    fn check_failure<T>(&self, outcome: LogResult<T>) -> LogResult<T> {
        if outcome.as_ref().is_err_and(cache_drop::may_be_on_disk) {
            self.mark_failed(self.tail.lock());
            self.database.drop_cached();
        }
        outcome
    }

    /// Applies the tail.
    pub(super) fn apply_tail(&self) -> LogResult<()> {
        self.is_scheduled.store(false, Ordering::Release);
        if self.tail.lock().records.is_empty() {
            return Ok(());
        }
        self.apply(&mut self.connection.lock(), false).map(drop)
    }

    /// Applies the tail in the background: the next query or write reports the error.
    pub(super) fn try_apply_tail(&self) {
        if let Err(error) = self.apply_tail() {
            debug!(%error, "the journal tail could not be applied; the next query retries");
        }
    }

    /// True for the first request since the tail was last applied.
    pub(super) fn request_apply(&self) -> bool {
        !self.is_scheduled.swap(true, Ordering::AcqRel)
    }

    /// Position of the newest record; zero when there is none.
    pub(super) fn last(&self) -> Seq {
        self.tail.lock().last
    }

    /// The tail, in order. A caller that reads it before the rows misses nothing.
    pub(super) fn tail(&self) -> Vec<Arc<LogRecord>> {
        self.tail.lock().records.iter().cloned().collect()
    }

    /// As [`LogWriter::tail`] for a scan per path: a long tail is applied first.
    ///
    /// # Errors
    /// As [`LogWriter::apply_tail`].
    pub(super) fn tail_for(&self, paths: usize) -> LogResult<Vec<Arc<LogRecord>>> {
        let changes = self.tail.lock().changes;
        if changes.saturating_mul(paths) > MAX_TAIL_SCANS {
            self.apply_tail()?;
        }
        Ok(self.tail())
    }

    /// Applies the tail in one transaction, and changes the key of a journal file that is not
    /// needed any more. With `restart`, changes and returns both keys.
    fn apply(&self, connection: &mut Connection, restart: bool) -> LogResult<Option<[JournalKey; FILES]>> {
        let (records, reusable_file) = {
            let tail = self.tail.lock();
            let records: Vec<_> = tail.records.iter().cloned().collect();
            let reusable_file = records.last().and_then(|newest| tail.reusable_file(newest.seq));
            (records, reusable_file)
        };
        if records.is_empty() && !restart {
            return Ok(None);
        }
        let reset_files: Vec<usize> = if restart { (0..FILES).collect() } else { reusable_file.into_iter().collect() };
        let mut keys = [JournalKey::default(); FILES];
        for file in &reset_files {
            keys[*file] = new_key()?;
        }
        self.check_failure(self.commit_rows(
            connection,
            &records,
            reset_files.iter().map(|file| (*file, keys[*file])),
        ))?;
        let mut tail = self.tail.lock();
        tail.bytes -= records.iter().map(|record| size(record, true)).sum::<usize>();
        tail.changes -= records.iter().map(|record| record.entries.len()).sum::<usize>();
        tail.records.drain(..records.len());
        if !restart && let Some(file) = reusable_file {
            (tail.inactive, tail.reset) = (None, Some((file, keys[file])));
        }
        drop(tail);
        self.fail.hit(FailPoint::RowsApplied);
        Ok(restart.then_some(keys))
    }

    fn commit_rows(
        &self,
        connection: &mut Connection,
        records: &[Arc<LogRecord>],
        keys: impl Iterator<Item = (usize, JournalKey)>,
    ) -> LogResult<()> {
        let transaction = connection.transaction()?;
        if !records.is_empty() {
            self.fail.check(FailPoint::RowsWrite)?;
        }
        for record in records {
            rows::insert(&transaction, record)?;
        }
        for (file, key) in keys {
            transaction.execute("UPDATE journal SET key = ?2 WHERE file = ?1", params![file_number(file), &key[..]])?;
        }
        if !records.is_empty() {
            self.fail.check(FailPoint::RowsCommit)?;
        }
        Ok(transaction.commit()?)
    }

    /// Applies the tail and checkpoints the WAL, so that the database file is complete.
    pub(super) fn close(&self) -> LogResult<()> {
        let mut connection = self.connection.lock();
        // Refused records must not come back.
        let may_have_refused = self.may_have_refused();
        self.apply(&mut connection, may_have_refused)?;
        self.fail.check(FailPoint::CloseLog)?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    /// Releases SQLite's caches.
    pub(super) fn release_memory(&self) {
        let _ = self.connection.lock().release_memory();
    }
}

/// The records of the journal after `last`. While a server writes, the caller reads the keys first,
/// then the journal, then the rows.
pub(super) fn unapplied(batches: Vec<(Seq, Vec<LogRecord>)>, mut last: Seq) -> LogResult<Vec<LogRecord>> {
    let mut tail = Vec::new();
    for (after, records) in batches {
        let Some(newest) = records.last().map(|record| record.seq).filter(|newest| *newest > last) else { continue };
        if after != last {
            let text = format!(
                "a batch in the journal of `log.db` follows record {after}, but the newest record is {last}; run `svcfs doctor`"
            );
            return Err(StoreError::Damaged(text));
        }
        last = newest;
        tail.extend(records);
    }
    Ok(tail)
}

/// The keys of the journal files.
pub(super) fn keys(connection: &Connection) -> LogResult<[JournalKey; FILES]> {
    let mut keys = [JournalKey::default(); FILES];
    let mut statement = connection.prepare("SELECT file, key FROM journal")?;
    let mut rows_iter = statement.query([])?;
    while let Some(row) = rows_iter.next()? {
        let (file, key): (u32, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let slot = keys.get_mut(file as usize).zip(JournalKey::try_from(key).ok());
        let (slot, key) = slot.ok_or_else(|| StoreError::Damaged("`log.db`: invalid journal key".to_owned()))?;
        *slot = key;
    }
    Ok(keys)
}

/// Position of the newest row; zero without rows.
pub(super) fn newest_row(connection: &Connection) -> LogResult<Seq> {
    Ok(connection.query_row("SELECT coalesce(max(seq), 0) FROM sets", [], |row| Ok(rows::seq(row.get(0)?)))?)
}

/// The number of a journal file in the database.
fn file_number(file: usize) -> u32 {
    u32::try_from(file).unwrap_or(u32::MAX)
}

fn check_order(last: Seq, records: &[LogRecord]) -> LogResult<()> {
    let mut last = last;
    for record in records {
        if record.seq <= last {
            return Err(StoreError::Damaged(format!(
                "record {} does not follow {last}, the newest of the log",
                record.seq
            )));
        }
        last = record.seq;
    }
    Ok(())
}

/// Size of a record in bytes, with or without large contents, which are in memory but not in the
/// journal.
fn size(record: &LogRecord, with_large: bool) -> usize {
    let content = |content: &Bytes| if spool::is_large(content) && !with_large { 0 } else { content.len() };
    record.entries.iter().map(|entry| entry.content.as_ref().map_or(0, content) + 128).sum::<usize>() + 256
}
