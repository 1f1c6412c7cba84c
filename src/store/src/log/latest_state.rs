//! What the log says of the tree: the last word on each path.
//!
//! One rule: what a path holds is what its newest row says. Rows of git's time agree with the newest commit but for files that a
//! merge decided against the branch it was made on.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use svcfs_base::{ETag, FileKind, Seq, Timestamp, TreePath};

use super::writer::newest;
use super::{Log, LogEntry, LogRecord, LogResult, rows};

impl Log {
    /// What each of these paths holds after the set at a position, in their order; none where no file is.
    ///
    /// # Errors
    /// `Database`.
    pub fn states_at(&self, paths: &[&TreePath], at: Seq) -> LogResult<Vec<Option<(ETag, FileKind)>>> {
        // Asked before each write where git does not know: no rows are made for it.
        let owed = self.writer.owed_for(paths.len()).map_err(|error| self.diagnose_error(error, 0))?;
        self.of_rows(|connection| {
            let snapshot = connection.unchecked_transaction()?;
            let made = newest(&snapshot)?;
            let mut statement = snapshot.prepare_cached(
                "SELECT new, kind FROM changes WHERE path = ?1 AND seq <= ?2 ORDER BY seq DESC, ordinal DESC LIMIT 1",
            )?;
            let mut standing = Vec::with_capacity(paths.len());
            for path in paths {
                let ahead = owed.iter().rev().filter(|record| record.seq > made && record.seq <= at);
                let newest = ahead
                    .flat_map(|record| record.entries.iter().rev())
                    .find(|entry| entry.path == **path)
                    .map(left_by);
                let state = match newest {
                    Some(state) => state,
                    None => {
                        let found = statement.query_row(params![path.as_str(), rows::number(at)], |row| state(row, 0));
                        found.optional()?.flatten()
                    }
                };
                standing.push(state);
            }
            Ok(standing)
        })
    }

    /// The files at or below a path after the newest set, in path order.
    ///
    /// # Errors
    /// `Database`.
    pub fn list_states(&self, path: &TreePath) -> LogResult<Vec<(TreePath, ETag, FileKind)>> {
        let owed = self.writer.owed();
        self.of_rows(|connection| {
            let snapshot = connection.unchecked_transaction()?;
            below_with(&snapshot, path, owed.iter().map(|record| &**record))
        })
    }

    /// The newest moment that names a set without a commit; none when every set has one.
    ///
    /// # Errors
    /// `Database`.
    pub fn last_timestamp(&self) -> LogResult<Option<Timestamp>> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT time FROM sets WHERE commit_id IS NULL ORDER BY time DESC LIMIT 1")?
                .query_row([], |row| rows::time(row, 0))
                .optional()
        })
    }
}

/// The files at or below a path after the newest set, in path order.
fn below(connection: &Connection, path: &TreePath) -> rusqlite::Result<Vec<(TreePath, ETag, FileKind)>> {
    // A directory's files lie between `name/` and `name0`, the next letter.
    let (within, bounds) = if path.is_root() {
        ("TRUE", Vec::new())
    } else {
        ("path = ? OR path > ? AND path < ?", vec![path.to_string(), format!("{path}/"), format!("{path}0")])
    };
    // Of a group, SQLite takes the other columns from the row that has the maximum.
    let mut statement = connection.prepare_cached(&format!(
        "SELECT path, new, kind, max(seq) FROM changes WHERE {within} GROUP BY path ORDER BY path"
    ))?;
    let found = statement.query_map(params_from_iter(bounds), |row| {
        let Some((etag, kind)) = state(row, 1)? else { return Ok(None) };
        Ok(Some((rows::path(row, 0)?, etag, kind)))
    })?;
    found.filter_map(Result::transpose).collect()
}

