//! Backlinks of pages that were asked about lately, for as long as nothing is written.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::TreePath;

use super::Backlink;

/// Most bytes that are retained; beyond, all of them are dropped.
const MAX_BYTES: usize = 8 << 20;

/// Backlinks of a page.
#[derive(Debug, Default)]
pub(crate) struct PageBacklinks {
    /// The first [`MAX_ENTRIES`](super::MAX_ENTRIES), in path order.
    pub(super) entries: Vec<Backlink>,
    /// The pages behind those.
    pub(super) others: Vec<TreePath>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BacklinkCache(Mutex<CacheState>);

#[derive(Debug, Default)]
struct CacheState {
    /// How often the index was written since it was opened.
    writes: u64,
    bytes: usize,
    pages: HashMap<TreePath, Arc<PageBacklinks>>,
}

impl BacklinkCache {
    /// Drops all of them: the index was written.
    pub(crate) fn forget(&self) {
        let mut state = self.0.lock();
        let writes = state.writes + 1;
        *state = CacheState { writes, ..CacheState::default() };
    }

    /// The backlinks of a page; otherwise the state of the index that they are about to be read from.
    pub(super) fn get(&self, path: &TreePath) -> Result<Arc<PageBacklinks>, u64> {
        let state = self.0.lock();
        state.pages.get(path).cloned().ok_or(state.writes)
    }

    /// Retains backlinks that were read from some state on, unless the index was written meanwhile: they may be as old as that state.
    pub(super) fn put(&self, path: &TreePath, backlinks: &Arc<PageBacklinks>, read_from: u64) {
        let bytes = backlinks.bytes();
        let mut state = self.0.lock();
        if state.writes != read_from || bytes > MAX_BYTES / 2 {
            return;
        }
        if state.bytes + bytes > MAX_BYTES {
            *state = CacheState { writes: read_from, ..CacheState::default() };
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
        let other = |other: &TreePath| size_of::<TreePath>() + other.as_str().len();
        self.entries.iter().map(entry).sum::<usize>() + self.others.iter().map(other).sum::<usize>() + 256
    }
}
