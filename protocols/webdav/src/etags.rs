//! The hashes of files that were looked at, so that a folder that is listed again is not read again.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_vfs::PathAttributes;

/// Files of a generation. Two are remembered: when the newer one is full, what nobody asked for since the last time that one was is forgotten.
const GENERATION: usize = 32_768;
/// How old a change must be before its time tells it from the next: the clock of a disk is coarser than its changes.
const SETTLED: Duration = Duration::from_secs(2);

/// By name of the space and path: what the file looked like, and its hash.
type ETagGeneration = HashMap<(String, TreePath), (ContentStamp, ETag)>;

/// The hashes of files that were looked at.
#[derive(Default)]
pub(crate) struct ETagCache(Mutex<GenerationPair>);

#[derive(Default)]
struct GenerationPair {
    newer: ETagGeneration,
    older: ETagGeneration,
}

impl GenerationPair {
    /// The hash of a file that looks as it did.
    fn of(&mut self, key: &(String, TreePath), now: ContentStamp) -> Option<ETag> {
        let is_same = |known: &(ContentStamp, ETag)| known.0 == now;
        if let Some((_, etag)) = self.newer.get(key).copied().filter(is_same) {
            return Some(etag);
        }
        let (key, known) = self.older.remove_entry(key).filter(|(_, known)| is_same(known))?;
        self.remember(key, known);
        Some(known.1)
    }

    fn remember(&mut self, key: (String, TreePath), known: (ContentStamp, ETag)) {
        if self.newer.len() >= GENERATION {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, known);
    }
}

/// What changes with the content of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ContentStamp {
    size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl ETagCache {
    /// The hash of a file with these attributes, if it is remembered; else what `read` finds, which is remembered.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn of(
        &self,
        (space, path): (&str, &TreePath),
        attributes: PathAttributes,
        read: impl FnOnce() -> Result<(PathAttributes, ETag), Fault>,
    ) -> Result<(PathAttributes, ETag), Fault> {
        let key = (space.to_owned(), path.clone());
        let known = self.0.lock().of(&key, ContentStamp::of(&attributes));
        if let Some(etag) = known {
            return Ok((attributes, etag));
        }
        let (attributes, etag) = read()?;
        if attributes.changed.elapsed().is_ok_and(|age| age > SETTLED) {
            self.0.lock().remember(key, (ContentStamp::of(&attributes), etag));
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
        let (_, etag) = etags.of(("default", &path), settled(size), read).unwrap();
        assert_eq!(etag, ETag::from_content(&number.to_be_bytes()));
        is_read
    }

    #[test]
    fn what_is_asked_for_again_and_again_is_not_read_again_however_many_others_are() {
        let etags = ETagCache::default();
        let mut reads = 0;
        for number in 0..4 * GENERATION {
            is_read(&etags, number, 1);
            reads += usize::from(number % 1000 == 0 && is_read(&etags, 0, 1));
        }
        assert_eq!(reads, 0);
        let known = etags.0.lock();
        assert!(known.newer.len() + known.older.len() <= 2 * GENERATION);
    }

    #[test]
    fn a_file_that_looks_another_is_read() {
        let etags = ETagCache::default();
        assert_eq!([1, 1, 2, 2, 1].map(|size| is_read(&etags, 7, size)), [true, false, true, false, true]);
    }
}
