//! The results of query blocks, over the pages that a reader may see.

use std::sync::Arc;
use std::time::Instant;

use svcfs_base::{Fault, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_index::{DqlQuery, VisiblePages};
use svcfs_render::QueryBlock;

use crate::kernel::OperationContext;
use crate::query::{
    DataviewScope, MarkdownStyle, QueryFormat, RenderTarget, RowWindow, render_dataview, render_markdown, run_dataview,
    run_query_below,
};

/// The result as markdown. `page` is the page with the block; the query sees only the visible
/// pages, and only those in the folder of the caller. `end` is that of all queries of the answer.
///
/// # Errors
/// `Invalid` for a query that cannot be answered, or not in time; those of the index.
pub(super) fn run(
    cx: &OperationContext<'_>,
    query: &QueryBlock,
    (page, visible): (&TreePath, Option<&Arc<VisiblePages>>),
    end: Instant,
) -> Result<String, Fault> {
    let query_timeout = end.saturating_duration_since(Instant::now());
    if query_timeout.is_zero() {
        let message = "is not answered: the queries of this page took longer than `dataview.query_timeout` together";
        return Err(Fault::invalid("query", message));
    }
    let settings = DataviewSettings { query_timeout, ..cx.settings().dataview.clone() };
    if query.language == "dql" {
        let parsed = DqlQuery::parse(&query.text)?;
        let limits = (&settings, cx.now(), cx.caller.permissions.folder.as_ref());
        let answer = run_query_below(&cx.space.index, &parsed, limits, visible, RowWindow::default())?;
        let style = query.style.as_deref().and_then(QueryFormat::named).and_then(QueryFormat::style);
        let style = style.unwrap_or_else(|| MarkdownStyle::from_mode(parsed.mode()));
        return Ok(render_markdown(&answer, style, RenderTarget::Html));
    }
    let parsed = svcfs_dataview::DataviewQuery::parse(&query.text)
        .map_err(|error| Fault::invalid("query", error.to_string()))?;
    let scope = DataviewScope {
        vfs: &cx.space.vfs,
        index: &cx.space.index,
        settings: &settings,
        now: cx.now(),
        below: cx.caller.permissions.folder.as_ref(),
        visible,
        page: Some(page),
    };
    Ok(render_dataview(&run_dataview(&parsed, &scope)?, RowWindow::default(), RenderTarget::Html))
}
