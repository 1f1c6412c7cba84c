//! The log's unsettled end, with what is looked up in it again and again.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use svcfs_base::{ETag, TreePath};
use svcfs_store::{Entry, Record, StoreError};

use crate::core::Core;

/// Records that were logged and not settled, oldest first.
pub(super) struct Logged<'r> {
    pub(super) records: &'r [Record],
    contents: HashMap<ETag, &'r Bytes>,
    by_path: BTreeMap<&'r TreePath, Vec<&'r Entry>>,
}

impl<'r> Logged<'r> {
    pub(super) fn new(records: &'r [Record]) -> Self {
        let mut contents = HashMap::new();
        let mut by_path: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for entry in records.iter().flat_map(|record| &record.entries) {
            contents.extend(entry.new.zip(entry.content.as_ref()));
            by_path.entry(&entry.path).or_default().push(entry);
        }
        Self { records, contents, by_path }
    }

    /// Each path that the records change, with what they make of it, oldest first and never nothing.
    pub(super) const fn by_path(&self) -> &BTreeMap<&'r TreePath, Vec<&'r Entry>> {
        &self.by_path
    }

    /// Content that one of the records holds.
    pub(super) fn kept(&self, blob: ETag) -> Option<Bytes> {
        self.contents.get(&blob).map(|content| Bytes::clone(content))
    }

    /// Content that an entry may not hold itself: of an adopted edit or a directory rename. None when it is nowhere.
    pub(super) fn content_of(&self, core: &Core, path: &TreePath, blob: ETag) -> Result<Option<Bytes>, StoreError> {
        if let Some(content) = self.contents.get(&blob) {
            return Ok(Some(Bytes::clone(content)));
        }
        if let Ok(Some(leaf)) = core.standing(path)
            && leaf.etag == blob
        {
            return Ok(Some(leaf.content));
        }
        core.memory.content(blob)
    }
}
