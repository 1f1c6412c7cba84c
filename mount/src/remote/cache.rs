//! What is known of the server's tree.
//!
//! One rule: a thing counts as true only as long as the event stream would have told otherwise. What was asked of the server before the
//! stream was opened, or before a change of the same path was told, has to be asked again; with the version that is known, which makes the
//! answer short. What comes in late is held against what was told meanwhile.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use svcfs_base::{ETag, Timestamp, TreePath};

use super::client::{EntryType, RemoteEntry, VersionedContent};

/// How long a listing counts, and a file that is no page: the server does not announce directories, nor files without versions.
const UNANNOUNCED: Duration = Duration::from_secs(30);
/// How long a page counts. Pages are announced; this is for those that a server is told to ignore.
const PAGE: Duration = Duration::from_secs(600);
/// Contents kept, in bytes; the least recently used go first.
const MAX_BYTES: usize = 256 << 20;
/// Listings kept.
const MAX_LISTINGS: usize = 10_000;
/// Changes that are remembered, for answers that are on their way.
const MAX_TOLD: usize = 4096;
/// With more names to be looked at anew, a listing is read anew.
const MAX_STALE: usize = 8;

/// The moment at which the server was asked something.
#[derive(Debug, Clone, Copy)]
pub(super) struct FetchStamp {
    /// The opening of the event stream then; none while it was closed.
    stream: Option<u64>,
    /// Changes told before.
    told: u64,
    at: Instant,
}

/// What is told of a path: the version it has now, unless that is not known or there is none.
struct RecentChange {
    number: u64,
    path: TreePath,
    etag: Option<ETag>,
}

#[derive(Clone)]
struct CachedValue<T> {
    value: T,
    asked: FetchStamp,
}

/// The names of a directory, and whether each must be looked at anew.
type CachedNames = BTreeMap<Box<str>, (RemoteEntry, bool)>;

/// What there is to say of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CacheLookup {
    There(RemoteEntry),
    /// Nothing is there.
    Absent,
    /// It must be looked at anew.
    Stale,
    /// The directory must be read.
    Unknown,
}

/// What a piece of news is about, for the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheEffect {
    /// It was known already: this mount did it.
    None,
    /// The content is another.
    Content,
    /// The name came or went.
    Name,
}

#[derive(Default)]
struct RemoteCacheState {
    listings: HashMap<TreePath, CachedValue<CachedNames>>,
    contents: HashMap<TreePath, (CachedValue<VersionedContent>, u64)>,
    /// Bytes of all contents.
    bytes: usize,
    /// Counts uses.
    uses: u64,
    /// The present opening of the stream; none while it is closed.
    stream: Option<u64>,
    /// Openings and gaps so far.
    openings: u64,
    told: u64,
    /// The newest changes told, oldest first.
    recent: VecDeque<RecentChange>,
}

/// What is known.
#[derive(Default)]
pub(super) struct RemoteCache(Mutex<RemoteCacheState>);

impl RemoteCacheState {
    /// From now on the stream is followed: what was known before is not certain.
    fn begin(&mut self) {
        self.openings += 1;
        self.stream = Some(self.openings);
        self.recent.clear();
    }

    fn asked(&self) -> FetchStamp {
        FetchStamp { stream: self.stream, told: self.told, at: Instant::now() }
    }

    /// Whether everything that was told since a moment is known here.
    fn is_followed_since(&self, asked: FetchStamp, limit: Duration) -> bool {
        let is_remembered = self.recent.front().is_none_or(|told| told.number <= asked.told + 1);
        asked.stream.is_some() && asked.stream == self.stream && is_remembered && asked.at.elapsed() < limit
    }

    /// What was told since a moment, newest first.
    fn told_since(&self, asked: FetchStamp) -> impl Iterator<Item = &RecentChange> {
        self.recent.iter().rev().take_while(move |told| told.number > asked.told)
    }

    /// Whether a version that was there at a moment is still there.
    fn counts(&self, path: &TreePath, known: &CachedValue<VersionedContent>) -> bool {
        let limit = if path.is_page() && !path.is_hidden() { PAGE } else { UNANNOUNCED };
        let last = self.told_since(known.asked).find(|told| told.path == *path);
        let is_last = last.is_none_or(|told| told.etag == Some(known.value.etag));
        is_last && self.is_followed_since(known.asked, limit)
    }

