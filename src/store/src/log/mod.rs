//! The durable log: every accepted change set, in order, flushed before anything else happens.
//!
//! Invariant: a record is in the log completely or not at all; once it is, the change will happen.
//! A journal takes all records of a batch with one flush; they become rows in SQLite later.
//! Contents stay until a checkpoint has flushed tree and git; the rows stay, and answer queries
//! about history.

mod cache_drop;
mod check;
mod history_stats;
mod journal;
mod kinds;
mod latest_state;
mod read;
mod renames;
mod requests;
mod rows;
mod sets;
mod spool;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use svcfs_base::{
    Actor, CommitId, DiskAttributes, ETag, EventAnnouncement, FileKind, LargeFile, Protocol, RequestMark, Seq,
    Timestamp, TreePath,
};

use svcfs_work::SerialExecutor;

pub use check::LogCheck;
pub use history_stats::{ChangeFilter, DayActivity, PageActivity, PathOccurrence, TotalActivity};
pub use kinds::{DiffBase, RecordKind};
pub use read::{ChangePage, PathChange, PathVersion, SetMetadata};
pub use renames::{FileCreation, NamePeriod, RenameSources};
pub use requests::RequestSet;
pub use sets::{HistorySet, RemovedPath};

use cache_drop::DatabaseFile;
use journal::AppendError;
use spool::SpoolFiles;
use writer::LogWriter;

use crate::{CommitAuthor, FailPoint, FailPoints, StatePaths, StoreError, probe};

const SCHEMA_NUMBER: i64 = 10;
/// SQL that upgrades a log from each schema to the next, starting with the first.
const UPGRADES: [&str; 9] = [
    // 1: external commits from other branches were not marked.
    "ALTER TABLE sets ADD COLUMN against INTEGER NOT NULL DEFAULT 0;
     UPDATE sets SET against = 2 WHERE is_foreign; CREATE INDEX jumps ON sets (seq) WHERE against = 2;",
    // 2: every set had its own commit.
    "ALTER TABLE sets RENAME COLUMN is_foreign TO role;",
    // 3: a reinstalled file got the mode and owner of a new one.
    "ALTER TABLE contents ADD COLUMN mode INTEGER; ALTER TABLE contents ADD COLUMN uid INTEGER;
     ALTER TABLE contents ADD COLUMN gid INTEGER;",
    // 4: git was the only version store.
    "CREATE INDEX moments ON sets (time) WHERE commit_id IS NULL;
     ALTER TABLE settled ADD COLUMN strategy TEXT NOT NULL DEFAULT 'git';",
    // 5: reading the versions of a page needed a row lookup for each.
    "DROP INDEX changes_by_path; CREATE INDEX changes_by_path ON changes (path, seq, old, new);",
    // 6: records were written as rows directly.
    "CREATE TABLE journal (file INTEGER PRIMARY KEY, key BLOB NOT NULL);
     INSERT INTO journal (file, key) VALUES (0, randomblob(16)), (1, randomblob(16));",
    // 7: a large file was removed before its replacement was logged.
    "ALTER TABLE contents ADD COLUMN over_size INTEGER; ALTER TABLE contents ADD COLUMN over_modified INTEGER;",
    // 8: the difference between two branches counted as a version.
    "UPDATE sets SET against = 1 WHERE against = 2;",
    // 9: a request that was sent again after a crash was done again.
    "ALTER TABLE sets ADD COLUMN request BLOB;
     CREATE INDEX sets_by_request ON sets (request) WHERE request IS NOT NULL;",
];
const MAX_IDLE_READERS: usize = 8;
/// Cache of a reader until the next checkpoint, in KiB: 1,000 versions of a page are in as many
/// pages of 4 KiB.
const READER_CACHE_KIB: i64 = 8 << 10;
/// Number of records whose contents are deleted in one transaction.
const MAX_DELETED_RECORDS: i64 = 500;
/// At this length, in pages of 4 KiB, a writer checkpoints SQLite's write-ahead log itself.
const MAX_WAL_PAGES: i64 = 32_768;
/// A shorter write-ahead log is left alone; a longer one is truncated when it is reset.
const MAX_IDLE_WAL_BYTES: u32 = 16 << 20;

