//! Cache of the server's tree.
//!
//! Invariant: cached data is current only as long as the event stream would have announced a
//! change. Data fetched before the stream was opened, or before a change of the same path, must be
//! fetched again (with the known ETag, for a short response). A late response is compared with the
//! changes announced since its request.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcfs_base::{ETag, Timestamp, TreePath};

use super::client::{EntryType, RemoteEntry, VersionedContent};

/// TTL of listings and of files that are not pages: directories and unversioned files are not
/// announced.
const UNANNOUNCED_TTL: Duration = Duration::from_secs(30);
/// TTL of pages. Pages are announced, except those the server is configured to ignore.
const PAGE_TTL: Duration = Duration::from_secs(600);
/// Limit of cached contents; the least recently used are evicted first.
const MAX_CONTENT_BYTES: usize = 256 << 20;
const MAX_LISTINGS: usize = 10_000;
/// Remembered changes, to check responses in flight.
const MAX_RECENT_CHANGES: usize = 4096;
/// A listing with more stale entries is read again as a whole.
const MAX_STALE_ENTRIES: usize = 8;

/// State of the cache when a request was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchStamp {
    /// The epoch of the event stream; none while it was closed.
    epoch: Option<u64>,
    /// Changes announced before.
    change_count: u64,
    at: Instant,
}

/// An announced change: the version now at a path, if there is one and it is known.
struct RecentChange {
    number: u64,
    path: TreePath,
    etag: Option<ETag>,
}

#[derive(Clone)]
struct CachedValue<T> {
    value: T,
    stamp: FetchStamp,
}

/// Entries of a directory, and whether each is stale.
type CachedNames = BTreeMap<Box<str>, (RemoteEntry, bool)>;

/// Result of a lookup in the cache.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CacheLookup {
    Present(RemoteEntry),
    /// The name does not exist.
    Absent,
    /// The entry must be fetched again.
    Stale,
    /// The directory must be listed.
    Unknown,
}

/// What an event changes for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheEffect {
    /// Nothing: it announces a change made by this mount.
    None,
    /// Content.
    Content,
    /// The name was added or removed.
    Name,
}

#[derive(Default)]
struct RemoteCacheState {
    listings: HashMap<TreePath, CachedValue<CachedNames>>,
    contents: HashMap<TreePath, (CachedValue<VersionedContent>, u64)>,
    bytes: usize,
    /// Logical clock for eviction.
    clock: u64,
    /// The current epoch of the stream; none while it is closed.
    epoch: Option<u64>,
    last_epoch: u64,
    change_count: u64,
    /// The newest changes, oldest first.
    recent: VecDeque<RecentChange>,
}

#[derive(Default)]
pub(super) struct RemoteCache(Mutex<RemoteCacheState>);

impl RemoteCacheState {
    /// Starts an epoch: earlier data is no longer current.
    fn start_epoch(&mut self) {
        self.last_epoch += 1;
        self.epoch = Some(self.last_epoch);
        self.recent.clear();
    }

    fn stamp(&self) -> FetchStamp {
        FetchStamp { epoch: self.epoch, change_count: self.change_count, at: Instant::now() }
    }

    /// Whether every change since a stamp is remembered.
    fn is_followed_since(&self, stamp: FetchStamp, ttl: Duration) -> bool {
        let is_remembered = self.recent.front().is_none_or(|change| change.number <= stamp.change_count + 1);
        stamp.epoch.is_some() && stamp.epoch == self.epoch && is_remembered && stamp.at.elapsed() < ttl
    }

    /// Changes since a stamp, newest first.
    fn changes_since(&self, stamp: FetchStamp) -> impl Iterator<Item = &RecentChange> {
        self.recent.iter().rev().take_while(move |change| change.number > stamp.change_count)
    }

    /// Whether a cached version is certainly the server's.
    fn is_current_version(&self, path: &TreePath, cached: &CachedValue<VersionedContent>) -> bool {
        let ttl = if path.is_page() && !path.is_hidden() { PAGE_TTL } else { UNANNOUNCED_TTL };
        let latest = self.changes_since(cached.stamp).find(|change| change.path == *path);
        let is_newest = latest.is_none_or(|change| change.etag == Some(cached.value.etag));
        is_newest && self.is_followed_since(cached.stamp, ttl)
    }

    fn record_change(&mut self, path: &TreePath, etag: Option<ETag>) {
        self.change_count += 1;
        self.recent.push_back(RecentChange { number: self.change_count, path: path.clone(), etag });
        if self.recent.len() > MAX_RECENT_CHANGES {
            self.recent.pop_front();
        }
    }

