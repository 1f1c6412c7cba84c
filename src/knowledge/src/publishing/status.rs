//! Which pages are published, for those who publish them.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, TreePath};

use super::{listed_pages, public_path};
use crate::kernel::OperationContext;

/// A published page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PublishedEntry {
    /// Path of the page
    pub path: TreePath,
    /// Time of its first publication, if it is recorded
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
    /// Its public address on this server
    pub public_url: String,
    /// How often it was read, with `publish.count_views`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_count: Option<u64>,
}

/// How often a published page was read; none if views are not counted.
pub(super) fn view_count(cx: &OperationContext<'_>, path: &TreePath) -> Option<u64> {
    cx.settings().publish.count_views.then(|| cx.space.view_counts.of(path))
}

/// The published pages that the caller may read, the latest first, and how many there are.
///
/// # Errors
/// Those of the index.
pub(super) fn list_published(cx: &OperationContext<'_>, max: usize) -> Result<(Vec<PublishedEntry>, usize), Fault> {
    let listed = listed_pages(cx)?;
    let permissions = &cx.caller.permissions;
    let mut pages = listed.published();
    pages.retain(|(path, _)| permissions.covers(path));
    let count = pages.len();
    let entry = |(path, page): (&TreePath, &super::ListedPage)| PublishedEntry {
        path: path.clone(),
        published_at: page.published_at.clone(),
        public_url: public_path(cx, path),
        view_count: view_count(cx, path),
    };
    Ok((pages.into_iter().take(max).map(entry).collect(), count))
}