/// A logged change set.
#[derive(Debug, Clone)]
pub struct LogRecord {
    /// Its position in the log.
    pub seq: Seq,
    /// When it was accepted.
    pub time: Timestamp,
    /// The author.
    pub actor: Actor,
    /// The protocol.
    pub protocol: Protocol,
    /// Subject and body of its commit.
    pub message: String,
    /// The `X-Provenance` text; of an external edit, the address of its author
    /// ([`direct_provenance`]).
    pub provenance: Option<String>,
    /// How subscribers are notified.
    pub announcement: EventAnnouncement,
    /// What it stands for.
    pub kind: RecordKind,
    /// The base of the entries.
    pub diff_base: DiffBase,
    /// Its commit, known before it is logged; none for [`RecordKind::Uncommitted`], without git, or
    /// if nothing changed.
    pub commit: Option<CommitId>,
    /// The request that asked for it, if its client may send it again.
    pub request: Option<RequestMark>,
    /// Directory renames (old name, new name), to be done before the entries.
    pub moves: Vec<(TreePath, TreePath)>,
    /// The changed files, in order.
    pub entries: Vec<LogEntry>,
}

/// Precedes the e-mail address in the provenance of an external edit.
const DIRECT_EDIT: &str = "direct-edit:";

/// The provenance of an external edit by an author with this e-mail address. It is logged, because
/// recovery must build the same commit whatever git's configuration says by then.
pub fn direct_provenance(email: &str) -> String {
    format!("{DIRECT_EDIT}{email}")
}

/// The e-mail address in the provenance of an external edit.
pub fn author_email(protocol: Protocol, provenance: Option<&str>) -> Option<&str> {
    // Other protocols take the text from their callers.
    provenance.filter(|_| protocol == Protocol::Direct)?.strip_prefix(DIRECT_EDIT)
}

impl LogRecord {
    /// The author of its commit.
    pub fn author(&self) -> CommitAuthor<'_> {
        let email = author_email(self.protocol, self.provenance.as_deref());
        CommitAuthor { actor: &self.actor, email, time: self.time, message: &self.message }
    }
}

/// One file of a [`LogRecord`].
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The path.
    pub path: TreePath,
    /// The content's hash before; none when it was not there.
    pub old: Option<ETag>,
    /// The content's hash after; none when it is gone.
    pub new: Option<ETag>,
    /// The kind of file after (before, if it was removed).
    pub kind: FileKind,
    /// The new content, until the checkpoint; none when it is on the disk or in git already.
    pub content: Option<Bytes>,
    /// Attributes of the file: times stay in the log, mode and owner until the checkpoint.
    pub attributes: DiskAttributes,
    /// The file without versions that it replaces; stored until the checkpoint.
    pub replaces_large: Option<LargeFile>,
}

/// The log of one space.
/// Methods fail with `StoreError::Database` unless they say otherwise.
pub struct Log {
    file: PathBuf,
    spool: SpoolFiles,
    /// Applies the journal tail in the background.
    applier: SerialExecutor,
    readers: Mutex<Vec<Connection>>,
    // Dropped after everything that has connections.
    writer: Arc<LogWriter>,
    stats: RwLock<history_stats::HistoryStats>,
    fail: FailPoints,
}

type LogResult<T> = Result<T, StoreError>;

impl Log {
    /// Opens the log, or creates it; the flag is true for a new one.
    ///
    /// # Errors
    /// `Database` when the file is damaged, `Damaged` when it belongs to a newer svcfs, `State` on
    /// an I/O error.
    pub fn open(paths: &StatePaths) -> LogResult<(Self, bool)> {
        Self::open_database(paths).map_err(|error| probe::with_cause(error, &paths.spool(), probe::MIN_FREE_BYTES))
    }

