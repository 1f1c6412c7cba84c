//! Answers that were given before, for as long as nothing is written.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{SearchAnswer, SearchHit, SearchQuery};

/// Most bytes of answers that are kept; beyond, all of them are forgotten.
const MOST_BYTES: usize = 4 << 20;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct AnswerCache(Mutex<CachedAnswer>);

#[derive(Debug, Default)]
struct CachedAnswer {
    /// How often the index was written since it was opened.
    state: u64,
    bytes: usize,
    answers: HashMap<SearchQuery, SearchAnswer>,
}

impl AnswerCache {
    /// Something was written, and whoever asks from now on shall see it.
    pub(crate) fn forget(&self) {
        let mut kept = self.0.lock();
        let state = kept.state + 1;
        *kept = CachedAnswer { state, ..CachedAnswer::default() };
    }

    /// The answer given before; otherwise the state of the index in which one is about to be looked for.
    pub(super) fn given(&self, query: &SearchQuery) -> Result<SearchAnswer, u64> {
        let kept = self.0.lock();
        kept.answers.get(query).cloned().ok_or(kept.state)
    }

    /// Keeps an answer that was looked for from some state on. It is dropped when something was written meanwhile: it may be as
    /// old as that state.
    pub(super) fn keep(&self, query: &SearchQuery, found: &SearchAnswer, state: u64) {
        let bytes = weight(query, found);
        let mut kept = self.0.lock();
        if kept.state != state || bytes > MOST_BYTES / 4 {
            return;
        }
        if kept.bytes + bytes > MOST_BYTES {
            *kept = CachedAnswer { state, ..CachedAnswer::default() };
        }
        kept.bytes += bytes;
        kept.answers.insert(query.clone(), found.clone());
    }
}

/// About how many bytes an answer takes.
fn weight(query: &SearchQuery, found: &SearchAnswer) -> usize {
    let hit = |hit: &SearchHit| size_of::<SearchHit>() + hit.path.as_str().len() + hit.title.len() + hit.snippet.len();
    size_of::<SearchQuery>() + query.q.len() + size_of::<SearchAnswer>() + found.hits.iter().map(hit).sum::<usize>()
}
