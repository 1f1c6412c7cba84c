//! Cache of search results; valid until the next write.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{SearchAnswer, SearchHit, SearchQuery};

/// Size limit; when it is exceeded, the cache is cleared.
const MOST_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct AnswerCache(Mutex<CachedAnswer>);

#[derive(Debug, Default)]
struct CachedAnswer {
    /// Number of writes since the index was opened.
    state: u64,
    bytes: usize,
    answers: HashMap<SearchQuery, SearchAnswer>,
}

impl AnswerCache {
    /// Invalidates all results after a write.
    pub(crate) fn forget(&self) {
        let mut kept = self.0.lock();
        let state = kept.state + 1;
        *kept = CachedAnswer { state, ..CachedAnswer::default() };
    }

    /// The cached result; otherwise the generation to pass to [`AnswerCache::put`].
    pub(super) fn given(&self, query: &SearchQuery) -> Result<SearchAnswer, u64> {
        let kept = self.0.lock();
        kept.answers.get(query).cloned().ok_or(kept.state)
    }

    /// Stores a result. It is dropped when the index was written since `generation`, because it may
    /// be stale.
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

/// Approximate size of a result.
fn weight(query: &SearchQuery, found: &SearchAnswer) -> usize {
    let hit = |hit: &SearchHit| size_of::<SearchHit>() + hit.path.as_str().len() + hit.title.len() + hit.snippet.len();
    size_of::<SearchQuery>() + query.q.len() + size_of::<SearchAnswer>() + found.hits.iter().map(hit).sum::<usize>()
}