    fn open_database(paths: &StatePaths) -> LogResult<(Self, bool)> {
        let fail = FailPoints::new(paths.root());
        fail.check(FailPoint::OpenLog)?;
        let file = paths.log();
        let (wal, journal) = (cache_drop::wal_path(&file), paths.journal());
        if std::fs::metadata(&wal).is_ok_and(|wal| wal.len() > 0) {
            // The process was killed, perhaps after a failed flush.
            cache_drop::drop_cached([&file, &wal].into_iter().chain(&journal));
        }
        let writer = Connection::open(&file)?;
        writer.pragma_update(None, "journal_mode", "wal")?;
        writer.pragma_update(None, "synchronous", "full")?;
        // Every checkpoint of the log shortens the WAL; a writer does it only when that fails
        // repeatedly.
        writer.pragma_update(None, "wal_autocheckpoint", MAX_WAL_PAGES)?;
        writer.pragma_update(None, "journal_size_limit", MAX_IDLE_WAL_BYTES)?;
        writer.busy_timeout(std::time::Duration::from_secs(10))?;
        let number: i64 = writer.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let is_new = number == 0;
        match number {
            0 => writer.execute_batch(&format!(
                "BEGIN; {} PRAGMA user_version = {SCHEMA_NUMBER}; COMMIT;",
                include_str!("schema.sql")
            ))?,
            1..SCHEMA_NUMBER => {
                let upgrades = usize::try_from(number - 1).map_or(&[][..], |first| &UPGRADES[first..]);
                writer.execute_batch(&format!(
                    "BEGIN; {} PRAGMA user_version = {SCHEMA_NUMBER}; COMMIT;",
                    upgrades.concat()
                ))?;
            }
            SCHEMA_NUMBER => {}
            other => {
                return Err(StoreError::Damaged(format!(
                    "`{}` has schema number {other}, but this svcfs supports {SCHEMA_NUMBER}: use the version that wrote it",
                    file.display()
                )));
            }
        }
        let spool = SpoolFiles::new(paths.spool(), fail.clone());
        let log = Self {
            writer: Arc::new(LogWriter::open(
                DatabaseFile::open(file.clone())?,
                journal,
                (writer, &spool),
                fail.clone(),
            )?),
            file,
            spool,
            applier: SerialExecutor::new(),
            readers: Mutex::default(),
            stats: RwLock::default(),
            fail,
        };
        // A crash may leave spool files without a record, or of records before the checkpoint.
        let ((checkpoint, _), last) = (log.last_checkpoint()?, log.last_seq());
        log.drop_contents(checkpoint)?;
        log.spool.sweep(|seq| seq <= checkpoint || seq > last)?;
        Ok((log, is_new))
    }

    /// Appends records, all or none, and flushes them.
    ///
    /// # Errors
    /// `Database` or `State`; the log is unchanged then. But after a crash before the next append,
    /// all of the records may be found in it. `Damaged` when their positions do not follow the
    /// newest one.
    pub fn append(&self, records: &[LogRecord]) -> LogResult<()> {
        let appended = self.spool.write(records).map_err(AppendError::from).and_then(|()| self.writer.append(records));
        match appended {
            Ok(is_due) => {
                if is_due && self.writer.request_apply() {
                    let writer = Arc::clone(&self.writer);
                    self.applier.submit(move || {
                        writer.try_apply_tail();
                        writer.database.try_shorten_wal(MAX_IDLE_WAL_BYTES.into());
                    });
                }
                Ok(())
            }
            Err(AppendError { error, may_be_on_disk }) => {
                // A record that a crash brings back needs its content, also one that was refused
                // and is retried. Unneeded files are removed with the record that takes its
                // position.
                if !may_be_on_disk && !self.writer.may_have_refused() {
                    self.spool.remove(records);
                }
                Err(self.diagnose_error(error, 0))
            }
        }
    }

