//! Which files are served beside the published pages.

use std::sync::Arc;

use svcfs_base::{Fault, TreePath};

use super::cache::SpaceState;
use super::listed_pages::listed_pages;
use super::{Audience, RenderedPage, read_admitted, render_page};
use crate::kernel::OperationContext;

/// Limit of pages that are checked for the use of one file.
const MAX_CHECKED: usize = 200;

/// Whether a published page uses a file that is not a page.
///
/// The answer holds until something changes; then the page that used it is asked first.
///
/// # Errors
/// Those of the index.
pub fn uses_asset(cx: &OperationContext<'_>, asset: &TreePath) -> Result<bool, Fault> {
    let state = SpaceState::of(cx.space);
    let assets = &cx.space.publishing.assets;
    let known = assets.lock().get(asset);
    let user = match known {
        Some((known, page)) if known == state => return Ok(page.is_some()),
        Some((_, Some(page))) if is_used_by(cx, asset, &page) => Some(page),
        _ => find_user(cx, asset)?,
    };
    let is_used = user.is_some();
    assets.lock().put(asset.clone(), (state, user), 0);
    Ok(is_used)
}

fn find_user(cx: &OperationContext<'_>, asset: &TreePath) -> Result<Option<TreePath>, Fault> {
    let listed = listed_pages(cx)?;
    let linking = cx.space.index.linking_pages(asset)?.into_iter();
    let published = linking.filter(|path| listed.pages.get(path).is_some_and(|page| page.is_published));
    Ok(published.take(MAX_CHECKED).find(|page| is_used_by(cx, asset, page)))
}

/// A link in a comment or a code block is no use: the rendered page decides.
fn is_used_by(cx: &OperationContext<'_>, asset: &TreePath, page: &TreePath) -> bool {
    let state = SpaceState::of(cx.space);
    let known = cx.space.publishing.page_files.lock().get(page).filter(|(known, _)| *known == state);
    let files = known.map(|(_, files)| files).or_else(|| {
        let file = read_admitted(cx, page, Audience::Published).ok()?;
        Some(store_files(cx, page, state, render_page(cx, page, (file.etag, &file.content), Audience::Published)))
    });
    files.is_some_and(|files| files.binary_search(asset).is_ok())
}

/// Stores which files a published page leads to, so that it is not rendered again for each of its
/// images. It was rendered in this state of the space or later.
pub(super) fn store_files(
    cx: &OperationContext<'_>,
    page: &TreePath,
    state: SpaceState,
    rendered: RenderedPage,
) -> Arc<Vec<TreePath>> {
    let files = Arc::new(rendered.links);
    if rendered.is_complete {
        let bytes = files.iter().map(|path| path.as_str().len()).sum();
        cx.space.publishing.page_files.lock().put(page.clone(), (state, Arc::clone(&files)), bytes);
    }
    files
}
