//! A search index that is made anew, and what is told of it.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use svcfs_knowledge::kernel::Space;
use svcfs_knowledge::search::{ReindexReport, check_index, reindex};

use crate::failure::CommandFailure;

/// How long the old index may take to catch up before it is compared; a tree of a million pages takes minutes.
pub const PATIENCE: Duration = Duration::from_secs(3600);

/// Makes the index of a space anew, or only compares it with a new one; what was found, as the command tells it.
///
/// # Errors
/// What stands in the way.
pub fn made_anew(space: &Space, is_check: bool, progress: impl FnMut(usize, usize)) -> Result<Value, CommandFailure> {
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