    fn drop_content(&mut self, path: &TreePath) -> bool {
        let dropped = self.contents.remove(path);
        if let Some((cached, _)) = &dropped {
            self.bytes -= cached.value.bytes.len();
        }
        dropped.is_some()
    }

    fn evict(&mut self) {
        if self.bytes <= MAX_CONTENT_BYTES {
            return;
        }
        let mut by_use: Vec<(u64, TreePath)> =
            self.contents.iter().map(|(path, (_, used))| (*used, path.clone())).collect();
        by_use.sort_unstable();
        for (_, path) in by_use {
            self.drop_content(&path);
            // Evicts more than necessary, to run less often.
            if self.bytes <= MAX_CONTENT_BYTES / 4 * 3 {
                return;
            }
        }
    }

    /// Drops ancestor listings that lack the directory of a path.
    fn drop_outdated_ancestors(&mut self, path: &TreePath) {
        let mut name = path.parent();
        while let Some((below, parent)) = name.and_then(|name| Some((name.clone(), name.parent()?))) {
            match self.listings.get(&parent) {
                Some(cached) if cached.value.contains_key(below.name()) => return,
                Some(_) => drop(self.listings.remove(&parent)),
                None => {}
            }
            name = Some(parent);
        }
    }
}

/// A stale entry with placeholder attributes.
fn stale_entry(name: &str) -> (RemoteEntry, bool) {
    let entry = RemoteEntry { name: name.into(), size: 0, modified: Timestamp::UNIX_EPOCH, kind: EntryType::File };
    (entry, true)
}

impl RemoteCache {
    /// To be taken before a request is sent.
    pub(super) fn stamp(&self) -> FetchStamp {
        self.0.lock().stamp()
    }

    /// Whether the event stream is open.
    pub(super) fn is_followed(&self) -> bool {
        self.0.lock().epoch.is_some()
    }

    /// The event stream was opened, or had a gap: earlier data is no longer current.
    pub(super) fn stream_opened(&self) {
        self.0.lock().start_epoch();
    }

    /// Makes all data uncertain, after a change that the event stream has not announced yet.
    pub(super) fn expire_all(&self) {
        let mut state = self.0.lock();
        if state.epoch.is_some() {
            state.start_epoch();
        }
    }

    pub(super) fn stream_closed(&self) {
        self.0.lock().epoch = None;
    }

    /// The cached content of a file, and whether it is certainly current.
    pub(super) fn content(&self, path: &TreePath) -> Option<(VersionedContent, bool)> {
        let mut state = self.0.lock();
        state.clock += 1;
        let clock = state.clock;
        let (cached, used) = state.contents.get_mut(path)?;
        *used = clock;
        let cached = cached.clone();
        let is_current_version = state.is_current_version(path, &cached);
        Some((cached.value, is_current_version))
    }

    pub(super) fn store_content(&self, path: &TreePath, content: VersionedContent, stamp: FetchStamp) {
        let mut state = self.0.lock();
        state.drop_content(path);
        state.bytes += content.bytes.len();
        state.clock += 1;
        let clock = state.clock;
        state.contents.insert(path.clone(), (CachedValue { value: content, stamp }, clock));
        state.evict();
    }

    /// Records a change made by this mount, so that responses to older requests are not used.
    pub(super) fn record_own_change(&self, path: &TreePath, etag: Option<ETag>) {
        let mut state = self.0.lock();
        state.record_change(path, etag);
        if state.contents.get(path).is_some_and(|(cached, _)| Some(cached.value.etag) != etag) {
            state.drop_content(path);
        }
    }

    pub(super) fn entry(&self, directory: &TreePath, name: &str) -> CacheLookup {
        let state = self.0.lock();
        let cached =
            state.listings.get(directory).filter(|cached| state.is_followed_since(cached.stamp, UNANNOUNCED_TTL));
        match cached.map(|cached| cached.value.get(name)) {
            None => CacheLookup::Unknown,
            Some(None) => CacheLookup::Absent,
            Some(Some((_, true))) => CacheLookup::Stale,
            Some(Some((entry, false))) => CacheLookup::Present(entry.clone()),
        }
    }

