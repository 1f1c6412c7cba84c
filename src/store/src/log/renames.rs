//! Queries that follow files and directories to their former names.

use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, params};
use svcfs_base::{ETag, Seq, TreePath};

use super::kinds::in_history;
use super::{DiffBase, Log, LogEntry, LogRecord, LogResult, RecordKind, rows};

/// New files of a directory that are compared with removed ones to find its former name.
const MAX_COMPARED_FILES: u32 = 16;

/// A name of a file or directory, and the part of its history under that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePeriod {
    /// The path.
    pub path: TreePath,
    /// The positions in the log; the end is the rename to the next name.
    pub range: Range<Seq>,
}

impl NamePeriod {
    /// A path in the complete history.
    pub const fn always(path: TreePath) -> Self {
        Self { path, range: Seq(0)..Seq(u64::MAX) }
    }

    /// Whether a change of `path` at a position belongs to this name or is below it.
    pub fn covers(&self, seq: Seq, path: &TreePath) -> bool {
        self.range.contains(&seq) && path.is_under(&self.path)
    }
}

/// The set that created a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileCreation {
    /// Its position in the log.
    pub seq: Seq,
    /// The content of the new file.
    pub content: ETag,
}

/// The files that a set removed when it created another: the former name may be among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenameSources {
    /// The former name: known from the rename of a directory, or of the same content.
    pub exact: Option<(TreePath, ETag)>,
    /// Other removed files and their contents, those with the same name first.
    pub others: Vec<(TreePath, ETag)>,
}

impl Log {
    /// The newest creation of a file at a path before a position. Merges create nothing: the
    /// commits that they bring have records of their own.
    pub fn newest_creation(&self, path: &TreePath, before: Seq) -> LogResult<Option<FileCreation>> {
        // Called right after a write: it must not write rows.
        let tail = self.writer.tail_for(1).map_err(|error| self.diagnose_error(error, 0))?;
        let in_tail = tail.iter().rev().filter(|record| record.seq < before && is_history(record)).find_map(|record| {
            let entry = record.entries.iter().find(|entry| entry.path == *path && entry.old.is_none())?;
            Some(FileCreation { seq: record.seq, content: entry.new? })
        });
        if in_tail.is_some() {
            return Ok(in_tail);
        }
        self.query_rows(|connection| {
            let mut statement = connection.prepare_cached(concat!(
                "SELECT c.seq, c.new FROM changes c CROSS JOIN sets s ON s.seq = c.seq
                 WHERE c.path = ?1 AND c.seq < ?2 AND c.old IS NULL AND c.new IS NOT NULL AND s.against <> 1 AND ",
                in_history!(),
                " ORDER BY c.seq DESC LIMIT 1"
            ))?;
            let creation = statement.query_row(params![path.as_str(), rows::number(before)], |row| {
                Ok(rows::etag(row, 1)?.map(|content| (row.get(0).map(rows::seq), content)))
            });
            match creation.optional()?.flatten() {
                Some((seq, content)) => Ok(Some(FileCreation { seq: seq?, content })),
                None => Ok(None),
            }
        })
    }

    /// The files that a creating set removed; at most `max` without the exact one.
    pub fn rename_sources(&self, path: &TreePath, creation: FileCreation, max: usize) -> LogResult<RenameSources> {
        let FileCreation { seq, content } = creation;
        let mut search = SourceSearch { path, content, max, exact: None, same_name: Vec::new(), others: Vec::new() };
        let tail = self.writer.tail_for(1).map_err(|error| self.diagnose_error(error, 0))?;
        if let Some(record) = tail.iter().find(|record| record.seq == seq) {
            let moved = former_name(&record.moves, path);
            let removed = record.entries.iter().filter_map(removed_file);
            removed.for_each(|(removed, content)| search.add(removed, content, moved.as_ref()));
            return Ok(search.finish());
        }
        self.query_rows(|connection| {
            let moved = former_name(&moves_of(connection, seq)?, path);
            let mut statement = connection
                .prepare_cached("SELECT path, old, new IS NULL FROM changes WHERE seq = ?1 ORDER BY ordinal")?;
            let mut rows_iter = statement.query([rows::number(seq)])?;
            while let Some(row) = rows_iter.next()? {
                // Removals come first: see `compare_entries`.
                if !row.get::<_, bool>(2)? {
                    break;
                }
                if let Some(content) = rows::etag(row, 1)? {
                    search.add(rows::path(row, 0)?, content, moved.as_ref());
                }
            }
            Ok(())
        })?;
        Ok(search.finish())
    }

    /// The last rename before a position of a directory, or of one above it: its position and the
    /// former name.
    pub fn newest_directory_rename(&self, path: &TreePath, before: Seq) -> LogResult<Option<(Seq, TreePath)>> {
        let tail = self.writer.tail_for(1).map_err(|error| self.diagnose_error(error, 0))?;
        let in_tail = tail.iter().rev().filter(|record| record.seq < before && is_history(record));
        let in_tail = in_tail.filter_map(|record| Some((record.seq, former_name(&record.moves, path)?))).next();
        if in_tail.is_some() {
            return Ok(in_tail);
        }
        self.query_rows(|connection| {
            let mut statement = connection.prepare_cached(concat!(
                "SELECT m.seq, m.old_path, m.new_path FROM moves m CROSS JOIN sets s ON s.seq = m.seq
                 WHERE m.seq < ?1 AND substr(?2 || '/', 1, length(m.new_path) + 1) = m.new_path || '/' AND ",
                in_history!(),
                " ORDER BY m.seq DESC, m.ordinal DESC"
            ))?;
            let mut rows_iter = statement.query(params![rows::number(before), path.as_str()])?;
            while let Some(row) = rows_iter.next()? {
                let moved = [(rows::path(row, 1)?, rows::path(row, 2)?)];
                if let Some(former) = former_name(&moved, path) {
                    return Ok(Some((rows::seq(row.get(0)?), former)));
                }
            }
            Ok(None)
        })
    }

