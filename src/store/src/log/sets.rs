//! Sets of the history with all their changes, and removed paths.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use svcfs_base::{Actor, ETag, FileKind, Seq, Timestamp, TreePath, VersionId};

use super::kinds::in_history;
use super::{Log, LogEntry, LogResult, rows};

/// A set of the history with its changes, without contents.
#[derive(Debug, Clone)]
pub struct HistorySet {
    /// Its position in the log.
    pub seq: Seq,
    /// Its id.
    pub id: VersionId,
    /// The author.
    pub actor: Actor,
    /// When it was accepted.
    pub time: Timestamp,
    /// Directory renames (old name, new name), done before the changes.
    pub moves: Vec<(TreePath, TreePath)>,
    /// The changed files, in order.
    pub changes: Vec<LogEntry>,
}

/// A path whose newest change is a removal.
#[derive(Debug, Clone)]
pub struct RemovedPath {
    /// The position of the removal.
    pub seq: Seq,
    /// The path.
    pub path: TreePath,
    /// The removed content.
    pub content: ETag,
    /// Who removed it.
    pub actor: Actor,
    /// When it was removed, in seconds.
    pub time: Timestamp,
}

impl Log {
    /// The position of the first set of the history by this actor (or any) since a time.
    pub fn first_set(&self, actor: Option<&Actor>, since: Option<Timestamp>) -> LogResult<Option<Seq>> {
        self.read(|connection| {
            connection
                .prepare_cached(concat!(
                    "SELECT min(s.seq) FROM sets s
                     WHERE (?1 IS NULL OR s.actor = ?1) AND (?2 IS NULL OR s.time >= ?2) AND ",
                    in_history!()
                ))?
                .query_row(params![actor.map(Actor::as_str), since.map(rows::nanosecond)], |row| {
                    Ok(row.get::<_, Option<i64>>(0)?.map(rows::seq))
                })
        })
    }

    /// The sets of the history from a position on, oldest first.
    pub fn sets_from(&self, first: Seq) -> LogResult<Vec<HistorySet>> {
        self.read(|connection| read_sets(connection, first, None))
    }

    /// One set of the history.
    pub fn set_at(&self, seq: Seq) -> LogResult<Option<HistorySet>> {
        self.read(|connection| Ok(read_sets(connection, seq, Some(seq))?.pop()))
    }

    /// The paths whose newest change is a removal in the history, newest removal first.
    pub fn removed_paths(&self) -> LogResult<Vec<RemovedPath>> {
        self.read(|connection| {
            // With max(), SQLite takes the other columns from the row with the maximum.
            let mut statement = connection.prepare_cached(concat!(
                "SELECT c.seq, c.path, c.old, s.actor, s.time
                 FROM (SELECT path, old, new, max(seq) AS seq FROM changes GROUP BY path) c
                 CROSS JOIN sets s ON s.seq = c.seq
                 WHERE c.new IS NULL AND c.old IS NOT NULL AND ",
                in_history!(),
                " ORDER BY c.seq DESC, c.path"
            ))?;
            let removals = statement.query_map([], |row| {
                let Some(content) = rows::etag(row, 2)? else { return Ok(None) };
                Ok(Some(RemovedPath {
                    seq: rows::seq(row.get(0)?),
                    path: rows::path(row, 1)?,
                    content,
                    actor: Actor::new(row.get_ref(3)?.as_str()?),
                    time: rows::commit_time(row, 4)?,
                }))
            })?;
            removals.filter_map(Result::transpose).collect()
        })
    }

    /// The kind of the file at a path after the set at a position; none without a file.
    pub fn kind_at(&self, path: &TreePath, at: Seq) -> LogResult<Option<FileKind>> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT kind FROM changes WHERE path = ?1 AND seq <= ?2 ORDER BY seq DESC, ordinal DESC LIMIT 1",
            )?;
            let mode = statement.query_row(params![path.as_str(), rows::number(at)], |row| row.get(0)).optional()?;
            Ok(mode.and_then(FileKind::from_git_mode))
        })
    }
}

/// The sets of the history between two positions, inclusive, oldest first.
fn read_sets(connection: &Connection, first: Seq, last: Option<Seq>) -> rusqlite::Result<Vec<HistorySet>> {
    let (first, last) = (rows::number(first), last.map_or(i64::MAX, rows::number));
    let mut moves: HashMap<Seq, Vec<(TreePath, TreePath)>> = HashMap::new();
    let mut statement = connection.prepare_cached(
        "SELECT seq, old_path, new_path FROM moves WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq, ordinal",
    )?;
    let mut found = statement.query([first, last])?;
    while let Some(row) = found.next()? {
        moves.entry(rows::seq(row.get(0)?)).or_default().push((rows::path(row, 1)?, rows::path(row, 2)?));
    }
    let mut statement = connection.prepare_cached(concat!(
        "SELECT c.path, c.old, c.new, c.kind, c.modified, s.seq, s.commit_id, s.time, s.actor
         FROM sets s CROSS JOIN changes c ON c.seq = s.seq
         WHERE s.seq BETWEEN ?1 AND ?2 AND ",
        in_history!(),
        " ORDER BY s.seq, c.ordinal"
    ))?;
    let mut found = statement.query([first, last])?;
    let mut sets: Vec<HistorySet> = Vec::new();
    while let Some(row) = found.next()? {
        let seq = rows::seq(row.get(5)?);
        if sets.last().is_none_or(|set| set.seq != seq) {
            sets.push(HistorySet {
                seq,
                id: rows::version(row, 6, 7)?,
                actor: Actor::new(row.get_ref(8)?.as_str()?),
                time: rows::time(row, 7)?,
                moves: moves.remove(&seq).unwrap_or_default(),
                changes: Vec::new(),
            });
        }
        if let Some(set) = sets.last_mut() {
            set.changes.push(rows::entry(row)?);
        }
    }
    Ok(sets)
}
