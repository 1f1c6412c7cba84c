//! Looking for edits made behind the server.
//!
//! One rule: an event only says where to look. What is recorded is what stands there when we look.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use svcfs_base::{Fault, TreePath};
use svcfs_store::{OtherGit, StatKind};
use tracing::{debug, info, warn};

use crate::Vfs;
use crate::place::Place;

/// An edit is looked at when its path was quiet for this long.
const QUIET: Duration = Duration::from_millis(200);
/// However busy a path is, it is looked at this long after its first event.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// The whole tree is compared this often, for events that were missed.
const RESCAN: Duration = Duration::from_secs(3600);
/// A git command of a person is given this long to finish before we look at what it wrote.
const GIT_BUSY: Duration = Duration::from_secs(5);
/// How long after its last write to `.git/index` it may still be about to move the branch.
const GIT_GRACE: Duration = Duration::from_millis(100);
/// How often we look whether it is done.
const GIT_LOOK: Duration = Duration::from_millis(50);

/// Watches a root until dropped.
pub(crate) struct Watcher {
    /// Events end when it is taken.
    notifier: Notifier,
    thread: Option<JoinHandle<()>>,
    stop: Sender<Message>,
}

type Notifier = Arc<Mutex<Option<Box<dyn notify::Watcher + Send>>>>;

/// Watches a directory and those below it, except git's and our own state, whose every write would come back as an event.
fn watch_below(notifier: &mut (dyn notify::Watcher + Send), vfs: &Vfs, directory: &TreePath) -> notify::Result<()> {
    notifier.watch(&vfs.root().join(directory.as_str()), RecursiveMode::NonRecursive)?;
    // A directory that is gone again, or cannot be read, has nothing to watch.
    for (name, stat) in vfs.core.tree.list(directory).unwrap_or_default() {
        let path = directory.join(&name);
        if stat.kind == StatKind::Directory && vfs.core.places.of(&path).is_versioned() {
            watch_below(notifier, vfs, &path)?;
        }
    }
    Ok(())
}

enum Message {
    Seen(notify::Result<notify::Event>),
    /// A person's commit changed these in history: the tree may have something else.
    Doubted(Vec<TreePath>),
    Stop,
}

impl Watcher {
    pub(crate) fn start(vfs: &Arc<Vfs>) -> Result<Self, Fault> {
        let root = vfs.root().to_owned();
        let (sender, receiver) = mpsc::channel();
        let forward = sender.clone();
        let handler = move |event| {
            // The receiver is gone only while stopping.
            let _ = forward.send(Message::Seen(event));
        };
        let mut notifier: Box<dyn notify::Watcher + Send> = Box::new(
            notify::RecommendedWatcher::new(handler.clone(), notify::Config::default()).map_err(Fault::internal)?,
        );
        if let Err(error) = watch_below(&mut *notifier, vfs, &TreePath::root()) {
            warn!(%error, "the kernel cannot watch the whole root (see fs.inotify.max_user_watches); looking every 2 s instead");
            let config = notify::Config::default().with_poll_interval(Duration::from_secs(2));
            notifier = Box::new(notify::PollWatcher::new(handler, config).map_err(Fault::internal)?);
            watch_below(&mut *notifier, vfs, &TreePath::root()).map_err(Fault::internal)?;
        }
        let tell = sender.clone();
        *vfs.core.doubter.lock() = Some(Box::new(move |paths| {
            // The receiver is gone only while stopping.
            let _ = tell.send(Message::Doubted(paths));
        }));
        let notifier = Arc::new(Mutex::new(Some(notifier)));
        let follower = Follower {
            vfs: Arc::downgrade(vfs),
            root,
            notifier: Arc::clone(&notifier),
            seen: BTreeSet::new(),
            first: None,
            other: None,
        };
        let thread = std::thread::Builder::new()
            .name("watcher".to_owned())
            .spawn(move || follower.run(&receiver))
            .map_err(Fault::internal)?;
        Ok(Self { notifier, thread: Some(thread), stop: sender })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.notifier.lock().take());
        let _ = self.stop.send(Message::Stop);
        // Dropped by its own thread when that held the space last: it ends by itself then.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != std::thread::current().id())
            && thread.join().is_err()
        {
            warn!("the watcher died");
        }
    }
}

struct Follower {
    vfs: Weak<Vfs>,
    root: PathBuf,
    notifier: Notifier,
    seen: BTreeSet<TreePath>,
    first: Option<Instant>,
    /// A git command that we wait for, and since when.
    other: Option<(OtherGit, Instant)>,
}

