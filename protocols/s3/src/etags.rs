//! The ETags of objects that were looked at, so that what is listed again is not read again. They are kept in the space, too, and outlive the server.
//!
//! A file says its content by nothing but its bytes, and a listing has no time to read them: what it looks like stands for them, to the nanosecond of
//! its last change, which nobody sets. What is lost of this is worked out again, so that nothing here waits for the disk.

mod cache_file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use svcfs_base::{ETag, TreePath};
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::{PathAttributes, StoredContent};

use crate::checksums::hex;

/// Objects and versions that are remembered, of all spaces: some 130 bytes each. Of more than these, some are read again.
const MAX_REMEMBERED: usize = 1 << 20;
/// Objects that wait to be written down; of more, some are read again after a restart.
const MAX_WAITING: usize = 1 << 16;
/// How old a change must be before its time tells it from the next: the clock of a disk is coarser than its changes.
const SETTLED: Duration = Duration::from_secs(2);

/// A path, as short as every other.
type PathDigest = [u8; 20];

/// What a file looked like, and its ETag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CachedETag {
    look: ObjectStamp,
    md5: [u8; 16],
    /// In how many parts it came; 0 for one that came in one piece.
    parts: u32,
}

/// What changes with the content of a file, and with what clients say of it. Times are nanoseconds.
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
    time.duration_since(UNIX_EPOCH).map_or_else(|before| -of(before.duration()), of)
}

