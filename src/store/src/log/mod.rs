//! The durable log: every accepted change set, in order, flushed before anything else happens.
//!
//! One rule: a record is in the log entirely or not at all, and once in it, it will happen. A journal takes all records that are appended
//! together with one flush; rows of SQLite are made of them a moment later. Contents stay until a checkpoint has flushed what was made
//! from them; the rows stay for good and are what history questions are answered from.

mod cache_drop;
mod check;
mod history_stats;
mod journal;
mod kinds;
mod latest_state;
mod read;
mod rows;
mod spool;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use svcfs_base::{
    Actor, CommitId, DiskAttributes, ETag, EventAnnouncement, FileKind, LargeFile, Protocol, Seq, Timestamp, TreePath,
};

use svcfs_work::SerialExecutor;

pub use check::LogCheck;
pub use history_stats::{ChangeFilter, DayActivity, PageActivity, PathOccurrence, TotalActivity};
pub use kinds::{DiffBase, RecordKind};
pub use read::{ChangePage, PathChange, PathVersion, SetMetadata};

use cache_drop::DatabaseFile;
use journal::AppendError;
use spool::SpoolFiles;
use writer::LogWriter;

use crate::{FailPoint, FailPoints, StatePaths, StoreError, probe};

const SCHEMA_NUMBER: i64 = 9;
/// What makes a log of each form one of the next, from the first on.
const UPGRADES: [&str; 8] = [
    // It did not say which commits of others came from another branch.
    "ALTER TABLE sets ADD COLUMN against INTEGER NOT NULL DEFAULT 0;
     UPDATE sets SET against = 2 WHERE is_foreign; CREATE INDEX jumps ON sets (seq) WHERE against = 2;",
    // Every set had a commit of its own.
    "ALTER TABLE sets RENAME COLUMN is_foreign TO role;",
    // A file that had to be put in place again got the permission bits and the owner of any new one.
    "ALTER TABLE contents ADD COLUMN mode INTEGER; ALTER TABLE contents ADD COLUMN uid INTEGER;
     ALTER TABLE contents ADD COLUMN gid INTEGER;",
    // Versions were kept by git and by nothing else.
    "CREATE INDEX moments ON sets (time) WHERE commit_id IS NULL;
     ALTER TABLE settled ADD COLUMN strategy TEXT NOT NULL DEFAULT 'git';",
    // The versions of a page were read from as many places of the file again as there are.
    "DROP INDEX changes_by_path; CREATE INDEX changes_by_path ON changes (path, seq, old, new);",
    // Records were rows at once.
    "CREATE TABLE journal (file INTEGER PRIMARY KEY, key BLOB NOT NULL);
     INSERT INTO journal (file, key) VALUES (0, randomblob(16)), (1, randomblob(16));",
    // A file too large for any version was taken away before what took its place was logged.
    "ALTER TABLE contents ADD COLUMN over_size INTEGER; ALTER TABLE contents ADD COLUMN over_modified INTEGER;",
    // The way from one branch to another was a version of what differed, under the name of the newest commit.
    "UPDATE sets SET against = 1 WHERE against = 2;",
];
const MAX_IDLE_READERS: usize = 8;
/// What a reader keeps of the file until the next checkpoint, in KiB: 1,000 versions of a page lie in as many pages of 4 KiB.
const READER_CACHE: i64 = 8 << 10;
/// So many records' contents are let go of at once.
const PART: i64 = 500;
/// At so many pages of 4 KiB a writer itself moves SQLite's write-ahead log into the file.
const MAX_WAL_PAGES: i64 = 32_768;
/// One of this length is left alone, and one that is begun again is cut to it.
const KEPT_WAL_BYTES: u32 = 16 << 20;

