//! Applies changes announced by the server to the cache, and invalidates the kernel's caches.

use std::ffi::OsStr;
use std::io::{self, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Thread};
use std::time::Duration;

use fuser::Notifier;
use svcfs_base::TreePath;

use super::cache::CacheEffect;
use super::event_stream::{self, ServerEvent};
use super::tree::RemoteTree;

/// Reconnect interval, first and maximum.
const RETRY_INTERVAL: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// Queued invalidations before the event stream is no longer read.
const MAX_QUEUED: usize = 4096;

/// An invalidation of kernel caches.
pub(super) enum KernelInvalidation {
    /// The content of a file.
    Content(TreePath),
    /// Also a name that was added or removed.
    Name(TreePath),
    /// All attributes.
    Everything,
}

/// A thread that reads the event stream, and one that sends invalidations.
///
/// Two threads, because an invalidation may wait for a directory lock that the kernel holds until
/// this mount answers a request, and that may wait for the server: events must be processed
/// meanwhile.
///
/// The stream is reopened whenever it ends, and all cached data then becomes stale. Missed events
/// could be read from the server's log, but fetching what is used is as correct and simpler.
pub(super) struct EventFollower {
    is_stopping: Arc<AtomicBool>,
    thread: Thread,
}

impl EventFollower {
    /// # Errors
    /// When the system cannot start a thread.
    pub(super) fn start(tree: &Arc<RemoteTree>, kernel: Notifier) -> io::Result<Self> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (queue, receiver) = sync_channel(MAX_QUEUED);
        let kernel_tree = Arc::clone(tree);
        let run =
            move || receiver.into_iter().for_each(|invalidation| invalidate(&kernel_tree, &kernel, &invalidation));
        thread::Builder::new().name("remote-kernel".to_owned()).spawn(run)?;
        let (tree, stop) = (Arc::clone(tree), Arc::clone(&is_stopping));
        let run = move || follow(&tree, &queue, &stop);
        let thread = thread::Builder::new().name("remote-follower".to_owned()).spawn(run)?.thread().clone();
        Ok(Self { is_stopping, thread })
    }
    /// Asks the thread to end, without waiting: the next keep-alive may be seconds away.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

pub(super) fn follow(tree: &RemoteTree, kernel: &SyncSender<KernelInvalidation>, is_stopping: &AtomicBool) {
    let mut pause = RETRY_INTERVAL[0];
    while !is_stopping.load(Ordering::Acquire) {
        match tree.client.events() {
            Ok(stream) => {
                pause = RETRY_INTERVAL[0];
                tree.cache.stream_opened();
                enqueue(kernel, KernelInvalidation::Everything);
                let end = event_stream::follow(BufReader::new(stream), |event| {
                    tree.client.connectivity.report_success();
                    handle_event(tree, kernel, event);
                    !is_stopping.load(Ordering::Acquire)
                });
                tree.cache.stream_closed();
                tracing::debug!(%end, "the event stream ended");
            }
            Err(fault) => tracing::debug!(error = ?fault, "no event stream"),
        }
        thread::park_timeout(pause);
        pause = (pause * 2).min(RETRY_INTERVAL[1]);
    }
}

fn handle_event(tree: &RemoteTree, kernel: &SyncSender<KernelInvalidation>, event: ServerEvent) {
    let enqueue_effect = |path: TreePath, effect| match effect {
        CacheEffect::None => {}
        CacheEffect::Content => enqueue(kernel, KernelInvalidation::Content(path)),
        CacheEffect::Name => enqueue(kernel, KernelInvalidation::Name(path)),
    };
    match event {
        ServerEvent::KeepAlive => {}
        ServerEvent::Written(path, etag) => {
            let effect = tree.cache.on_written(&path, Some(etag));
            enqueue_effect(path, effect);
        }
        ServerEvent::Removed(path) => {
            let effect = tree.cache.on_removed(&path);
            enqueue_effect(path, effect);
        }
        ServerEvent::Changed(paths) => {
            for path in paths {
                let effect = tree.cache.on_written(&path, None);
                enqueue_effect(path, effect);
            }
        }
        ServerEvent::Gap => {
            tree.cache.stream_opened();
            enqueue(kernel, KernelInvalidation::Everything);
        }
    }
}

fn enqueue(kernel: &SyncSender<KernelInvalidation>, invalidation: KernelInvalidation) {
    if kernel.send(invalidation).is_err() {
        tracing::error!("the remote-kernel thread panicked: kernel caches are not invalidated");
    }
}

/// Sends an invalidation. Must hold no lock: the kernel may wait for a reply of this mount first.
fn invalidate(tree: &RemoteTree, kernel: &Notifier, invalidation: &KernelInvalidation) {
    match invalidation {
        KernelInvalidation::Everything => {
            for inode in tree.nodes.inodes() {
                // A negative offset keeps the pages: they are dropped when the attributes differ.
                log_failure(kernel.inval_inode(inode, -1, 0));
            }
        }
        KernelInvalidation::Content(path) => invalidate_content(tree, kernel, path),
        KernelInvalidation::Name(path) => {
            invalidate_content(tree, kernel, path);
            // Its directories may have been created or removed with it.
            let mut name = path.clone();
            while let Some(parent) = name.parent() {
                if let Some(inode) = tree.nodes.known_inode(&parent) {
                    log_failure(kernel.inval_entry(inode, OsStr::new(name.name())));
                    log_failure(kernel.inval_inode(inode, 0, 0));
                    return;
                }
                name = parent;
            }
        }
    }
}

fn invalidate_content(tree: &RemoteTree, kernel: &Notifier, path: &TreePath) {
    if let Some(inode) = tree.nodes.known_inode(path) {
        log_failure(kernel.inval_inode(inode, 0, 0));
    }
}

/// The kernel may not know the inode, and the mount may be gone: neither is an error.
fn log_failure(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::trace!(%error, "the kernel did not invalidate a changed file");
    }
}
