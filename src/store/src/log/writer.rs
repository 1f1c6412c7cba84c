//! What writes into a log: the journal at once, the rows when it is their time.
//!
//! One rule: a record is in the journal or it is rows, and nobody can tell which. Rows are made by a helper once records wait for
//! it, and before anybody asks the database or writes into it otherwise. Locks are taken in the order database, journal, what is ahead of
//! the rows; the last is never held while the disk is waited for.

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

/// At so many records, or bytes of contents, a helper makes rows of them.
const MANY: usize = 64;
const MANY_BYTES: usize = 1 << 20;
/// At so many a writer does it itself before it goes on: neither memory nor the journal grows without end.
const OVERDUE: usize = 4096;
const OVERDUE_BYTES: usize = 32 << 20;
/// A batch of so many bytes is made rows at once.
const LARGEST: usize = 16 << 20;

/// So many changes are looked at for the paths of one question before rows are made of them instead.
const MOST_LOOKS: usize = 1 << 14;

/// The one that writes into a log.
pub(super) struct LogWriter {
    connection: Mutex<Connection>,
    /// None until something is appended.
    journal: Mutex<Option<Journal>>,
    ahead: Mutex<JournalTail>,
    paths: [PathBuf; FILES],
    spool: PathBuf,
    /// Whether a helper was told to make rows and has not begun.
    is_called: AtomicBool,
    fail: FailPoints,
    pub(super) database: Arc<DatabaseFile>,
}

/// What is ahead of the rows.
struct JournalTail {
    /// What the journal has and the rows do not, in order.
    owed: VecDeque<Arc<LogRecord>>,
    bytes: usize,
    changes: usize,
    /// The newest record.
    last: Seq,
    /// Whether the journal is to be begun anew: nothing was appended yet, or a flush failed.
    is_to_begin: bool,
    /// Whether the disk may have what was refused.
    is_in_doubt: bool,
    /// The file that is not being filled, and the newest record in it.
    waiting: Option<(usize, Seq)>,
    /// The file that nothing is needed of any more, and its key from now on.
    renewed: Option<(usize, JournalKey)>,
}

impl JournalTail {
    fn is_overdue(&self) -> bool {
        self.owed.len() >= OVERDUE || self.bytes >= OVERDUE_BYTES
    }

    fn owe(&mut self, records: impl IntoIterator<Item = LogRecord>) {
        for record in records {
            self.bytes += size(&record, true);
            self.changes += record.entries.len();
            self.last = record.seq;
            self.owed.push_back(Arc::new(record));
        }
    }

    /// Whether a file of the journal can have another key, once rows are made up to a record.
    fn spent(&self, made: Seq) -> Option<usize> {
        self.waiting.filter(|(_, newest)| *newest <= made && !self.is_to_begin).map(|(file, _)| file)
    }
}

impl LogWriter {
    /// The writer of a database, and what the journal has that is not rows yet.
    pub(super) fn open(
        database: DatabaseFile,
        paths: [PathBuf; FILES],
        (connection, spool): (Connection, &spool::SpoolFiles),
        fail: FailPoints,
    ) -> LogResult<Self> {
        let last = newest(&connection)?;
        // What is rows already needs no content, and may have none any more.
        let content = |seq, ordinal, etag| if seq > last { spool.read(seq, ordinal, etag) } else { Ok(Bytes::new()) };
        let owed = missing(journal::read(&paths, &keys(&connection)?, &content)?, last)?;
        let mut ahead = JournalTail {
            owed: VecDeque::new(),
            bytes: 0,
            changes: 0,
            last,
            is_to_begin: true,
            is_in_doubt: false,
            waiting: None,
            renewed: None,
        };
        ahead.owe(owed);
        Ok(Self {
            connection: Mutex::new(connection),
            journal: Mutex::default(),
            ahead: Mutex::new(ahead),
            paths,
            spool: spool.directory().to_owned(),
            is_called: AtomicBool::new(false),
            fail,
            database: Arc::new(database),
        })
    }

    /// Appends records, and flushes them; true when it is time to make rows. One at a time appends.
    pub(super) fn append(&self, records: &[LogRecord]) -> Result<bool, AppendError> {
        let Some(newest) = records.last().map(|record| record.seq) else { return Ok(false) };
        check_order(self.last(), records)?;
        let is_due = {
            let ahead = self.ahead.lock();
            ahead.is_to_begin || ahead.is_overdue()
        };
        if is_due {
            self.begin()?;
        }
        if records.iter().map(|record| size(record, false)).sum::<usize>() > LARGEST {
            return self.append_rows(records, newest);
        }
        let mut journal = self.journal.lock();
        let (after, renewed) = {
            let mut ahead = self.ahead.lock();
            (ahead.last, ahead.renewed.take())
        };
        let Some(open) = &mut *journal else {
            return Err(StoreError::Damaged("the journal of `log.db` is not open".to_owned()).into());
        };
        if let Some((file, key)) = renewed {
            open.renew(file, key);
        }
        let appended = open.append(after, records, &self.fail);
        let mut ahead = self.ahead.lock();
        ahead.waiting = open.waiting();
        if let Err(refusal) = appended {
            if refusal.is_in_doubt {
                self.doubt(ahead);
                cache_drop::forget(&self.paths);
            }
            return Err(refusal);
        }
        ahead.owe(records.iter().cloned());
        Ok(ahead.owed.len() >= MANY || ahead.bytes >= MANY_BYTES)
    }

