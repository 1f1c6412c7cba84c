//! What others change on the server is told to the cache, and to the kernel.

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

/// How soon the stream is opened again, at first and at last.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// What the kernel is behind at most, before the event stream is read no further.
const MAX_BEHIND: usize = 4096;

/// What the kernel must forget.
pub(super) enum KernelInvalidation {
    /// The content of a file.
    Content(TreePath),
    /// A name that came or went, too.
    Name(TreePath),
    /// All attributes.
    Everything,
}

/// The thread that reads the event stream, and one that tells the kernel.
///
/// Two, because the kernel may hold a lock of a directory until this mount answers a request in it, which may wait for the server: what is
/// told meanwhile must be known here at once.
///
/// It opens the stream anew whenever it ends, and each time everything that was known before is asked again when it is next needed: what
/// was told meanwhile could be read from the server's log, but asking for what is used is as right, and shorter.
pub(super) struct EventFollower {
    is_over: Arc<AtomicBool>,
    thread: Thread,
}

impl EventFollower {
    /// Starts to follow.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(tree: &Arc<RemoteTree>, kernel: Notifier) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (tell, told) = sync_channel(MAX_BEHIND);
        let known = Arc::clone(tree);
        let forget = move || told.into_iter().for_each(|what| forget(&known, &kernel, &what));
        thread::Builder::new().name("remote-kernel".to_owned()).spawn(forget)?;
        let (tree, over) = (Arc::clone(tree), Arc::clone(&is_over));
        let run = move || follow(&tree, &tell, &over);
        let thread = thread::Builder::new().name("remote-follower".to_owned()).spawn(run)?.thread().clone();
        Ok(Self { is_over, thread })
    }
    /// Asks the thread to end. Not waited for: it may be listening, and the next keep-alive is seconds away.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

pub(super) fn follow(tree: &RemoteTree, kernel: &SyncSender<KernelInvalidation>, is_over: &AtomicBool) {
    let mut pause = AGAIN[0];
    while !is_over.load(Ordering::Acquire) {
        match tree.client.events() {
            Ok(stream) => {
                pause = AGAIN[0];
                tree.cache.opened();
                tell(kernel, KernelInvalidation::Everything);
                let end = event_stream::follow(BufReader::new(stream), |news| {
                    tree.client.reach.heard();
                    hear(tree, kernel, news);
                    !is_over.load(Ordering::Acquire)
                });
                tree.cache.closed();
                tracing::debug!(%end, "the event stream ended");
            }
            Err(fault) => tracing::debug!(error = ?fault, "no event stream"),
        }
        thread::park_timeout(pause);
        pause = (pause * 2).min(AGAIN[1]);
    }
}

fn hear(tree: &RemoteTree, kernel: &SyncSender<KernelInvalidation>, news: ServerEvent) {
    let about = |path: TreePath, effect| match effect {
        CacheEffect::None => {}
        CacheEffect::Content => tell(kernel, KernelInvalidation::Content(path)),
        CacheEffect::Name => tell(kernel, KernelInvalidation::Name(path)),
    };
    match news {
        ServerEvent::Nothing => {}
        ServerEvent::Written(path, etag) => {
            let effect = tree.cache.written(&path, Some(etag));
            about(path, effect);
        }
        ServerEvent::Removed(path) => {
            let effect = tree.cache.removed(&path);
            about(path, effect);
        }
        ServerEvent::Changed(paths) => {
            for path in paths {
                let effect = tree.cache.written(&path, None);
                about(path, effect);
            }
        }
        ServerEvent::Gap => {
            tree.cache.opened();
            tell(kernel, KernelInvalidation::Everything);
        }
    }
}

fn tell(kernel: &SyncSender<KernelInvalidation>, what: KernelInvalidation) {
    if kernel.send(what).is_err() {
        tracing::error!("the thread that tells the kernel of changes had panicked");
    }
}

/// Tells the kernel. Nothing is locked here meanwhile: it may wait for an answer of this mount before it listens.
fn forget(tree: &RemoteTree, kernel: &Notifier, what: &KernelInvalidation) {
    match what {
        KernelInvalidation::Everything => {
            for inode in tree.nodes.all() {
                // A negative offset leaves the pages alone: they go when the attributes turn out others.
                report(kernel.inval_inode(inode, -1, 0));
            }
        }
        KernelInvalidation::Content(path) => forget_content(tree, kernel, path),
        KernelInvalidation::Name(path) => {
            forget_content(tree, kernel, path);
            // So may directories above it have come or gone.
            let mut name = path.clone();
            while let Some(above) = name.parent() {
                if let Some(inode) = tree.nodes.at(&above) {
                    report(kernel.inval_entry(inode, OsStr::new(name.name())));
                    report(kernel.inval_inode(inode, 0, 0));
                    return;
                }
                name = above;
            }
        }
    }
}

fn forget_content(tree: &RemoteTree, kernel: &Notifier, path: &TreePath) {
    if let Some(inode) = tree.nodes.at(path) {
        report(kernel.inval_inode(inode, 0, 0));
    }
}

/// What the kernel does not know it need not drop, and after an unmount nobody is left to tell.
fn report(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::trace!(%error, "the kernel did not drop what changed");
    }
}
