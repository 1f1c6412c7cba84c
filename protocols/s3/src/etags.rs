//! The ETags of objects that were looked at, so that a folder that is listed again is not read again.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use svcfs_base::TreePath;
use svcfs_vfs::Attributes;

/// Objects that are remembered; then all are forgotten at once, which costs one reading of each.
const MAX_REMEMBERED: usize = 65_536;
/// How old a change must be before its time tells it from the next: the clock of a disk is coarser than its changes.
const SETTLED: Duration = Duration::from_secs(2);

/// By name of the space and path: what the file looked like, and its ETag.
#[derive(Default)]
pub(crate) struct ETags(Mutex<HashMap<(String, TreePath), (Look, String)>>);

/// What changes with the content of a file, and with what clients say of it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    size: u64,
    modified: SystemTime,
    changed: SystemTime,
}

impl Look {
    const fn of(attributes: &Attributes) -> Self {
        let Attributes { size, modified, changed, .. } = *attributes;
        Self { size, modified, changed }
    }
}

impl ETags {
    /// What is remembered of a file with these attributes.
    pub(crate) fn known(&self, (space, path): (&str, &TreePath), attributes: &Attributes) -> Option<String> {
        let remembered = self.0.lock();
        let (look, etag) = remembered.get(&(space.to_owned(), path.clone()))?;
        (*look == Look::of(attributes)).then(|| etag.clone())
    }

    /// Remembers one.
    pub(crate) fn remember(&self, (space, path): (&str, &TreePath), attributes: &Attributes, etag: &str) {
        if !attributes.changed.elapsed().is_ok_and(|age| age > SETTLED) {
            return;
        }
        let mut remembered = self.0.lock();
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert((space.to_owned(), path.clone()), (Look::of(attributes), etag.to_owned()));
    }
}
