//! Cache of search results; valid until the next write.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::{SearchAnswer, SearchHit, SearchQuery};

/// Size limit; when it is exceeded, the cache is cleared.
const MAX_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct AnswerCache(Mutex<AnswerCacheState>);

#[derive(Debug, Default)]
struct AnswerCacheState {
    generation: u64,
    bytes: usize,
    answers: HashMap<SearchQuery, SearchAnswer>,
}

impl AnswerCache {
    /// Invalidates all results after a write.
    pub(crate) fn clear(&self) {
        let mut cache = self.0.lock();
        let generation = cache.generation + 1;
        *cache = AnswerCacheState { generation, ..AnswerCacheState::default() };
    }

    /// The cached result; otherwise the generation to pass to [`AnswerCache::put`].
    pub(super) fn get(&self, query: &SearchQuery) -> Result<SearchAnswer, u64> {
        let cache = self.0.lock();
        cache.answers.get(query).cloned().ok_or(cache.generation)
    }

    /// Stores a result. It is dropped when the index was written since `generation`, because it may
    /// be stale.
    pub(super) fn put(&self, query: &SearchQuery, answer: &SearchAnswer, generation: u64) {
        let bytes = size_of_answer(query, answer);
        let mut cache = self.0.lock();
        if cache.generation != generation || bytes > MAX_BYTES / 4 {
            return;
        }
        if cache.bytes + bytes > MAX_BYTES {
            *cache = AnswerCacheState { generation, ..AnswerCacheState::default() };
        }
        cache.bytes += bytes;
        cache.answers.insert(query.clone(), answer.clone());
    }
}

fn size_of_answer(query: &SearchQuery, answer: &SearchAnswer) -> usize {
    let hit = |hit: &SearchHit| size_of::<SearchHit>() + hit.path.as_str().len() + hit.title.len() + hit.snippet.len();
    size_of::<SearchQuery>() + query.q.len() + size_of::<SearchAnswer>() + answer.hits.iter().map(hit).sum::<usize>()
}