    /// The former name of a directory that an external process renamed, and the position of the set
    /// that found it: the oldest one before a position with files in the directory. Files of the
    /// other directory were removed by this set, none is left there, and one was found unchanged.
    pub fn directory_origin(&self, path: &TreePath, before: Seq) -> LogResult<Option<(Seq, TreePath)>> {
        // Paths in a directory are between `name/` and `name0`, the next character.
        let [first, end] = ["/", "0"].map(|next| format!("{path}{next}"));
        self.read(|connection| {
            let mut oldest = connection.prepare_cached(concat!(
                "SELECT min(c.seq) FROM changes c CROSS JOIN sets s ON s.seq = c.seq
                 WHERE c.path > ?1 AND c.path < ?2 AND c.seq < ?3 AND c.new IS NOT NULL AND s.against <> 1 AND ",
                in_history!()
            ))?;
            let oldest: Option<i64> = oldest.query_row(params![first, end, rows::number(before)], |row| row.get(0))?;
            let Some(seq) = oldest else { return Ok(None) };
            let mut pairs = connection.prepare_cached(
                "SELECT created.path, removed.path FROM
                 (SELECT path, new FROM changes
                  WHERE seq = ?1 AND path > ?2 AND path < ?3 AND old IS NULL AND new IS NOT NULL LIMIT ?4) created
                 CROSS JOIN changes removed ON removed.seq = ?1 AND removed.new IS NULL AND removed.old = created.new",
            )?;
            let mut has_files = connection.prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM changes c WHERE path > ?2 AND path < ?3 AND seq <= ?1 AND new IS NOT NULL
                 AND NOT EXISTS (SELECT 1 FROM changes d WHERE d.path = c.path AND d.seq > c.seq AND d.seq <= ?1))",
            )?;
            let mut pairs = pairs.query(params![seq, first, end, MAX_COMPARED_FILES])?;
            while let Some(row) = pairs.next()? {
                let (created, removed) = (rows::path(row, 0)?, rows::path(row, 1)?);
                let former =
                    created.as_str().strip_prefix(path.as_str()).and_then(|rest| removed.as_str().strip_suffix(rest));
                let Some(former) = former.and_then(|former| TreePath::parse(former).ok()) else { continue };
                let bounds = params![seq, format!("{former}/"), format!("{former}0")];
                if !former.is_root() && !has_files.query_row(bounds, |row| row.get(0))? {
                    return Ok(Some((rows::seq(seq), former)));
                }
            }
            Ok(None)
        })
    }
}

/// A search for the former name of a new file among the files that its set removed.
struct SourceSearch<'p> {
    path: &'p TreePath,
    content: ETag,
    max: usize,
    exact: Option<(TreePath, ETag)>,
    same_name: Vec<(TreePath, ETag)>,
    others: Vec<(TreePath, ETag)>,
}

impl SourceSearch<'_> {
    fn add(&mut self, removed: TreePath, content: ETag, moved: Option<&TreePath>) {
        let has_name = removed.name() == self.path.name();
        if moved == Some(&removed) {
            self.exact = Some((removed, content));
        } else if content == self.content {
            let is_better =
                |(best, _): &(TreePath, ETag)| moved != Some(best) && has_name && best.name() != self.path.name();
            if self.exact.as_ref().is_none_or(is_better) {
                self.exact = Some((removed, content));
            }
        } else {
            let list = if has_name { &mut self.same_name } else { &mut self.others };
            if list.len() < self.max {
                list.push((removed, content));
            }
        }
    }

    fn finish(self) -> RenameSources {
        let Self { exact, same_name, others, max, .. } = self;
        RenameSources { exact, others: same_name.into_iter().chain(others).take(max).collect() }
    }
}

fn is_history(record: &LogRecord) -> bool {
    record.kind != RecordKind::Uncommitted && record.diff_base.is_history() && record.diff_base != DiffBase::FirstParent
}

fn removed_file(entry: &LogEntry) -> Option<(TreePath, ETag)> {
    entry.old.filter(|_| entry.new.is_none()).map(|content| (entry.path.clone(), content))
}

/// The name of a path before directories were renamed.
fn former_name(moves: &[(TreePath, TreePath)], path: &TreePath) -> Option<TreePath> {
    moves.iter().rev().find_map(|(from, to)| {
        let rest = path.as_str().strip_prefix(to.as_str())?;
        if rest.is_empty() {
            return Some(from.clone());
        }
        rest.strip_prefix('/').and_then(|rest| TreePath::parse(&format!("{from}/{rest}")).ok())
    })
}

pub(super) fn moves_of(connection: &Connection, seq: Seq) -> rusqlite::Result<Vec<(TreePath, TreePath)>> {
    connection
        .prepare_cached("SELECT old_path, new_path FROM moves WHERE seq = ?1 ORDER BY ordinal")?
        .query_map([rows::number(seq)], |row| Ok((rows::path(row, 0)?, rows::path(row, 1)?)))?
        .collect()
}

#[cfg(test)]
mod tests;
