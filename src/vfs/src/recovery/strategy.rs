//! The change from one strategy of versioning to another.
//!
//! One rule: what was accepted under a strategy is completed under it; the other begins with a settled log.

use std::path::Path;
use std::sync::Arc;

use svcfs_base::Fault;
use svcfs_store::{Log, StatePaths, StoreError, VersionStore, VersionStrategy, WorkTree};
use tracing::info;

use crate::core::VfsCore;
use crate::{CommitPolicy, RootLock, Vfs, VfsOptions, at_root, take_lock};

/// Tree and log of a root, with nothing in the log that another strategy must complete.
pub(crate) struct RootStores {
    pub(crate) tree: WorkTree,
    pub(crate) log: Log,
    /// The log was made now.
    pub(crate) is_new_log: bool,
    /// The lock of the root, given back for a moment when something was to be completed.
    pub(crate) lock: RootLock,
}

impl RootStores {
    /// Opens them; what was accepted under another strategy is brought to its end under that one.
    ///
    /// # Errors
    /// What the disk or the log say, with the root; `Unavailable` when it cannot be completed.
    pub(crate) fn open(options: &VfsOptions, root: &Path) -> Result<Self, Fault> {
        let stores = Self::taken(root)?;
        // Read once: after a crash each opening of the log reads its journal through, and each closing moves it into the file.
        let Some(before) = stores.to_be_completed(root, options.strategy)? else { return Ok(stores) };
        info!(strategy = before.name(), "completing what was accepted under another strategy of versioning");
        drop(stores);
        complete(options, root, before)?;
        let stores = Self::taken(root)?;
        if stores.to_be_completed(root, options.strategy)?.is_some() {
            let text = format!(
                "root `{}`: what was accepted with `versioning.strategy = \"{}\"` cannot be completed; put the setting back until it is",
                root.display(),
                before.name()
            );
            return Err(Fault::unavailable(text));
        }
        Ok(stores)
    }

    fn taken(root: &Path) -> Result<Self, Fault> {
        let lock = take_lock(root)?;
        let tree = WorkTree::open(root).map_err(|error| at_root(root, error))?;
        let (log, is_new_log) = Log::open(&StatePaths::new(root)).map_err(|error| at_root(root, error))?;
        Ok(Self { tree, log, is_new_log, lock })
    }

    /// The strategy under which a root must be opened once more before another begins; none when it need not.
    fn to_be_completed(&self, root: &Path, wanted: VersionStrategy) -> Result<Option<VersionStrategy>, Fault> {
        let found = || -> Result<_, StoreError> {
            let name = self.log.strategy()?;
            if name == wanted.name() || self.log.last_checkpoint()?.0 == self.log.last_seq() {
                return Ok(None);
            }
            let unknown =
                || StoreError::Damaged(format!("the log was written under the strategy `{name}`, which is unknown"));
            VersionStrategy::parse(&name).ok_or_else(unknown).map(Some)
        };
        found().map_err(|error| at_root(root, error))
    }
}

/// Opens a root under the strategy of before, and closes it again.
fn complete(options: &VfsOptions, root: &Path, strategy: VersionStrategy) -> Result<(), Fault> {
    let VfsOptions { clock, scratch_patterns: scratch, .. } = options;
    let (root, clock, scratch) = (root.to_owned(), Arc::clone(clock), scratch.clone());
    let (gates, commits, watch, progress) = (Vec::new(), CommitPolicy::PerSet, false, None);
    Vfs::open(VfsOptions {
        root,
        clock,
        gates,
        strategy,
        scratch_patterns: scratch,
        commit_policy: commits,
        watch,
        progress,
    })?
    .close()
}

/// Notes under which strategy the log goes on, once nothing of the other is left to be done.
pub(crate) fn begin(core: &VfsCore, strategy: VersionStrategy) -> Result<(), Fault> {
    let before = core.log.strategy()?;
    if before == strategy.name() {
        return Ok(());
    }
    if let VersionStore::Snapshots { snapshots, .. } = &core.memory {
        super::snapshots::begin(core, snapshots)?;
    }
    core.log.set_strategy(strategy.name())?;
    info!(before, now = strategy.name(), "versions are kept in another way from now on");
    Ok(())
}
