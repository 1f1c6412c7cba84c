//! Saved views: a query with a layout, kept as `.svc/views/<name>.json` (contract 2.12, 4.12).
//!
//! One rule: a view is a file like any other. It is written by the ordinary path, so that it has versions and authors, and a person may
//! edit it; what is wrong with one is found out when it is used.

mod operations;
#[cfg(test)]
mod tests;

use serde_json::Value;
use svcfs_base::{Change, Fault, Kind, TreePath};
use svcfs_index::{Filter, Query, Refinement, Summary as Made, ViewColumn};

use crate::files;
use crate::kernel::Cx;
pub use operations::AREA;
use operations::{Condition, Summary, View};

/// Where views lie.
const FOLDER: &str = ".svc/views";

/// Longest name of a view, in bytes.
const MAX_NAME: usize = 128;

/// Where the view of a name lies.
fn place(name: &str) -> Result<TreePath, Fault> {
    let is_good = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-'));
    if !is_good {
        let shown: String = name.chars().take(40).flat_map(char::escape_debug).collect();
        let why = format!("`{shown}` is no view's name; use letters, digits, blanks, `_` and `-`, at most {MAX_NAME}");
        return Err(Fault::invalid("name", why));
    }
    TreePath::parse(&format!("{FOLDER}/{name}.json"))
}

/// The names of the views, in order.
fn names(cx: &Cx<'_>) -> Result<Vec<String>, Fault> {
    let mut names = files::stems(cx, &TreePath::parse(FOLDER)?, ".json")?;
    names.retain(|name| place(name).is_ok());
    Ok(names)
}

/// The view of a name.
fn view(cx: &Cx<'_>, name: &str) -> Result<View, Fault> {
    let file = match cx.space.vfs.read(cx.caller.door, &place(name)?) {
        Err(fault) if fault.kind() == Kind::NotFound => {
            return Err(Fault::not_found(format!("view not found: {name}")));
        }
        file => file?,
    };
    let read: Result<View, _> = serde_json::from_slice(&file.content);
    let view =
        read.map_err(|error| Fault::invalid("name", format_args!("`{FOLDER}/{name}.json` is no view: {error}")))?;
    Ok(View { name: name.to_owned(), ..view })
}

/// Writes a view that makes sense.
fn save(cx: &Cx<'_>, view: &View) -> Result<(), Fault> {
    let path = place(&view.name)?;
    query(view)?;
    let mut text = serde_json::to_string_pretty(view).map_err(Fault::internal)?;
    text.push('\n');
    cx.apply(Change::put(path, text))?;
    Ok(())
}

/// Removes a view; one that is not there is removed already.
fn remove(cx: &Cx<'_>, name: &str) -> Result<(), Fault> {
    match cx.apply(Change::remove(place(name)?)) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// The query of a view, with all that the view says about it.
fn query(view: &View) -> Result<Query, Fault> {
    if view.query.trim().is_empty() {
        return Err(Fault::new(Kind::Invalid, "query is required"));
    }
    let refinement = Refinement {
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
    Ok(Query::parse(&view.query)?.refined(&refinement)?)
}

fn filter(condition: &Condition) -> Filter<'_> {
    let Condition { field, operator, value } = condition;
    Filter { field, operator, value: value.as_ref().unwrap_or(&Value::Null) }
}

const fn made(summary: Summary) -> Made {
    match summary {
        Summary::Sum => Made::Sum,
        Summary::Avg => Made::Average,
        Summary::Count => Made::Count,
        Summary::Min => Made::Least,
        Summary::Max => Made::Greatest,
    }
}
