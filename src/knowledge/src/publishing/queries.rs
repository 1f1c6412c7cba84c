//! The results of query blocks, over the pages that a reader may see.

use std::sync::Arc;

use svcfs_base::{Fault, TreePath};
use svcfs_index::{DqlQuery, VisiblePages};
use svcfs_render::QueryBlock;

use crate::kernel::OperationContext;
use crate::query::{
    DataviewScope, MarkdownStyle, QueryFormat, RenderTarget, RowWindow, render_dataview, render_markdown, run_dataview,
    run_query_over,
};

/// The result as markdown. `page` is the page with the block; the query sees only the visible
/// pages, and only those in the folder of the caller.
///
/// # Errors
/// `Invalid` for a query that cannot be answered; those of the index.
pub(super) fn run(
    cx: &OperationContext<'_>,
    query: &QueryBlock,
    (page, visible): (&TreePath, Option<&Arc<VisiblePages>>),
) -> Result<String, Fault> {
    if query.language == "dql" {
        let parsed = DqlQuery::parse(&query.text)?;
        let answer = run_query_over(cx, &parsed, visible, RowWindow::default())?;
        let style = query.style.as_deref().and_then(QueryFormat::named).and_then(QueryFormat::style);
        let style = style.unwrap_or_else(|| MarkdownStyle::from_mode(parsed.mode()));
        return Ok(render_markdown(&answer, style, RenderTarget::Page));
    }
    let parsed = svcfs_dataview::DataviewQuery::parse(&query.text)
        .map_err(|error| Fault::invalid("query", error.to_string()))?;
    let scope = DataviewScope {
        vfs: &cx.space.vfs,
        index: &cx.space.index,
        settings: &cx.settings().dataview,
        now: cx.now(),
        below: cx.caller.permissions.folder.as_ref(),
        visible,
        page: Some(page),
    };
    Ok(render_dataview(&run_dataview(&parsed, &scope)?, RowWindow::default(), RenderTarget::Page))
}