    /// Whether the disk accepts writes again after an error.
    ///
    /// # Errors
    /// `State` with the current system error.
    pub fn probe_disk(&self) -> LogResult<()> {
        Ok(probe::write(self.spool.directory(), probe::MIN_FREE_BYTES)?)
    }

    /// Finds the cause of a failed write of `bytes` bytes: where git or SQLite do not report it, a
    /// test write does.
    pub fn diagnose_error(&self, error: StoreError, bytes: usize) -> StoreError {
        probe::with_cause(error, self.spool.directory(), bytes.max(probe::MIN_FREE_BYTES))
    }

    /// Records a checkpoint: everything up to `seq` is flushed and committed, and `head` is the
    /// newest commit (if given). Drops contents; rows stay.
    ///
    /// # Errors
    /// `Database` or `State`; the contents stay then.
    pub fn checkpoint(&self, seq: Seq, head: Option<CommitId>) -> LogResult<()> {
        self.fail.check(FailPoint::CheckpointRelease)?;
        let head = head.map(|commit| commit.as_bytes().to_vec());
        self.writer.write(|writer| {
            let update = "UPDATE settled SET seq = ?1, head = coalesce(?2, head)";
            Ok(writer.execute(update, params![rows::number(seq), head])?)
        })?;
        self.fail.hit(FailPoint::CheckpointRecorded);
        self.drop_contents(seq)?;
        self.spool.sweep(|logged| logged <= seq)?;
        self.writer.database.shorten_wal(MAX_IDLE_WAL_BYTES.into())?;
        self.release_memory();
        Ok(())
    }

    /// Releases SQLite's caches: megabytes for each of many spaces.
    fn release_memory(&self) {
        self.writer.release_memory();
        for reader in self.readers.lock().iter() {
            let _ = reader.release_memory();
        }
    }

    /// Deletes the contents of records up to the checkpoint in parts, so that writers wait for one
    /// part only.
    fn drop_contents(&self, checkpoint: Seq) -> LogResult<()> {
        let delete = "DELETE FROM contents WHERE seq <= ?1 AND seq < (SELECT min(seq) FROM contents) + ?2";
        while self.writer.write(|writer| {
            Ok(writer.prepare_cached(delete)?.execute(params![rows::number(checkpoint), MAX_DELETED_RECORDS])?)
        })? > 0
        {}
        Ok(())
    }

    /// The position of the last checkpoint, and the newest commit at that time.
    pub fn last_checkpoint(&self) -> LogResult<(Seq, Option<CommitId>)> {
        self.read(|connection| {
            connection.query_row("SELECT seq, head FROM settled", [], |row| {
                let head: Option<Vec<u8>> = row.get(1)?;
                Ok((rows::seq(row.get(0)?), head.and_then(|bytes| CommitId::try_from(&*bytes).ok())))
            })
        })
    }

    /// Whether its file still exists.
    pub fn file_exists(&self) -> bool {
        self.file.exists()
    }

    /// Whether it contains a commit.
    pub fn has_commits(&self) -> LogResult<bool> {
        self.read(has_commits)
    }

    /// The version strategy under which the log was last written.
    pub fn strategy(&self) -> LogResult<String> {
        self.read(|connection| connection.query_row("SELECT strategy FROM settled", [], |row| row.get(0)))
    }

    /// Records the version strategy of the following records.
    pub fn set_strategy(&self, name: &str) -> LogResult<()> {
        self.writer.write(|writer| Ok(writer.execute("UPDATE settled SET strategy = ?1", [name]).map(drop)?))
    }

    /// Gives logged records other commits, when replay built them on another parent. They are in
    /// the history of the branch again.
    pub fn set_commits(&self, commits: &[(Seq, CommitId)]) -> LogResult<()> {
        self.fail.check(FailPoint::OpenRenumber)?;
        self.writer.write(|writer| {
            let transaction = writer.transaction()?;
            for (seq, commit) in commits {
                transaction.execute(
                    "UPDATE sets SET commit_id = ?2, against = iif(against = ?3, ?4, against) WHERE seq = ?1",
                    params![
                        rows::number(*seq),
                        &commit.as_bytes()[..],
                        DiffBase::Dropped.number(),
                        DiffBase::Parent.number()
                    ],
                )?;
            }
            Ok(transaction.commit()?)
        })
    }

