//! The version of a file that each process has read.
//!
//! A program that reads a page and later replaces the whole file (an editor, `sed -i`) based the
//! new text on what it read. That version is the precondition of its save, so that it overwrites no
//! later change. A program that never read the page replaces the current version.
//!
//! When a save was merged with changes by others, the program still has the text it sent. Its next
//! save is based on that text.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use svcfs_base::{ETag, TreePath};

const MAX_READS: usize = 4096;
/// Renamed files that are remembered.
const MAX_SET_ASIDE: usize = 64;
/// Sent texts that are remembered, and the length of one in bytes; a longer one is not.
const MAX_SENT_TEXTS: usize = 64;
const MAX_SENT_BYTES: usize = 1 << 20;

type ReadKey = (u32, TreePath);

#[derive(Default)]
struct ReadVersionTable {
    versions: HashMap<ReadKey, ETag>,
    /// In order of first read.
    order: VecDeque<ReadKey>,
    /// New names of files that were renamed, oldest first.
    set_aside: VecDeque<(ReadKey, TreePath)>,
    /// Texts that were merged, oldest first.
    sent_texts: VecDeque<(ReadKey, Bytes)>,
}

impl ReadVersionTable {
    fn forget_sent_text(&mut self, key: &ReadKey) {
        self.sent_texts.retain(|(other, _)| other != key);
    }
}

#[derive(Default)]
pub(super) struct ReadVersions(Mutex<ReadVersionTable>);

impl ReadVersions {
    /// A process opened a file for reading.
    pub(super) fn record_read(&self, process: u32, path: &TreePath, etag: ETag) {
        let key = (process, path.clone());
        let mut table = self.0.lock();
        table.forget_sent_text(&key);
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
        let key = (process, path.clone());
        let mut table = self.0.lock();
        table.forget_sent_text(&key);
        if let Some(version) = table.versions.get_mut(&key) {
            *version = etag;
        }
    }

    /// A save of a process that had read the file was merged: what it knows is the text it sent. A
    /// text that is too long is not remembered; then the process still has its old version.
    pub(super) fn record_merge(&self, process: u32, path: &TreePath, sent_text: Bytes) {
        if sent_text.len() > MAX_SENT_BYTES {
            return;
        }
        let key = (process, path.clone());
        let mut table = self.0.lock();
        table.forget_sent_text(&key);
        if !table.versions.contains_key(&key) {
            return;
        }
        table.sent_texts.push_back((key, sent_text));
        if table.sent_texts.len() > MAX_SENT_TEXTS {
            table.sent_texts.pop_front();
        }
    }

    /// A process renamed a file with changes that it has not read. Editors do so before they save:
    /// `page.md` becomes their backup `page.md~`.
    pub(super) fn record_set_aside(&self, process: u32, path: &TreePath, new_name: &TreePath) {
        let mut table = self.0.lock();
        table.set_aside.push_back(((process, path.clone()), new_name.clone()));
        if table.set_aside.len() > MAX_SET_ASIDE {
            table.set_aside.pop_front();
        }
    }

    /// Takes the new name of a file that a process set aside, and the version of it that the
    /// process has read.
    pub(super) fn take_set_aside(&self, process: u32, path: &TreePath) -> Option<(TreePath, ETag)> {
        let mut table = self.0.lock();
        let at = table.set_aside.iter().rposition(|((owner, file), _)| *owner == process && file == path)?;
        let (key, new_name) = table.set_aside.remove(at)?;
        table.versions.get(&key).map(|etag| (new_name, *etag))
    }

    /// The text that a process sent and that was merged since, instead of the version that the
    /// process had read before.
    pub(super) fn sent_text(&self, process: u32, path: &TreePath, read: ETag) -> Option<Bytes> {
        let table = self.0.lock();
        if table.versions.get(&(process, path.clone())) != Some(&read) {
            return None;
        }
        let mut texts = table.sent_texts.iter().rev();
        texts.find(|((owner, file), _)| *owner == process && file == path).map(|(_, text)| text.clone())
    }

    /// A save of the process was rejected: its next save may replace the current version.
    pub(super) fn forget(&self, process: u32, path: &TreePath) {
        let key = (process, path.clone());
        let mut table = self.0.lock();
        table.forget_sent_text(&key);
        table.versions.remove(&key);
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

    #[test]
    fn a_merged_process_has_the_text_that_it_sent() {
        let readers = ReadVersions::default();
        let path = TreePath::parse("a.md").unwrap();
        let [one, two] = ["1", "2"].map(|text| ETag::from_content(text.as_bytes()));
        let text = Bytes::from_static(b"mine");
        readers.record_merge(7, &path, text.clone());
        assert_eq!(readers.sent_text(7, &path, one), None, "it has read nothing");
        readers.record_read(7, &path, one);
        readers.record_merge(7, &path, text.clone());
        assert_eq!((readers.sent_text(7, &path, one), readers.sent_text(7, &path, two)), (Some(text), None));
        readers.record_set_aside(7, &path, &path);
        assert_eq!(readers.take_set_aside(7, &path), Some((path.clone(), one)));
        assert_eq!(readers.take_set_aside(7, &path), None);
        readers.record_read(7, &path, one);
        assert_eq!(readers.sent_text(7, &path, one), None);
    }
}
