//! The hashes of files that were looked at, so that a folder that is listed again is not read again.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_vfs::Attributes;

/// Files that are remembered; then all are forgotten at once, which costs one reading of each.
const MAX_REMEMBERED: usize = 65_536;
/// How old a change must be before its time tells it from the next: the clock of a disk is coarser than its changes.
const SETTLED: Duration = Duration::from_secs(2);

/// By name of the space and path: what the file looked like, and its hash.
#[derive(Default)]
pub(crate) struct ETags(Mutex<HashMap<(String, TreePath), (Look, ETag)>>);

/// What changes with the content of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl ETags {
    /// The hash of a file with these attributes, remembered or found by `read`.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn of(
        &self,
        (space, path): (&str, &TreePath),
        attributes: &Attributes,
        read: impl FnOnce() -> Result<ETag, Fault>,
    ) -> Result<ETag, Fault> {
        let Attributes { size, modified, changed, .. } = *attributes;
        let (key, look) = ((space.to_owned(), path.clone()), Look { size, modified, changed });
        let known = self.0.lock().get(&key).filter(|(known, _)| *known == look).map(|(_, etag)| *etag);
        if let Some(etag) = known {
            return Ok(etag);
        }
        let etag = read()?;
        if changed.elapsed().is_ok_and(|age| age > SETTLED) {
            let mut remembered = self.0.lock();
            if remembered.len() >= MAX_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(key, (look, etag));
        }
        Ok(etag)
    }
}
