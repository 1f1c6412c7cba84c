//! What is kept of pages between requests. Everything can be computed again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_render::{PageLink, ParsedPage};

use super::RenderedPage;
use super::listed_pages::ListedPagesCache;
use crate::kernel::Space;

/// Number of entries of a generation.
const MAX_ENTRIES: usize = 1_024;

/// Bytes of the entries of a generation, as far as they are text.
const MAX_BYTES: usize = 16 << 20;

/// A cache of at most two generations: when the younger one is full, it replaces the older one.
#[derive(Debug)]
pub(super) struct GenerationCache<K, V> {
    /// Values with the bytes of their text.
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    young_bytes: usize,
}

impl<K, V> Default for GenerationCache<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_bytes: 0 }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> GenerationCache<K, V> {
    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (value, bytes) = self.old.remove(key)?;
        self.put(key.clone(), value.clone(), bytes);
        Some(value)
    }

    /// Stores a value whose text has so many bytes.
    pub(super) fn put(&mut self, key: K, value: V, bytes: usize) {
        if self.young.len() >= MAX_ENTRIES || self.young_bytes.saturating_add(bytes) > MAX_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if let Some((_, replaced)) = self.young.insert(key, (value, bytes)) {
            self.young_bytes = self.young_bytes.saturating_sub(replaced);
        }
    }
}

/// The state of a space on which a page depends, beside its own content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceState {
    last_seq: u64,
    indexed: u64,
}

impl SpaceState {
    /// The present state.
    pub fn of(space: &Space) -> Self {
        Self { last_seq: space.vfs.last_seq().0, indexed: space.index_watermark.level() }
    }

    /// Whether it has all that the earlier state had.
    fn is_since(self, earlier: Self) -> bool {
        self.last_seq >= earlier.last_seq && self.indexed >= earlier.indexed
    }

    /// Whether the index has every change.
    pub(super) const fn is_indexed(self) -> bool {
        self.indexed >= self.last_seq
    }
}

/// The files that the links of a page mean, by target; wiki links are resolved differently.
pub(super) type LinkTargets = HashMap<(bool, String), TreePath>;

/// A parsed page, and what its links meant last.
#[derive(Debug)]
pub(super) struct CachedPage {
    pub(super) page: ParsedPage,
    targets: Mutex<Option<(u64, Arc<LinkTargets>)>>,
}

impl CachedPage {
    /// A page whose links were not looked up yet.
    pub(super) fn new(page: ParsedPage) -> Self {
        Self { page, targets: Mutex::default() }
    }

    /// The files that its links mean. All are looked up in one transaction, and again only after
    /// the index changed.
    ///
    /// # Errors
    /// Those of the index.
    pub(super) fn targets(&self, space: &Space, from: &TreePath) -> Result<Arc<LinkTargets>, Fault> {
        let indexed = space.index_watermark.level();
        if let Some((known, targets)) = self.targets.lock().as_ref()
            && *known == indexed
        {
            return Ok(Arc::clone(targets));
        }
        let targets = Arc::new(resolve_all(space, from, &self.page.links)?);
        *self.targets.lock() = Some((indexed, Arc::clone(&targets)));
        Ok(targets)
    }
}

fn resolve_all(space: &Space, from: &TreePath, links: &[PageLink]) -> Result<LinkTargets, Fault> {
    use svcfs_text::links::LinkKind;
    if links.is_empty() {
        return Ok(LinkTargets::new());
    }
    let kind = |link: &PageLink| if link.is_wiki { LinkKind::Wiki } else { LinkKind::Markdown };
    let resolved = space.index.resolve_links(from, links.iter().map(|link| (kind(link), link.target.as_str())))?;
    let target = |(link, path): (&PageLink, Option<TreePath>)| Some(((link.is_wiki, link.target.clone()), path?));
    Ok(links.iter().zip(resolved).filter_map(target).collect())
}

/// A response that is the same for all readers.
#[derive(Debug)]
pub struct PublishedDocument {
    /// Its media type.
    pub mime: String,
    /// Its body.
    pub body: Bytes,
    /// Hash of the body.
    pub etag: ETag,
    /// The published page that it shows, for counting.
    pub page: Option<TreePath>,
}

/// A document, with what it depends on.
#[derive(Debug, Clone)]
struct CachedDocument {
    state: SpaceState,
    expires_at: Option<Instant>,
    document: Arc<PublishedDocument>,
}

/// Path and content of a page, and the folder of the callers.
pub(super) type CallerPageKey = (TreePath, ETag, Option<TreePath>);

/// Values, each with the state of the space in which it was made.
type StateCache<K, V> = Mutex<GenerationCache<K, (SpaceState, V)>>;

/// The caches of a space.
#[derive(Debug, Default)]
pub struct PublishingCaches {
    pub(super) listed: Mutex<ListedPagesCache>,
    pub(super) parsed: Mutex<GenerationCache<(ETag, TreePath, bool), Arc<CachedPage>>>,
    /// A published page that used a file; none if there was none.
    pub(super) assets: StateCache<TreePath, Option<TreePath>>,
    /// The files that a published page leads to, sorted.
    pub(super) page_files: StateCache<TreePath, Arc<Vec<TreePath>>>,
    /// A page as callers with the same permissions see it.
    pub(super) caller_pages: StateCache<CallerPageKey, Arc<RenderedPage>>,
    documents: Mutex<GenerationCache<String, CachedDocument>>,
}

impl PublishingCaches {
    /// The document at an address below `/p`, if it is not older than a state of the space. Does
    /// not block.
    pub fn document(&self, since: SpaceState, address: &str) -> Option<Arc<PublishedDocument>> {
        let cached = self.documents.lock().get(&address.to_owned())?;
        let is_current =
            cached.state.is_since(since) && cached.expires_at.is_none_or(|expires_at| Instant::now() < expires_at);
        is_current.then_some(cached.document)
    }

    /// Stores a document that was made when the space was in this state or later.
    pub fn store(
        &self,
        address: &str,
        (state, expires_at): (SpaceState, Option<Instant>),
        document: PublishedDocument,
    ) -> Arc<PublishedDocument> {
        let document = Arc::new(document);
        let cached = CachedDocument { state, expires_at, document: Arc::clone(&document) };
        self.documents.lock().put(address.to_owned(), cached, document.body.len());
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_limited_by_entries_and_bytes() {
        let mut cache = GenerationCache::default();
        for key in 0..100 {
            cache.put(key, MAX_BYTES / 4, MAX_BYTES / 4);
        }
        let bytes: usize = cache.young.values().chain(cache.old.values()).map(|(_, bytes)| bytes).sum();
        assert!(bytes <= 2 * MAX_BYTES, "{bytes}");
        assert_eq!((cache.get(&99), cache.get(&0)), (Some(MAX_BYTES / 4), None));
        cache.put(100, MAX_BYTES * 2, MAX_BYTES * 2);
        assert_eq!(cache.get(&100), Some(MAX_BYTES * 2), "one that is too large is alone");
        let mut cache = GenerationCache::default();
        (0..MAX_ENTRIES * 5).for_each(|key| cache.put(key, 0_usize, 0));
        assert!(cache.young.len() + cache.old.len() <= 2 * MAX_ENTRIES);
        for size in [MAX_BYTES / 2, MAX_BYTES / 4, 3] {
            cache.put(7, size, size);
        }
        assert_eq!(cache.get(&7), Some(3));
    }
}