    fn tell(&mut self, path: &TreePath, etag: Option<ETag>) {
        self.told += 1;
        self.recent.push_back(RecentChange { number: self.told, path: path.clone(), etag });
        if self.recent.len() > MAX_TOLD {
            self.recent.pop_front();
        }
    }

    fn drop_content(&mut self, path: &TreePath) -> bool {
        let dropped = self.contents.remove(path);
        if let Some((known, _)) = &dropped {
            self.bytes -= known.value.bytes.len();
        }
        dropped.is_some()
    }

    fn make_room(&mut self) {
        if self.bytes <= MAX_BYTES {
            return;
        }
        let mut by_use: Vec<(u64, TreePath)> =
            self.contents.iter().map(|(path, (_, used))| (*used, path.clone())).collect();
        by_use.sort_unstable();
        for (_, path) in by_use {
            self.drop_content(&path);
            // More than is needed now: the next content has room, too.
            if self.bytes <= MAX_BYTES / 4 * 3 {
                return;
            }
        }
    }

    /// Forgets the listings above a path that do not have the directory it lies in.
    fn appeared(&mut self, path: &TreePath) {
        let mut name = path.parent();
        while let Some((below, above)) = name.and_then(|name| Some((name.clone(), name.parent()?))) {
            match self.listings.get(&above) {
                Some(known) if known.value.contains_key(below.name()) => return,
                Some(_) => drop(self.listings.remove(&above)),
                None => {}
            }
            name = Some(above);
        }
    }
}

/// A name of which nothing is known but that something was told of it.
fn unseen(name: &str) -> (RemoteEntry, bool) {
    let entry = RemoteEntry { name: name.into(), size: 0, modified: Timestamp::UNIX_EPOCH, kind: EntryType::File };
    (entry, true)
}

impl RemoteCache {
    /// To be called before the server is asked.
    pub(super) fn asked(&self) -> FetchStamp {
        self.0.lock().asked()
    }

    /// Whether the event stream is open: what is known now is still so in a moment.
    pub(super) fn is_followed(&self) -> bool {
        self.0.lock().stream.is_some()
    }

    /// The event stream is open from now on, or had a gap: nothing that was asked before counts.
    pub(super) fn opened(&self) {
        self.0.lock().begin();
    }

    /// Something was changed of which the event stream tells in a moment: nothing that is known is certain until it was asked anew.
    pub(super) fn missed(&self) {
        let mut inner = self.0.lock();
        if inner.stream.is_some() {
            inner.begin();
        }
    }

    /// The event stream is closed.
    pub(super) fn closed(&self) {
        self.0.lock().stream = None;
    }

    /// A file as it is known, and whether it is certainly so.
    pub(super) fn content(&self, path: &TreePath) -> Option<(VersionedContent, bool)> {
        let mut inner = self.0.lock();
        inner.uses += 1;
        let uses = inner.uses;
        let (known, used) = inner.contents.get_mut(path)?;
        *used = uses;
        let known = known.clone();
        let counts = inner.counts(path, &known);
        Some((known.value, counts))
    }

    /// Keeps what the server answered.
    pub(super) fn keep_content(&self, path: &TreePath, content: VersionedContent, asked: FetchStamp) {
        let mut inner = self.0.lock();
        inner.drop_content(path);
        inner.bytes += content.bytes.len();
        inner.uses += 1;
        let uses = inner.uses;
        inner.contents.insert(path.clone(), (CachedValue { value: content, asked }, uses));
        inner.make_room();
    }

    /// What this mount changed: an answer to an older question is not taken for it.
    pub(super) fn changed(&self, path: &TreePath, etag: Option<ETag>) {
        let mut inner = self.0.lock();
        inner.tell(path, etag);
        if inner.contents.get(path).is_some_and(|(known, _)| Some(known.value.etag) != etag) {
            inner.drop_content(path);
        }
    }

    /// What is known of a name.
    pub(super) fn entry(&self, directory: &TreePath, name: &str) -> CacheLookup {
        let inner = self.0.lock();
        let known = inner.listings.get(directory).filter(|known| inner.is_followed_since(known.asked, UNANNOUNCED));
        match known.map(|known| known.value.get(name)) {
            None => CacheLookup::Unknown,
            Some(None) => CacheLookup::Absent,
            Some(Some((_, true))) => CacheLookup::Stale,
            Some(Some((entry, false))) => CacheLookup::There(entry.clone()),
        }
    }

