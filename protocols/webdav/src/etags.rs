//! A cache of file hashes, so that a repeated listing does not read the files again.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_vfs::PathAttributes;

/// Entries of a generation. There are two: when the newer one is full, the older one, which has the
/// entries not used since, is dropped.
const GENERATION_ENTRIES: usize = 32_768;
/// Minimum age of a change before its timestamp is unique: the clock of a file system is coarser
/// than its changes.
const MIN_CHANGE_AGE: Duration = Duration::from_secs(2);

/// By space name and path: the state of the file, and its hash.
type ETagGeneration = HashMap<(String, TreePath), (ContentStamp, ETag)>;

/// The cache of hashes.
#[derive(Default)]
pub(crate) struct ETagCache(Mutex<GenerationPair>);

#[derive(Default)]
struct GenerationPair {
    newer: ETagGeneration,
    older: ETagGeneration,
}

impl GenerationPair {
    /// The hash of a file in this state.
    fn get(&mut self, key: &(String, TreePath), stamp: ContentStamp) -> Option<ETag> {
        let is_same = |cached: &(ContentStamp, ETag)| cached.0 == stamp;
        if let Some((_, etag)) = self.newer.get(key).copied().filter(is_same) {
            return Some(etag);
        }
        let (key, cached) = self.older.remove_entry(key).filter(|(_, cached)| is_same(cached))?;
        self.insert(key, cached);
        Some(cached.1)
    }

    fn insert(&mut self, key: (String, TreePath), cached: (ContentStamp, ETag)) {
        if self.newer.len() >= GENERATION_ENTRIES {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, cached);
    }
}

/// Identifies the state of a file: it changes with the content.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ContentStamp {
    size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl ETagCache {
    /// The cached hash of a file with these attributes; else the result of `read`, which is cached.
    pub(crate) fn get_or_read(
        &self,
        (space, path): (&str, &TreePath),
        attributes: PathAttributes,
        read: impl FnOnce() -> Result<(PathAttributes, ETag), Fault>,
    ) -> Result<(PathAttributes, ETag), Fault> {
        let key = (space.to_owned(), path.clone());
        let cached = self.0.lock().get(&key, ContentStamp::of(&attributes));
        if let Some(etag) = cached {
            return Ok((attributes, etag));
        }
        let (attributes, etag) = read()?;
        if attributes.changed.elapsed().is_ok_and(|age| age > MIN_CHANGE_AGE) {
            self.0.lock().insert(key, (ContentStamp::of(&attributes), etag));
        }
        Ok((attributes, etag))
    }
}

impl ContentStamp {
    const fn of(attributes: &PathAttributes) -> Self {
        let PathAttributes { size, modified, changed, .. } = *attributes;
        Self { size, modified, changed }
    }
}

#[cfg(test)]
mod tests {
    use svcfs_vfs::EntryKind;

    use super::*;

    /// A file that nobody changes any more.
    fn settled(size: u64) -> PathAttributes {
        let at = SystemTime::UNIX_EPOCH;
        let (modified, changed, accessed) = (at, at, at);
        let (blocks, mode, uid, gid, links) = (1, 0o644, 0, 0, 1);
        PathAttributes { kind: EntryKind::File, size, blocks, mode, uid, gid, modified, changed, accessed, links }
    }

    /// Whether a file had to be read.
    fn is_read(etags: &ETagCache, number: usize, size: u64) -> bool {
        let path = TreePath::parse(&number.to_string()).unwrap();
        let mut is_read = false;
        let read = || {
            is_read = true;
            Ok((settled(size), ETag::from_content(&number.to_be_bytes())))
        };
        let (_, etag) = etags.get_or_read(("default", &path), settled(size), read).unwrap();
        assert_eq!(etag, ETag::from_content(&number.to_be_bytes()));
        is_read
    }

    #[test]
    fn hot_etags_stay_cached_however_many_others_are_read() {
        let etags = ETagCache::default();
        let mut reads = 0;
        for number in 0..4 * GENERATION_ENTRIES {
            is_read(&etags, number, 1);
            reads += usize::from(number % 1000 == 0 && is_read(&etags, 0, 1));
        }
        assert_eq!(reads, 0);
        let cached = etags.0.lock();
        assert!(cached.newer.len() + cached.older.len() <= 2 * GENERATION_ENTRIES);
    }

    #[test]
    fn a_file_that_looks_another_is_read() {
        let etags = ETagCache::default();
        assert_eq!([1, 1, 2, 2, 1].map(|size| is_read(&etags, 7, size)), [true, false, true, false, true]);
    }
}
