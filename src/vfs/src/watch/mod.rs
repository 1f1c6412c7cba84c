//! Looking for edits made behind the server.
//!
//! One rule: an event only says where to look. What is recorded is what stands there when we look.

mod kernel;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use svcfs_base::{Fault, TreePath};
use svcfs_store::{ExternalGit, StatKind};
use svcfs_work::{NextStep, Signal, StopToken, Supervisor, Task, TaskFailure};
use tracing::{debug, info, warn};

use crate::Vfs;
use crate::path_class::PathClass;
use kernel::{EventHandler, WatchedDirs};

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

/// How long a look that has begun may take before closing the root goes on without it.
const PATIENCE: Duration = Duration::from_secs(600);

/// Watches a root until dropped.
pub(crate) struct RootWatcher {
    /// Events end when it is taken.
    notifier: Notifier,
    supervisor: Supervisor,
}

type Notifier = Arc<Mutex<Option<WatchBackend>>>;

/// Who sees that something changed.
enum WatchBackend {
    Kernel(WatchedDirs),
    /// Looks itself, again and again.
    Polling(Box<notify::PollWatcher>),
}

impl WatchBackend {
    /// Watches a directory and those below it, except git's and our own state, whose every write would come back as an event.
    fn watch_below(&mut self, vfs: &Vfs, directory: &TreePath) -> notify::Result<()> {
        let at = vfs.root().join(directory.as_str());
        match self {
            Self::Kernel(watched) => watched.add(at)?,
            Self::Polling(notifier) => notifier.watch(&at, RecursiveMode::NonRecursive)?,
        }
        // A directory that is gone again, or cannot be read, has nothing to watch.
        for name in vfs.core.tree.list_directories(directory).unwrap_or_default() {
            let path = directory.join(&name);
            if vfs.core.places.of(&path).is_versioned() {
                self.watch_below(vfs, &path)?;
            }
        }
        Ok(())
    }

    fn of_kernel(vfs: &Vfs, handler: &EventHandler) -> notify::Result<Self> {
        let mut eyes = Self::Kernel(WatchedDirs::of(vfs.root(), Arc::clone(handler))?);
        eyes.watch_below(vfs, &TreePath::root())?;
        Ok(eyes)
    }

    fn of_polling(vfs: &Vfs, handler: &EventHandler) -> notify::Result<Self> {
        let handler = Arc::clone(handler);
        let config = notify::Config::default().with_poll_interval(Duration::from_secs(2));
        // What cannot be read now is looked at again in two seconds.
        let seen = move |event: notify::Result<notify::Event>| event.into_iter().for_each(|event| handler(event));
        let mut eyes = Self::Polling(Box::new(notify::PollWatcher::new(seen, config)?));
        eyes.watch_below(vfs, &TreePath::root())?;
        Ok(eyes)
    }
}

enum WatchMessage {
    Seen(notify::Event, Instant),
    /// A person's commit changed these in history: the tree may have something else.
    Doubted(Vec<TreePath>),
}

impl RootWatcher {
    pub(crate) fn start(vfs: &Arc<Vfs>) -> Result<Self, Fault> {
        let (mailbox, messages) = EventQueue::new();
        let called = mailbox.called.clone();
        let (is_awake, doubter) = (Arc::clone(&mailbox.is_awake), mailbox.clone());
        let handler: EventHandler = Arc::new(move |event| mailbox.put(WatchMessage::Seen(event, Instant::now())));
        let eyes = WatchBackend::of_kernel(vfs, &handler).or_else(|error| {
            warn!(%error, "the kernel cannot watch the whole root (see fs.inotify.max_user_watches); looking every 2 s instead");
            WatchBackend::of_polling(vfs, &handler)
        });
        let notifier = Arc::new(Mutex::new(Some(eyes.map_err(Fault::internal)?)));
        *vfs.core.doubter.lock() = Some(Box::new(move |paths| doubter.put(WatchMessage::Doubted(paths))));
        let follower = TreeFollower {
            vfs: Arc::downgrade(vfs),
            root: vfs.root().to_owned(),
            notifier: Arc::clone(&notifier),
            messages,
            is_awake,
            seen: BTreeSet::new(),
            first: None,
            last: Instant::now(),
            rescan_due: Instant::now() + RESCAN,
            other: None,
            is_failing: false,
        };
        let supervisor = Supervisor::new();
        supervisor.start(follower, called).map_err(Fault::internal)?;
        Ok(Self { notifier, supervisor })
    }
}

impl Drop for RootWatcher {
    fn drop(&mut self) {
        drop(self.notifier.lock().take());
        self.supervisor.stop(PATIENCE);
    }
}

/// What is put there is looked at soon.
#[derive(Clone)]
struct EventQueue {
    sender: Sender<WatchMessage>,
    called: Signal,
    /// The follower looks at its messages before long, without being called.
    is_awake: Arc<AtomicBool>,
}

impl EventQueue {
    fn new() -> (Self, Receiver<WatchMessage>) {
        let (sender, messages) = mpsc::channel();
        (Self { sender, called: Signal::new(), is_awake: Arc::default() }, messages)
    }