    /// Entries of a directory, and whether each is stale; none when the directory must be listed.
    pub(super) fn listing(&self, directory: &TreePath) -> Option<Vec<(RemoteEntry, bool)>> {
        let state = self.0.lock();
        let cached =
            state.listings.get(directory).filter(|cached| state.is_followed_since(cached.stamp, UNANNOUNCED_TTL))?;
        let stale = cached.value.values().filter(|(_, is_stale)| *is_stale).count();
        (stale <= MAX_STALE_ENTRIES).then(|| cached.value.values().cloned().collect())
    }

    pub(super) fn store_listing(&self, directory: &TreePath, entries: &[RemoteEntry], stamp: FetchStamp) {
        let mut state = self.0.lock();
        let mut names: CachedNames = entries.iter().map(|entry| (entry.name.clone(), (entry.clone(), false))).collect();
        for change in state.changes_since(stamp) {
            let parent = change.path.parent();
            if parent.as_ref() == Some(directory) {
                let name = change.path.name();
                names.entry(name.into()).or_insert_with(|| stale_entry(name)).1 = true;
            } else if parent.is_some_and(|parent| parent.is_under(directory)) {
                // It may have created a directory.
                return;
            }
        }
        if state.listings.len() >= MAX_LISTINGS {
            state.listings.clear();
        }
        // Includes the changes since the request.
        let stamp = FetchStamp { change_count: state.change_count, ..stamp };
        state.listings.insert(directory.clone(), CachedValue { value: names, stamp });
    }

    /// Stores an entry (or its absence), if its directory is cached.
    pub(super) fn store_entry(&self, path: &TreePath, entry: Option<RemoteEntry>, stamp: FetchStamp) {
        let Some(directory) = path.parent() else { return };
        let mut state = self.0.lock();
        let is_stale = state.changes_since(stamp).any(|change| change.path == *path);
        if let Some(cached) = state.listings.get_mut(&directory) {
            match entry {
                Some(entry) => cached.value.insert(path.name().into(), (entry, is_stale)),
                None if is_stale => cached.value.insert(path.name().into(), stale_entry(path.name())),
                None => cached.value.remove(path.name()),
            };
        }
    }

    /// A file exists now, and maybe new directories above it.
    pub(super) fn on_created(&self, path: &TreePath) {
        self.0.lock().drop_outdated_ancestors(path);
    }

    pub(super) fn drop_listing(&self, directory: &TreePath) {
        self.0.lock().listings.remove(directory);
    }

    /// Handles the event that a file has this version, or an unknown one.
    pub(super) fn on_written(&self, path: &TreePath, etag: Option<ETag>) -> CacheEffect {
        let mut state = self.0.lock();
        state.record_change(path, etag);
        if state.contents.get(path).is_some_and(|(cached, _)| Some(cached.value.etag) == etag) {
            return CacheEffect::None;
        }
        let was_known = state.drop_content(path);
        state.drop_outdated_ancestors(path);
        let Some(directory) = path.parent() else { return CacheEffect::Content };
        let Some(cached) = state.listings.get_mut(&directory) else {
            return if was_known { CacheEffect::Content } else { CacheEffect::Name };
        };
        match cached.value.insert(path.name().into(), stale_entry(path.name())) {
            // Keeps the attributes until they are fetched again.
            Some((entry, _)) => {
                cached.value.insert(path.name().into(), (entry, true));
                CacheEffect::Content
            }
            None => CacheEffect::Name,
        }
    }