    /// The entries of a directory, and whether each must be looked at anew; none when the directory must be read.
    pub(super) fn listing(&self, directory: &TreePath) -> Option<Vec<(RemoteEntry, bool)>> {
        let inner = self.0.lock();
        let known = inner.listings.get(directory).filter(|known| inner.is_followed_since(known.asked, UNANNOUNCED))?;
        let stale = known.value.values().filter(|(_, is_stale)| *is_stale).count();
        (stale <= MAX_STALE).then(|| known.value.values().cloned().collect())
    }

    /// Keeps what the server answered.
    pub(super) fn keep_listing(&self, directory: &TreePath, entries: &[RemoteEntry], asked: FetchStamp) {
        let mut inner = self.0.lock();
        let mut names: CachedNames = entries.iter().map(|entry| (entry.name.clone(), (entry.clone(), false))).collect();
        for told in inner.told_since(asked) {
            let place = told.path.parent();
            if place.as_ref() == Some(directory) {
                let name = told.path.name();
                names.entry(name.into()).or_insert_with(|| unseen(name)).1 = true;
            } else if place.is_some_and(|place| place.is_under(directory)) {
                // It may have made a directory.
                return;
            }
        }
        if inner.listings.len() >= MAX_LISTINGS {
            inner.listings.clear();
        }
        // What was told since is in it.
        let asked = FetchStamp { told: inner.told, ..asked };
        inner.listings.insert(directory.clone(), CachedValue { value: names, asked });
    }

    /// Notes what the server said of a name, where its directory is known.
    pub(super) fn keep_entry(&self, path: &TreePath, entry: Option<RemoteEntry>, asked: FetchStamp) {
        let Some(directory) = path.parent() else { return };
        let mut inner = self.0.lock();
        let is_stale = inner.told_since(asked).any(|told| told.path == *path);
        if let Some(known) = inner.listings.get_mut(&directory) {
            match entry {
                Some(entry) => known.value.insert(path.name().into(), (entry, is_stale)),
                None if is_stale => known.value.insert(path.name().into(), unseen(path.name())),
                None => known.value.remove(path.name()),
            };
        }
    }

    /// A file is there now: directories above it may be new.
    pub(super) fn appeared(&self, path: &TreePath) {
        self.0.lock().appeared(path);
    }

    /// Forgets a directory's listing.
    pub(super) fn forget_listing(&self, directory: &TreePath) {
        self.0.lock().listings.remove(directory);
    }

    /// The stream tells that a file has this version now, or one that is not told.
    pub(super) fn written(&self, path: &TreePath, etag: Option<ETag>) -> CacheEffect {
        let mut inner = self.0.lock();
        inner.tell(path, etag);
        if inner.contents.get(path).is_some_and(|(known, _)| Some(known.value.etag) == etag) {
            return CacheEffect::None;
        }
        let was_known = inner.drop_content(path);
        inner.appeared(path);
        let Some(directory) = path.parent() else { return CacheEffect::Content };
        let Some(known) = inner.listings.get_mut(&directory) else {
            return if was_known { CacheEffect::Content } else { CacheEffect::Name };
        };
        match known.value.insert(path.name().into(), unseen(path.name())) {
            // Until it is looked at, it is what it was.
            Some((entry, _)) => {
                known.value.insert(path.name().into(), (entry, true));
                CacheEffect::Content
            }
            None => CacheEffect::Name,
        }
    }

