//! The first line of a page's text for agents: the ETag for the next write, and the version.

use svcfs_base::{ETag, Protocol, TreePath, VersionId};
use svcfs_vfs::NewestVersion;

use super::OperationContext;

/// The version with this content, for agents; none while its commit is not made yet.
pub(crate) fn version_for_agents(cx: &OperationContext<'_>, path: &TreePath, etag: ETag) -> Option<VersionId> {
    if cx.caller.protocol != Protocol::Mcp {
        return None;
    }
    let newest = cx.space.vfs.try_newest_version(path).unwrap_or_else(|fault| {
        tracing::warn!(error = ?fault, "the version of a page cannot be looked up");
        None
    });
    newest.filter(|newest| newest.etag == etag).map(|NewestVersion { version, .. }| version.hash)
}

/// `[etag: … version: …]`
pub(crate) fn page_head(etag: ETag, version: Option<&VersionId>) -> String {
    match version {
        Some(version) => format!("[etag: {etag} version: {version}]"),
        None => format!("[etag: {etag}]"),
    }
}

/// `, version: …` behind an ETag; empty without a version.
pub(crate) fn version_suffix(version: Option<&VersionId>) -> String {
    version.map_or_else(String::new, |version| format!(", version: {version}"))
}