    /// Handles the event that a file was removed.
    pub(super) fn on_removed(&self, path: &TreePath) -> CacheEffect {
        let mut state = self.0.lock();
        state.record_change(path, None);
        let was_known = state.drop_content(path);
        let Some(directory) = path.parent() else { return CacheEffect::None };
        match state.listings.get_mut(&directory) {
            Some(cached) => {
                let was_listed = cached.value.remove(path.name()).is_some();
                if was_listed || was_known { CacheEffect::Name } else { CacheEffect::None }
            }
            None => CacheEffect::Name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }
    fn text(text: &str) -> VersionedContent {
        VersionedContent { etag: ETag::from_content(text.as_bytes()), bytes: text.to_owned().into() }
    }
    fn file(name: &str) -> RemoteEntry {
        RemoteEntry { size: 1, ..stale_entry(name).0 }
    }
    fn is_current(cache: &RemoteCache, of: &str) -> Option<bool> {
        cache.content(&path(of)).map(|(_, is_current)| is_current)
    }

    /// Shows: REM-6
    #[test]
    fn content_fetched_without_an_event_stream_is_not_current() {
        let cache = RemoteCache::default();
        let before = cache.stamp();
        cache.store_content(&path("a.md"), text("a"), before);
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.stream_opened();
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.store_content(&path("a.md"), text("a"), cache.stamp());
        assert_eq!(is_current(&cache, "a.md"), Some(true));
        cache.stream_closed();
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.stream_opened();
        assert_eq!(is_current(&cache, "a.md"), Some(false), "what happened while it was closed was not told");
    }

    /// Shows: REM-5
    #[test]
    fn an_answer_that_a_change_overtakes_is_not_believed() {
        let cache = RemoteCache::default();
        cache.stream_opened();
        let stamp = cache.stamp();
        assert_eq!(cache.on_written(&path("a.md"), Some(text("new").etag)), CacheEffect::Name);
        cache.store_content(&path("a.md"), text("old"), stamp);
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.store_content(&path("a.md"), text("new"), stamp);
        assert_eq!(is_current(&cache, "a.md"), Some(true), "the version told last is there");
        // A listing that was on its way, too.
        cache.store_listing(&path(""), &[file("a.md"), file("b.md")], stamp);
        assert_eq!(cache.entry(&path(""), "a.md"), CacheLookup::Stale);
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::Present(file("b.md")));
        assert_eq!(cache.entry(&path(""), "c.md"), CacheLookup::Absent);
    }

    #[test]
    fn a_read_that_this_mounts_own_write_overtakes_is_not_believed() {
        let cache = RemoteCache::default();
        cache.stream_opened();
        let (asked_to_read, asked_to_write) = (cache.stamp(), cache.stamp());
        cache.record_own_change(&path("a.md"), Some(text("new").etag));
        cache.store_content(&path("a.md"), text("new"), asked_to_write);
        assert_eq!(is_current(&cache, "a.md"), Some(true));
        assert_eq!(cache.on_written(&path("a.md"), Some(text("new").etag)), CacheEffect::None, "its echo");
        assert_eq!(is_current(&cache, "a.md"), Some(true));
        cache.store_content(&path("a.md"), text("old"), asked_to_read);
        assert_eq!(is_current(&cache, "a.md"), Some(false));
    }

    #[test]
    fn news_of_a_name_change_the_listings_they_are_about() {
        let cache = RemoteCache::default();
        cache.stream_opened();
        cache.store_listing(&path(""), &[file("a.md")], cache.stamp());
        cache.store_listing(&path("d"), &[], cache.stamp());
        assert_eq!(cache.on_written(&path("a.md"), None), CacheEffect::Content);
        assert_eq!(cache.entry(&path(""), "a.md"), CacheLookup::Stale);
        assert_eq!(cache.on_written(&path("b.md"), None), CacheEffect::Name);
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::Stale);
        cache.store_entry(&path("b.md"), Some(file("b.md")), cache.stamp());
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::Present(file("b.md")));
        assert_eq!(cache.on_removed(&path("b.md")), CacheEffect::Name);
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::Absent);
        assert_eq!(cache.on_removed(&path("b.md")), CacheEffect::None, "known already");
        assert_eq!(cache.on_written(&path("new/deep/c.md"), None), CacheEffect::Name);
        assert_eq!(cache.entry(&path(""), "new"), CacheLookup::Unknown, "a directory came");
        assert_eq!(cache.entry(&path("d"), "x"), CacheLookup::Absent);
    }

    #[test]
    fn more_changes_than_are_remembered_make_everything_uncertain() {
        let cache = RemoteCache::default();
        cache.stream_opened();
        cache.store_content(&path("a.md"), text("a"), cache.stamp());
        for number in 0..MAX_RECENT_CHANGES + 1 {
            assert_eq!(is_current(&cache, "a.md"), Some(true));
            cache.on_written(&path(&format!("{number}.md")), None);
        }
        assert_eq!(is_current(&cache, "a.md"), Some(false));
    }

    #[test]
    fn the_least_recently_used_contents_make_room() {
        let cache = RemoteCache::default();
        let large =
            |name: &str| VersionedContent { etag: text(name).etag, bytes: vec![0; MAX_CONTENT_BYTES / 4].into() };
        for name in ["a", "b", "c", "d"] {
            cache.store_content(&path(name), large(name), cache.stamp());
        }
        assert!(cache.content(&path("a")).is_some());
        cache.store_content(&path("e"), large("e"), cache.stamp());
        let kept = ["a", "b", "c", "d", "e"].map(|name| cache.content(&path(name)).is_some());
        assert_eq!(kept, [true, false, false, true, true]);
    }
}
