//! A cache of ETags, so that a repeated listing does not read the objects again. It is also stored
//! in the space and survives a restart.
//!
//! An ETag depends on all bytes of a file, and a listing has no time to read them: size, mtime and
//! ctime identify the content, with nanoseconds; clients cannot set the ctime. Lost entries are
//! recomputed, so nothing here waits for the disk.

mod cache_file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use svcfs_base::{ETag, TreePath};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{PathAttributes, StoredContent};

use crate::checksums::hex;

/// Cached objects and versions of all spaces, about 130 bytes each; beyond that, entries are
/// evicted.
const MAX_REMEMBERED: usize = 1 << 20;
/// Entries waiting to be saved; beyond that, entries are not saved.
const MAX_WAITING: usize = 1 << 16;
/// Minimum age of a change before its timestamp is unique: the clock of a file system is coarser
/// than its changes.
const SETTLED: Duration = Duration::from_secs(2);

/// A path as a fixed-size hash.
type PathDigest = [u8; 20];

/// The ETag of a file in a certain state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CachedETag {
    stamp: ObjectStamp,
    md5: [u8; 16],
    /// Number of parts; 0 for an object that was not uploaded in parts.
    parts: u32,
}

/// Identifies the state of a file: it changes with content and metadata. Times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ObjectStamp {
    size: u64,
    modified: i64,
    changed: i64,
}

impl ObjectStamp {
    fn of(attributes: &PathAttributes) -> Self {
        let PathAttributes { size, modified, changed, .. } = *attributes;
        Self { size, modified: nanoseconds(modified), changed: nanoseconds(changed) }
    }
}

fn nanoseconds(time: SystemTime) -> i64 {
    let of = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
    time.duration_since(UNIX_EPOCH).map_or_else(|saved| -of(saved.duration()), of)
}

impl CachedETag {
    /// `None` for a string that is not an ETag of this server.
    fn of(attributes: &PathAttributes, etag: &str) -> Option<Self> {
        let (md5, parts) = etag.split_once('-').map_or((etag, Some(0)), |(md5, parts)| (md5, parts.parse().ok()));
        let bytes: Vec<u8> = (0..md5.len()).step_by(2).map_while(|at| byte(md5, at)).collect();
        let cached = Self { stamp: ObjectStamp::of(attributes), md5: bytes.try_into().ok()?, parts: parts? };
        (cached.etag() == etag).then_some(cached)
    }

    fn etag(&self) -> String {
        match self.parts {
            0 => hex(&self.md5),
            parts => format!("{}-{parts}", hex(&self.md5)),
        }
    }
}

fn byte(text: &str, at: usize) -> Option<u8> {
    u8::from_str_radix(text.get(at..at + 2)?, 16).ok()
}

/// The cached entries of one space.
#[derive(Default)]
struct SpaceETags {
    entries: HashMap<PathDigest, CachedETag>,
    /// The keys of `entries`, to pick a random one in constant time.
    keys: Vec<PathDigest>,
    /// Entries that are not saved yet.
    unsaved: Vec<(PathDigest, CachedETag)>,
    is_loaded: bool,
}

impl SpaceETags {
    /// Adds an entry; returns whether it is new.
    fn insert(&mut self, key: PathDigest, cached: CachedETag) -> bool {
        match self.entries.insert(key, cached) {
            Some(saved) => saved != cached,
            None => {
                self.keys.push(key);
                true
            }
        }
    }

    /// Evicts a random entry. Evicting the oldest would give no hits at all to a client that
    /// repeatedly lists more than the cache holds.
    fn evict_random(&mut self) {
        // Keys are hashes, so any of them is random.
        let random = self.keys.last().map_or(0, |key| u64::from_le_bytes(std::array::from_fn(|at| key[at])));
        if let Some(count) = self.keys.len().checked_sub(1).filter(|count| *count > 0) {
            let key = self.keys.swap_remove(random as usize % count);
            self.entries.remove(&key);
        }
    }
}

/// The caches by root of the space.
pub(crate) struct ETagStore {
    tables: Mutex<HashMap<PathBuf, SpaceETags>>,
    /// Held while a cache file is read or written.
    file_lock: Mutex<()>,
    /// Capacity, and minimum age of a change.
    capacity: usize,
    min_age: Duration,
}

impl Default for ETagStore {
    fn default() -> Self {
        Self::new(MAX_REMEMBERED, SETTLED)
    }
}

fn key(path: &TreePath) -> PathDigest {
    *ETag::from_content(path.as_str().as_bytes()).as_bytes()
}

