//! Saved views: a query with a layout, kept as `.svc/views/<name>.json` (contract 2.12, 4.12).
//!
//! One rule: a view is a file like any other. It is written by the ordinary path, so that it has versions and authors, and a person may
//! edit it; what is wrong with one is found out when it is used.
//!
//! Beside them stand computed pages, which hold the answer of the query in their frontmatter (`computed`), and the task that writes them
//! anew (`refresher`).

mod computed_pages;
mod gate;
mod operations;
mod refresher;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use serde_json::Value;
use svcfs_base::{Change, Fault, Kind, TreePath};
use svcfs_index::{ColumnSummary as Made, DqlQuery, QueryRefinement, RowFilter, ViewColumn};

use crate::files;
use crate::kernel::OperationContext;
pub use gate::ViewGate;
pub use operations::AREA;
use operations::{FailedRefresh, RefreshResult, SavedView, SummaryFunction, ViewCondition};
pub use refresher::ViewRefresher;

/// Where views lie.
const FOLDER: &str = ".svc/views";

/// How long a refresh that somebody waits for waits for the index.
const INDEX_PATIENCE: Duration = Duration::from_secs(10);

/// Longest name of a view, in bytes.
const MAX_NAME: usize = 128;

/// Where the view of a name lies.
fn place(name: &str) -> Result<TreePath, Fault> {
    let is_good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-'));
    if !is_good {
        let shown: String = svcfs_base::escape_unprintable(&name.chars().take(40).collect::<String>());
        let why = format!("`{shown}` is no view's name; use letters, digits, blanks, `_` and `-`, at most {MAX_NAME}");
        return Err(Fault::invalid("name", why));
    }
    TreePath::parse(&format!("{FOLDER}/{name}.json"))
}

/// The names of the views, in order.
fn names(cx: &OperationContext<'_>) -> Result<Vec<String>, Fault> {
    let mut names = files::list_stems(cx, &TreePath::parse(FOLDER)?, ".json")?;
    names.retain(|name| place(name).is_ok());
    Ok(names)
}

/// The view of a name.
fn view(cx: &OperationContext<'_>, name: &str) -> Result<SavedView, Fault> {
    let file = match cx.space.vfs.read(cx.caller.protocol, &place(name)?) {
        Err(fault) if fault.kind() == Kind::NotFound => {
            return Err(Fault::not_found(format!("view not found: {name}")));
        }
        file => file?,
    };
    let read: Result<SavedView, _> = serde_json::from_slice(&file.content);
    let view =
        read.map_err(|error| Fault::invalid("name", format_args!("`{FOLDER}/{name}.json` is no view: {error}")))?;
    Ok(SavedView { name: name.to_owned(), ..view })
}

/// Writes a view that makes sense.
fn save(cx: &OperationContext<'_>, view: &SavedView) -> Result<(), Fault> {
    let path = place(&view.name)?;
    query(view)?;
    let mut text = serde_json::to_string_pretty(view).map_err(Fault::internal)?;
    text.push('\n');
    cx.apply(Change::put(path, text))?;
    Ok(())
}

/// Removes a view; one that is not there is removed already.
fn remove(cx: &OperationContext<'_>, name: &str) -> Result<(), Fault> {
    match cx.apply(Change::remove(place(name)?)) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Whether a page was not refreshed because of what it is, and not because nothing can be written at all.
const fn is_of_page(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Invalid | Kind::Rejected | Kind::Conflict | Kind::Locked | Kind::PreconditionFailed | Kind::TooLarge
    )
}

/// Writes the answer of a computed page anew, or of all, in the name of whoever asks.
fn refresh(cx: &OperationContext<'_>, path: Option<TreePath>) -> Result<RefreshResult, Fault> {
    let begun = Instant::now();
    let index = cx.up_to_date_index(INDEX_PATIENCE)?;
    let (author, asking) = (cx.caller.actor(), (&cx.settings().dataview, cx.now()));
    let mut answer = RefreshResult { path: None, status: None, refreshed: 0, failed: Vec::new(), duration_ms: 0 };
    if let Some(path) = path {
        // Who may not see a file has no page there.
        if !path.is_page() || path.is_hidden() {
            return Err(Fault::invalid("path", format_args!("there is no page at `{path}`")));
        }
        answer.status = Some(computed_pages::refresh(cx.space, Some(&author), asking, &path)?);
        (answer.path, answer.refreshed) = (Some(path), 1);
    } else {
        let pages = index
            .pages_with_keys(&[computed_pages::FLAG])?
            .into_iter()
            .filter(|page| cx.caller.permissions.covers(&page.path));
        for page in pages.filter(|page| page.metadata.as_object().is_some_and(computed_pages::is_computed)) {
            match computed_pages::refresh(cx.space, Some(&author), asking, &page.path) {
                Ok(_) => answer.refreshed += 1,
                Err(fault) if is_of_page(fault.kind()) => {
                    answer.failed.push(FailedRefresh { path: page.path, error: fault.message().to_owned() });
                }
                Err(fault) => return Err(fault),
            }
        }
    }
    answer.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(answer)
}

/// The query of a view, with all that the view says about it.
fn query(view: &SavedView) -> Result<DqlQuery, Fault> {
    if view.query.trim().is_empty() {
        return Err(Fault::new(Kind::Invalid, "query is required"));
    }
    let refinement = QueryRefinement {
        columns: view
            .columns
            .iter()
            .map(|shown| ViewColumn {
                property: &shown.property,
                label: shown.label.as_deref().filter(|label| !label.is_empty()).unwrap_or(&shown.property),
                formula: shown.formula.as_deref().filter(|formula| !formula.trim().is_empty()),
                summary: shown.summary.map(made),
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

const fn made(summary: SummaryFunction) -> Made {
    match summary {
        SummaryFunction::Sum => Made::Sum,
        SummaryFunction::Avg => Made::Average,
        SummaryFunction::Count => Made::Count,
        SummaryFunction::Min => Made::Min,
        SummaryFunction::Max => Made::Max,
    }
}
