//! Watcher for external edits.
//!
//! Invariant: an event only names a path to check. What is recorded is the state at check time.

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

/// A path is checked after it was quiet for this long.
const QUIET_DELAY: Duration = Duration::from_millis(200);
/// A busy path is checked this long after its first event.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Interval of full rescans, for missed events.
const RESCAN_INTERVAL: Duration = Duration::from_secs(3600);
/// How long to wait for an external git command before its files are checked.
const GIT_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long after its last write to `.git/index` it may still move the branch.
const GIT_GRACE: Duration = Duration::from_millis(100);
/// Interval of checks whether it has ended.
const GIT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How long closing a root waits for a running check.
const STOP_TIMEOUT: Duration = Duration::from_secs(600);

/// Watches a root until dropped.
pub(crate) struct RootWatcher {
    /// Taken on drop, which ends the events.
    notifier: Notifier,
    supervisor: Supervisor,
}

type Notifier = Arc<Mutex<Option<WatchBackend>>>;

enum WatchBackend {
    Kernel(WatchedDirs),
    /// Compares directories periodically.
    Polling(Box<notify::PollWatcher>),
}

impl WatchBackend {
    /// Watches a directory tree, except the state of git and svcfs, whose own writes would come
    /// back as events.
    fn watch_below(&mut self, vfs: &Vfs, directory: &TreePath) -> notify::Result<()> {
        // Without recursion: a path may have 2,000 levels.
        let mut pending = vec![directory.clone()];
        while let Some(directory) = pending.pop() {
            let absolute = vfs.root().join(directory.as_str());
            match self {
                Self::Kernel(watched) => watched.add(absolute)?,
                Self::Polling(notifier) => notifier.watch(&absolute, RecursiveMode::NonRecursive)?,
            }
            // A removed or unreadable directory has nothing to watch.
            for name in vfs.core.tree.list_directories(&directory).unwrap_or_default() {
                let path = directory.join(&name);
                if vfs.core.path_classes.classify(&path).is_versioned() {
                    pending.push(path);
                }
            }
        }
        Ok(())
    }

    fn kernel(vfs: &Vfs, handler: &EventHandler) -> notify::Result<Self> {
        let mut backend = Self::Kernel(WatchedDirs::new(vfs.root(), Arc::clone(handler))?);
        backend.watch_below(vfs, &TreePath::root())?;
        Ok(backend)
    }

    fn polling(vfs: &Vfs, handler: &EventHandler) -> notify::Result<Self> {
        let handler = Arc::clone(handler);
        let config = notify::Config::default().with_poll_interval(Duration::from_secs(2));
        // An unreadable directory is read again in two seconds.
        let on_event = move |event: notify::Result<notify::Event>| event.into_iter().for_each(|event| handler(event));
        let mut backend = Self::Polling(Box::new(notify::PollWatcher::new(on_event, config)?));
        backend.watch_below(vfs, &TreePath::root())?;
        Ok(backend)
    }
}

enum WatchMessage {
    Event(notify::Event, Instant),
    /// An external commit changed these paths in history: the tree may differ.
    Rescan(Vec<TreePath>),
}

impl RootWatcher {
    pub(crate) fn start(vfs: &Arc<Vfs>) -> Result<Self, Fault> {
        let (queue, messages) = EventQueue::new();
        let signal = queue.signal.clone();
        let (is_awake, rescan_queue) = (Arc::clone(&queue.is_awake), queue.clone());
        let handler: EventHandler = Arc::new(move |event| queue.push(WatchMessage::Event(event, Instant::now())));
        let backend = WatchBackend::kernel(vfs, &handler).or_else(|error| {
            warn!(%error, "cannot watch the whole root with inotify (see fs.inotify.max_user_watches); polling every 2 s instead");
            WatchBackend::polling(vfs, &handler)
        });
        let notifier = Arc::new(Mutex::new(Some(backend.map_err(Fault::internal)?)));
        *vfs.core.rescan_hook.lock() = Some(Box::new(move |paths| rescan_queue.push(WatchMessage::Rescan(paths))));
        let follower = TreeFollower {
            vfs: Arc::downgrade(vfs),
            root: vfs.root().to_owned(),
            notifier: Arc::clone(&notifier),
            messages,
            is_awake,
            changed_paths: BTreeSet::new(),
            first_event: None,
            last_event: Instant::now(),
            rescan_due: Instant::now() + RESCAN_INTERVAL,
            external_git: None,
            is_failing: false,
        };
        let supervisor = Supervisor::new();
        supervisor.start(follower, signal).map_err(Fault::internal)?;
        Ok(Self { notifier, supervisor })
    }
}

impl Drop for RootWatcher {
    fn drop(&mut self) {
        drop(self.notifier.lock().take());
        self.supervisor.stop(STOP_TIMEOUT);
    }
}

/// Queue of events; wakes the follower.
#[derive(Clone)]
struct EventQueue {
    sender: Sender<WatchMessage>,
    signal: Signal,
    /// The follower will read its messages soon, without a signal.
    is_awake: Arc<AtomicBool>,
}

impl EventQueue {
    fn new() -> (Self, Receiver<WatchMessage>) {
        let (sender, messages) = mpsc::channel();
        (Self { sender, signal: Signal::new(), is_awake: Arc::default() }, messages)
    }

