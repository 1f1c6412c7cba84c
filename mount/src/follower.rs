//! What the kernel remembers is taken back when another door changes it.

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

const BATCH: usize = 256;

/// Longer than it takes from a change of a directory to the announcement of what is in it, but on the slowest of disks.
const LATELY: Duration = Duration::from_secs(10);

/// How far the follower is.
pub(crate) struct FollowerProgress {
    done: AtomicU64,
    stop: AtomicBool,
}

impl FollowerProgress {
    /// Begins at a position: what came before is not in any kernel cache.
    pub(crate) fn at(seq: Seq) -> Arc<Self> {
        Arc::new(Self { done: AtomicU64::new(seq.0), stop: AtomicBool::new(false) })
    }
    /// The newest event whose traces the kernel has been told to drop.
    pub(crate) fn done(&self) -> Seq {
        Seq(self.done.load(Ordering::Acquire))
    }
}

/// The thread that reads the change feed and drops what the kernel has cached of changed paths.
///
/// A thread of its own because the kernel may hold a lock of the inode while it waits for the answer to a request: an
/// invalidation sent from inside a request could wait for itself.
pub(crate) struct FeedFollower {
    progress: Arc<FollowerProgress>,
    thread: JoinHandle<()>,
}

impl FeedFollower {
    /// Starts to follow the feed after `progress`, for the kernel behind an entrance.
    pub(crate) fn start(
        vfs: &Arc<Vfs>,
        (notifier, entrance, passing): (Notifier, OriginId, Arc<PassthroughFiles>),
        progress: Arc<FollowerProgress>,
    ) -> io::Result<Self> {
        let (space, position) = (vfs.clone(), progress.clone());
        let run = move || follow(&space, &KernelNotifier { notifier, entrance, passing }, &position);
        let thread = thread::Builder::new().name("mount-follower".to_owned()).spawn(run)?;
        let sleeper = thread.thread().clone();
        let awake = progress.clone();
        vfs.feed().on_event(move |_| {
            sleeper.unpark();
            !awake.stop.load(Ordering::Acquire)
        });
        // For an event that came before anybody was told of events.
        thread.thread().unpark();
        Ok(Self { progress, thread })
    }
    /// Ends the thread and waits for it.
    pub(crate) fn stop(self) {
        self.progress.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            tracing::error!("the thread that follows the change feed for the mount had panicked");
        }
    }
}

fn follow(vfs: &Vfs, kernel: &KernelNotifier, progress: &FollowerProgress) {
    while !progress.stop.load(Ordering::Acquire) {
        let events = vfs.feed().events_after(progress.done(), BATCH).unwrap_or_else(|fault| {
            tracing::error!(error = ?fault, "the mount cannot read the change feed; it reads past the page cache until it can");
            Vec::new()
        });
        for event in &events {
            invalidate(vfs, kernel, event);
            progress.done.store(event.seq.0, Ordering::Release);
        }
        if events.is_empty() {
            // Returns at once when an event came since the last look.
            thread::park();
        }
    }
}

fn invalidate(vfs: &Vfs, kernel: &KernelNotifier, event: &FeedEvent) {
    if event.origin_id == Some(kernel.entrance) {
        // The kernel made these changes itself; only size and times may differ from what it knows (a gate may have rewritten the
        // bytes: it drops the pages when it sees a new size or modification time). It must keep the names: a directory that was just
        // made may be somebody's working directory already.
        event.changes.iter().for_each(|change| kernel.forget_attributes(vfs, &change.path));
        for path in rewritten(&event.changes) {
            kernel.forget(vfs, &CacheInvalidation::Content(path.clone()));
        }
    } else {
        for change in &event.changes {
            for trace in traces(vfs, event.time.into(), change) {
                kernel.forget(vfs, &trace);
            }
        }
    }
}

/// What a rename changed beside the names: pages whose links followed it, and the page itself if its own did.
fn rewritten(changes: &[EventChange]) -> Vec<&TreePath> {
    let moved: BTreeSet<ETag> =
        changes.iter().filter(|change| change.new.is_none()).filter_map(|change| change.old).collect();
    let is_rewritten = |change: &&EventChange| change.new.is_some_and(|new| !moved.contains(&new));
    changes.iter().filter(|change| !moved.is_empty() && is_rewritten(change)).map(|change| &change.path).collect()
}

