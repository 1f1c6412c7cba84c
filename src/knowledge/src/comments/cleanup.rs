//! Removal of the comments of pages that were removed by a rename to an unversioned name, such as
//! the trash folder of a file manager. The write path removes the others with their pages.

use std::sync::Arc;
use std::time::Duration;

use svcfs_base::{Caller, Change, ChangeSet, Fault, Protocol, Seq, TreePath};
use svcfs_vfs::{FeedEvent, comment_file};
use svcfs_work::{NextStep, StopToken, Task, TaskFailure};

use crate::kernel::Space;

const INTERVAL: Duration = Duration::from_secs(5);

/// The task that follows the feed. It begins at its end: comments that a stopped server did not
/// remove stay until the page is written and removed again.
pub struct CommentCleanup {
    space: Arc<Space>,
    followed: Seq,
}

impl CommentCleanup {
    /// The task of a space.
    pub fn new(space: Arc<Space>) -> Self {
        let followed = space.vfs.feed().last_seq();
        Self { space, followed }
    }

    /// Handles all events; returns the number of comment files that it removed.
    pub(super) fn follow(&mut self) -> Result<usize, Fault> {
        let (space, mut removed) = (&self.space, 0);
        space.vfs.feed().follow(&mut self.followed, |event| {
            removed += remove_comments(space, event)?;
            Ok(())
        })?;
        Ok(removed)
    }
}

impl Task for CommentCleanup {
    const NAME: &'static str = "comments";
    fn step(&mut self, _stop: &StopToken) -> Result<NextStep, TaskFailure> {
        if let Err(fault) = self.follow() {
            tracing::warn!(error = ?fault, "the comments of removed pages could not be removed");
        }
        Ok(NextStep::After(INTERVAL))
    }
}

fn remove_comments(space: &Space, event: &FeedEvent) -> Result<usize, Fault> {
    // Beside svcfs, a removed page may be on another branch.
    if event.protocol == Protocol::Direct {
        return Ok(0);
    }
    let vfs = &space.vfs;
    let exists = |path: &TreePath| vfs.stat(Protocol::Internal, path).is_ok();
    let has_orphan = |page: &TreePath| comment_file(page).is_ok_and(|file| exists(&file)) && !exists(page);
    let mut changes = Vec::new();
    for (page, to) in vfs.relocations(event, has_orphan)? {
        if to.is_none() {
            changes.push(Change::remove(comment_file(&page)?));
        }
    }
    let count = changes.len();
    if count > 0 {
        let caller = Caller::new(Protocol::Internal).with_actor(event.actor.clone());
        let set = ChangeSet::new(changes).with_message("comments: remove those of removed pages");
        vfs.apply(&caller, set)?;
    }
    Ok(count)
}
