//! Questions to the log.

use rusqlite::{Connection, OptionalExtension, params};
use svcfs_base::{Actor, CommitId, ETag, Seq, Timestamp, TreePath};

use super::rows;
use super::{Log, Outcome, Record};

const SET_COLUMNS: &str = "seq, time, actor, door, message, provenance, announcement, commit_id, is_foreign";

/// One version of a path.
#[derive(Debug, Clone)]
pub struct PathVersion {
    /// Its place in the log.
    pub seq: Seq,
    /// The commit that made it.
    pub commit: CommitId,
    /// Who.
    pub actor: Actor,
    /// The commit's message.
    pub message: String,
    /// When.
    pub time: Timestamp,
    /// The content's hash; none when this version removed the path.
    pub etag: Option<ETag>,
}

/// One path of one commit, as the change feed tells it.
#[derive(Debug, Clone)]
pub struct PathChange {
    /// The commit.
    pub commit: CommitId,
    /// Which of the commit's paths this is, from 0.
    pub ordinal: usize,
    /// How many paths the commit has.
    pub of: usize,
    /// Which path.
    pub path: TreePath,
    /// True when the path is gone.
    pub is_removal: bool,
    /// Who.
    pub actor: Actor,
    /// When.
    pub time: Timestamp,
}

impl Log {
    /// At most `max` changed paths after the first `skip` paths of the set at `seq`, oldest first; sets without a commit are
    /// left out.
    ///
    /// # Errors
    /// `Database`.
    pub fn changes_after(&self, seq: Seq, skip: usize, max: usize) -> Outcome<Vec<PathChange>> {
        self.changes(
            "WHERE (c.seq > ?1 OR (c.seq = ?1 AND c.ordinal >= ?2)) AND s.commit_id IS NOT NULL ORDER BY c.seq, c.ordinal LIMIT ?3",
            params![rows::number(seq), count(skip), count(max)],
        )
    }

    /// At most `max` of the newest changed paths, oldest first.
    ///
    /// # Errors
    /// `Database`.
    pub fn newest_changes(&self, max: usize) -> Outcome<Vec<PathChange>> {
        let tail = "WHERE s.commit_id IS NOT NULL ORDER BY c.seq DESC, c.ordinal DESC LIMIT ?1";
        let mut changes = self.changes(tail, params![count(max)])?;
        changes.reverse();
        Ok(changes)
    }

    fn changes(&self, tail: &str, parameters: &[&dyn rusqlite::ToSql]) -> Outcome<Vec<PathChange>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT s.commit_id, c.ordinal, (SELECT count(*) FROM changes o WHERE o.seq = c.seq), c.path, c.new IS NULL,
                        s.actor, s.time
                 FROM changes c JOIN sets s ON s.seq = c.seq {tail}"
            ))?;
            let found = statement.query_map(parameters, |row| {
                let commit: Vec<u8> = row.get(0)?;
                Ok(PathChange {
                    commit: CommitId::try_from(&*commit).map_err(|_| rusqlite::Error::InvalidQuery)?,
                    ordinal: usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
                    of: usize::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                    path: rows::path(row, 3)?,
                    is_removal: row.get(4)?,
                    actor: Actor::new(&row.get::<_, String>(5)?),
                    time: rows::time(row, 6)?,
                })
            })?;
            found.collect()
        })
    }

    /// At most `max` records after a position, oldest first, without contents.
    ///
    /// # Errors
    /// `Database`.
    pub fn after(&self, seq: Seq, max: usize) -> Outcome<Vec<Record>> {
        self.with_reader(|connection| {
            let mut records =
                select(connection, "WHERE seq > ?1 ORDER BY seq LIMIT ?2", params![rows::number(seq), count(max)])?;
            for record in &mut records {
                complete(connection, record)?;
            }
            Ok(records)
        })
    }

    /// Every record after the last checkpoint, oldest first, with the contents it must bring.
    ///
    /// # Errors
    /// `Database`, or `State` when a spool file cannot be read.
    pub fn unsettled(&self) -> Outcome<Vec<Record>> {
        let (settled, _) = self.settled()?;
        let mut records = self.after(settled, usize::MAX)?;
        self.with_reader(|connection| {
            for record in &mut records {
                let seq = record.seq;
                for (entry, ordinal) in record.entries.iter_mut().zip(0_i64..) {
                    entry.content = self.content(connection, seq, ordinal)?;
                }
            }
            Ok(())
        })?;
        Ok(records)
    }

    /// The versions of a path, newest first, at most `max`.
    ///
    /// # Errors
    /// `Database`.
    pub fn versions(&self, path: &TreePath, max: usize) -> Outcome<Vec<PathVersion>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT s.seq, s.commit_id, s.actor, s.message, s.time, c.new FROM changes c JOIN sets s ON s.seq = c.seq
                 WHERE c.path = ?1 AND s.commit_id IS NOT NULL ORDER BY c.seq DESC, c.ordinal DESC LIMIT ?2",
            )?;
            let found = statement.query_map(params![path.as_str(), count(max)], |row| {
                let commit: Vec<u8> = row.get(1)?;
                let etag: Option<Vec<u8>> = row.get(5)?;
                Ok(PathVersion {
                    seq: rows::seq(row.get(0)?),
                    commit: CommitId::try_from(&*commit).map_err(|_| rusqlite::Error::InvalidQuery)?,
                    actor: Actor::new(&row.get::<_, String>(2)?),
                    message: row.get(3)?,
                    time: rows::time(row, 4)?,
                    etag: etag.and_then(|bytes| ETag::try_from(&*bytes).ok()),
                })
            })?;
            found.collect()
        })
    }

    /// The newest position whose commit is this one.
    ///
    /// # Errors
    /// `Database`.
    pub fn position_of(&self, commit: CommitId) -> Outcome<Option<Seq>> {
        self.read(|connection| {
            connection
                .query_row("SELECT max(seq) FROM sets WHERE commit_id = ?1", [&commit.as_bytes()[..]], |row| {
                    row.get::<_, Option<i64>>(0)
                })
                .optional()
                .map(|found| found.flatten().map(rows::seq))
        })
    }
}

fn select(connection: &Connection, tail: &str, parameters: &[&dyn rusqlite::ToSql]) -> Outcome<Vec<Record>> {
    let mut statement = connection.prepare_cached(&format!("SELECT {SET_COLUMNS} FROM sets {tail}"))?;
    let records = statement.query_map(parameters, rows::record)?.collect::<rusqlite::Result<_>>()?;
    Ok(records)
}

fn complete(connection: &Connection, record: &mut Record) -> Outcome<()> {
    let seq = rows::number(record.seq);
    record.moves = connection
        .prepare_cached("SELECT old_path, new_path FROM moves WHERE seq = ?1 ORDER BY ordinal")?
        .query_map([seq], |row| Ok((rows::path(row, 0)?, rows::path(row, 1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    record.entries = connection
        .prepare_cached("SELECT path, old, new, kind, modified FROM changes WHERE seq = ?1 ORDER BY ordinal")?
        .query_map([seq], rows::entry)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(())
}

fn count(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}
