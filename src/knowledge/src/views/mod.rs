//! Saved views: a query with a layout, stored as `.svc/views/<name>.json`.
//!
//! Invariant: a view is an ordinary versioned file, which users may edit. It is validated when it
//! is used.
//!
//! Computed pages contain the result of a query in their frontmatter (`computed_pages`); a task
//! keeps them up to date (`refresher`).

mod computed_pages;
mod gate;
mod operations;
mod refresher;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use serde_json::Value;
use svcfs_base::{Change, Fault, Kind, TreePath};
use svcfs_index::{ColumnSummary, DqlQuery, QueryRefinement, RowFilter, ViewColumn};

use crate::files;
use crate::kernel::OperationContext;
pub(crate) use computed_pages::{FLAG_KEY, FORMAT_KEY, QUERY_KEY};
pub use gate::ViewGate;
pub use operations::AREA;
use operations::{FailedRefresh, RefreshResult, SavedView, SummaryFunction, ViewCondition};
pub use refresher::ViewRefresher;

const VIEWS_FOLDER: &str = ".svc/views";

const INDEX_TIMEOUT: Duration = Duration::from_secs(10);

const MAX_NAME_BYTES: usize = 128;

fn view_path(name: &str) -> Result<TreePath, Fault> {
    let is_valid = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME_BYTES
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-'));
    if !is_valid {
        let displayed: String = svcfs_base::escape_unprintable(&name.chars().take(40).collect::<String>());
        let message = format!(
            "`{displayed}` is not a valid view name; use letters, digits, spaces, `_` and `-`, at most {MAX_NAME_BYTES}"
        );
        return Err(Fault::invalid("name", message));
    }
    TreePath::parse(&format!("{VIEWS_FOLDER}/{name}.json"))
}

fn names(cx: &OperationContext<'_>) -> Result<Vec<String>, Fault> {
    let mut names = files::list_stems(cx, &TreePath::parse(VIEWS_FOLDER)?, ".json")?;
    names.retain(|name| view_path(name).is_ok());
    Ok(names)
}

fn view(cx: &OperationContext<'_>, name: &str) -> Result<SavedView, Fault> {
    let file = match cx.tree().read(cx.caller.protocol, &view_path(name)?) {
        Err(fault) if fault.kind() == Kind::NotFound => {
            return Err(Fault::not_found(format!("view not found: {name}")));
        }
        file => file?,
    };
    let parsed: Result<SavedView, _> = serde_json::from_slice(&file.content);
    let view = parsed.map_err(|error| {
        Fault::invalid("name", format_args!("`{VIEWS_FOLDER}/{name}.json` is not a valid view: {error}"))
    })?;
    Ok(SavedView { name: name.to_owned(), ..view })
}

/// Writes a view whose query is valid.
fn save(cx: &OperationContext<'_>, view: &SavedView) -> Result<(), Fault> {
    let path = view_path(&view.name)?;
    query(view)?;
    let mut text = serde_json::to_string_pretty(view).map_err(Fault::internal)?;
    text.push('\n');
    cx.apply(Change::put(path, text))?;
    Ok(())
}

/// Removes a view; a missing one is no error.
fn remove(cx: &OperationContext<'_>, name: &str) -> Result<(), Fault> {
    match cx.apply(Change::remove(view_path(name)?)) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Whether an error concerns only this page, not writing in general.
const fn is_page_error(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Invalid
            | Kind::Rejected
            | Kind::NotAllowed
            | Kind::Conflict
            | Kind::Locked
            | Kind::PreconditionFailed
            | Kind::TooLarge
    )
}

/// Refreshes one or all computed pages; the caller is the author.
fn refresh(cx: &OperationContext<'_>, path: Option<TreePath>) -> Result<RefreshResult, Fault> {
    let started_at = Instant::now();
    let index = cx.up_to_date_index(INDEX_TIMEOUT)?;
    let (author, context) = (cx.caller.actor(), (&cx.settings().dataview, cx.now()));
    let mut answer = RefreshResult { path: None, status: None, refreshed: 0, failed: Vec::new(), duration_ms: 0 };
    if let Some(path) = path {
        // A hidden file is reported as missing.
        if !path.is_page() || !cx.space.vfs.hidden_files().lists(&path) {
            return Err(Fault::invalid("path", format_args!("no page at `{path}`")));
        }
        answer.status = Some(computed_pages::refresh(cx.space, Some(&author), context, &path)?);
        (answer.path, answer.refreshed) = (Some(path), 1);
    } else {
        let pages = index
            .pages_with_keys(&[computed_pages::FLAG_KEY])?
            .into_iter()
            .filter(|page| cx.caller.permissions.covers(&page.path));
        for page in pages.filter(|page| page.metadata.as_object().is_some_and(computed_pages::is_computed)) {
            match computed_pages::refresh(cx.space, Some(&author), context, &page.path) {
                Ok(_) => answer.refreshed += 1,
                Err(fault) if is_page_error(fault.kind()) => {
                    answer.failed.push(FailedRefresh { path: page.path, error: fault.message().to_owned() });
                }
                Err(fault) => return Err(fault),
            }
        }
    }
    answer.duration_ms = u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(answer)
}

/// The query of a view with its filters, columns, order and grouping.
fn query(view: &SavedView) -> Result<DqlQuery, Fault> {
    if view.query.trim().is_empty() {
        return Err(Fault::new(Kind::Invalid, "query is required"));
    }
    let refinement = QueryRefinement {
        columns: view
            .columns
            .iter()
            .map(|displayed| ViewColumn {
                property: &displayed.property,
                label: displayed.label.as_deref().filter(|label| !label.is_empty()).unwrap_or(&displayed.property),
                formula: displayed.formula.as_deref().filter(|formula| !formula.trim().is_empty()),
                summary: displayed.summary.map(summary_of),
            })
            .collect(),
        filters: view.filters.iter().map(filter).collect(),
        sort: view.sort.iter().map(|sort| (sort.field.as_str(), sort.order.is_descending())).collect(),
        group: view.group_by.as_deref().filter(|field| !field.is_empty()),
    };
    Ok(DqlQuery::parse(&view.query)?.refine(&refinement)?)
}

fn filter(condition: &ViewCondition) -> RowFilter<'_> {
    let ViewCondition { field, operator, value } = condition;
    RowFilter { field, operator, value: value.as_ref().unwrap_or(&Value::Null) }
}

const fn summary_of(summary: SummaryFunction) -> ColumnSummary {
    match summary {
        SummaryFunction::Sum => ColumnSummary::Sum,
        SummaryFunction::Avg => ColumnSummary::Average,
        SummaryFunction::Count => ColumnSummary::Count,
        SummaryFunction::Min => ColumnSummary::Min,
        SummaryFunction::Max => ColumnSummary::Max,
    }
}