    fn put(&self, message: WatchMessage) {
        // The receiver is gone only while stopping.
        let _ = self.sender.send(message);
        if !self.is_awake.swap(true, Ordering::SeqCst) {
            self.called.raise();
        }
    }
}

struct TreeFollower {
    vfs: Weak<Vfs>,
    root: PathBuf,
    notifier: Notifier,
    messages: Receiver<WatchMessage>,
    is_awake: Arc<AtomicBool>,
    seen: BTreeSet<TreePath>,
    first: Option<Instant>,
    last: Instant,
    rescan_due: Instant,
    /// A git command that we wait for, and since when.
    other: Option<(ExternalGit, Instant)>,
    /// Whether the last look failed: said once, however often it is tried.
    is_failing: bool,
}

impl Task for TreeFollower {
    const NAME: &'static str = "watcher";

    fn step(&mut self, _: &StopToken) -> Result<NextStep, TaskFailure> {
        self.take_messages();
        if let Some(wait) = self.wait() {
            if !self.seen.is_empty() {
                return Ok(NextStep::After(wait));
            }
            self.is_awake.store(false, Ordering::SeqCst);
            // What came in between did not call.
            self.take_messages();
            return Ok(if self.seen.is_empty() { NextStep::After(wait) } else { NextStep::Now });
        }
        let Some(vfs) = self.vfs.upgrade() else { return Ok(NextStep::WhenSignalled) };
        if self.is_git_busy(&vfs) {
            // A checkout or merge is writing; what it leaves is looked at when it is done.
            return Ok(NextStep::After(GIT_LOOK));
        }
        self.look(&vfs);
        Ok(NextStep::Now)
    }
}

impl TreeFollower {
    /// How long until there is something to look at; none when there is.
    fn wait(&self) -> Option<Duration> {
        let quiet = self.last + QUIET;
        let seen = (!self.seen.is_empty()).then(|| self.first.map_or(quiet, |first| quiet.min(first + MAX_DELAY)));
        let due = seen.map_or(self.rescan_due, |seen| seen.min(self.rescan_due));
        let wait = due.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    fn take_messages(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                WatchMessage::Seen(event, at) => {
                    if event.need_rescan() {
                        self.rescan_due = Instant::now();
                    }
                    self.note(event, at);
                }
                WatchMessage::Doubted(paths) => {
                    self.seen.extend(paths);
                    self.last = Instant::now();
                    self.first.get_or_insert(self.last);
                }
            }
        }
    }

    fn note(&mut self, event: notify::Event, at: Instant) {
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
                PathClass::Hidden | PathClass::Scratch => {}
                PathClass::Control | PathClass::Content => {
                    if matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))) {
                        self.watch_new(&vfs, &path);
                    }
                    self.seen.insert(path);
                    self.first.get_or_insert(at);
                    self.last = self.last.max(at);
                }
            }
        }
    }

    /// A new directory is watched before it is looked at: what is made in it meanwhile is seen one way or the other.
    fn watch_new(&self, vfs: &Vfs, path: &TreePath) {
        let is_directory = vfs.core.tree.stat(path).is_ok_and(|stat| stat.kind == StatKind::Directory);
        if let Some(eyes) = self.notifier.lock().as_mut().filter(|_| is_directory)
            && let Err(error) = eyes.watch_below(vfs, path)
        {
            warn!(page.path = %path, %error, "a new directory cannot be watched; the hourly rescan will see its edits");
        }
    }

    fn look(&mut self, vfs: &Vfs) {
        let paths: Vec<_> = std::mem::take(&mut self.seen).into_iter().filter(|path| !path.is_root()).collect();
        (self.first, self.other) = (None, None);
        let outcome = if self.rescan_due <= Instant::now() {
            self.rescan_due = Instant::now() + RESCAN;
            vfs.rescan()
        } else if paths.is_empty() {
            return;
        } else {
            vfs.adopt(&paths)
        };
        self.is_failing &= outcome.is_err();
        match outcome {
            Ok(0) => debug!(paths = paths.len(), "nothing to adopt: own writes"),
            Ok(count) => info!(files = count, "edits made behind the server were recorded"),
            Err(fault) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!(error = ?fault, "edits made behind the server could not be recorded; trying again until they are");
                }
                self.seen.extend(paths);
                self.last = Instant::now();
            }
        }
    }

    /// Whether the git command that was at work when we first wanted to look is in the middle of something. Those that come after
    /// it are not waited for: somebody may try again and again what cannot be done before we have looked.
    fn is_git_busy(&mut self, vfs: &Vfs) -> bool {
        let Some(history) = vfs.core.memory.git() else { return false };
        let found = || Some((history.detect_external_git(GIT_GRACE, None)?, Instant::now()));
        self.other = self.other.take().or_else(found);
        self.other
            .as_ref()
            .is_some_and(|(other, since)| history.is_git_running(other, GIT_GRACE) && since.elapsed() < GIT_BUSY)
    }
}
