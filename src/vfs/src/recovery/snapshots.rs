//! Saves the snapshots of records since the checkpoint, and the first ones of a tree that had none.

use svcfs_base::{Fault, Seq};
use svcfs_store::SnapshotStore;
use tracing::{info, warn};

use super::replay_set::ReplaySet;
use crate::core::{VfsCore, tolerate_type_conflict};

/// Saves the snapshots of logged changes again: none of them was flushed.
pub(super) fn redo_snapshots(core: &VfsCore, snapshots: &SnapshotStore, replay: &ReplaySet<'_>) -> Result<(), Fault> {
    for record in replay.records {
        for entry in &record.entries {
            let Some(hash) = entry.new else { continue };
            let content = match &entry.content {
                Some(content) => Some(content.clone()),
                None => replay.find_content(core, &entry.path, hash)?,
            };
            match content {
                Some(content) => {
                    tolerate_type_conflict(&entry.path, snapshots.save(&entry.path, record.time, &content))?
                }
                // Only external edits are logged without content: no writer was acknowledged.
                None => {
                    warn!(page.path = %entry.path, %hash, "an external edit was overwritten before its snapshot was saved")
                }
            }
        }
    }
    Ok(())
}

/// Saves a snapshot of every file that has none, at its last record's time: a version recorded by
/// another strategy must not be lost with the next write. The snapshots are flushed.
pub(super) fn take_first_snapshots(core: &VfsCore, snapshots: &SnapshotStore) -> Result<(), Fault> {
    let mut count = 0;
    for (path, hash, _) in core.versions.list_states(&svcfs_base::TreePath::root())? {
        if !core.is_versioned(&path) || !snapshots.list(&path)?.is_empty() {
            continue;
        }
        let Some(newest) = core.log.versions(&path, Seq(u64::MAX), 1)?.pop() else { continue };
        if let Ok(Some(leaf)) = core.read_worktree(&path)
            && leaf.etag == hash
        {
            tolerate_type_conflict(&path, snapshots.save(&path, newest.recorded_at, &leaf.content))?;
            count += 1;
        }
    }
    if count > 0 {
        info!(files = count, "saved a first snapshot of files that had none");
        core.tree.flush(&[])?;
    }
    Ok(())
}