/// Something that the kernel may remember and that is no more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CacheInvalidation {
    /// Bytes of a file, names of a directory.
    Content(TreePath),
    /// What `stat` says; names of a directory whose modification time is another one.
    Attributes(TreePath),
    /// What a name in a directory leads to.
    Name(TreePath, String),
}

/// What a change, accepted at a time, leaves behind.
pub(crate) fn traces(vfs: &Vfs, at: SystemTime, change: &EventChange) -> Vec<CacheInvalidation> {
    let mut traces = vec![CacheInvalidation::Content(change.path.clone())];
    if change.old.is_some() && change.new.is_some() {
        return traces;
    }
    // The name came or went: so may directories above it have, also those that were looked up since.
    let mut name = change.path.clone();
    let mut is_nearest = true;
    while let Some(above) = name.parent() {
        if let Some(node) = vfs.node_at(&above) {
            let is_there = |path: &TreePath| vfs.stat(Protocol::Fuse, path).is_ok();
            // The name of a directory that stands may lead somebody to where they work.
            if is_nearest || !is_there(&name) {
                traces.push(CacheInvalidation::Name(above.clone(), name.name().to_owned()));
            }
            let modified = vfs.attributes(node).map_or(at, |there| there.modified);
            // Listed in the moment in which it changed, it has the time of the change and not its names.
            if is_nearest || is_lately(modified, at) {
                traces.push(CacheInvalidation::Content(above.clone()));
            } else {
                traces.push(CacheInvalidation::Attributes(above.clone()));
            }
            is_nearest = false;
        }
        name = above;
    }
    traces
}

/// Whether a directory was changed so shortly before a time that its names may be those of before. Times of directories are whatever somebody set.
fn is_lately(modified: SystemTime, at: SystemTime) -> bool {
    at.duration_since(modified).map_or(true, |age| age <= LATELY)
}

/// Invalidations of paths. A path no node is known of is in no kernel cache; a notification the kernel has nothing to do with is
/// no error, and after an unmount there is nobody left to tell.
struct KernelNotifier {
    notifier: Notifier,
    entrance: OriginId,
    /// Which inode a node has.
    passing: Arc<PassthroughFiles>,
}

impl KernelNotifier {
    fn forget(&self, vfs: &Vfs, trace: &CacheInvalidation) {
        match trace {
            CacheInvalidation::Content(path) => {
                if let Some(node) = vfs.node_at(path) {
                    report("content", path, self.notifier.inval_inode(self.passing.present(node), 0, 0));
                }
            }
            CacheInvalidation::Attributes(path) => self.forget_attributes(vfs, path),
            CacheInvalidation::Name(directory, name) => {
                if let Some(node) = vfs.node_at(directory) {
                    report("name", directory, self.notifier.inval_entry(inode(node), OsStr::new(name)));
                }
            }
        }
    }
    fn forget_attributes(&self, vfs: &Vfs, path: &TreePath) {
        if let Some(node) = vfs.node_at(path) {
            // A negative offset leaves the pages alone.
            report("attributes", path, self.notifier.inval_inode(self.passing.present(node), -1, 0));
        }
    }
}

fn report(what: &str, path: &TreePath, outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::debug!(%path, %error, "the kernel did not drop its {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rename_of_our_own_changed_beside_the_name_is_told_from_what_it_moved() {
        let etag = |text: &str| Some(ETag::from_content(text.as_bytes()));
        let change = |path: &str, old, new| EventChange {
            path: TreePath::parse(path).unwrap(),
            old,
            new,
            kind: svcfs_base::FileKind::Regular,
        };
        let plain = [change("a.md", etag("a"), None), change("b.md", etag("b"), etag("a"))];
        assert_eq!(rewritten(&plain), Vec::<&TreePath>::new());
        let saved = [change("a.md", etag("a"), etag("b"))];
        assert_eq!(rewritten(&saved), Vec::<&TreePath>::new(), "the kernel has what it wrote");
        let led = [
            change("a.md", etag("a"), None),
            change("b.md", None, etag("a to b")),
            change("index.md", etag("to a"), etag("to b")),
        ];
        assert_eq!(rewritten(&led), [&led[1].path, &led[2].path]);
    }

    #[test]
    fn a_directory_whose_time_is_as_late_as_times_go_is_one_that_changed_lately() {
        let now = SystemTime::now();
        let latest = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64)).unwrap();
        let told =
            [latest, now, now - LATELY, now - LATELY * 2, SystemTime::UNIX_EPOCH].map(|time| is_lately(time, now));
        assert_eq!(told, [true, true, true, false, false]);
    }
}
