//! Answers that were given before, for as long as nothing is written.

use std::collections::HashMap;

use parking_lot::Mutex;
use svcfs_base::{Timestamp, TreePath};

use super::{Found, Hit, SearchQuery, Trust};

/// Most bytes of answers that are kept; beyond, all of them are forgotten.
const MOST_BYTES: usize = 4 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// How often the index was written since it was opened.
    state: u64,
    bytes: usize,
    answers: HashMap<Key, Found>,
}

/// A question, so that two are equal when their answers are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    q: String,
    shown: (u32, usize),
    below: Option<TreePath>,
    modified_after: Option<Timestamp>,
    trust: Trust,
    or_some: bool,
}

impl Key {
    pub(super) fn of(query: &SearchQuery) -> Self {
        let SearchQuery { q, limit, offset, below, modified_after, trust, or_some } = query;
        Self {
            q: q.clone(),
            shown: (*offset, limit.get()),
            below: below.clone(),
            modified_after: *modified_after,
            trust: *trust,
            or_some: *or_some,
        }
    }
}

impl Answers {
    /// Something was written, and whoever asks from now on shall see it.
    pub(crate) fn forget(&self) {
        let mut kept = self.0.lock();
        let state = kept.state + 1;
        *kept = Kept { state, ..Kept::default() };
    }

    /// The answer given before; otherwise the state of the index in which one is about to be looked for.
    pub(super) fn given(&self, key: &Key) -> Result<Found, u64> {
        let kept = self.0.lock();
        kept.answers.get(key).cloned().ok_or(kept.state)
    }

    /// Keeps an answer that was looked for from some state on. It is dropped when something was written meanwhile: it may be as
    /// old as that state.
    pub(super) fn keep(&self, key: Key, found: &Found, state: u64) {
        let bytes = weight(&key, found);
        let mut kept = self.0.lock();
        if kept.state != state || bytes > MOST_BYTES / 4 {
            return;
        }
        if kept.bytes + bytes > MOST_BYTES {
            *kept = Kept { state, ..Kept::default() };
        }
        kept.bytes += bytes;
        kept.answers.insert(key, found.clone());
    }
}

/// About how many bytes an answer takes.
fn weight(key: &Key, found: &Found) -> usize {
    let hit = |hit: &Hit| size_of::<Hit>() + hit.path.as_str().len() + hit.title.len() + hit.snippet.len();
    size_of::<Key>() + key.q.len() + size_of::<Found>() + found.hits.iter().map(hit).sum::<usize>()
}
