//! Pages asked for in the query language (contract 4.6, GET /query and /query/aggregate).
//!
//! One rule: what a query means is the index's to say; here it is given its bounds, and its answer a form to read.

mod operations;
mod render;
#[cfg(test)]
mod tests;

use svcfs_base::{Fault, Timestamp, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_index::{CustomFields, DqlQuery, Index, QueryAnswer, QueryLimits};

use crate::kernel::OperationContext;

pub use operations::{AREA, QueryResult};
pub use render::{MarkdownStyle, RenderTarget, render_markdown};

/// The fields that the configuration gives every page.
///
/// # Errors
/// `Invalid`, naming the setting, when an expression cannot be read.
pub fn custom_fields(settings: &DataviewSettings) -> Result<CustomFields, Fault> {
    let fields = settings.custom_fields.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    CustomFields::parse(fields).map_err(|(name, why)| Fault::invalid(&format!("dataview.custom_fields.{name}"), why))
}

/// How much of an answer is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowWindow {
    /// Rows; what the query says when absent.
    pub limit: Option<usize>,
    /// Rows to leave out; what the query says when 0.
    pub offset: usize,
}

/// Answers a query of the caller's: about the pages they may see, as if there were no others.
///
/// # Errors
/// As [`answer_below`].
pub fn run_query(cx: &OperationContext<'_>, query: &DqlQuery, window: RowWindow) -> Result<QueryAnswer, Fault> {
    answer_from(cx, cx.index(), query, window)
}

/// The same from an index that the caller has.
///
/// # Errors
/// As [`answer_below`].
fn answer_from(
    cx: &OperationContext<'_>,
    index: &Index,
    query: &DqlQuery,
    window: RowWindow,
) -> Result<QueryAnswer, Fault> {
    let below = cx.caller.permissions.folder.as_ref();
    let answer = run_query_below(index, query, (&cx.settings().dataview, cx.now(), below), window)?;
    truncation_note(&answer).into_iter().for_each(|note| cx.add_note(note));
    Ok(answer)
}

/// What a reader of an answer must know when not all pages were looked at.
fn truncation_note(answer: &QueryAnswer) -> Option<String> {
    let looked_at = answer.scanned_rows?;
    Some(format!(
        "only the first {looked_at} pages, items or tasks were looked at (`dataview.max_scan_rows`), and the answer is of those; narrow the \
         query with FROM, or raise the setting"
    ))
}

/// Answers a query within the bounds of the configuration; about the pages below a directory alone, where one is given.
///
/// # Errors
/// `Invalid` when it takes longer than it may; those of the index.
pub fn run_query_below(
    index: &Index,
    query: &DqlQuery,
    (settings, now, below): (&DataviewSettings, Timestamp, Option<&TreePath>),
    window: RowWindow,
) -> Result<QueryAnswer, Fault> {
    let custom_fields = custom_fields(settings)?;
    let asking = QueryLimits {
        now,
        max_scan_rows: settings.max_scan_rows,
        timeout: settings.query_timeout,
        max_auto_indexes: settings.max_auto_indexes,
        computed_fields: settings.computed_fields,
        custom_fields: &custom_fields,
        folder: below,
        limit: window.limit,
        offset: window.offset,
    };
    Ok(index.query(query, &asking)?)
}
