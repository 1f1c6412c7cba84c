//! What was refused, and why, for as long as its text is kept below `.svc/rejected`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use svcfs_base::TreePath;
use svcfs_store::{FileStat, StatKind, StoreError, WorkTree};
use tracing::warn;

use super::rejected::rejected_path;
use crate::core::VfsCore;
use crate::path_class::REJECTED_DIRECTORY;

/// How long a refused text is kept while no write of its page is accepted (gaps.md D6).
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Of so many refusals it is known why.
const MOST_TOLD: usize = 10_000;

/// What was refused lately, and why, by path.
pub(crate) struct RecentRefusals {
    told: Mutex<RefusalRecord>,
    /// Held while a text is put in its place or taken away.
    keeping: Mutex<()>,
    /// Whether any text may be kept, also from an earlier life of the server: nearly always none is.
    has_any: AtomicBool,
}

#[derive(Default)]
struct RefusalRecord {
    /// The number of each refusal, and why.
    reasons: BTreeMap<TreePath, (u64, String)>,
    /// The same in the order of their numbers.
    order: BTreeMap<u64, TreePath>,
    last: u64,
}

impl RefusalRecord {
    fn add(&mut self, path: &TreePath, reason: &str) {
        self.remove(path);
        self.last += 1;
        self.reasons.insert(path.clone(), (self.last, reason.to_owned()));
        self.order.insert(self.last, path.clone());
        if self.order.len() > MOST_TOLD
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.reasons.remove(&oldest);
        }
    }

    fn remove(&mut self, path: &TreePath) {
        if let Some((number, _)) = self.reasons.remove(path) {
            self.order.remove(&number);
        }
    }
}

/// A moment: before it are the refusals that were noted before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalMark(u64);

impl RecentRefusals {
    /// Of a tree in which texts may be kept already.
    pub(crate) fn of_tree(tree: &WorkTree) -> Self {
        let has_any = TreePath::parse(REJECTED_DIRECTORY).is_ok_and(|place| tree.stat(&place).is_ok());
        Self { told: Mutex::default(), keeping: Mutex::default(), has_any: has_any.into() }
    }

    /// Notes a refusal, whose text is to be put in its place while this is held.
    pub(crate) fn note(&self, path: &TreePath, reason: &str) -> MutexGuard<'_, ()> {
        let keeping = self.keeping.lock();
        self.has_any.store(true, Ordering::Release);
        self.told.lock().add(path, reason);
        keeping
    }

    /// Whether any text may be kept.
    #[cfg(test)]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    pub(crate) fn of(&self, path: &TreePath) -> Option<String> {
        self.told.lock().reasons.get(path).map(|(_, reason)| reason.clone())
    }

    /// Now.
    pub(crate) fn now(&self) -> RefusalMark {
        RefusalMark(self.told.lock().last)
    }

    /// Forgets why a path was refused before a moment; false when it was refused since.
    fn forget(&self, path: &TreePath, before: RefusalMark) -> bool {
        let mut told = self.told.lock();
        if told.reasons.get(path).is_some_and(|(number, _)| *number > before.0) {
            return false;
        }
        told.remove(path);
        true
    }
}

impl VfsCore {
    /// Lets go of refused texts that nobody came for in seven days, and of what is known of those that are gone.
    pub(crate) fn sweep_refused(&self) {
        let Ok(place) = TreePath::parse(REJECTED_DIRECTORY) else { return };
        if !self.refusals.has_any.load(Ordering::Acquire) {
            return;
        }
        let mut trouble = None;
        self.sweep_below(&place, &mut trouble);
        if let Some(error) = trouble {
            warn!(%error, "old texts below `{REJECTED_DIRECTORY}` could not be removed");
        }
        let told: Vec<TreePath> = self.refusals.told.lock().reasons.keys().cloned().collect();
        let is_gone = |place: &TreePath| self.tree.stat(place).is_err_and(|error| error.is_missing());
        for path in told {
            let _keeping = self.refusals.keeping.lock();
            if rejected_path(&path).is_none_or(|place| is_gone(&place)) {
                self.refusals.told.lock().remove(&path);
            }
        }
        let _keeping = self.refusals.keeping.lock();
        if is_gone(&place) && self.refusals.told.lock().reasons.is_empty() {
            self.refusals.has_any.store(false, Ordering::Release);
        }
    }

    /// Goes on after what cannot be removed; `trouble` is the first of that.
    fn sweep_below(&self, directory: &TreePath, trouble: &mut Option<StoreError>) {
        let names = match self.tree.list(directory) {
            Ok(names) => names,
            Err(error) => {
                if !error.is_missing() {
                    trouble.get_or_insert(error);
                }
                return;
            }
        };
        for (name, stat) in names {
            let path = directory.join(&name);
            if stat.kind == StatKind::Directory {
                self.sweep_below(&path, trouble);
                let _keeping = self.refusals.keeping.lock();
                // One that is not empty stays.
                let _ = self.tree.remove_directory(&path);
            } else if self.is_old(&stat)
                && let Err(error) = self.sweep_one(&path)
                && !error.is_missing()
            {
                trouble.get_or_insert(error);
            }
        }
    }

    fn is_old(&self, text: &FileStat) -> bool {
        self.file_time().duration_since(text.modified).is_ok_and(|age| age >= KEPT)
    }

    /// Removes a text, unless another has taken its place by now.
    fn sweep_one(&self, path: &TreePath) -> Result<(), StoreError> {
        let _keeping = self.refusals.keeping.lock();
        if self.is_old(&self.tree.stat(path)?) { self.tree.remove(path) } else { Ok(()) }
    }

    /// An accepted write makes refusals of the same path void that were before it, through whichever door. What is refused because of this write
    /// is after it.
    pub(crate) fn forget_refused<'a>(&self, paths: impl Iterator<Item = &'a TreePath>, before: RefusalMark) {
        if !self.refusals.has_any.load(Ordering::Acquire) {
            return;
        }
        for path in paths {
            let Some(place) = rejected_path(path) else { continue };
            let _keeping = self.refusals.keeping.lock();
            if self.refusals.forget(path, before)
                && self.tree.stat(&place).is_ok_and(|there| there.kind == StatKind::File)
                && let Err(error) = self.tree.remove(&place)
            {
                warn!(page.path = %path, %error, "the text of an earlier refused save could not be removed");
            }
        }
    }
}
