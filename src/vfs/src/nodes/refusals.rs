//! What was refused, and why, for as long as its text is kept below `.svc/rejected`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use svcfs_base::TreePath;
use svcfs_store::{StatKind, StoreError, WorkTree};
use tracing::warn;

use super::refused::place_of;
use crate::core::Core;
use crate::place::REJECTED_DIRECTORY;

/// How long a refused text is kept while no write of its page is accepted (gaps.md D6).
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Of so many refusals it is known why.
const MOST_TOLD: usize = 10_000;

/// What was refused lately, and why, by path.
pub(crate) struct Refusals {
    told: Mutex<Told>,
    /// Held while a text is put in its place or taken away.
    keeping: Mutex<()>,
    /// Whether any text may be kept, also from an earlier life of the server: nearly always none is.
    has_any: AtomicBool,
}

#[derive(Default)]
struct Told {
    /// The number of each refusal, in their order, and why.
    reasons: BTreeMap<TreePath, (u64, String)>,
    last: u64,
}

/// A moment: before it are the refusals that were noted before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment(u64);

impl Refusals {
    /// Of a tree in which texts may be kept already.
    pub(crate) fn of_tree(tree: &WorkTree) -> Self {
        let has_any = TreePath::parse(REJECTED_DIRECTORY).is_ok_and(|place| tree.stat(&place).is_ok());
        Self { told: Mutex::default(), keeping: Mutex::default(), has_any: has_any.into() }
    }

    /// Notes a refusal, whose text is to be put in its place while this is held.
    pub(super) fn note(&self, path: &TreePath, reason: &str) -> MutexGuard<'_, ()> {
        let keeping = self.keeping.lock();
        self.has_any.store(true, Ordering::Release);
        let mut told = self.told.lock();
        told.last += 1;
        if told.reasons.len() < MOST_TOLD || told.reasons.contains_key(path) {
            let number = told.last;
            told.reasons.insert(path.clone(), (number, reason.to_owned()));
        }
        keeping
    }

    pub(crate) fn of(&self, path: &TreePath) -> Option<String> {
        self.told.lock().reasons.get(path).map(|(_, reason)| reason.clone())
    }

    /// Now.
    pub(crate) fn now(&self) -> Moment {
        Moment(self.told.lock().last)
    }

    /// Forgets why a path was refused before a moment; false when it was refused since.
    fn forget(&self, path: &TreePath, before: Moment) -> bool {
        let mut told = self.told.lock();
        if told.reasons.get(path).is_some_and(|(number, _)| *number > before.0) {
            return false;
        }
        told.reasons.remove(path);
        true
    }
}

impl Core {
    /// Lets go of refused texts that nobody came for in seven days.
    pub(crate) fn sweep_refused(&self) {
        if let Ok(place) = TreePath::parse(REJECTED_DIRECTORY)
            && self.refusals.has_any.load(Ordering::Acquire)
            && let Err(error) = self.sweep_below(&place)
        {
            warn!(%error, "old texts below `{REJECTED_DIRECTORY}` could not be removed");
        }
    }

    fn sweep_below(&self, directory: &TreePath) -> Result<(), StoreError> {
        for (name, stat) in self.tree.list(directory)? {
            let path = directory.join(&name);
            let age = self.file_time().duration_since(stat.modified).unwrap_or_default();
            match stat.kind {
                StatKind::Directory => {
                    self.sweep_below(&path)?;
                    // One that is not empty stays.
                    let _ = self.tree.remove_directory(&path);
                }
                _ if age >= KEPT => self.tree.remove(&path)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// An accepted write makes refusals of the same path void that were before it, through whichever door. What is refused because of this write
    /// is after it.
    pub(crate) fn forget_refused<'a>(&self, paths: impl Iterator<Item = &'a TreePath>, before: Moment) {
        if !self.refusals.has_any.load(Ordering::Acquire) {
            return;
        }
        for path in paths {
            let Some(place) = place_of(path) else { continue };
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