/// One change set as logged.
#[derive(Debug, Clone)]
pub struct LogRecord {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was accepted.
    pub time: Timestamp,
    /// Who.
    pub actor: Actor,
    /// Through which door.
    pub protocol: Protocol,
    /// Subject (and body) of its commit.
    pub message: String,
    /// The `X-Provenance` text, if any.
    pub provenance: Option<String>,
    /// How subscribers hear of it.
    pub announcement: EventAnnouncement,
    /// What it stands for.
    pub kind: RecordKind,
    /// What its entries are the difference from.
    pub diff_base: DiffBase,
    /// Its commit, known before it is logged; none when it is [`Role::Deferred`], when history is not kept or did not change.
    pub commit: Option<CommitId>,
    /// Directory renames that belong to it, old name and new, to be done before the entries.
    pub moves: Vec<(TreePath, TreePath)>,
    /// The files it touches, in order.
    pub entries: Vec<LogEntry>,
}

/// One file of a [`Record`].
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Which path.
    pub path: TreePath,
    /// The content's hash before; none when it was not there.
    pub old: Option<ETag>,
    /// The content's hash after; none when it is gone.
    pub new: Option<ETag>,
    /// Kind of file after (before, when it is gone).
    pub kind: FileKind,
    /// The new content, while it must be kept; none when it is on the disk or in git already.
    pub content: Option<Bytes>,
    /// What the file should get beside its content: the time stays in the log, permission bits and owner go with the content.
    pub attributes: DiskAttributes,
    /// The file too large for any version that it is put in the place of; kept as long as the content is.
    pub replaces_large: Option<LargeFile>,
}

/// The log of one space.
pub struct Log {
    file: PathBuf,
    spool: SpoolFiles,
    /// Makes rows beside writers.
    maker: SerialExecutor,
    readers: Mutex<Vec<Connection>>,
    // Behind all that has connections.
    writer: Arc<LogWriter>,
    tally: RwLock<history_stats::HistoryStats>,
    fail: FailPoints,
}

type LogResult<T> = Result<T, StoreError>;

impl Log {
    /// Opens the log, making it when absent; true beside it when it was made now.
    ///
    /// # Errors
    /// `Database` when the file is damaged, `Damaged` when it belongs to a newer svcfs, `State` when the disk refuses.
    pub fn open(paths: &StatePaths) -> LogResult<(Self, bool)> {
        Self::open_database(paths).map_err(|error| probe::explained(error, &paths.spool(), probe::ROOM))
    }

    fn open_database(paths: &StatePaths) -> LogResult<(Self, bool)> {
        let fail = FailPoints::new(paths.root());
        fail.check(FailPoint::OpenLog)?;
        let file = paths.log();
        let (wal, journal) = (cache_drop::wal_of(&file), paths.journal());
        if std::fs::metadata(&wal).is_ok_and(|wal| wal.len() > 0) {
            // Killed, perhaps after a flush that failed.
            cache_drop::forget([&file, &wal].into_iter().chain(&journal));
        }
        let writer = Connection::open(&file)?;
        writer.pragma_update(None, "journal_mode", "wal")?;
        writer.pragma_update(None, "synchronous", "full")?;
        // Every checkpoint of ours moves its pages into the file; by itself a writer does it only when that fails for long.
        writer.pragma_update(None, "wal_autocheckpoint", MAX_WAL_PAGES)?;
        writer.pragma_update(None, "journal_size_limit", KEPT_WAL_BYTES)?;
        writer.busy_timeout(std::time::Duration::from_secs(10))?;
        let number: i64 = writer.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let is_new = number == 0;
        match number {
            0 => writer.execute_batch(&format!(
                "BEGIN; {} PRAGMA user_version = {SCHEMA_NUMBER}; COMMIT;",
                include_str!("schema.sql")
            ))?,
            1..SCHEMA_NUMBER => {
                let missing = usize::try_from(number - 1).map_or(&[][..], |first| &UPGRADES[first..]);
                writer.execute_batch(&format!(
                    "BEGIN; {} PRAGMA user_version = {SCHEMA_NUMBER}; COMMIT;",
                    missing.concat()
                ))?;
            }
            SCHEMA_NUMBER => {}
            other => {
                return Err(StoreError::Damaged(format!(
                    "`{}` has schema number {other}, this svcfs knows {SCHEMA_NUMBER}: use the svcfs that wrote it",
                    file.display()
                )));
            }
        }
        let spool = SpoolFiles::of(paths.spool(), fail.clone());
        let log = Self {
            writer: Arc::new(LogWriter::open(
                DatabaseFile::of(file.clone())?,
                journal,
                (writer, &spool),
                fail.clone(),
            )?),
            file,
            spool,
            maker: SerialExecutor::new(),
            readers: Mutex::default(),
            tally: RwLock::default(),
            fail,
        };
        // A crash may come between a spool file and its row, or between a checkpoint and the removal of what it settled.
        let ((settled, _), last) = (log.last_checkpoint()?, log.last_seq());
        log.let_go(settled)?;
        log.spool.sweep(|seq| seq <= settled || seq > last)?;
        Ok((log, is_new))
    }

