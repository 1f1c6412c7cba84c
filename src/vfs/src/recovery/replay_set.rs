//! The log's unsettled end, with what is looked up in it again and again.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use svcfs_base::{ETag, TreePath};
use svcfs_store::{LogEntry, LogRecord, RecordKind, StoreError};

use crate::core::VfsCore;

/// Records that were logged and not settled, oldest first.
pub(super) struct ReplaySet<'r> {
    pub(super) records: &'r [LogRecord],
    contents: HashMap<ETag, &'r Bytes>,
    by_path: BTreeMap<&'r TreePath, Vec<&'r LogEntry>>,
    /// Of which commits of others have the last word in the log.
    of_others: HashSet<&'r TreePath>,
}

impl<'r> ReplaySet<'r> {
    pub(super) fn new(records: &'r [LogRecord]) -> Self {
        let mut contents = HashMap::new();
        let mut by_path: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut of_others = HashSet::new();
        for record in records {
            for entry in &record.entries {
                contents.extend(entry.new.zip(entry.content.as_ref()));
                by_path.entry(&entry.path).or_default().push(entry);
                match record.kind {
                    RecordKind::ExternalCommit => _ = of_others.insert(&entry.path),
                    RecordKind::Change | RecordKind::Uncommitted => _ = of_others.remove(&entry.path),
                    // What was gathered stood there before.
                    RecordKind::Commit => {}
                }
            }
        }
        Self { records, contents, by_path, of_others }
    }

    /// Each path that the records change, with what they make of it, oldest first and never nothing.
    pub(super) const fn by_path(&self) -> &BTreeMap<&'r TreePath, Vec<&'r LogEntry>> {
        &self.by_path
    }

    /// The paths of which a commit of others is the last that is logged. They put in place themselves what they wanted there, and the commit may lie
    /// below one of ours, or be from an index that was behind.
    pub(super) const fn of_others(&self) -> &HashSet<&'r TreePath> {
        &self.of_others
    }

    /// Content that one of the records holds.
    pub(super) fn kept(&self, blob: ETag) -> Option<Bytes> {
        self.contents.get(&blob).map(|content| Bytes::clone(content))
    }

    /// Content that an entry may not hold itself: of an adopted edit or a directory rename. None when it is nowhere.
    pub(super) fn content_of(&self, core: &VfsCore, path: &TreePath, blob: ETag) -> Result<Option<Bytes>, StoreError> {
        if let Some(content) = self.contents.get(&blob) {
            return Ok(Some(Bytes::clone(content)));
        }
        if let Ok(Some(leaf)) = core.standing(path)
            && leaf.etag == blob
        {
            return Ok(Some(leaf.content));
        }
        core.memory.read_content(blob)
    }
}
