//! What is said of an answer beside the answer.
//!
//! Many answers are bare lists (gaps.md D1), so that there is no place in them for what concerns all of it. Each door has one: HTTP its
//! headers, agents a text more, the command line the other stream.

use std::time::Duration;

use parking_lot::Mutex;

use super::freshness::IndexAge;

/// See the module.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ResponseMeta {
    /// What the caller should know, such as that the answer is of an index that is behind; each once.
    pub notes: Vec<String>,
    /// How many entries there are in all, of a list that may have some of them only.
    pub total: Option<usize>,
    /// Whether it has some of them only.
    pub is_truncated: bool,
}

impl ResponseMeta {
    /// All of it as sentences.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let total = self.total.filter(|_| self.is_truncated).map(|total| format!("there are {total} in all"));
        self.notes.iter().cloned().chain(total)
    }
}

/// Where an operation leaves them.
#[derive(Debug, Default)]
pub(super) struct MetaCollector(Mutex<ResponseMeta>);

impl MetaCollector {
    pub(super) fn note(&self, note: String) {
        let mut remarks = self.0.lock();
        if !remarks.notes.contains(&note) {
            remarks.notes.push(note);
        }
    }
    pub(super) fn total(&self, total: usize, shown: usize) {
        let mut remarks = self.0.lock();
        (remarks.total, remarks.is_truncated) = (Some(total), shown < total);
    }
    pub(super) fn all(&self) -> ResponseMeta {
        self.0.lock().clone()
    }
}

/// What an index does not know that has read the log up to a position, and how old it is; none when it knows everything up to the last one.
pub(super) fn lag(read: u64, last: u64, age: Option<IndexAge>) -> Option<String> {
    let age = match age {
        None => String::new(),
        Some(IndexAge::Exactly(age)) => format!(" is {} old and", duration_text(age)),
        Some(IndexAge::AtLeast(age)) => format!(" is more than {} old and", duration_text(age)),
    };
    match (read, last.saturating_sub(read)) {
        (_, 0) => None,
        (0, _) => Some("the search index is being made; only pages that it has read so far are known".to_owned()),
        (_, 1) => Some(format!("the search index{age} has one change still to read, which is not known yet")),
        (_, many) => Some(format!("the search index{age} has {many} changes still to read, which are not known yet")),
    }
}

/// A time in milliseconds, or in seconds from one on.
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
    fn an_index_that_is_made_for_the_first_time_is_told_from_one_that_is_behind() {
        let told = |read, last| lag(read, last, None).unwrap_or_default();
        assert_eq!((told(0, 0), told(7, 7), told(8, 7)), Default::default());
        assert_eq!(told(0, 7), "the search index is being made; only pages that it has read so far are known");
        assert_eq!(told(6, 7), "the search index has one change still to read, which is not known yet");
        assert_eq!(told(2, 7), "the search index has 5 changes still to read, which are not known yet");
        let aged = |age| lag(2, 7, Some(age)).unwrap_or_default();
        let start = aged(IndexAge::Exactly(Duration::from_millis(230)));
        assert_eq!(start, "the search index is 230 ms old and has 5 changes still to read, which are not known yet");
        let start = aged(IndexAge::AtLeast(Duration::from_millis(1_260)));
        assert!(start.starts_with("the search index is more than 1.2 s old and has 5 changes"), "{start}");
    }
}