    /// Appends records, all or none, and flushes them to the disk.
    ///
    /// # Errors
    /// `Database` or `State`; the log is then as it was. After a crash before the next append, it may be found to have the records
    /// all the same: all of them, whole. `Damaged` when they do not come behind the newest one.
    pub fn append(&self, records: &[LogRecord]) -> LogResult<()> {
        let appended = self.spool.write(records).map_err(AppendError::from).and_then(|()| self.writer.append(records));
        match appended {
            Ok(is_time) => {
                if is_time && self.writer.is_first_to_call() {
                    let writer = Arc::clone(&self.writer);
                    self.maker.submit(move || {
                        writer.catch_up_beside();
                        writer.database.shorten_wal_beside(KEPT_WAL_BYTES.into());
                    });
                }
                Ok(())
            }
            Err(AppendError { error, is_in_doubt }) => {
                // A record that a crash brings back must find its content, also one that was refused before and is tried again. What is
                // never looked for is swept with the record that takes its place.
                if !is_in_doubt && !self.writer.is_in_doubt() {
                    self.spool.remove(records);
                }
                Err(self.diagnose_error(error, 0))
            }
        }
    }

    /// Whether the disk takes writes again after it refused one.
    ///
    /// # Errors
    /// `State` with what the disk says now.
    pub fn probe_disk(&self) -> LogResult<()> {
        Ok(probe::write(self.spool.directory(), probe::ROOM)?)
    }

    /// What a failed write of some bytes means: where git or SQLite do not say what the disk refused, the disk is asked.
    pub fn diagnose_error(&self, error: StoreError, bytes: usize) -> StoreError {
        probe::explained(error, self.spool.directory(), bytes.max(probe::ROOM))
    }

    /// Declares everything up to `seq` flushed and committed, with `head` the newest commit of ours or adopted; without one, that of
    /// before stays. Its contents are let go of, its rows stay.
    ///
    /// # Errors
    /// `Database` or `State`; the contents are then kept.
    pub fn checkpoint(&self, seq: Seq, head: Option<CommitId>) -> LogResult<()> {
        self.fail.check(FailPoint::CheckpointRelease)?;
        let head = head.map(|commit| commit.as_bytes().to_vec());
        self.writer.write(|writer| {
            let update = "UPDATE settled SET seq = ?1, head = coalesce(?2, head)";
            Ok(writer.execute(update, params![rows::number(seq), head])?)
        })?;
        self.fail.hit(FailPoint::CheckpointRecorded);
        self.let_go(seq)?;
        self.spool.sweep(|logged| logged <= seq)?;
        self.writer.database.shorten_wal(KEPT_WAL_BYTES.into())?;
        self.rest();
        Ok(())
    }

    /// Gives memory back that SQLite keeps of what was read and written: megabytes for each of many spaces.
    fn rest(&self) {
        self.writer.rest();
        for reader in self.readers.lock().iter() {
            let _ = reader.release_memory();
        }
    }

    /// Removes the contents of settled records, a part at a time: writers wait for one part only.
    fn let_go(&self, settled: Seq) -> LogResult<()> {
        let part = "DELETE FROM contents WHERE seq <= ?1 AND seq < (SELECT min(seq) FROM contents) + ?2";
        while self
            .writer
            .write(|writer| Ok(writer.prepare_cached(part)?.execute(params![rows::number(settled), PART])?))?
            > 0
        {}
        Ok(())
    }

