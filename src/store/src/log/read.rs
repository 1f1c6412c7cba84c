//! Queries on the log.

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use rusqlite::{Connection, OptionalExtension, params};
use svcfs_base::{Actor, CommitId, ETag, Seq, Timestamp, TreePath, VersionId};

use super::kinds::{in_feed, in_history};
use super::renames::moves_of;
use super::rows;
use super::writer::newest_row;
use super::{DiffBase, Log, LogEntry, LogRecord, LogResult, NamePeriod, RecordKind};
use crate::FailPoint;

const SET_COLUMNS: &str =
    "seq, time, actor, door, message, provenance, announcement, commit_id, role, against, request";

/// A version of a path.
#[derive(Debug, Clone)]
pub struct PathVersion {
    /// Its position in the log.
    pub seq: Seq,
    /// Its id.
    pub id: VersionId,
    /// The author.
    pub actor: Actor,
    /// The commit's message.
    pub message: String,
    /// The time, in seconds.
    pub time: Timestamp,
    /// The exact time of recording.
    pub recorded_at: Timestamp,
    /// The content's hash before; none for a new file.
    pub old: Option<ETag>,
    /// The content's hash after; none for a removal.
    pub new: Option<ETag>,
    /// The base of the difference.
    pub diff_base: DiffBase,
}

/// A path of a set, as in the change feed.
#[derive(Debug, Clone)]
pub struct PathChange {
    /// Its position in the log.
    pub seq: Seq,
    /// The id of its set.
    pub id: VersionId,
    /// The index among the set's paths, from 0.
    pub ordinal: usize,
    /// The path.
    pub path: TreePath,
    /// Whether the path was removed.
    pub is_removal: bool,
    /// The author.
    pub actor: Actor,
    /// The time, in seconds.
    pub time: Timestamp,
}

/// A page of the change feed, oldest first.
#[derive(Debug, Clone, Default)]
pub struct ChangePage {
    /// The changes.
    pub changes: Vec<PathChange>,
    /// Whether the set of the last change continues on the next page.
    pub is_split: bool,
}

/// Author, time and message of a set.
#[derive(Debug, Clone)]
pub struct SetMetadata {
    /// Its id.
    pub id: VersionId,
    /// The author.
    pub actor: Actor,
    /// The time, in seconds.
    pub time: Timestamp,
    /// The commit's message.
    pub message: String,
}

impl Log {
    /// At most `max` changed paths after the first `skip` paths of the set at `seq`, oldest first.
    pub fn changes_after(&self, seq: Seq, skip: usize, max: usize) -> LogResult<ChangePage> {
        let mut changes = self.changes(
            concat!("WHERE (c.seq, c.ordinal) >= (?1, ?2) AND ", in_feed!(), " ORDER BY c.seq, c.ordinal LIMIT ?3"),
            params![rows::number(seq), count(skip), count(max.saturating_add(1))],
        )?;
        // One more than requested shows whether the last set continues.
        let next = (changes.len() > max).then(|| changes.pop()).flatten();
        let is_split = next.zip(changes.last()).is_some_and(|(next, last)| next.seq == last.seq);
        Ok(ChangePage { changes, is_split })
    }

    /// At most `max` of the newest changed paths, oldest first.
    pub fn newest_changes(&self, max: usize) -> LogResult<ChangePage> {
        let clause = concat!("WHERE ", in_feed!(), " ORDER BY c.seq DESC, c.ordinal DESC LIMIT ?1");
        let mut changes = self.changes(clause, params![count(max)])?;
        changes.reverse();
        Ok(ChangePage { changes, is_split: false })
    }

