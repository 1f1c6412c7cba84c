//! What others change on the server is told to the cache, and to the kernel.

use std::ffi::OsStr;
use std::io::{self, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use fuser::Notifier;
use svcfs_base::TreePath;

use super::cache::Effect;
use super::events::{self, News};
use super::tree::Tree;

/// How soon the stream is opened again, at first and at last.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// The thread that reads the event stream.
///
/// It opens the stream anew whenever it ends, and each time everything that was known before is asked again when it is next needed: what
/// was told meanwhile could be read from the server's log, but asking for what is used is as right, and shorter.
pub(super) struct Follower {
    is_over: Arc<AtomicBool>,
    thread: Thread,
}

impl Follower {
    /// Starts to follow.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(tree: &Arc<Tree>, kernel: Notifier) -> io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (tree, over) = (Arc::clone(tree), Arc::clone(&is_over));
        let run = move || follow(&tree, &kernel, &over);
        let thread = thread::Builder::new().name("remote-follower".to_owned()).spawn(run)?.thread().clone();
        Ok(Self { is_over, thread })
    }
    /// Asks the thread to end. Not waited for: it may be listening, and the next keep-alive is seconds away.
    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

fn follow(tree: &Tree, kernel: &Notifier, is_over: &AtomicBool) {
    let mut pause = AGAIN[0];
    while !is_over.load(Ordering::Acquire) {
        match tree.client.events() {
            Ok(stream) => {
                pause = AGAIN[0];
                start_over(tree, kernel);
                let end = events::follow(BufReader::new(stream), |news| {
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

/// Nothing that was known counts any more.
fn start_over(tree: &Tree, kernel: &Notifier) {
    tree.cache.opened();
    for inode in tree.nodes.all() {
        // A negative offset leaves the pages alone: they go when the attributes turn out others.
        report(kernel.inval_inode(inode, -1, 0));
    }
}

fn hear(tree: &Tree, kernel: &Notifier, news: News) {
    match news {
        News::Nothing => {}
        News::Written(path, etag) => tell(tree, kernel, (&path, tree.cache.written(&path, Some(etag)))),
        News::Removed(path) => tell(tree, kernel, (&path, tree.cache.removed(&path))),
        News::Changed(paths) => {
            for path in paths {
                tell(tree, kernel, (&path, tree.cache.written(&path, None)));
            }
        }
        News::Gap => start_over(tree, kernel),
    }
}

/// Tells the kernel, without any lock held: it may wait for an answer of this mount before it listens.
fn tell(tree: &Tree, kernel: &Notifier, (path, effect): (&TreePath, Effect)) {
    if effect == Effect::None {
        return;
    }
    if let Some(inode) = tree.nodes.at(path) {
        report(kernel.inval_inode(inode, 0, 0));
    }
    if effect == Effect::Content {
        return;
    }
    // The name came or went: so may directories above it have.
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

/// What the kernel does not know it need not drop, and after an unmount nobody is left to tell.
fn report(outcome: io::Result<()>) {
    if let Err(error) = outcome {
        tracing::trace!(%error, "the kernel did not drop what changed");
    }
}
