//! Rebuilds a search index and reports the differences.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use svcfs_knowledge::kernel::Space;
use svcfs_knowledge::search::{ReindexReport, check_index, reindex};

use crate::failure::CommandFailure;

/// How long the old index may take to catch up before it is compared; a tree of a million pages
/// takes minutes.
pub const INDEX_TIMEOUT: Duration = Duration::from_secs(3600);

/// Rebuilds the index of a space, or only compares it with a new one, and returns the report of the
/// command.
///
/// # Errors
/// The cause of the failure.
pub fn rebuild(space: &Space, is_check: bool, progress: impl FnMut(usize, usize)) -> Result<Value, CommandFailure> {
    let report = if is_check {
        let scratch = tempfile::tempdir().context("no place for temporary files")?;
        check_index(space, scratch.path(), progress)?
    } else {
        reindex(space, progress)?
    };
    let ReindexReport { pages, before, after, differences } = &report;
    let equal = before.is_equivalent_to(after);
    Ok(json!({ "equal": equal, "pages": pages, "before": before, "after": after, "differences": differences }))
}
