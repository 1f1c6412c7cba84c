//! The change from one strategy of versioning to another.
//!
//! One rule: what was accepted under a strategy is completed under it; the other begins with a settled log.

use std::path::Path;

use svcfs_base::Fault;
use svcfs_store::{Log, Memory, StatePaths, StoreError, Strategy};
use tracing::info;

use crate::core::Core;

/// The strategy under which a root must be opened once more before another begins; none when it need not.
pub(crate) fn to_be_completed(root: &Path, wanted: Strategy) -> Result<Option<Strategy>, StoreError> {
    let paths = StatePaths::of(root);
    if !paths.log().exists() {
        return Ok(None);
    }
    let (log, _) = Log::open(&paths)?;
    let name = log.strategy()?;
    let is_settled = log.settled()?.0 == log.last()?;
    if name == wanted.name() || is_settled {
        return Ok(None);
    }
    let unknown = || StoreError::Damaged(format!("the log was written under the strategy `{name}`, which is unknown"));
    Strategy::named(&name).ok_or_else(unknown).map(Some)
}

/// Notes under which strategy the log goes on, once nothing of the other is left to be done.
pub(crate) fn begin(core: &Core, strategy: Strategy) -> Result<(), Fault> {
    let before = core.log.strategy()?;
    if before == strategy.name() {
        return Ok(());
    }
    if let Memory::Snapshots { snapshots, .. } = &core.memory {
        super::snapshots::begin(core, snapshots)?;
    }
    core.log.set_strategy(strategy.name())?;
    info!(before, now = strategy.name(), "versions are kept in another way from now on");
    Ok(())
}