/// The key of an earlier version; no path starts with a NUL byte.
fn version_key(content: &StoredContent) -> PathDigest {
    let text = match content {
        StoredContent::Blob(blob) => format!("\0{blob}"),
        StoredContent::Converted(path, commit) => format!("\0{commit}\0{path}"),
        StoredContent::Snapshot(path, timestamp) => format!("\0{timestamp}\0{path}"),
    };
    *ETag::from_content(text.as_bytes()).as_bytes()
}

impl ETagStore {
    pub(crate) fn new(capacity: usize, min_age: Duration) -> Self {
        Self { tables: Mutex::default(), file_lock: Mutex::default(), capacity, min_age }
    }

    /// The cached ETag of a file with these attributes.
    pub(crate) fn cached(&self, (space, path): (&Space, &TreePath), attributes: &PathAttributes) -> Option<String> {
        let tables = self.tables.lock();
        let cached = tables.get(space.vfs.root())?.entries.get(&key(path))?;
        (cached.stamp == ObjectStamp::of(attributes)).then(|| cached.etag())
    }

    /// Caches an ETag.
    pub(crate) fn insert_etag(&self, (space, path): (&Space, &TreePath), attributes: &PathAttributes, etag: &str) {
        if !attributes.changed.elapsed().is_ok_and(|age| age >= self.min_age) {
            return;
        }
        let Some(cached) = CachedETag::of(attributes, etag) else { return };
        self.insert(space, key(path), cached);
    }

    /// Size and ETag of a version; they never change.
    pub(crate) fn cached_version(&self, space: &Space, content: &StoredContent) -> Option<(u64, String)> {
        let tables = self.tables.lock();
        let cached = tables.get(space.vfs.root())?.entries.get(&version_key(content))?;
        Some((cached.stamp.size, cached.etag()))
    }

    /// Caches the ETag of a version.
    pub(crate) fn insert_version(&self, space: &Space, content: &StoredContent, (size, md5): (u64, [u8; 16])) {
        let stamp = ObjectStamp { size, modified: 0, changed: 0 };
        self.insert(space, version_key(content), CachedETag { stamp, md5, parts: 0 });
    }

    fn insert(&self, space: &Space, key: PathDigest, cached: CachedETag) {
        let mut tables = self.tables.lock();
        let table = tables.entry(space.vfs.root().to_owned()).or_default();
        if table.insert(key, cached) && table.unsaved.len() < MAX_WAITING {
            table.unsaved.push((key, cached));
        }
        self.evict_excess(&mut tables);
    }

    /// Evicts entries over the capacity, from the space with the most.
    fn evict_excess(&self, tables: &mut HashMap<PathBuf, SpaceETags>) {
        let all: usize = tables.values().map(|table| table.keys.len()).sum();
        for _ in self.capacity..all {
            if let Some(largest) = tables.values_mut().max_by_key(|table| table.keys.len()) {
                largest.evict_random();
            }
        }
    }

    /// Loads the saved entries of a space, once. Blocks.
    pub(crate) fn load(&self, space: &Space) {
        let is_loaded =
            |tables: &HashMap<PathBuf, SpaceETags>| tables.get(space.vfs.root()).is_some_and(|table| table.is_loaded);
        if is_loaded(&self.tables.lock()) {
            return;
        }
        let _guard = self.file_lock.lock();
        if is_loaded(&self.tables.lock()) {
            return;
        }
        let saved: HashMap<_, _> = cache_file::read(&file(space)).into_iter().collect();
        let mut tables = self.tables.lock();
        let table = tables.entry(space.vfs.root().to_owned()).or_default();
        table.is_loaded = true;
        for (key, cached) in saved {
            // Entries of this process are newer.
            if !table.entries.contains_key(&key) {
                table.insert(key, cached);
            }
        }
        self.evict_excess(&mut tables);
    }

    /// Saves the new entries of a space. Blocks.
    pub(crate) fn save(&self, space: &Space) {
        let _guard = self.file_lock.lock();
        let (unsaved, count) = match self.tables.lock().get_mut(space.vfs.root()) {
            Some(table) if table.is_loaded => (std::mem::take(&mut table.unsaved), table.keys.len()),
            Some(_) | None => return,
        };
        let all = || {
            let tables = self.tables.lock();
            let entries = tables.get(space.vfs.root()).map(|table| &table.entries);
            entries.into_iter().flatten().map(|(key, cached)| (*key, *cached)).collect()
        };
        if !unsaved.is_empty()
            && let Err(error) = cache_file::add(&file(space), &unsaved, (count, all))
        {
            tracing::debug!(%error, "could not save the ETags of listed objects; they are recomputed after a restart");
        }
    }
}

fn file(space: &Space) -> PathBuf {
    Path::new(&space.vfs.state_directory()).join("s3.etags")
}
