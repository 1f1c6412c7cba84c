//! Switching the version strategy.
//!
//! Invariant: writes accepted under a strategy are completed under it; the next strategy starts
//! with a log that has no pending records.

use std::path::Path;
use std::sync::Arc;

use svcfs_base::Fault;
use svcfs_store::{Log, StatePaths, StoreError, VersionStore, VersionStrategy, WorkTree};
use svcfs_work::PidLock;
use tracing::info;

use crate::core::VfsCore;
use crate::{CommitPolicy, Vfs, VfsOptions, lock_root, with_root};

/// Tree and log of a root; the log has nothing that another strategy must complete.
pub(crate) struct RootStores {
    pub(crate) tree: WorkTree,
    pub(crate) log: Log,
    /// The log was created just now.
    pub(crate) is_new_log: bool,
    /// The root lock, released for a moment when writes had to be completed.
    pub(crate) lock: PidLock,
}

impl RootStores {
    /// Opens them; writes accepted under another strategy are completed under it.
    ///
    /// # Errors
    /// The disk's or log's error, with the root; `Unavailable` when writes are not completed.
    pub(crate) fn open(options: &VfsOptions, root: &Path) -> Result<Self, Fault> {
        let stores = Self::open_locked(root)?;
        // Read once: after a crash each open of the log replays its journal.
        let Some(before) = stores.unfinished_strategy(root, options.strategy)? else { return Ok(stores) };
        info!(strategy = before.name(), "completing writes accepted under another version strategy");
        drop(stores);
        finish_under(options, root, before)?;
        let stores = Self::open_locked(root)?;
        if stores.unfinished_strategy(root, options.strategy)?.is_some() {
            let text = format!(
                "root `{}`: writes accepted with `versioning.strategy = \"{}\"` are not completed yet; restore that setting until they are",
                root.display(),
                before.name()
            );
            return Err(Fault::unavailable(text));
        }
        Ok(stores)
    }

    fn open_locked(root: &Path) -> Result<Self, Fault> {
        let lock = lock_root(root)?;
        let tree = WorkTree::open(root).map_err(|error| with_root(root, error))?;
        let (log, is_new_log) = Log::open(&StatePaths::new(root)).map_err(|error| with_root(root, error))?;
        Ok(Self { tree, log, is_new_log, lock })
    }

    /// The strategy under which the root must be opened once more; none when that is not needed.
    fn unfinished_strategy(&self, root: &Path, wanted: VersionStrategy) -> Result<Option<VersionStrategy>, Fault> {
        let read = || -> Result<_, StoreError> {
            let name = self.log.strategy()?;
            if name == wanted.name() || self.log.last_checkpoint()?.0 == self.log.last_seq() {
                return Ok(None);
            }
            let unknown =
                || StoreError::Damaged(format!("the log was written with the unknown version strategy `{name}`"));
            VersionStrategy::parse(&name).ok_or_else(unknown).map(Some)
        };
        read().map_err(|error| with_root(root, error))
    }
}

/// Opens a root under its former strategy, and closes it.
fn finish_under(options: &VfsOptions, root: &Path, strategy: VersionStrategy) -> Result<(), Fault> {
    Vfs::open(VfsOptions {
        root: root.to_owned(),
        clock: Arc::clone(&options.clock),
        gates: Vec::new(),
        strategy,
        scratch_patterns: options.scratch_patterns.clone(),
        hidden_files: options.hidden_files.clone(),
        commit_policy: CommitPolicy::PerSet,
        watch: false,
        progress: None,
    })?
    .close()
}

/// Stores the current strategy in the log, once the former one has nothing to complete.
pub(crate) fn switch_strategy(core: &VfsCore, strategy: VersionStrategy) -> Result<(), Fault> {
    let before = core.log.strategy()?;
    if before == strategy.name() {
        return Ok(());
    }
    if let VersionStore::Snapshots { snapshots, .. } = &core.versions {
        super::snapshots::take_first_snapshots(core, snapshots)?;
    }
    core.log.set_strategy(strategy.name())?;
    info!(before, now = strategy.name(), "version strategy changed");
    Ok(())
}