    /// Appends what is too much for the journal.
    fn append_rows(&self, records: &[LogRecord], newest: Seq) -> Result<bool, AppendError> {
        let outcome = self.write(|connection| {
            self.fail.check(FailPoint::LogWrite)?;
            let transaction = connection.transaction()?;
            records.iter().try_for_each(|record| rows::insert(&transaction, record))?;
            self.fail.check(FailPoint::LogFlush)?;
            transaction.commit()?;
            self.ahead.lock().last = newest;
            self.fail.hit(FailPoint::LogFlushed);
            Ok(false)
        });
        outcome.map_err(|error| AppendError { is_in_doubt: cache_drop::is_left_by(&error), error })
    }

    /// Makes rows of all that is owed, and sees to it that there is a journal.
    fn begin(&self) -> LogResult<()> {
        let mut connection = self.connection.lock();
        let is_anew = self.ahead.lock().is_to_begin;
        let Some(keys) = self.rows_made(&mut connection, is_anew)? else { return Ok(()) };
        *self.journal.lock() = Some(Journal::begin(&self.paths, keys, &self.spool)?);
        let mut ahead = self.ahead.lock();
        (ahead.is_to_begin, ahead.is_in_doubt, ahead.waiting, ahead.renewed) = (false, false, None, None);
        Ok(())
    }

    /// A flush failed. What was refused may come back until the next transaction is on the disk, which the next who appends begins with: it
    /// gives both files other keys.
    fn doubt(&self, mut ahead: MutexGuard<'_, JournalTail>) {
        (ahead.is_to_begin, ahead.is_in_doubt) = (true, true);
    }

    /// Whether the disk may have what was refused.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.ahead.lock().is_in_doubt
    }

    /// Writes into the database, one after the other, with all rows made.
    pub(super) fn write<T>(&self, work: impl FnOnce(&mut Connection) -> LogResult<T>) -> LogResult<T> {
        let mut connection = self.connection.lock();
        self.rows_made(&mut connection, false)?;
        self.not_in_doubt(work(&mut connection))
    }

    fn not_in_doubt<T>(&self, outcome: LogResult<T>) -> LogResult<T> {
        if outcome.as_ref().is_err_and(cache_drop::is_left_by) {
            self.doubt(self.ahead.lock());
            self.database.forget();
        }
        outcome
    }

    /// Makes rows of all that is owed.
    pub(super) fn catch_up(&self) -> LogResult<()> {
        self.is_called.store(false, Ordering::Release);
        if self.ahead.lock().owed.is_empty() {
            return Ok(());
        }
        self.rows_made(&mut self.connection.lock(), false).map(drop)
    }

    /// Makes rows, for whoever hears of no outcome: whoever asks or writes next hears of it.
    pub(super) fn catch_up_beside(&self) {
        if let Err(error) = self.catch_up() {
            debug!(%error, "rows of the log could not be made; they are when they are asked for");
        }
    }

    /// True for the first who asks since rows were made.
    pub(super) fn is_first_to_call(&self) -> bool {
        !self.is_called.swap(true, Ordering::AcqRel)
    }

    /// Position of the newest record; zero when there is none.
    pub(super) fn last(&self) -> Seq {
        self.ahead.lock().last
    }

    /// What is not rows yet, in order. Whoever asks this first and then the rows misses nothing.
    pub(super) fn owed(&self) -> Vec<Arc<LogRecord>> {
        self.ahead.lock().owed.iter().cloned().collect()
    }

    /// The same, for whoever walks it for each of many paths: rows are made when it is much.
    ///
    /// # Errors
    /// As [`Writer::catch_up`].
    pub(super) fn owed_for(&self, paths: usize) -> LogResult<Vec<Arc<LogRecord>>> {
        let changes = self.ahead.lock().changes;
        if changes.saturating_mul(paths) > MOST_LOOKS {
            self.catch_up()?;
        }
        Ok(self.owed())
    }

    /// Makes rows of all that is owed, in one transaction, and gives a file another key when nothing of it is needed any more; both, when
    /// the journal is begun anew. The keys of both, then.
    fn rows_made(&self, connection: &mut Connection, is_anew: bool) -> LogResult<Option<[JournalKey; FILES]>> {
        let (owed, spent) = {
            let ahead = self.ahead.lock();
            let owed: Vec<_> = ahead.owed.iter().cloned().collect();
            let spent = owed.last().and_then(|newest| ahead.spent(newest.seq));
            (owed, spent)
        };
        if owed.is_empty() && !is_anew {
            return Ok(None);
        }
        let renewed: Vec<usize> = if is_anew { (0..FILES).collect() } else { spent.into_iter().collect() };
        let mut keys = [JournalKey::default(); FILES];
        for file in &renewed {
            keys[*file] = new_key()?;
        }
        self.not_in_doubt(self.committed(connection, &owed, renewed.iter().map(|file| (*file, keys[*file]))))?;
        let mut ahead = self.ahead.lock();
        ahead.bytes -= owed.iter().map(|record| size(record, true)).sum::<usize>();
        ahead.changes -= owed.iter().map(|record| record.entries.len()).sum::<usize>();
        ahead.owed.drain(..owed.len());
        if !is_anew && let Some(file) = spent {
            (ahead.waiting, ahead.renewed) = (None, Some((file, keys[file])));
        }
        drop(ahead);
        self.fail.hit(FailPoint::RowsApplied);
        Ok(is_anew.then_some(keys))
    }

    fn committed(
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
            transaction.execute("UPDATE journal SET key = ?2 WHERE file = ?1", params![number_of(file), &key[..]])?;
        }
        if !records.is_empty() {
            self.fail.check(FailPoint::RowsCommit)?;
        }
        Ok(transaction.commit()?)
    }

    /// Makes everything rows of a database file that is whole by itself.
    pub(super) fn close(&self) -> LogResult<()> {
        let mut connection = self.connection.lock();
        // What was refused must not come back.
        let is_in_doubt = self.is_in_doubt();
        self.rows_made(&mut connection, is_in_doubt)?;
        self.fail.check(FailPoint::CloseLog)?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    /// Gives memory back that SQLite keeps of what was written.
    pub(super) fn rest(&self) {
        let _ = self.connection.lock().release_memory();
    }
}

