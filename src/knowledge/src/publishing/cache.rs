//! What is kept of pages between requests. Everything can be computed again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use svcfs_base::{ETag, TreePath};
use svcfs_render::{PageLink, ParsedPage};

use super::listed_pages::ListedPagesCache;
use crate::kernel::Space;

/// Number of entries of a generation.
const MAX_ENTRIES: usize = 1_024;

/// A cache of at most two generations: when the younger one is full, it replaces the older one.
#[derive(Debug)]
pub(super) struct GenerationCache<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for GenerationCache<K, V> {
    fn default() -> Self {
        Self { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> GenerationCache<K, V> {
    pub(super) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.put(key.clone(), value.clone());
        Some(value)
    }

    pub(super) fn put(&mut self, key: K, value: V) {
        if self.young.len() >= MAX_ENTRIES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
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
    pub(super) fn new(page: ParsedPage) -> Self {
        Self { page, targets: Mutex::default() }
    }

    /// The files that its links mean. All are looked up in one transaction, and again only after
    /// the index changed.
    pub(super) fn targets(&self, space: &Space, from: &TreePath) -> Arc<LinkTargets> {
        let indexed = space.index_watermark.level();
        if let Some((known, targets)) = self.targets.lock().as_ref()
            && *known == indexed
        {
            return Arc::clone(targets);
        }
        let targets = Arc::new(resolve_all(space, from, &self.page.links));
        *self.targets.lock() = Some((indexed, Arc::clone(&targets)));
        targets
    }
}

fn resolve_all(space: &Space, from: &TreePath, links: &[PageLink]) -> LinkTargets {
    use svcfs_text::links::LinkKind;
    if links.is_empty() {
        return LinkTargets::new();
    }
    let kind = |link: &PageLink| if link.is_wiki { LinkKind::Wiki } else { LinkKind::Markdown };
    let resolved = space.index.resolve_links(from, links.iter().map(|link| (kind(link), link.target.as_str())));
    let resolved = resolved.unwrap_or_else(|error| {
        tracing::warn!(path = %from, %error, "the links of a page cannot be resolved; they are shown as text");
        Vec::new()
    });
    let target = |(link, path): (&PageLink, Option<TreePath>)| Some(((link.is_wiki, link.target.clone()), path?));
    links.iter().zip(resolved).filter_map(target).collect()
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

/// A published page that used a file.
#[derive(Debug, Clone)]
pub(super) struct AssetUse {
    pub(super) state: SpaceState,
    pub(super) page: Option<TreePath>,
}

/// The caches of a space.
#[derive(Debug, Default)]
pub struct PublishingCaches {
    pub(super) listed: Mutex<ListedPagesCache>,
    pub(super) parsed: Mutex<GenerationCache<(ETag, TreePath, bool), Arc<CachedPage>>>,
    pub(super) assets: Mutex<GenerationCache<TreePath, AssetUse>>,
    documents: Mutex<GenerationCache<String, CachedDocument>>,
}

impl PublishingCaches {
    /// The document at an address below `/p`, if it is still what the server would write now. Does
    /// not block.
    pub fn document(&self, space: &Space, address: &str) -> Option<Arc<PublishedDocument>> {
        let cached = self.documents.lock().get(&address.to_owned())?;
        let is_current = cached.state == SpaceState::of(space)
            && cached.expires_at.is_none_or(|expires_at| Instant::now() < expires_at);
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
        self.documents.lock().put(address.to_owned(), cached);
        document
    }
}
