//! Invalidates kernel caches for changes made through other protocols.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use fuser::Notifier;
use svcfs_base::{ETag, OriginId, Protocol, Seq, TreePath};
use svcfs_vfs::{EventChange, FeedEvent, Vfs};

use crate::convert::inode;
use crate::passthrough::PassthroughFiles;

const MAX_BATCH_EVENTS: usize = 256;

/// Maximum time between a change of a directory and the announcement of its new entries, on any but
/// the slowest disks.
const RECENT_CHANGE: Duration = Duration::from_secs(10);

/// Position of the follower in the feed.
pub(crate) struct FollowerProgress {
    position: AtomicU64,
    stop: AtomicBool,
}

impl FollowerProgress {
    /// Starts at a position: the kernel has cached nothing older.
    pub(crate) fn starting_at(seq: Seq) -> Arc<Self> {
        Arc::new(Self { position: AtomicU64::new(seq.0), stop: AtomicBool::new(false) })
    }
    /// The newest event whose invalidations were sent.
    pub(crate) fn position(&self) -> Seq {
        Seq(self.position.load(Ordering::Acquire))
    }
}

/// Thread that reads the change feed and invalidates the kernel's caches of changed paths.
///
/// A separate thread, because the kernel may hold an inode lock until a request is answered: an
/// invalidation sent inside that request would deadlock.
pub(crate) struct FeedFollower {
    progress: Arc<FollowerProgress>,
    thread: JoinHandle<()>,
}

impl FeedFollower {
    /// Follows the feed after `progress`, for the mount with this origin.
    pub(crate) fn start(
        vfs: &Arc<Vfs>,
        (notifier, origin_id, passthrough): (Notifier, OriginId, Arc<PassthroughFiles>),
        progress: Arc<FollowerProgress>,
    ) -> io::Result<Self> {
        let (feed_vfs, feed_progress) = (vfs.clone(), progress.clone());
        let run = move || follow(&feed_vfs, &KernelNotifier { notifier, origin_id, passthrough }, &feed_progress);
        let thread = thread::Builder::new().name("mount-follower".to_owned()).spawn(run)?;
        let follower = thread.thread().clone();
        let hook_progress = progress.clone();
        vfs.feed().on_event(move |_| {
            follower.unpark();
            !hook_progress.stop.load(Ordering::Acquire)
        });
        // For an event that came before the hook was registered.
        thread.thread().unpark();
        Ok(Self { progress, thread })
    }
    /// Ends the thread and waits for it.
    pub(crate) fn stop(self) {
        self.progress.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the mount-follower thread panicked");
        }
    }
}

fn follow(vfs: &Vfs, kernel: &KernelNotifier, progress: &FollowerProgress) {
    while !progress.stop.load(Ordering::Acquire) {
        let events = vfs.feed().events_after(progress.position(), MAX_BATCH_EVENTS).unwrap_or_else(|fault| {
            tracing::error!(error = ?fault, "the mount cannot read the change feed; files bypass the page cache until it can");
            Vec::new()
        });
        for event in &events {
            invalidate(vfs, kernel, event);
            progress.position.store(event.seq.0, Ordering::Release);
        }
        if events.is_empty() {
            // Returns immediately when an event came since the last read.
            thread::park();
        }
    }
}

fn invalidate(vfs: &Vfs, kernel: &KernelNotifier, event: &FeedEvent) {
    if event.origin_id == Some(kernel.origin_id) {
        // This kernel made the changes itself; only size and times may differ (a gate may have
        // rewritten the bytes: the kernel drops the pages on a new size or modification time). Its
        // names must stay: a new directory may already be a process's working directory.
        event.changes.iter().for_each(|change| kernel.send_attributes(vfs, &change.path));
        for path in rewritten_paths(&event.changes) {
            kernel.send(vfs, &CacheInvalidation::Content(path.clone()));
        }
    } else {
        for change in &event.changes {
            for invalidation in invalidations(vfs, event.time.into(), change) {
                kernel.send(vfs, &invalidation);
            }
        }
    }
}

/// Pages whose content a rename changed: pages with updated links, and the renamed page itself if
/// its own links were updated.
fn rewritten_paths(changes: &[EventChange]) -> Vec<&TreePath> {
    let moved_content: BTreeSet<ETag> =
        changes.iter().filter(|change| change.new.is_none()).filter_map(|change| change.old).collect();
    let is_rewritten = |change: &&EventChange| change.new.is_some_and(|new| !moved_content.contains(&new));
    changes
        .iter()
        .filter(|change| !moved_content.is_empty() && is_rewritten(change))
        .map(|change| &change.path)
        .collect()
}