    /// The stream tells that a file is gone.
    pub(super) fn removed(&self, path: &TreePath) -> CacheEffect {
        let mut inner = self.0.lock();
        inner.tell(path, None);
        let was_known = inner.drop_content(path);
        let Some(directory) = path.parent() else { return CacheEffect::None };
        match inner.listings.get_mut(&directory) {
            Some(known) => {
                let was_listed = known.value.remove(path.name()).is_some();
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
        RemoteEntry { size: 1, ..unseen(name).0 }
    }
    fn is_current(cache: &RemoteCache, of: &str) -> Option<bool> {
        cache.content(&path(of)).map(|(_, is_current)| is_current)
    }

    #[test]
    fn what_was_asked_while_the_stream_was_closed_or_before_it_was_opened_is_asked_again() {
        let cache = RemoteCache::default();
        let before = cache.asked();
        cache.keep_content(&path("a.md"), text("a"), before);
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.opened();
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.keep_content(&path("a.md"), text("a"), cache.asked());
        assert_eq!(is_current(&cache, "a.md"), Some(true));
        cache.closed();
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.opened();
        assert_eq!(is_current(&cache, "a.md"), Some(false), "what happened while it was closed was not told");
    }

    #[test]
    fn an_answer_that_a_change_overtakes_is_not_believed() {
        let cache = RemoteCache::default();
        cache.opened();
        let asked = cache.asked();
        assert_eq!(cache.written(&path("a.md"), Some(text("new").etag)), CacheEffect::Name);
        cache.keep_content(&path("a.md"), text("old"), asked);
        assert_eq!(is_current(&cache, "a.md"), Some(false));
        cache.keep_content(&path("a.md"), text("new"), asked);
        assert_eq!(is_current(&cache, "a.md"), Some(true), "the version told last is there");
        // A listing that was on its way, too.
        cache.keep_listing(&path(""), &[file("a.md"), file("b.md")], asked);
        assert_eq!(cache.entry(&path(""), "a.md"), CacheLookup::Stale);
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::There(file("b.md")));
        assert_eq!(cache.entry(&path(""), "c.md"), CacheLookup::Absent);
    }

    #[test]
    fn a_read_that_this_mounts_own_write_overtakes_is_not_believed() {
        let cache = RemoteCache::default();
        cache.opened();
        let (asked_to_read, asked_to_write) = (cache.asked(), cache.asked());
        cache.changed(&path("a.md"), Some(text("new").etag));
        cache.keep_content(&path("a.md"), text("new"), asked_to_write);
        assert_eq!(is_current(&cache, "a.md"), Some(true));
        assert_eq!(cache.written(&path("a.md"), Some(text("new").etag)), CacheEffect::None, "its echo");
        assert_eq!(is_current(&cache, "a.md"), Some(true));
        cache.keep_content(&path("a.md"), text("old"), asked_to_read);
        assert_eq!(is_current(&cache, "a.md"), Some(false));
    }

    #[test]
    fn news_of_a_name_change_the_listings_they_are_about() {
        let cache = RemoteCache::default();
        cache.opened();
        cache.keep_listing(&path(""), &[file("a.md")], cache.asked());
        cache.keep_listing(&path("d"), &[], cache.asked());
        assert_eq!(cache.written(&path("a.md"), None), CacheEffect::Content);
        assert_eq!(cache.entry(&path(""), "a.md"), CacheLookup::Stale);
        assert_eq!(cache.written(&path("b.md"), None), CacheEffect::Name);
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::Stale);
        cache.keep_entry(&path("b.md"), Some(file("b.md")), cache.asked());
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::There(file("b.md")));
        assert_eq!(cache.removed(&path("b.md")), CacheEffect::Name);
        assert_eq!(cache.entry(&path(""), "b.md"), CacheLookup::Absent);
        assert_eq!(cache.removed(&path("b.md")), CacheEffect::None, "known already");
        assert_eq!(cache.written(&path("new/deep/c.md"), None), CacheEffect::Name);
        assert_eq!(cache.entry(&path(""), "new"), CacheLookup::Unknown, "a directory came");
        assert_eq!(cache.entry(&path("d"), "x"), CacheLookup::Absent);
    }

    #[test]
    fn more_changes_than_are_remembered_make_everything_uncertain() {
        let cache = RemoteCache::default();
        cache.opened();
        cache.keep_content(&path("a.md"), text("a"), cache.asked());
        for number in 0..MAX_TOLD + 1 {
            assert_eq!(is_current(&cache, "a.md"), Some(true));
            cache.written(&path(&format!("{number}.md")), None);
        }
        assert_eq!(is_current(&cache, "a.md"), Some(false));
    }

    #[test]
    fn the_least_recently_used_contents_make_room() {
        let cache = RemoteCache::default();
        let large = |name: &str| VersionedContent { etag: text(name).etag, bytes: vec![0; MAX_BYTES / 4].into() };
        for name in ["a", "b", "c", "d"] {
            cache.keep_content(&path(name), large(name), cache.asked());
        }
        assert!(cache.content(&path("a")).is_some());
        cache.keep_content(&path("e"), large("e"), cache.asked());
        let kept = ["a", "b", "c", "d", "e"].map(|name| cache.content(&path(name)).is_some());
        assert_eq!(kept, [true, false, false, true, true]);
    }
}
