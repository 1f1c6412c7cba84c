//! inotify events for all roots of the process.
//!
//! One inotify instance serves all roots: Linux allows 128 per user
//! (`fs.inotify.max_user_instances`), and a server may have more spaces.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use notify::event::{EventKind, Flag};
use notify::{Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Mutex, RwLock};
use tracing::warn;

/// Called with each event; [`Event::need_rescan`] says that some were lost.
pub(super) type EventHandler = Arc<dyn Fn(Event) + Send + Sync>;

/// The shared instance, while any root is watched.
static HUB: Mutex<Weak<KernelHub>> = Mutex::new(Weak::new());

struct KernelHub {
    roots: Arc<WatchedRoots>,
    notifier: Mutex<RecommendedWatcher>,
}

type WatchedRoots = RwLock<HashMap<PathBuf, EventHandler>>;

/// The watched directories of one root; unwatched on drop.
pub(super) struct WatchedDirs {
    hub: Arc<KernelHub>,
    root: PathBuf,
    handler: EventHandler,
    directories: Mutex<BTreeSet<PathBuf>>,
}

impl WatchedDirs {
    /// Starts without directories.
    pub(super) fn new(root: &Path, handler: EventHandler) -> notify::Result<Self> {
        let hub = KernelHub::shared()?;
        hub.roots.write().insert(root.to_owned(), Arc::clone(&handler));
        Ok(Self { hub, root: root.to_owned(), handler, directories: Mutex::default() })
    }

    /// Watches a directory, without its subdirectories.
    ///
    /// # Errors
    /// When it is missing, or the kernel watches no more (`fs.inotify.max_user_watches`).
    pub(super) fn add(&self, directory: PathBuf) -> notify::Result<()> {
        self.hub.notifier.lock().watch(&directory, RecursiveMode::NonRecursive)?;
        self.directories.lock().insert(directory);
        Ok(())
    }
}

impl Drop for WatchedDirs {
    fn drop(&mut self) {
        let has_others = {
            let mut roots = self.hub.roots.write();
            // Another watcher may have the root by now.
            if roots.get(&self.root).is_some_and(|handler| Arc::ptr_eq(handler, &self.handler)) {
                roots.remove(&self.root);
            }
            !roots.is_empty()
        };
        if has_others {
            let mut notifier = self.hub.notifier.lock();
            for directory in std::mem::take(self.directories.get_mut()) {
                // Removed directories are not watched any more.
                let _ = notifier.unwatch(&directory);
            }
        }
    }
}

impl KernelHub {
    fn shared() -> notify::Result<Arc<Self>> {
        let mut shared = HUB.lock();
        if let Some(hub) = shared.upgrade() {
            return Ok(hub);
        }
        let roots = Arc::<WatchedRoots>::default();
        let roots_of_hub = Arc::clone(&roots);
        // Without read events: every `grep` in a root, and every check by the watcher, would wake a
        // follower for each file.
        let changes = EventKindMask::CORE.union(EventKindMask::ACCESS_CLOSE);
        let config = notify::Config::default().with_event_kinds(changes);
        let notifier = RecommendedWatcher::new(move |event| dispatch(&roots_of_hub, event), config)?;
        let hub = Arc::new(Self { roots, notifier: Mutex::new(notifier) });
        *shared = Arc::downgrade(&hub);
        Ok(hub)
    }
}

fn dispatch(roots: &WatchedRoots, event: notify::Result<Event>) {
    let event = event.unwrap_or_else(|error| {
        warn!(%error, "inotify failed; rescanning all roots");
        Event::new(EventKind::Other).set_flag(Flag::Rescan)
    });
    let handlers: Vec<EventHandler> = {
        let roots = roots.read();
        if event.paths.is_empty() {
            roots.values().cloned().collect()
        } else {
            let mut matches: Vec<_> = event
                .paths
                .iter()
                .filter_map(|path| path.ancestors().find_map(|root| roots.get_key_value(root)))
                .collect();
            // A move within a root has two paths in it.
            matches.dedup_by_key(|(root, _)| *root);
            matches.into_iter().map(|(_, handler)| Arc::clone(handler)).collect()
        }
    };
    handlers.into_iter().for_each(|handler| handler(event.clone()));
}
