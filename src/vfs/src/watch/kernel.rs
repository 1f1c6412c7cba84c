//! The kernel's word of what changed, for all roots of the process.
//!
//! One instance of inotify serves them all: Linux gives a user 128
//! (`fs.inotify.max_user_instances`), and a server may have more spaces.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use notify::event::{EventKind, Flag};
use notify::{Event, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::{Mutex, RwLock};
use tracing::warn;

/// Told of each event; one that [`Event::need_rescan`] says that some were lost.
pub(super) type EventHandler = Arc<dyn Fn(Event) + Send + Sync>;

/// The instance, while there is a root.
static HUB: Mutex<Weak<KernelHub>> = Mutex::new(Weak::new());

struct KernelHub {
    roots: Arc<WatchedRoots>,
    notifier: Mutex<RecommendedWatcher>,
}

type WatchedRoots = RwLock<HashMap<PathBuf, EventHandler>>;

/// The directories of one root that the kernel watches; until dropped.
pub(super) struct WatchedDirs {
    hub: Arc<KernelHub>,
    root: PathBuf,
    handler: EventHandler,
    directories: Mutex<BTreeSet<PathBuf>>,
}

impl WatchedDirs {
    /// Nothing of a root yet.
    ///
    /// # Errors
    /// When the kernel gives no more instances.
    pub(super) fn new(root: &Path, handler: EventHandler) -> notify::Result<Self> {
        let hub = KernelHub::shared()?;
        hub.roots.write().insert(root.to_owned(), Arc::clone(&handler));
        Ok(Self { hub, root: root.to_owned(), handler, directories: Mutex::default() })
    }

    /// Watches a directory, without those below it.
    ///
    /// # Errors
    /// When it is gone, or the kernel watches no more (`fs.inotify.max_user_watches`).
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
            // Somebody else may have the root by now.
            if roots.get(&self.root).is_some_and(|handler| Arc::ptr_eq(handler, &self.handler)) {
                roots.remove(&self.root);
            }
            !roots.is_empty()
        };
        if has_others {
            let mut notifier = self.hub.notifier.lock();
            for directory in std::mem::take(self.directories.get_mut()) {
                // Those that were removed are not watched any more.
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
        let told = Arc::clone(&roots);
        // Not of what is only read: every `grep` in a root, and every look of ours, would wake
        // somebody for each file.
        let changes = EventKindMask::CORE.union(EventKindMask::ACCESS_CLOSE);
        let config = notify::Config::default().with_event_kinds(changes);
        let notifier = RecommendedWatcher::new(move |event| dispatch(&told, event), config)?;
        let hub = Arc::new(Self { roots, notifier: Mutex::new(notifier) });
        *shared = Arc::downgrade(&hub);
        Ok(hub)
    }
}

fn dispatch(roots: &WatchedRoots, event: notify::Result<Event>) {
    let event = event.unwrap_or_else(|error| {
        warn!(%error, "watching the roots failed for a moment; comparing all of them");
        Event::new(EventKind::Other).set_flag(Flag::Rescan)
    });
    let told: Vec<EventHandler> = {
        let roots = roots.read();
        if event.paths.is_empty() {
            roots.values().cloned().collect()
        } else {
            let mut found: Vec<_> = event
                .paths
                .iter()
                .filter_map(|path| path.ancestors().find_map(|root| roots.get_key_value(root)))
                .collect();
            // A move within a root has two paths there.
            found.dedup_by_key(|(root, _)| *root);
            found.into_iter().map(|(_, handler)| Arc::clone(handler)).collect()
        }
    };
    told.into_iter().for_each(|handler| handler(event.clone()));
}
