//! Cache of recent backlink queries; valid until the next write.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::TreePath;

use super::Backlink;

/// Size limit; when it is exceeded, the cache is cleared.
const MAX_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct PageBacklinks {
    /// The first [`MAX_ENTRIES`](super::MAX_ENTRIES), in path order.
    pub(super) entries: Vec<Backlink>,
    /// The paths of further ones.
    pub(super) further_paths: Vec<TreePath>,
}

#[derive(Debug, Default)]
pub(crate) struct BacklinkCache(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    /// Number of writes since the index was opened.
    writes: u64,
    bytes: usize,
    pages: HashMap<TreePath, Arc<PageBacklinks>>,
}

impl BacklinkCache {
    pub(crate) fn clear(&self) {
        let mut state = self.0.lock();
        let writes = state.writes + 1;
        *state = CacheState { writes, ..CacheState::default() };
    }

    /// The cached backlinks; otherwise the generation to pass to [`BacklinkCache::put`].
    pub(super) fn get(&self, path: &TreePath) -> Result<Arc<PageBacklinks>, u64> {
        let state = self.0.lock();
        state.pages.get(path).cloned().ok_or(state.writes)
    }

    /// Stores backlinks, unless the index was written since `generation`: they may be stale.
    pub(super) fn put(&self, path: &TreePath, backlinks: &Arc<PageBacklinks>, generation: u64) {
        let bytes = backlinks.bytes();
        let mut state = self.0.lock();
        if state.writes != generation || bytes > MAX_BYTES / 2 {
            return;
        }
        if state.bytes + bytes > MAX_BYTES {
            *state = CacheState { writes: generation, ..CacheState::default() };
        }
        state.bytes += bytes;
        state.pages.insert(path.clone(), Arc::clone(backlinks));
    }
}

impl PageBacklinks {
    fn bytes(&self) -> usize {
        let entry = |entry: &Backlink| {
            size_of::<Backlink>() + entry.path.as_str().len() + entry.title.len() + entry.context.len()
        };
        let path = |path: &TreePath| size_of::<TreePath>() + path.as_str().len();
        self.entries.iter().map(entry).sum::<usize>() + self.further_paths.iter().map(path).sum::<usize>() + 256
    }
}