    /// Removes commits that left the branch from the history; they stay in the feed.
    pub fn mark_dropped(&self, commits: &[CommitId]) -> LogResult<()> {
        if commits.is_empty() {
            return Ok(());
        }
        self.writer.write(|writer| {
            let transaction = writer.transaction()?;
            for commit in commits {
                transaction
                    .prepare_cached("UPDATE sets SET against = ?2 WHERE commit_id = ?1 AND against <> ?3")?
                    .execute(params![
                        &commit.as_bytes()[..],
                        DiffBase::Dropped.number(),
                        DiffBase::PreviousHead.number()
                    ])?;
            }
            Ok(transaction.commit()?)
        })?;
        *self.stats.write() = history_stats::HistoryStats::default();
        Ok(())
    }

    /// Position of the newest record; zero when there is none.
    pub fn last_seq(&self) -> Seq {
        self.writer.last()
    }

    /// Adds content and attributes of a record after the checkpoint to an entry.
    fn complete(&self, connection: &Connection, seq: Seq, (entry, ordinal): (&mut LogEntry, i64)) -> LogResult<()> {
        let contents: Option<Option<Vec<u8>>> = connection
            .prepare_cached(
                "SELECT bytes, mode, uid, gid, over_size, over_modified FROM contents WHERE seq = ?1 AND ordinal = ?2",
            )?
            .query_row(params![rows::number(seq), ordinal], |row| {
                let owner = row.get::<_, Option<u32>>(2)?.zip(row.get(3)?);
                entry.attributes = DiskAttributes { mode: row.get(1)?, owner, ..entry.attributes };
                entry.replaces_large = row.get::<_, Option<i64>>(4)?.zip(row.get(5)?).map(rows::large);
                row.get(0)
            })
            .optional()?;
        let Some(bytes) = contents else { return Ok(()) };
        entry.content = Some(match bytes {
            Some(bytes) => bytes.into(),
            None => self.spool.read(seq, ordinal, entry.new)?,
        });
        Ok(())
    }

    fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> LogResult<T> {
        self.with_reader(|connection| query(connection).map_err(StoreError::from))
    }

    fn with_reader<T>(&self, query: impl FnOnce(&Connection) -> LogResult<T>) -> LogResult<T> {
        self.writer.apply_tail().map_err(|error| self.diagnose_error(error, 0))?;
        self.query_rows(query)
    }

    /// Runs a query on the rows, without the journal tail.
    fn query_rows<T>(&self, query: impl FnOnce(&Connection) -> LogResult<T>) -> LogResult<T> {
        let idle = self.readers.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = Connection::open_with_flags(&self.file, flags)?;
                connection.busy_timeout(std::time::Duration::from_secs(10))?;
                connection.pragma_update(None, "query_only", true)?;
                connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
                connection
            }
        };
        let outcome = query(&connection);
        let mut readers = self.readers.lock();
        if readers.len() < MAX_IDLE_READERS {
            readers.push(connection);
        }
        outcome.map_err(|error| self.diagnose_error(error, 0))
    }

    /// Applies the tail and checkpoints the WAL, so that a copy of the database file alone is
    /// complete.
    pub fn close(&self) -> LogResult<()> {
        self.applier.wait_idle();
        self.readers.lock().clear();
        self.writer.close().map_err(|error| self.diagnose_error(error, 0))
    }
}

fn has_commits(connection: &Connection) -> rusqlite::Result<bool> {
    let any =
        "SELECT 1 FROM sets WHERE commit_id IS NOT NULL UNION ALL SELECT 1 FROM settled WHERE head IS NOT NULL LIMIT 1";
    connection.prepare_cached(any)?.exists([])
}

#[cfg(test)]
mod tests;
