//! Which version of a file a program has read.
//!
//! A program that reads a page and later replaces it as a whole (an editor, `sed -i`) made the new text from what it read. It is held to
//! that version, so that what somebody else wrote meanwhile is not covered. One that never read the page replaces what is there.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use svcfs_base::{ETag, TreePath};

/// How many readings are remembered.
const MAX: usize = 4096;

/// A process, and a file.
type ReadKey = (u32, TreePath);

#[derive(Default)]
struct ReadVersionTable {
    versions: HashMap<ReadKey, ETag>,
    /// In the order in which they were first made.
    order: VecDeque<ReadKey>,
}

/// The newest readings.
#[derive(Default)]
pub(super) struct ReadVersions(Mutex<ReadVersionTable>);

impl ReadVersions {
    /// A program opened a file to read it.
    pub(super) fn read(&self, process: u32, path: &TreePath, etag: ETag) {
        let reading = (process, path.clone());
        let mut inner = self.0.lock();
        if inner.versions.insert(reading.clone(), etag).is_none() {
            inner.order.push_back(reading);
        }
        if inner.order.len() > MAX
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.versions.remove(&oldest);
        }
    }

    /// What a program that replaces a file has read of it.
    pub(super) fn version(&self, process: u32, path: &TreePath) -> Option<ETag> {
        self.0.lock().versions.get(&(process, path.clone())).copied()
    }

    /// A program saved a file it had read: it knows the new version.
    pub(super) fn saved(&self, process: u32, path: &TreePath, etag: ETag) {
        if let Some(known) = self.0.lock().versions.get_mut(&(process, path.clone())) {
            *known = etag;
        }
    }

    /// A program was told that it lost: whatever it does next, it does knowing that.
    pub(super) fn told(&self, process: u32, path: &TreePath) {
        self.0.lock().versions.remove(&(process, path.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_held_to_what_it_read_until_it_is_told_that_it_lost() {
        let readers = ReadVersions::default();
        let path = TreePath::parse("a.md").unwrap();
        let [one, two] = ["1", "2"].map(|text| ETag::from_content(text.as_bytes()));
        readers.read(7, &path, one);
        readers.saved(8, &path, two);
        assert_eq!((readers.version(7, &path), readers.version(8, &path)), (Some(one), None));
        readers.saved(7, &path, two);
        assert_eq!(readers.version(7, &path), Some(two));
        readers.told(7, &path);
        assert_eq!(readers.version(7, &path), None);
        for process in 0..=MAX as u32 {
            readers.read(process, &path, one);
        }
        assert_eq!((readers.version(0, &path), readers.version(1, &path)), (None, Some(one)));
    }
}