    fn push(&self, message: WatchMessage) {
        // There is no receiver only while stopping.
        let _ = self.sender.send(message);
        if !self.is_awake.swap(true, Ordering::SeqCst) {
            self.signal.raise();
        }
    }
}

struct TreeFollower {
    vfs: Weak<Vfs>,
    root: PathBuf,
    notifier: Notifier,
    messages: Receiver<WatchMessage>,
    is_awake: Arc<AtomicBool>,
    changed_paths: BTreeSet<TreePath>,
    first_event: Option<Instant>,
    last_event: Instant,
    rescan_due: Instant,
    /// The external git command to wait for, and since when.
    external_git: Option<(ExternalGit, Instant)>,
    /// Whether the last check failed, to log it only once.
    is_failing: bool,
}

impl Task for TreeFollower {
    const NAME: &'static str = "watcher";

    fn step(&mut self, _: &StopToken) -> Result<NextStep, TaskFailure> {
        self.take_messages();
        if let Some(wait) = self.delay() {
            if !self.changed_paths.is_empty() {
                return Ok(NextStep::After(wait));
            }
            self.is_awake.store(false, Ordering::SeqCst);
            // Messages that came in between sent no signal.
            self.take_messages();
            return Ok(if self.changed_paths.is_empty() { NextStep::After(wait) } else { NextStep::Now });
        }
        let Some(vfs) = self.vfs.upgrade() else { return Ok(NextStep::WhenSignalled) };
        if self.is_git_busy(&vfs) {
            // A checkout or merge is writing; its files are checked when it has ended.
            return Ok(NextStep::After(GIT_POLL_INTERVAL));
        }
        self.adopt_changes(&vfs);
        Ok(NextStep::Now)
    }
}

impl TreeFollower {
    /// Time until a check is due; none when it is due now.
    fn delay(&self) -> Option<Duration> {
        let quiet = self.last_event + QUIET_DELAY;
        let on_event = (!self.changed_paths.is_empty())
            .then(|| self.first_event.map_or(quiet, |first| quiet.min(first + MAX_DELAY)));
        let due = on_event.map_or(self.rescan_due, |on_event| on_event.min(self.rescan_due));
        let wait = due.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    fn take_messages(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            match message {
                WatchMessage::Event(event, absolute) => {
                    if event.need_rescan() {
                        self.rescan_due = Instant::now();
                    }
                    self.note_event(event, absolute);
                }
                WatchMessage::Rescan(paths) => {
                    self.changed_paths.extend(paths);
                    self.last_event = Instant::now();
                    self.first_event.get_or_insert(self.last_event);
                }
            }
        }
    }

    fn note_event(&mut self, event: notify::Event, absolute: Instant) {
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
            match vfs.core.path_classes.classify(&path) {
                PathClass::State | PathClass::Scratch => {}
                PathClass::Control | PathClass::Content => {
                    if matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Name(_))) {
                        self.watch_new(&vfs, &path);
                    }
                    self.changed_paths.insert(path);
                    self.first_event.get_or_insert(absolute);
                    self.last_event = self.last_event.max(absolute);
                }
            }
        }
    }

    /// A new directory is watched before it is checked, so that no edit is missed.
    fn watch_new(&self, vfs: &Vfs, path: &TreePath) {
        let is_directory = vfs.core.tree.stat(path).is_ok_and(|stat| stat.kind == StatKind::Directory);
        if let Some(backend) = self.notifier.lock().as_mut().filter(|_| is_directory)
            && let Err(error) = backend.watch_below(vfs, path)
        {
            warn!(page.path = %path, %error, "cannot watch a new directory; the hourly rescan will find its edits");
        }
    }

    fn adopt_changes(&mut self, vfs: &Vfs) {
        let paths: Vec<_> =
            std::mem::take(&mut self.changed_paths).into_iter().filter(|path| !path.is_root()).collect();
        (self.first_event, self.external_git) = (None, None);
        let outcome = if self.rescan_due <= Instant::now() {
            self.rescan_due = Instant::now() + RESCAN_INTERVAL;
            vfs.rescan()
        } else if paths.is_empty() {
            return;
        } else {
            vfs.adopt(&paths)
        };
        self.is_failing &= outcome.is_err();
        match outcome {
            Ok(0) => debug!(paths = paths.len(), "nothing to adopt: own writes"),
            Ok(count) => info!(files = count, "external edits were recorded"),
            Err(fault) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!(error = ?fault, "external edits could not be recorded; retrying");
                }
                self.changed_paths.extend(paths);
                self.last_event = Instant::now();
            }
        }
    }

    /// Whether the git command that was running at the first attempt is still active. Later
    /// commands are not awaited: a process may retry one that fails until the files are checked.
    fn is_git_busy(&mut self, vfs: &Vfs) -> bool {
        let Some(history) = vfs.core.versions.git() else { return false };
        let detect = || Some((history.detect_external_git(GIT_GRACE, None)?, Instant::now()));
        self.external_git = self.external_git.take().or_else(detect);
        self.external_git
            .as_ref()
            .is_some_and(|(git, since)| history.is_git_running(git, GIT_GRACE) && since.elapsed() < GIT_WAIT_TIMEOUT)
    }
}