/// What the journal has and the rows do not, of which a record is the newest. Somebody may be at work on both: whoever reads the keys
/// first, the journal then, and the rows last, misses nothing.
pub(super) fn missing(batches: Vec<(Seq, Vec<LogRecord>)>, mut last: Seq) -> LogResult<Vec<LogRecord>> {
    let mut owed = Vec::new();
    for (after, records) in batches {
        let Some(newest) = records.last().map(|record| record.seq).filter(|newest| *newest > last) else { continue };
        if after != last {
            let text =
                format!("the journal of `log.db` goes on behind record {after}, and record {last} is the newest");
            return Err(StoreError::Damaged(text));
        }
        last = newest;
        owed.extend(records);
    }
    Ok(owed)
}

/// The keys of the journal's files.
pub(super) fn keys(connection: &Connection) -> LogResult<[JournalKey; FILES]> {
    let mut keys = [JournalKey::default(); FILES];
    let mut statement = connection.prepare("SELECT file, key FROM journal")?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let (file, key): (u32, Vec<u8>) = (row.get(0)?, row.get(1)?);
        let place = keys.get_mut(file as usize).zip(JournalKey::try_from(key).ok());
        let (place, key) = place.ok_or_else(|| StoreError::Damaged("`log.db`: a key of the journal".to_owned()))?;
        *place = key;
    }
    Ok(keys)
}

/// Position of the newest record that is rows; zero when there is none.
pub(super) fn newest(connection: &Connection) -> LogResult<Seq> {
    Ok(connection.query_row("SELECT coalesce(max(seq), 0) FROM sets", [], |row| Ok(rows::seq(row.get(0)?)))?)
}

/// A file of the journal as the database names it.
fn number_of(file: usize) -> u32 {
    u32::try_from(file).unwrap_or(u32::MAX)
}

fn check_order(last: Seq, records: &[LogRecord]) -> LogResult<()> {
    let mut last = last;
    for record in records {
        if record.seq <= last {
            return Err(StoreError::Damaged(format!("record {} comes behind {last} in the log", record.seq)));
        }
        last = record.seq;
    }
    Ok(())
}

/// Bytes of a record; without or with large contents, which memory holds and the journal does not.
fn size(record: &LogRecord, is_all: bool) -> usize {
    let content = |content: &Bytes| if spool::is_large(content) && !is_all { 0 } else { content.len() };
    record.entries.iter().map(|entry| entry.content.as_ref().map_or(0, content) + 128).sum::<usize>() + 256
}
