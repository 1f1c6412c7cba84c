//! Notes and totals of a response, beside the output.
//!
//! Many outputs are plain lists without a place for them. Each protocol has one: HTTP sends
//! headers, MCP adds a text, the command line uses standard error.

use std::time::Duration;

use parking_lot::Mutex;
use svcfs_base::{CommitId, DraftId};

use super::freshness::IndexAge;

/// The line of an answer that is given again.
const REPLAYED: &str =
    "replayed: the request with this id was done before; this is its answer, and nothing was done again";

/// See the module.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ResponseMeta {
    /// Notes for the caller, such as that the index is behind; without duplicates.
    pub notes: Vec<String>,
    /// Total number of entries of a list that may be truncated.
    pub total: Option<usize>,
    /// Whether the list is truncated.
    pub is_truncated: bool,
    /// The draft into which the changes went, if the caller may only propose them.
    pub draft: Option<DraftId>,
    /// The commit whose tree was read, with `as_of`.
    pub as_of: Option<CommitId>,
    /// Whether it is the answer to an earlier request with the same id: nothing was done again.
    pub is_replayed: bool,
}

impl ResponseMeta {
    /// Everything as sentences.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let total = self.total.filter(|_| self.is_truncated).map(|total| format!("{total} entries in total"));
        let draft = self.draft.map(|id| {
            format!("proposed in draft {id}: the tree is unchanged until someone merges the draft; your reads show it")
        });
        let replayed = self.is_replayed.then(|| REPLAYED.to_owned());
        self.notes.iter().cloned().chain(total).chain(draft).chain(replayed)
    }
}

/// Collects the metadata of a response.
#[derive(Debug, Default)]
pub(super) struct MetaCollector(Mutex<ResponseMeta>);

impl MetaCollector {
    pub(super) fn note(&self, note: String) {
        let mut meta = self.0.lock();
        if !meta.notes.contains(&note) {
            meta.notes.push(note);
        }
    }
    pub(super) fn total(&self, total: usize, shown: usize) {
        let mut meta = self.0.lock();
        (meta.total, meta.is_truncated) = (Some(total), shown < total);
    }
    pub(super) fn draft(&self, id: DraftId) {
        self.0.lock().draft = Some(id);
    }
    pub(super) fn as_of(&self, commit: CommitId) {
        self.0.lock().as_of = Some(commit);
    }
    pub(super) fn all(&self) -> ResponseMeta {
        self.0.lock().clone()
    }
}

/// A note about changes after position `read`, which are not indexed; none if there are none.
pub(super) fn lag(read: u64, last: u64, age: Option<IndexAge>) -> Option<String> {
    let age = match age {
        None => String::new(),
        Some(IndexAge::Exactly(age)) => format!(" is {} old and", duration_text(age)),
        Some(IndexAge::AtLeast(age)) => format!(" is more than {} old and", duration_text(age)),
    };
    match (read, last.saturating_sub(read)) {
        (_, 0) => None,
        (0, _) => Some("the search index is being built; only pages indexed so far are included".to_owned()),
        (_, 1) => Some(format!("the search index{age} lacks one change, which is not included")),
        (_, many) => Some(format!("the search index{age} lacks {many} changes, which are not included")),
    }
}

/// A duration in milliseconds, or in seconds from 1 s.
fn duration_text(time: Duration) -> String {
    match time.as_millis() {
        millis @ ..1_000 => format!("{millis} ms"),
        millis => format!("{}.{} s", millis / 1_000, millis / 100 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_index_build_is_distinguished_from_a_lagging_index() {
        let told = |read, last| lag(read, last, None).unwrap_or_default();
        assert_eq!((told(0, 0), told(7, 7), told(8, 7)), Default::default());
        assert_eq!(told(0, 7), "the search index is being built; only pages indexed so far are included");
        assert_eq!(told(6, 7), "the search index lacks one change, which is not included");
        assert_eq!(told(2, 7), "the search index lacks 5 changes, which are not included");
        let aged = |age| lag(2, 7, Some(age)).unwrap_or_default();
        let start = aged(IndexAge::Exactly(Duration::from_millis(230)));
        assert_eq!(start, "the search index is 230 ms old and lacks 5 changes, which are not included");
        let start = aged(IndexAge::AtLeast(Duration::from_millis(1_260)));
        assert!(start.starts_with("the search index is more than 1.2 s old and lacks 5 changes"), "{start}");
    }
}