impl Follower {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut rescan_due = Instant::now() + RESCAN;
        loop {
            let wait = if self.seen.is_empty() { rescan_due.saturating_duration_since(Instant::now()) } else { QUIET };
            match messages.recv_timeout(wait) {
                Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Message::Seen(Ok(event))) => {
                    if event.need_rescan() {
                        rescan_due = Instant::now();
                    }
                    self.note(event);
                    if self.first.is_none_or(|first| first.elapsed() < MAX_DELAY) {
                        continue;
                    }
                }
                Ok(Message::Doubted(paths)) => {
                    self.doubt(paths);
                    continue;
                }
                Ok(Message::Seen(Err(error))) => {
                    warn!(%error, "watching the root failed for a moment; comparing all of it");
                    rescan_due = Instant::now();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let Some(vfs) = self.vfs.upgrade() else { return };
            if self.is_git_busy(&vfs) {
                // A checkout or merge is writing; what it leaves is looked at when it is done.
                drop(vfs);
                match messages.recv_timeout(GIT_LOOK) {
                    Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                    Ok(Message::Seen(Ok(event))) => self.note(event),
                    Ok(Message::Doubted(paths)) => self.doubt(paths),
                    Ok(Message::Seen(Err(_))) => rescan_due = Instant::now(),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                continue;
            }
            self.look(&vfs, &mut rescan_due);
        }
    }

    fn note(&mut self, event: notify::Event) {
        let is_change = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
            EventKind::Access(_) => false,
            EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => {
                true
            }
        };
        let Some(vfs) = self.vfs.upgrade().filter(|_| is_change) else {
            return;
        };
        for path in event.paths {
            let inside = path.strip_prefix(&self.root).ok().and_then(|path| path.to_str());
            let Some(path) = inside.and_then(|path| TreePath::parse(path).ok()) else {
                continue;
            };
            match vfs.core.places.of(&path) {
                Place::Hidden | Place::Scratch => {}
                Place::Control | Place::Content => {
                    if matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))) {
                        self.watch_new(&vfs, &path);
                    }
                    self.seen.insert(path);
                    self.first.get_or_insert_with(Instant::now);
                }
            }
        }
    }

    fn doubt(&mut self, paths: Vec<TreePath>) {
        self.seen.extend(paths);
        self.first.get_or_insert_with(Instant::now);
    }

    /// A new directory is watched before it is looked at: what is made in it meanwhile is seen one way or the other.
    fn watch_new(&self, vfs: &Vfs, path: &TreePath) {
        let is_directory = vfs.core.tree.stat(path).is_ok_and(|stat| stat.kind == StatKind::Directory);
        if let Some(notifier) = self.notifier.lock().as_mut().filter(|_| is_directory)
            && let Err(error) = watch_below(&mut **notifier, vfs, path)
        {
            warn!(page.path = %path, %error, "a new directory cannot be watched; the hourly rescan will see its edits");
        }
    }

    fn look(&mut self, vfs: &Vfs, rescan_due: &mut Instant) {
        let paths: Vec<_> = std::mem::take(&mut self.seen).into_iter().filter(|path| !path.is_root()).collect();
        (self.first, self.other) = (None, None);
        let outcome = if *rescan_due <= Instant::now() {
            *rescan_due = Instant::now() + RESCAN;
            vfs.rescan()
        } else if paths.is_empty() {
            return;
        } else {
            vfs.adopt(&paths)
        };
        match outcome {
            Ok(0) => debug!(paths = paths.len(), "nothing to adopt: own writes"),
            Ok(count) => info!(files = count, "edits made behind the server were recorded"),
            Err(fault) => {
                warn!(error = ?fault, "edits made behind the server could not be recorded; trying again");
                self.seen.extend(paths);
            }
        }
    }

    /// Whether the git command that was at work when we first wanted to look is in the middle of something. Those that come after
    /// it are not waited for: somebody may try again and again what cannot be done before we have looked.
    fn is_git_busy(&mut self, vfs: &Vfs) -> bool {
        let Some(history) = vfs.core.memory.git() else { return false };
        let found = || Some((history.other_at_work(GIT_GRACE, None)?, Instant::now()));
        self.other = self.other.take().or_else(found);
        self.other
            .as_ref()
            .is_some_and(|(other, since)| history.is_at_work(other, GIT_GRACE) && since.elapsed() < GIT_BUSY)
    }
}
