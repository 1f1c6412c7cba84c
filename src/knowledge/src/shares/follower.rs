//! How shares follow their pages: one event of the feed at a time, so that the result is the same
//! when the events are read again after a crash.

use std::cell::LazyCell;
use std::collections::HashSet;
use std::time::Duration;

use svcfs_base::{Fault, Protocol, Timestamp, TreePath};
use svcfs_store::Share;
use svcfs_vfs::{EventChange, FeedEvent, Vfs, is_backup};

use super::registry::ShareState;

/// An editor that renames a page to a backup writes it anew within this time.
const BACKUP_GRACE: Duration = Duration::from_secs(10);

/// A shared page that was renamed to a backup.
pub(super) struct BackupRename {
    share: String,
    page: TreePath,
    backup: TreePath,
    time: Timestamp,
}

impl BackupRename {
    /// Whether the page may still be written anew.
    pub(super) fn is_pending(&self, now: Timestamp) -> bool {
        now.duration_since(self.time).unsigned_abs() <= BACKUP_GRACE
    }
}

/// Applies one event: a renamed page has its shares under the new name, and a removed one has none.
/// A page that is removed beside svcfs has its shares: it may be another branch of git.
///
/// # Errors
/// `Internal` when the log cannot be read.
pub(super) fn apply(state: &mut ShareState, vfs: &Vfs, event: &FeedEvent) -> Result<(), Fault> {
    return_to_pages(state, event);
    exchange_pages(state, event);
    // Most events remove nothing.
    let shared: LazyCell<HashSet<&TreePath>, _> =
        LazyCell::new(|| state.by_id.values().map(|share| &share.path).collect());
    for (page, to) in vfs.relocations(event, |path| shared.contains(path))? {
        let of_page = state.by_id.values().filter(|share| share.path == page);
        for share in of_page.map(|share| share.id.clone()).collect::<Vec<_>>() {
            match &to {
                Some(to) => {
                    if is_backup(&page, to) {
                        let (share, page, backup) = (share.clone(), page.clone(), to.clone());
                        state.backups.push(BackupRename { share, page, backup, time: event.time });
                    }
                    state.set_path(share, to.clone());
                }
                None if event.protocol == Protocol::Direct => {}
                None => {
                    state.by_id.remove(&share);
                    state.changed.remove(&share);
                    state.ended.insert(share);
                }
            }
        }
    }
    Ok(())
}

/// Exchanges the shares of two pages that exchanged their contents, as their comments are.
fn exchange_pages(state: &mut ShareState, event: &FeedEvent) {
    let mut pages = event.changes.iter().filter(|change| change.path.is_page());
    let (Some(a), Some(b), None) = (pages.next(), pages.next(), pages.next()) else { return };
    if a.old.is_none() || a.new.is_none() || a.old == a.new || (a.old, a.new) != (b.new, b.old) {
        return;
    }
    let moved = |share: &Share| match &share.path {
        path if *path == a.path => Some((share.id.clone(), b.path.clone())),
        path if *path == b.path => Some((share.id.clone(), a.path.clone())),
        _ => None,
    };
    let moved: Vec<(String, TreePath)> = state.by_id.values().filter_map(moved).collect();
    moved.into_iter().for_each(|(share, path)| state.set_path(share, path));
}

/// Gives pages their shares back that were written anew after a rename to a backup.
fn return_to_pages(state: &mut ShareState, event: &FeedEvent) {
    state.backups.retain(|backup| backup.is_pending(event.time));
    let is_written = |path: &TreePath| {
        let created = |change: &EventChange| change.old.is_none() && change.new.is_some() && change.path == *path;
        event.changes.iter().any(created)
    };
    let (returned, waiting) =
        std::mem::take(&mut state.backups).into_iter().partition(|backup| is_written(&backup.page));
    state.backups = waiting;
    let returned: Vec<BackupRename> = returned;
    for BackupRename { share, page, backup, .. } in returned {
        if state.by_id.get(&share).is_some_and(|share| share.path == backup) {
            state.set_path(share, page);
        }
    }
}

impl ShareState {
    fn set_path(&mut self, share: String, path: TreePath) {
        if let Some(stored) = self.by_id.get_mut(&share) {
            stored.path = path;
            self.changed.insert(share);
        }
    }
}
