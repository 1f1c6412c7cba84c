//! The snapshots of the log's unsettled end, taken again, and the first ones of a tree that had none.

use svcfs_base::{Fault, Seq};
use svcfs_store::SnapshotStore;
use tracing::{info, warn};

use super::replay_set::ReplaySet;
use crate::core::{VfsCore, kept_if_in_the_way};

/// Takes the snapshots of logged changes again: nothing of them was flushed.
pub(super) fn complete(core: &VfsCore, snapshots: &SnapshotStore, logged: &ReplaySet<'_>) -> Result<(), Fault> {
    for record in logged.records {
        for entry in &record.entries {
            let Some(hash) = entry.new else { continue };
            let content = match &entry.content {
                Some(content) => Some(content.clone()),
                None => logged.content_of(core, &entry.path, hash)?,
            };
            match content {
                Some(content) => kept_if_in_the_way(&entry.path, snapshots.save(&entry.path, record.time, &content))?,
                // Only edits behind the server are logged without their content: nobody was promised them.
                None => {
                    warn!(page.path = %entry.path, %hash, "a version made behind the server was covered before its snapshot")
                }
            }
        }
    }
    Ok(())
}

/// Takes a snapshot of every file that has none, named by the set that recorded it last: what another strategy recorded is not to be
/// lost to the first write that covers it. The snapshots are flushed.
pub(super) fn begin(core: &VfsCore, snapshots: &SnapshotStore) -> Result<(), Fault> {
    let mut count = 0;
    for (path, hash, _) in core.memory.list_states(&svcfs_base::TreePath::root())? {
        if !core.places.of(&path).is_versioned() || !snapshots.list(&path)?.is_empty() {
            continue;
        }
        let Some(newest) = core.log.versions(&path, Seq(u64::MAX), 1)?.pop() else { continue };
        if let Ok(Some(leaf)) = core.standing(&path)
            && leaf.etag == hash
        {
            kept_if_in_the_way(&path, snapshots.save(&path, newest.recorded_at, &leaf.content))?;
            count += 1;
        }
    }
    if count > 0 {
        info!(files = count, "took a first snapshot of files that had none");
        core.tree.flush(&[])?;
    }
    Ok(())
}