impl CachedETag {
    /// None of what is no ETag of ours.
    fn of(attributes: &PathAttributes, etag: &str) -> Option<Self> {
        let (md5, parts) = etag.split_once('-').map_or((etag, Some(0)), |(md5, parts)| (md5, parts.parse().ok()));
        let bytes: Vec<u8> = (0..md5.len()).step_by(2).map_while(|at| byte(md5, at)).collect();
        let remembered = Self { look: ObjectStamp::of(attributes), md5: bytes.try_into().ok()?, parts: parts? };
        (remembered.etag() == etag).then_some(remembered)
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

/// What is remembered of one space.
#[derive(Default)]
struct SpaceETags {
    known: HashMap<PathDigest, CachedETag>,
    /// The keys of `known`, of which one can be taken without looking through all.
    keys: Vec<PathDigest>,
    /// What is not written down yet.
    waiting: Vec<(PathDigest, CachedETag)>,
    is_read: bool,
}

impl SpaceETags {
    /// Remembers one; whether it is news.
    fn insert(&mut self, key: PathDigest, remembered: CachedETag) -> bool {
        match self.known.insert(key, remembered) {
            Some(before) => before != remembered,
            None => {
                self.keys.push(key);
                true
            }
        }
    }

    /// Forgets one, whichever: whoever lists more than are remembered, time after time, would find none of them if the oldest went.
    fn forget_one(&mut self) {
        // Keys are hashes: any of them is as good as a die.
        let die = self.keys.last().map_or(0, |key| u64::from_le_bytes(std::array::from_fn(|at| key[at])));
        if let Some(places) = self.keys.len().checked_sub(1).filter(|places| *places > 0) {
            let key = self.keys.swap_remove(die as usize % places);
            self.known.remove(&key);
        }
    }
}

/// By the root of the space.
pub(crate) struct ETagStore {
    tables: Mutex<HashMap<PathBuf, SpaceETags>>,
    /// Held by the one who reads or writes files of them.
    at_the_disk: Mutex<()>,
    /// How many are remembered, and from which age of a change on.
    most: usize,
    settled: Duration,
}

impl Default for ETagStore {
    fn default() -> Self {
        Self::of(MAX_REMEMBERED, SETTLED)
    }
}

fn key(path: &TreePath) -> PathDigest {
    *ETag::from_content(path.as_str().as_bytes()).as_bytes()
}

/// The same of an earlier version: no path begins so.
fn version_key(content: &StoredContent) -> PathDigest {
    let text = match content {
        StoredContent::Blob(blob) => format!("\0{blob}"),
        StoredContent::Snapshot(path, moment) => format!("\0{moment}\0{path}"),
    };
    *ETag::from_content(text.as_bytes()).as_bytes()
}

impl ETagStore {
    pub(crate) fn of(most: usize, settled: Duration) -> Self {
        Self { tables: Mutex::default(), at_the_disk: Mutex::default(), most, settled }
    }

    /// What is remembered of a file with these attributes.
    pub(crate) fn known(&self, (space, path): (&Space, &TreePath), attributes: &PathAttributes) -> Option<String> {
        let tables = self.tables.lock();
        let remembered = tables.get(space.vfs.root())?.known.get(&key(path))?;
        (remembered.look == ObjectStamp::of(attributes)).then(|| remembered.etag())
    }

    /// Remembers one.
    pub(crate) fn remember(&self, (space, path): (&Space, &TreePath), attributes: &PathAttributes, etag: &str) {
        if !attributes.changed.elapsed().is_ok_and(|age| age >= self.settled) {
            return;
        }
        let Some(remembered) = CachedETag::of(attributes, etag) else { return };
        self.insert(space, key(path), remembered);
    }

    /// Size and ETag of an earlier version, which is what it is for ever.
    pub(crate) fn known_version(&self, space: &Space, content: &StoredContent) -> Option<(u64, String)> {
        let tables = self.tables.lock();
        let remembered = tables.get(space.vfs.root())?.known.get(&version_key(content))?;
        Some((remembered.look.size, remembered.etag()))
    }

    /// Remembers one.
    pub(crate) fn remember_version(&self, space: &Space, content: &StoredContent, (size, md5): (u64, [u8; 16])) {
        let look = ObjectStamp { size, modified: 0, changed: 0 };
        self.insert(space, version_key(content), CachedETag { look, md5, parts: 0 });
    }

    fn insert(&self, space: &Space, key: PathDigest, remembered: CachedETag) {
        let mut tables = self.tables.lock();
        let table = tables.entry(space.vfs.root().to_owned()).or_default();
        if table.insert(key, remembered) && table.waiting.len() < MAX_WAITING {
            table.waiting.push((key, remembered));
        }
        self.bound(&mut tables);
    }

    /// Forgets as many as are too many, of the space that has most.
    fn bound(&self, tables: &mut HashMap<PathBuf, SpaceETags>) {
        let all: usize = tables.values().map(|table| table.keys.len()).sum();
        for _ in self.most..all {
            if let Some(most) = tables.values_mut().max_by_key(|table| table.keys.len()) {
                most.forget_one();
            }
        }
    }

    /// Reads what was remembered of a space before the server started, once. Waits for the disk.
    pub(crate) fn recall(&self, space: &Space) {
        let is_read =
            |tables: &HashMap<PathBuf, SpaceETags>| tables.get(space.vfs.root()).is_some_and(|table| table.is_read);
        if is_read(&self.tables.lock()) {
            return;
        }
        let _alone = self.at_the_disk.lock();
        if is_read(&self.tables.lock()) {
            return;
        }
        let before: HashMap<_, _> = cache_file::read(&file(space)).into_iter().collect();
        let mut tables = self.tables.lock();
        let table = tables.entry(space.vfs.root().to_owned()).or_default();
        table.is_read = true;
        for (key, remembered) in before {
            // What was seen since is newer.
            if !table.known.contains_key(&key) {
                table.insert(key, remembered);
            }
        }
        self.bound(&mut tables);
    }

    /// Writes down what is new of a space. Waits for the disk.
    pub(crate) fn keep(&self, space: &Space) {
        let _alone = self.at_the_disk.lock();
        let (waiting, count) = match self.tables.lock().get_mut(space.vfs.root()) {
            Some(table) if table.is_read => (std::mem::take(&mut table.waiting), table.keys.len()),
            Some(_) | None => return,
        };
        let all = || {
            let tables = self.tables.lock();
            let known = tables.get(space.vfs.root()).map(|table| &table.known);
            known.into_iter().flatten().map(|(key, known)| (*key, *known)).collect()
        };
        if !waiting.is_empty()
            && let Err(error) = cache_file::add(&file(space), &waiting, (count, all))
        {
            tracing::debug!(%error, "the ETags of what was listed are not kept; after a restart it is read again");
        }
    }
}

fn file(space: &Space) -> PathBuf {
    Path::new(&space.vfs.state_directory()).join("s3.etags")
}
