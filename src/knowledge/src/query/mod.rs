//! Queries over pages (`GET /query` and `/query/aggregate`).
//!
//! Invariant: the index defines the query language (`svcfs_dataview` that of Dataview); this module
//! adds limits and output formats.

mod dataview;
mod dataview_text;
mod operations;
mod render;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use svcfs_base::{Fault, Timestamp, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_index::{CustomFields, DqlQuery, Index, QueryAnswer, QueryLimits, VisiblePages};

use crate::kernel::OperationContext;

pub use dataview::{DataviewScope, run_dataview};
pub use dataview_text::render_dataview;
pub(crate) use operations::QueryFormat;
pub use operations::{AREA, QueryResult};
pub use render::{MarkdownStyle, RenderTarget, render_markdown};

/// The custom fields of all pages, from the settings.
///
/// # Errors
/// `Invalid`, naming the setting, if an expression cannot be parsed.
pub fn custom_fields(settings: &DataviewSettings) -> Result<CustomFields, Fault> {
    let fields = settings.custom_fields.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    CustomFields::parse(fields).map_err(|(name, why)| Fault::invalid(&format!("dataview.custom_fields.{name}"), why))
}

/// The range of rows to return.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowWindow {
    /// Maximum number of rows; default: that of the query.
    pub limit: Option<usize>,
    /// Number of rows to skip; 0: that of the query.
    pub offset: usize,
}

/// Whether a query has a LIMIT of its own.
///
/// # Errors
/// `Invalid` if it cannot be parsed.
pub fn has_limit(query: &str) -> Result<bool, Fault> {
    Ok(DqlQuery::parse(query)?.has_limit())
}

/// Runs a query over the pages that the caller may see.
///
/// # Errors
/// As [`run_query_below`].
pub fn run_query(cx: &OperationContext<'_>, query: &DqlQuery, window: RowWindow) -> Result<QueryAnswer, Fault> {
    answer_from(cx, cx.index(), query, window)
}

/// The same with a given index.
///
/// # Errors
/// As [`run_query_below`].
fn answer_from(
    cx: &OperationContext<'_>,
    index: &Index,
    query: &DqlQuery,
    window: RowWindow,
) -> Result<QueryAnswer, Fault> {
    let below = cx.caller.permissions.folder.as_ref();
    let answer = run_query_below(index, query, (&cx.settings().dataview, cx.now(), below), None, window)?;
    truncation_note(&answer).into_iter().chain(answer.notes.iter().cloned()).for_each(|note| cx.add_note(note));
    Ok(answer)
}

/// A note for the caller if the scan limit was reached.
fn truncation_note(answer: &QueryAnswer) -> Option<String> {
    let scanned = answer.scanned_rows?;
    Some(format!(
        "only the first {scanned} pages, items or tasks were scanned (`dataview.max_scan_rows`); narrow the \
         query with FROM, or raise the setting"
    ))
}

/// Runs a query within the limits of the settings, with a directory only over the pages below it,
/// with a set only over its pages.
///
/// # Errors
/// `Invalid` on timeout; those of the index.
pub fn run_query_below(
    index: &Index,
    query: &DqlQuery,
    (settings, now, below): (&DataviewSettings, Timestamp, Option<&TreePath>),
    visible: Option<&Arc<VisiblePages>>,
    window: RowWindow,
) -> Result<QueryAnswer, Fault> {
    let custom_fields = custom_fields(settings)?;
    let limits = QueryLimits {
        now,
        max_scan_rows: settings.max_scan_rows,
        timeout: settings.query_timeout,
        max_auto_indexes: settings.max_auto_indexes,
        computed_fields: settings.computed_fields,
        custom_fields: &custom_fields,
        folder: below,
        visible,
        limit: window.limit,
        offset: window.offset,
    };
    Ok(index.query(query, &limits)?)
}
