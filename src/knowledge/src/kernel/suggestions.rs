//! "Did you mean" for paths that do not exist.

use svcfs_base::{Caller, Fault, Scope, TreePath};
use svcfs_config::SpaceVisibility;

use super::Space;

/// Number of suggested paths.
const MAX_SUGGESTIONS: usize = 3;

/// The member of an error body with the suggested paths.
const SUGGESTIONS: &str = "suggestions";

/// Adds similar paths to a fault about a missing path, as far as the caller may know them. Speed:
/// a few milliseconds, by lookups in the index. Remote mounts get none: they look up many missing
/// names, and no one reads the message.
pub fn add(fault: Fault, space: &Space, caller: &Caller) -> Fault {
    let Some(path) = fault.missing_path().filter(|_| caller.protocol.serves_knowledge_only()) else { return fault };
    if !may_list(space, caller) {
        return fault;
    }
    let similar = space.index.similar_paths(path).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot look up similar paths");
        Vec::new()
    });
    let is_known = |path: &TreePath| {
        // The index may be behind.
        caller.permissions.covers(path) && space.vfs.stat(caller.protocol, path).is_ok()
    };
    let suggested: Vec<TreePath> = similar.into_iter().filter(is_known).take(MAX_SUGGESTIONS).collect();
    match suggested.split_last() {
        None => fault,
        Some((last, others)) => {
            let others: Vec<String> = others.iter().map(|path| format!("`{path}`")).collect();
            let advice = match others.is_empty() {
                true => format!("did you mean `{last}`?"),
                false => format!("did you mean {} or `{last}`?", others.join(", ")),
            };
            let paths: Vec<&str> = suggested.iter().map(TreePath::as_str).collect();
            fault.with_advice(&advice).with_detail(SUGGESTIONS, paths)
        }
    }
}

/// Whether a caller may learn which pages exist: not without a key in an unlisted space.
pub(super) fn may_list(space: &Space, caller: &Caller) -> bool {
    let is_anonymous = caller.client.key.is_none() && caller.permissions.scope == Scope::Read;
    !is_anonymous || space.visibility() != SpaceVisibility::Unlisted
}
