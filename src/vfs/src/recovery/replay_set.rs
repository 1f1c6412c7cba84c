//! The log records since the checkpoint, indexed for recovery.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use svcfs_base::{ETag, TreePath};
use svcfs_store::{LogEntry, LogRecord, RecordKind, StoreError};

use crate::core::VfsCore;

/// Records since the checkpoint, oldest first.
pub(super) struct ReplaySet<'r> {
    pub(super) records: &'r [LogRecord],
    contents: HashMap<ETag, &'r Bytes>,
    by_path: BTreeMap<&'r TreePath, Vec<&'r LogEntry>>,
    /// Paths whose last record is an external commit.
    external_paths: HashSet<&'r TreePath>,
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
                    // A coalesced commit repeats earlier states.
                    RecordKind::Commit => {}
                }
            }
        }
        Self { records, contents, by_path, external_paths: of_others }
    }

    /// The entries of each changed path, oldest first, never empty.
    pub(super) const fn by_path(&self) -> &BTreeMap<&'r TreePath, Vec<&'r LogEntry>> {
        &self.by_path
    }

    /// Paths whose last record is an external commit. That commit installed its own files; it may
    /// be below an own commit, or made from an outdated index.
    pub(super) const fn external_paths(&self) -> &HashSet<&'r TreePath> {
        &self.external_paths
    }

    pub(super) fn logged_content(&self, blob: ETag) -> Option<Bytes> {
        self.contents.get(&blob).map(|content| Bytes::clone(content))
    }

    /// Content of an entry that may lack it (adoption, rename): from log, tree or versions.
    pub(super) fn find_content(
        &self,
        core: &VfsCore,
        path: &TreePath,
        blob: ETag,
    ) -> Result<Option<Bytes>, StoreError> {
        if let Some(content) = self.contents.get(&blob) {
            return Ok(Some(Bytes::clone(content)));
        }
        if let Ok(Some(leaf)) = core.read_worktree(path)
            && leaf.etag == blob
        {
            return Ok(Some(leaf.content));
        }
        core.versions.read_content(blob)
    }
}