    fn changes(&self, clause: &str, parameters: &[&dyn rusqlite::ToSql]) -> LogResult<Vec<PathChange>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT c.seq, iif(s.against = 2, NULL, s.commit_id), c.ordinal, c.path, c.new IS NULL, s.actor, s.time
                 FROM changes c CROSS JOIN sets s ON s.seq = c.seq {clause}"
            ))?;
            let rows_iter = statement.query_map(parameters, |row| {
                Ok(PathChange {
                    seq: rows::seq(row.get(0)?),
                    id: rows::version(row, 1, 6)?,
                    ordinal: usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                    path: rows::path(row, 3)?,
                    is_removal: row.get(4)?,
                    actor: Actor::new(row.get_ref(5)?.as_str()?),
                    time: rows::commit_time(row, 6)?,
                })
            })?;
            rows_iter.collect()
        })
    }

    /// Author, time and message of these sets; duplicates are read once.
    pub fn sets(&self, seqs: impl IntoIterator<Item = Seq>) -> LogResult<HashMap<Seq, SetMetadata>> {
        self.read(|connection| {
            let mut statement = connection
                .prepare_cached("SELECT commit_id, actor, time, message FROM sets WHERE seq = ?1 AND role <> 2")?;
            let mut sets = HashMap::new();
            for seq in seqs {
                if sets.contains_key(&seq) {
                    continue;
                }
                let set = statement.query_row([rows::number(seq)], |row| {
                    Ok(SetMetadata {
                        id: rows::version(row, 0, 2)?,
                        actor: Actor::new(row.get_ref(1)?.as_str()?),
                        time: rows::commit_time(row, 2)?,
                        message: row.get(3)?,
                    })
                });
                sets.extend(set.optional()?.map(|set| (seq, set)));
            }
            Ok(sets)
        })
    }

    /// At most `max` records after a position, oldest first, without contents.
    pub fn records_after(&self, seq: Seq, max: usize) -> LogResult<Vec<LogRecord>> {
        self.with_reader(|connection| {
            let mut records =
                select(connection, "WHERE seq > ?1 ORDER BY seq LIMIT ?2", params![rows::number(seq), count(max)])?;
            for record in &mut records {
                complete(connection, record)?;
            }
            Ok(records)
        })
    }

    /// Every record after the last checkpoint, oldest first, with contents.
    ///
    /// # Errors
    /// `Database`, or `State` when a spool file cannot be read.
    pub fn pending_records(&self) -> LogResult<Vec<LogRecord>> {
        self.fail.check(FailPoint::OpenPending)?;
        let (settled, _) = self.last_checkpoint()?;
        let mut records = self.records_after(settled, usize::MAX)?;
        self.with_reader(|connection| {
            for record in &mut records {
                let seq = record.seq;
                for entry in record.entries.iter_mut().zip(0_i64..) {
                    self.complete(connection, seq, entry)?;
                }
            }
            Ok(())
        })?;
        Ok(records)
    }

    /// The versions of a path before a position, newest first, at most `max`.
    pub fn versions(&self, path: &TreePath, before: Seq, max: usize) -> LogResult<Vec<PathVersion>> {
        // Called right after a write: it must not write rows.
        let tail = self.writer.tail_for(1).map_err(|error| self.diagnose_error(error, 0))?;
        self.query_rows(|connection| {
            let snapshot = connection.unchecked_transaction()?;
            let last_row = newest_row(&snapshot)?;
            let newer = tail.iter().rev().filter(|record| record.seq > last_row && record.seq < before);
            let newer = newer.filter(|record| record.kind != RecordKind::Uncommitted && record.diff_base.is_history());
            let newer = newer.flat_map(|record| {
                record.entries.iter().rev().filter(|entry| entry.path == *path).map(|entry| version_of(record, entry))
            });
            let mut versions: Vec<_> = newer.take(max).collect();
            let mut statement = snapshot.prepare_cached(concat!(
                "SELECT s.seq, s.commit_id, s.actor, s.message, s.time, c.old, c.new, s.against
                 FROM changes c CROSS JOIN sets s ON s.seq = c.seq
                 WHERE c.path = ?1 AND c.seq < ?2 AND ",
                in_history!(),
                " ORDER BY c.seq DESC LIMIT ?3"
            ))?;
            let limit = count(max - versions.len());
            let rows_iter = statement.query_map(params![path.as_str(), rows::number(before), limit], |row| {
                Ok(PathVersion {
                    seq: rows::seq(row.get(0)?),
                    id: rows::version(row, 1, 4)?,
                    actor: Actor::new(row.get_ref(2)?.as_str()?),
                    message: row.get(3)?,
                    time: rows::commit_time(row, 4)?,
                    recorded_at: rows::time(row, 4)?,
                    old: rows::etag(row, 5)?,
                    new: rows::etag(row, 6)?,
                    diff_base: rows::diff_base(row, 7)?,
                })
            })?;
            for version in rows_iter {
                versions.push(version?);
            }
            Ok(versions)
        })
    }

    /// The number of versions of a path under a name, including removals.
    pub fn count_versions(&self, name: &NamePeriod) -> LogResult<usize> {
        let (from, before) = (rows::number(name.range.start), rows::number(name.range.end));
        self.read(|connection| {
            connection
                .prepare_cached(concat!(
                    "SELECT count(*) FROM changes c CROSS JOIN sets s ON s.seq = c.seq
                     WHERE c.path = ?1 AND c.seq >= ?2 AND c.seq < ?3 AND ",
                    in_history!()
                ))?
                .query_row(params![name.path.as_str(), from, before], |row| {
                    Ok(usize::try_from(row.get::<_, i64>(0)?).unwrap_or(0))
                })
        })
    }

    /// The paths that records after a position changed.
    pub fn changed_paths(&self, seq: Seq) -> LogResult<HashSet<TreePath>> {
        if self.last_seq() <= seq {
            return Ok(HashSet::new());
        }
        // Called while writers are active: it must not write rows.
        let tail = self.writer.tail_for(1).map_err(|error| self.diagnose_error(error, 0))?;
        let tail = tail.iter().filter(|record| record.seq > seq);
        let mut changed: HashSet<_> = tail.flat_map(|record| &record.entries).map(|entry| entry.path.clone()).collect();
        self.query_rows(|connection| {
            let mut statement = connection.prepare_cached("SELECT path FROM changes WHERE seq > ?1")?;
            let mut rows_iter = statement.query([rows::number(seq)])?;
            while let Some(row) = rows_iter.next()? {
                changed.insert(rows::path(row, 0)?);
            }
            Ok(changed)
        })
    }

    /// The contents installed at a path with this modification time, as far as they are rows.
    pub fn etags_at(&self, path: &TreePath, modified: SystemTime) -> LogResult<Vec<ETag>> {
        self.query_rows(|connection| {
            let mut statement = connection
                .prepare_cached("SELECT new FROM changes WHERE path = ?1 AND modified = ?2 AND new IS NOT NULL")?;
            let rows_iter =
                statement.query_map(params![path.as_str(), rows::nanoseconds(modified)], |row| rows::etag(row, 0))?;
            rows_iter.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(Into::into)
        })
    }

    /// Whether a path, or a path below it, was ever recorded.
    pub fn has_path(&self, path: &TreePath) -> LogResult<bool> {
        self.read(|connection| {
            // Paths in a directory are between `/` and the next character.
            let (from, to) = (format!("{path}/"), format!("{path}0"));
            connection
                .prepare_cached("SELECT 1 FROM changes WHERE path = ?1 OR (path > ?2 AND path < ?3) LIMIT 1")?
                .exists(params![path.as_str(), from, to])
        })
    }

    /// The first commit of svcfs later than `second` after which no earlier one follows: before it,
    /// the branch was in the state of that time. None when no commit is later.
    pub fn first_commit_after(&self, second: i64) -> LogResult<Option<CommitId>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT commit_id, time FROM sets WHERE role IN (0, 3) AND commit_id IS NOT NULL ORDER BY seq DESC",
            )?;
            let mut rows = statement.query([])?;
            let mut first = None;
            while let Some(row) = rows.next()? {
                if rows::commit_time(row, 1)?.as_second() <= second {
                    break;
                }
                first = row.get_ref(0)?.as_blob().ok().and_then(|bytes| CommitId::try_from(bytes).ok());
            }
            Ok(first)
        })
    }

    /// Whether a path ever had this content.
    pub fn has_content(&self, path: &TreePath, content: ETag) -> LogResult<bool> {
        // Called while writers are active: it must not write rows.
        let tail = self.writer.tail_for(1).map_err(|error| self.diagnose_error(error, 0))?;
        let has_content = |entry: &LogEntry| entry.path == *path && [entry.old, entry.new].contains(&Some(content));
        if tail.iter().any(|record| record.entries.iter().any(has_content)) {
            return Ok(true);
        }
        self.query_rows(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT 1 FROM changes WHERE path = ?1 AND ?2 IN (old, new) ORDER BY seq DESC LIMIT 1",
            )?;
            Ok(statement.exists(params![path.as_str(), &content.as_bytes()[..]])?)
        })
    }

    /// The position of the last branch switch; records before it need not be in the history of the
    /// newest commit.
    pub fn last_branch_switch(&self) -> LogResult<Option<Seq>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT max(seq) FROM sets WHERE against = 2")?;
            let seq: Option<i64> = statement.query_row([], |row| row.get(0))?;
            Ok(seq.map(rows::seq))
        })
    }

    /// For each path with a version: when the first one was recorded.
    pub fn first_times(&self) -> LogResult<Vec<(TreePath, Timestamp)>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(concat!(
                "SELECT c.path, min(s.time) FROM changes c CROSS JOIN sets s ON s.seq = c.seq
                 WHERE c.new IS NOT NULL AND ",
                in_history!(),
                " GROUP BY c.path"
            ))?;
            let rows_iter = statement.query_map([], |row| Ok((rows::path(row, 0)?, rows::commit_time(row, 1)?)))?;
            rows_iter.collect::<Result<_, _>>()
        })
    }

    /// The newest position with an id: a commit hash, full or abbreviated to at least 4 digits, or
    /// a timestamp; none when it is unknown or ambiguous. For a commit that left the branch and
    /// came back, the position in the feed.
    pub fn find_seq(&self, name: &str) -> LogResult<Option<Seq>> {
        if let Some(timestamp) = VersionId::parse_timestamp(name)
            && let Some(seq) = self.seq_of_timestamp(timestamp)?
        {
            return Ok(Some(seq));
        }
        self.seq_of_commit(name)
    }

    fn seq_of_timestamp(&self, timestamp: Timestamp) -> LogResult<Option<Seq>> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT max(seq) FROM (SELECT seq FROM sets WHERE time = ?1 AND commit_id IS NULL AND role <> 2
                     UNION ALL SELECT seq FROM sets WHERE against = 2 AND time = ?1)",
                )?
                .query_row([rows::nanosecond(timestamp)], |row| Ok(row.get::<_, Option<i64>>(0)?.map(rows::seq)))
        })
    }

    fn seq_of_commit(&self, hash: &str) -> LogResult<Option<Seq>> {
        if !(4..=40).contains(&hash.len()) || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        // An abbreviation is a range of hashes.
        let bound = |fill: &str| CommitId::from_hex(&(hash.to_ascii_lowercase() + &fill.repeat(40 - hash.len())));
        let (Some(first), Some(last)) = (bound("0"), bound("f")) else { return Ok(None) };
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT coalesce(max(iif(against = 3, NULL, seq)), max(seq)) FROM sets
                 WHERE commit_id BETWEEN ?1 AND ?2 AND against <> 2 GROUP BY commit_id LIMIT 2",
            )?;
            let seqs = statement.query_map([first, last].map(|bound| bound.as_bytes().to_vec()), |row| row.get(0))?;
            let seqs: Vec<i64> = seqs.collect::<rusqlite::Result<_>>()?;
            Ok(if let [seq] = seqs[..] { Some(rows::seq(seq)) } else { None })
        })
    }
}

/// The version of a record's entry, as it is read from rows.
fn version_of(record: &LogRecord, entry: &LogEntry) -> PathVersion {
    PathVersion {
        seq: record.seq,
        id: record.commit.map_or(VersionId::Timestamp(record.time), VersionId::Commit),
        actor: record.actor.clone(),
        message: record.message.clone(),
        time: rows::truncate_to_second(record.time),
        recorded_at: record.time,
        old: entry.old,
        new: entry.new,
        diff_base: record.diff_base,
    }
}

fn select(connection: &Connection, clause: &str, parameters: &[&dyn rusqlite::ToSql]) -> LogResult<Vec<LogRecord>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {SET_COLUMNS} FROM sets {clause}"))?;
    let records = statement.query_map(parameters, rows::record)?.collect::<rusqlite::Result<_>>()?;
    Ok(records)
}

fn complete(connection: &Connection, record: &mut LogRecord) -> LogResult<()> {
    let seq = rows::number(record.seq);
    record.moves = moves_of(connection, record.seq)?;
    record.entries = connection
        .prepare_cached("SELECT path, old, new, kind, modified FROM changes WHERE seq = ?1 ORDER BY ordinal")?
        .query_map([seq], rows::entry)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(())
}

fn count(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}