/// The same, with what records make of it that are not rows yet. Those are asked for first: some may be rows by now.
pub(super) fn below_with<'r>(
    snapshot: &Connection,
    path: &TreePath,
    ahead: impl IntoIterator<Item = &'r LogRecord>,
) -> LogResult<Vec<(TreePath, ETag, FileKind)>> {
    let made = newest(snapshot)?;
    let files = below(snapshot, path)?;
    let mut ahead = ahead.into_iter().filter(|record| record.seq > made).peekable();
    if ahead.peek().is_none() {
        return Ok(files);
    }
    let mut files: BTreeMap<_, _> = files.into_iter().map(|(path, etag, kind)| (path, (etag, kind))).collect();
    for entry in ahead.flat_map(|record| &record.entries) {
        if path.is_root() || entry.path == *path || entry.path.is_under(path) {
            match left_by(entry) {
                Some(state) => files.insert(entry.path.clone(), state),
                None => files.remove(&entry.path),
            };
        }
    }
    Ok(files.into_iter().map(|(path, (etag, kind))| (path, etag, kind)).collect())
}

/// The file that a change left, if it left one.
fn left_by(entry: &LogEntry) -> Option<(ETag, FileKind)> {
    Some((entry.new?, entry.kind))
}

/// Columns `new, kind` of a change: the file it left, if it left one.
fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<(ETag, FileKind)>> {
    Ok(rows::etag(row, column)?.zip(FileKind::from_git_mode(row.get(column + 1)?)))
}

#[cfg(test)]
mod tests {
    use svcfs_base::VersionId;

    use super::super::tests::{Fixture, fixture, record};
    use super::*;

    fn at(path: &str) -> TreePath {
        TreePath::parse(path).unwrap()
    }

    fn removal(seq: u64, path: &str) -> LogRecord {
        let LogRecord { entries, .. } = record(seq, path, b"");
        let entries = entries.into_iter().map(|entry| LogEntry { new: None, content: None, ..entry }).collect();
        LogRecord { entries, commit: None, ..record(seq, path, b"") }
    }

    #[test]
    fn the_newest_row_of_a_path_says_what_it_holds() {
        let Fixture { log, directory: _directory } = fixture();
        let sets = [
            record(1, "d/a.md", b"one"),
            record(2, "d.md", b"beside"),
            record(3, "d/a.md", b"two"),
            removal(4, "d.md"),
            record(5, "d0.md", b"after"),
        ];
        log.append(&sets).unwrap();
        let state = |content: &[u8]| Some((ETag::from_content(content), FileKind::Executable));
        let (a, d, none) = (at("d/a.md"), at("d.md"), at("none.md"));
        assert_eq!(log.states_at(&[&a, &d, &none], Seq(5)).unwrap(), [state(b"two"), None, None]);
        assert_eq!(log.states_at(&[&a, &d], Seq(2)).unwrap(), [state(b"one"), state(b"beside")]);
        let below = |path: &TreePath| {
            let found = log.list_states(path).unwrap();
            found.into_iter().map(|(path, ..)| path.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(below(&TreePath::root()), ["d/a.md", "d0.md"]);
        assert_eq!(below(&at("d")), ["d/a.md"]);
        assert_eq!(below(&at("d0.md")), ["d0.md"]);
        assert_eq!(below(&at("d.md")), [""; 0]);
    }

    #[test]
    fn a_set_without_a_commit_is_found_by_its_moment() {
        let Fixture { log, directory: _directory } = fixture();
        assert_eq!(log.last_timestamp().unwrap(), None);
        let set = LogRecord { commit: None, ..record(1, "a.md", b"one") };
        log.append(&[set.clone(), record(2, "a.md", b"two")]).unwrap();
        assert_eq!(log.last_timestamp().unwrap(), Some(set.time));
        let name = VersionId::Timestamp(set.time);
        assert_eq!(log.find_seq(&name.to_string()).unwrap(), Some(Seq(1)));
        let told: Vec<_> =
            log.versions(&at("a.md"), Seq(9), 9).unwrap().into_iter().map(|version| version.id).collect();
        assert_eq!(told, [VersionId::Commit(record(2, "a.md", b"").commit.unwrap()), name]);
        assert_eq!(log.find_seq("1800000001000000001").unwrap(), None);
    }
}
