//! The sets of requests that their clients may send again.

use std::sync::Arc;

use rusqlite::{Connection, params};
use svcfs_base::{CommitId, ETag, RequestMark, Seq, Timestamp, TreePath};

use super::{Log, LogRecord, LogResult, rows};

/// Maximum number of changes that are read of one request.
const MAX_CHANGES: usize = 1_000;

/// A set that a request asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestSet {
    /// Its position in the log.
    pub seq: Seq,
    /// The request.
    pub mark: RequestMark,
    /// Its commit; none without git, and before a coalesced commit.
    pub commit: Option<CommitId>,
    /// The changed files with the hash of the content after; none for a removal.
    pub changes: Vec<(TreePath, Option<ETag>)>,
}

impl Log {
    /// The sets that a request asked for since a time, oldest first; of all together at most 1,000
    /// changes. A write does not wait for rows because of this.
    pub fn sets_of_request(&self, id: &[u8; 16], since: Timestamp) -> LogResult<Vec<RequestSet>> {
        // The tail is read before the rows, so nothing is missed.
        let tail: Vec<Arc<LogRecord>> = self.writer.tail();
        let mut sets = self.query_rows(|connection| Ok(read_sets(connection, id, since)?))?;
        let newest = sets.last().map_or(Seq(0), |set| set.seq);
        let is_newer = |record: &&Arc<LogRecord>| record.seq > newest && record.time >= since;
        for record in tail.iter().filter(is_newer) {
            let Some(mark) = record.request.filter(|mark| mark.id == *id) else { continue };
            let changes = record.entries.iter().take(MAX_CHANGES).map(|entry| (entry.path.clone(), entry.new));
            sets.push(RequestSet { seq: record.seq, mark, commit: record.commit, changes: changes.collect() });
        }
        Ok(sets)
    }
}

fn read_sets(connection: &Connection, id: &[u8; 16], since: Timestamp) -> rusqlite::Result<Vec<RequestSet>> {
    let bound = |content| RequestMark { id: *id, content }.to_bytes();
    let mut statement = connection.prepare_cached(
        "SELECT s.seq, s.request, s.commit_id, c.path, c.new
         FROM sets s LEFT JOIN changes c ON c.seq = s.seq
         WHERE s.request >= ?1 AND s.request <= ?2 AND s.time >= ?3
         ORDER BY s.seq, c.ordinal LIMIT ?4",
    )?;
    let limit = i64::try_from(MAX_CHANGES).unwrap_or(i64::MAX);
    let mut found = statement.query(params![bound([0; 16]), bound([u8::MAX; 16]), rows::nanosecond(since), limit])?;
    let mut sets: Vec<RequestSet> = Vec::new();
    while let Some(row) = found.next()? {
        let seq = rows::seq(row.get(0)?);
        let Some(mark) = rows::request(row, 1)? else { continue };
        if sets.last().is_none_or(|set| set.seq != seq) {
            let commit: Option<Vec<u8>> = row.get(2)?;
            let commit = commit.and_then(|bytes| CommitId::try_from(&*bytes).ok());
            sets.push(RequestSet { seq, mark, commit, changes: Vec::new() });
        }
        let has_change = row.get_ref(3)? != rusqlite::types::ValueRef::Null;
        if let Some(set) = sets.last_mut().filter(|_| has_change) {
            set.changes.push((rows::path(row, 3)?, rows::etag(row, 4)?));
        }
    }
    Ok(sets)
}

#[cfg(test)]
mod tests {
    use svcfs_base::Actor;

    use super::super::tests::{fixture, record};
    use super::*;

    fn mark(id: u8, content: u8) -> Option<RequestMark> {
        Some(RequestMark { id: [id; 16], content: [content; 16] })
    }

    #[test]
    fn the_sets_of_a_request_are_found_in_the_tail_and_in_rows() {
        let fixture = fixture();
        let log = &fixture.log;
        let records = [(1, mark(7, 1)), (2, None), (3, mark(8, 1)), (4, mark(7, 2)), (5, mark(0xff, 0xff))]
            .map(|(seq, request)| LogRecord { request, ..record(seq, &format!("{seq}.md"), b"text") });
        log.append(&records).unwrap();
        let sets = |id: u8, since| log.sets_of_request(&[id; 16], since).unwrap();
        for is_applied in [false, true] {
            if is_applied {
                log.writer.apply_tail().unwrap();
            }
            let found = sets(7, Timestamp::UNIX_EPOCH);
            assert_eq!(found.iter().map(|set| set.seq.0).collect::<Vec<_>>(), [1, 4], "{is_applied}");
            assert_eq!((found[0].mark, found[0].commit), (mark(7, 1).unwrap(), records[0].commit));
            assert_eq!(found[1].changes[0].0.as_str(), "4.md");
            assert_eq!(sets(7, records[3].time).len(), 1, "older ones are not looked for");
            assert_eq!(sets(0xff, Timestamp::UNIX_EPOCH).len(), 1);
            assert!(sets(9, Timestamp::UNIX_EPOCH).is_empty());
        }
        assert_eq!(records[0].actor, Actor::new("eve"));
    }
}
