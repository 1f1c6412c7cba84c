//! The version of a file that each process has read.
//!
//! A program that reads a page and later replaces the whole file (an editor, `sed -i`) based the
//! new text on what it read. That version is the precondition of its save, so that it overwrites no
//! later change. A program that never read the page replaces the current version.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use svcfs_base::{ETag, TreePath};

const MAX_READS: usize = 4096;

type ReadKey = (u32, TreePath);

#[derive(Default)]
struct ReadVersionTable {
    versions: HashMap<ReadKey, ETag>,
    /// In order of first read.
    order: VecDeque<ReadKey>,
}

#[derive(Default)]
pub(super) struct ReadVersions(Mutex<ReadVersionTable>);

impl ReadVersions {
    /// A process opened a file for reading.
    pub(super) fn record_read(&self, process: u32, path: &TreePath, etag: ETag) {
        let key = (process, path.clone());
        let mut table = self.0.lock();
        if table.versions.insert(key.clone(), etag).is_none() {
            table.order.push_back(key);
        }
        if table.order.len() > MAX_READS
            && let Some(oldest) = table.order.pop_front()
        {
            table.versions.remove(&oldest);
        }
    }

    /// The version that a process has read.
    pub(super) fn version(&self, process: u32, path: &TreePath) -> Option<ETag> {
        self.0.lock().versions.get(&(process, path.clone())).copied()
    }

    /// A process saved a file it had read, so it knows the new version.
    pub(super) fn record_save(&self, process: u32, path: &TreePath, etag: ETag) {
        if let Some(version) = self.0.lock().versions.get_mut(&(process, path.clone())) {
            *version = etag;
        }
    }

    /// A save of the process was rejected: its next save may replace the current version.
    pub(super) fn forget(&self, process: u32, path: &TreePath) {
        self.0.lock().versions.remove(&(process, path.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_keeps_its_read_version_until_it_sees_the_conflict() {
        let readers = ReadVersions::default();
        let path = TreePath::parse("a.md").unwrap();
        let [one, two] = ["1", "2"].map(|text| ETag::from_content(text.as_bytes()));
        readers.record_read(7, &path, one);
        readers.record_save(8, &path, two);
        assert_eq!((readers.version(7, &path), readers.version(8, &path)), (Some(one), None));
        readers.record_save(7, &path, two);
        assert_eq!(readers.version(7, &path), Some(two));
        readers.forget(7, &path);
        assert_eq!(readers.version(7, &path), None);
        for process in 0..=MAX_READS as u32 {
            readers.record_read(process, &path, one);
        }
        assert_eq!((readers.version(0, &path), readers.version(1, &path)), (None, Some(one)));
    }
}