    /// How far the log is settled, and the commit that was newest then.
    ///
    /// # Errors
    /// `Database`.
    pub fn last_checkpoint(&self) -> LogResult<(Seq, Option<CommitId>)> {
        self.read(|connection| {
            connection.query_row("SELECT seq, head FROM settled", [], |row| {
                let head: Option<Vec<u8>> = row.get(1)?;
                Ok((rows::seq(row.get(0)?), head.and_then(|bytes| CommitId::try_from(&*bytes).ok())))
            })
        })
    }

    /// Whether its file is still where it was opened.
    pub fn file_exists(&self) -> bool {
        self.file.exists()
    }

    /// Whether it tells of a commit.
    ///
    /// # Errors
    /// `Database`.
    pub fn has_commits(&self) -> LogResult<bool> {
        self.read(has_commits)
    }

    /// The strategy that the log was last written under, by name.
    ///
    /// # Errors
    /// `Database`.
    pub fn strategy(&self) -> LogResult<String> {
        self.read(|connection| connection.query_row("SELECT strategy FROM settled", [], |row| row.get(0)))
    }

    /// Notes under which strategy, by name, the log is written from now on.
    ///
    /// # Errors
    /// `Database`.
    pub fn set_strategy(&self, name: &str) -> LogResult<()> {
        self.writer.write(|writer| Ok(writer.execute("UPDATE settled SET strategy = ?1", [name]).map(drop)?))
    }

    /// Gives a record that was already logged another commit, when replay had to build it on another parent. The branch has it then, also where
    /// it had been left before.
    ///
    /// # Errors
    /// `Database`.
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

    /// Takes commits that the branch does not have any more out of history; the feed keeps them.
    ///
    /// # Errors
    /// `Database`.
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
        *self.tally.write() = history_stats::HistoryStats::default();
        Ok(())
    }

    /// Position of the newest record; zero when there is none.
    pub fn last_seq(&self) -> Seq {
        self.writer.last()
    }

    /// What an unsettled record brings for a file, put into its entry.
    fn complete(&self, connection: &Connection, seq: Seq, (entry, ordinal): (&mut LogEntry, i64)) -> LogResult<()> {
        let found: Option<Option<Vec<u8>>> = connection
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
        let Some(bytes) = found else { return Ok(()) };
        entry.content = Some(match bytes {
            Some(bytes) => bytes.into(),
            None => self.spool.read(seq, ordinal, entry.new)?,
        });
        Ok(())
    }

    fn read<T>(&self, question: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> LogResult<T> {
        self.with_reader(|connection| question(connection).map_err(StoreError::from))
    }

    fn with_reader<T>(&self, question: impl FnOnce(&Connection) -> LogResult<T>) -> LogResult<T> {
        self.writer.catch_up().map_err(|error| self.diagnose_error(error, 0))?;
        self.of_rows(question)
    }

    /// Asks what is rows already.
    fn of_rows<T>(&self, question: impl FnOnce(&Connection) -> LogResult<T>) -> LogResult<T> {
        let idle = self.readers.lock().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                let connection = Connection::open_with_flags(&self.file, flags)?;
                connection.busy_timeout(std::time::Duration::from_secs(10))?;
                connection.pragma_update(None, "query_only", true)?;
                connection.pragma_update(None, "cache_size", -READER_CACHE)?;
                connection
            }
        };
        let outcome = question(&connection);
        let mut readers = self.readers.lock();
        if readers.len() < MAX_IDLE_READERS {
            readers.push(connection);
        }
        outcome.map_err(|error| self.diagnose_error(error, 0))
    }

    /// Flushes the write-ahead log into the database file, so that a copy of the file alone is whole.
    ///
    /// # Errors
    /// `Database`.
    pub fn close(&self) -> LogResult<()> {
        self.maker.wait_idle();
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
