//! Reasons of rejected saves, for as long as their texts are stored below `.svc/rejected`.

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

/// How long a rejected text is stored while no write of its page is accepted.
const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

const MAX_REASONS: usize = 10_000;

pub(crate) struct RecentRefusals {
    records: Mutex<RefusalRecord>,
    /// Held while a text is stored or removed.
    file_lock: Mutex<()>,
    /// Whether any text may be stored, also by an earlier process: nearly always none is.
    has_any: AtomicBool,
}

#[derive(Default)]
struct RefusalRecord {
    reasons: BTreeMap<TreePath, (u64, String)>,
    order: BTreeMap<u64, TreePath>,
    last_number: u64,
}

impl RefusalRecord {
    fn add(&mut self, path: &TreePath, reason: &str) {
        self.remove(path);
        self.last_number += 1;
        self.reasons.insert(path.clone(), (self.last_number, reason.to_owned()));
        self.order.insert(self.last_number, path.clone());
        if self.order.len() > MAX_REASONS
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

/// A point in time: rejections recorded before it have lower numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RefusalMark(u64);

impl RecentRefusals {
    /// For a tree that may have stored texts.
    pub(crate) fn open(tree: &WorkTree) -> Self {
        let has_any = TreePath::parse(REJECTED_DIRECTORY).is_ok_and(|stored_at| tree.stat(&stored_at).is_ok());
        Self { records: Mutex::default(), file_lock: Mutex::default(), has_any: has_any.into() }
    }

    /// Records a rejection; its text must be stored while the returned guard is held.
    pub(crate) fn note(&self, path: &TreePath, reason: &str) -> MutexGuard<'_, ()> {
        let file_lock = self.file_lock.lock();
        self.has_any.store(true, Ordering::Release);
        self.records.lock().add(path, reason);
        file_lock
    }

    #[cfg(test)]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    pub(crate) fn reason(&self, path: &TreePath) -> Option<String> {
        self.records.lock().reasons.get(path).map(|(_, reason)| reason.clone())
    }

    pub(crate) fn mark(&self) -> RefusalMark {
        RefusalMark(self.records.lock().last_number)
    }

    /// Drops a rejection older than a mark; false when there is a newer one.
    fn forget_before(&self, path: &TreePath, before: RefusalMark) -> bool {
        let mut records = self.records.lock();
        if records.reasons.get(path).is_some_and(|(number, _)| *number > before.0) {
            return false;
        }
        records.remove(path);
        true
    }
}

impl VfsCore {
    /// Removes rejected texts older than seven days, and the reasons of removed ones.
    pub(crate) fn sweep_rejected(&self) {
        let Ok(stored_at) = TreePath::parse(REJECTED_DIRECTORY) else { return };
        if !self.refusals.has_any.load(Ordering::Acquire) {
            return;
        }
        let mut first_error = None;
        self.sweep_below(&stored_at, &mut first_error);
        if let Some(error) = first_error {
            warn!(%error, "cannot remove old texts below `{REJECTED_DIRECTORY}`");
        }
        let records: Vec<TreePath> = self.refusals.records.lock().reasons.keys().cloned().collect();
        let is_missing = |stored_at: &TreePath| self.tree.stat(stored_at).is_err_and(|error| error.is_missing());
        for path in records {
            let _file_lock = self.refusals.file_lock.lock();
            if rejected_path(&path).is_none_or(|stored_at| is_missing(&stored_at)) {
                self.refusals.records.lock().remove(&path);
            }
        }
        let _file_lock = self.refusals.file_lock.lock();
        if is_missing(&stored_at) && self.refusals.records.lock().reasons.is_empty() {
            self.refusals.has_any.store(false, Ordering::Release);
        }
    }

    /// Continues after failures; stores the first one.
    fn sweep_below(&self, directory: &TreePath, first_error: &mut Option<StoreError>) {
        let names = match self.tree.list(directory) {
            Ok(names) => names,
            Err(error) => {
                if !error.is_missing() {
                    first_error.get_or_insert(error);
                }
                return;
            }
        };
        for (name, stat) in names {
            let path = directory.join(&name);
            if stat.kind == StatKind::Directory {
                self.sweep_below(&path, first_error);
                let _file_lock = self.refusals.file_lock.lock();
                // A directory that is not empty stays.
                let _ = self.tree.remove_directory(&path);
            } else if self.is_old(&stat)
                && let Err(error) = self.sweep_file(&path)
                && !error.is_missing()
            {
                first_error.get_or_insert(error);
            }
        }
    }

    fn is_old(&self, text: &FileStat) -> bool {
        self.file_time().duration_since(text.modified).is_ok_and(|age| age >= RETENTION)
    }

    /// Removes a text, unless a newer one replaced it.
    fn sweep_file(&self, path: &TreePath) -> Result<(), StoreError> {
        let _file_lock = self.refusals.file_lock.lock();
        if self.is_old(&self.tree.stat(path)?) { self.tree.remove(path) } else { Ok(()) }
    }

    /// An accepted write voids earlier rejections of its paths, not those it causes.
    pub(crate) fn forget_rejected<'a>(&self, paths: impl Iterator<Item = &'a TreePath>, before: RefusalMark) {
        if !self.refusals.has_any.load(Ordering::Acquire) {
            return;
        }
        for path in paths {
            let Some(stored_at) = rejected_path(path) else { continue };
            let _file_lock = self.refusals.file_lock.lock();
            if self.refusals.forget_before(path, before)
                && self.tree.stat(&stored_at).is_ok_and(|stat| stat.kind == StatKind::File)
                && let Err(error) = self.tree.remove(&stored_at)
            {
                warn!(page.path = %path, %error, "cannot remove the text of an earlier rejected save");
            }
        }
    }
}