/// An invalidation of a kernel cache.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CacheInvalidation {
    /// Pages of a file, names of a directory.
    Content(TreePath),
    /// Attributes, and names of a directory whose modification time differs.
    Attributes(TreePath),
    /// A name in a directory.
    Name(TreePath, String),
}

/// The invalidations for a change accepted at a given time.
pub(crate) fn invalidations(vfs: &Vfs, accepted: SystemTime, change: &EventChange) -> Vec<CacheInvalidation> {
    let mut invalidations = vec![CacheInvalidation::Content(change.path.clone())];
    if change.old.is_some() && change.new.is_some() {
        return invalidations;
    }
    // Its directories may have been created or removed with it, also those looked up since.
    let mut name = change.path.clone();
    let mut is_nearest = true;
    while let Some(parent) = name.parent() {
        if let Some(node) = vfs.node_at(&parent) {
            let is_there = |path: &TreePath| vfs.stat(Protocol::Fuse, path).is_ok();
            // The name of an existing directory stays: a process may work below it.
            if is_nearest || !is_there(&name) {
                invalidations.push(CacheInvalidation::Name(parent.clone(), name.name().to_owned()));
            }
            let modified = vfs.attributes(node).map_or(accepted, |current| current.modified);
            // A listing read during the change has the new modification time but not the new names.
            if is_nearest || is_recent(modified, accepted) {
                invalidations.push(CacheInvalidation::Content(parent.clone()));
            } else {
                invalidations.push(CacheInvalidation::Attributes(parent.clone()));
            }
            is_nearest = false;
        }
        name = parent;
    }
    invalidations
}

/// Whether a listing of the directory may be older than the change. Programs can set directory
/// times to anything.
fn is_recent(modified: SystemTime, accepted: SystemTime) -> bool {
    accepted.duration_since(modified).map_or(true, |age| age <= RECENT_CHANGE)
}

/// Sends invalidations of paths. A path without a node is in no kernel cache. The kernel may not
/// know an inode, and the mount may be gone: neither is an error.
struct KernelNotifier {
    notifier: Notifier,
    origin_id: OriginId,
    /// Maps a node to its current inode.
    passthrough: Arc<PassthroughFiles>,
}

impl KernelNotifier {
    fn send(&self, vfs: &Vfs, invalidation: &CacheInvalidation) {
        match invalidation {
            CacheInvalidation::Content(path) => {
                if let Some(node) = vfs.node_at(path) {
                    log_failure("content", path, self.notifier.inval_inode(self.passthrough.current_inode(node), 0, 0));
                }
            }
            CacheInvalidation::Attributes(path) => self.send_attributes(vfs, path),
            CacheInvalidation::Name(directory, name) => {
                if let Some(node) = vfs.node_at(directory) {
                    log_failure("name", directory, self.notifier.inval_entry(inode(node), OsStr::new(name)));
                }
            }
        }
    }
    fn send_attributes(&self, vfs: &Vfs, path: &TreePath) {
        if let Some(node) = vfs.node_at(path) {
            // A negative offset keeps the pages.
            log_failure("attributes", path, self.notifier.inval_inode(self.passthrough.current_inode(node), -1, 0));
        }
    }
}

fn log_failure(cache: &str, path: &TreePath, outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::debug!(%path, %error, "the kernel did not drop the cached {cache}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_effects_of_own_renames_differ_from_moved_entries() {
        let etag = |text: &str| Some(ETag::from_content(text.as_bytes()));
        let change = |path: &str, old, new| EventChange {
            path: TreePath::parse(path).unwrap(),
            old,
            new,
            kind: svcfs_base::FileKind::Regular,
        };
        let plain = [change("a.md", etag("a"), None), change("b.md", etag("b"), etag("a"))];
        assert_eq!(rewritten_paths(&plain), Vec::<&TreePath>::new());
        let saved = [change("a.md", etag("a"), etag("b"))];
        assert_eq!(rewritten_paths(&saved), Vec::<&TreePath>::new(), "the kernel has what it wrote");
        let led = [
            change("a.md", etag("a"), None),
            change("b.md", None, etag("a to b")),
            change("index.md", etag("to a"), etag("to b")),
        ];
        assert_eq!(rewritten_paths(&led), [&led[1].path, &led[2].path]);
    }

    #[test]
    fn a_directory_with_maximum_mtime_counts_as_recently_changed() {
        let now = SystemTime::now();
        let latest = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64)).unwrap();
        let recent = [latest, now, now - RECENT_CHANGE, now - RECENT_CHANGE * 2, SystemTime::UNIX_EPOCH]
            .map(|time| is_recent(time, now));
        assert_eq!(recent, [true, true, true, false, false]);
    }
}
