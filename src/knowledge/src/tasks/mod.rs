//! Pages that are work to be done (contract 4.6, GET /eligible).
//!
//! One rule: what a task is stands in its frontmatter, and nowhere else: `status`, `priority`, `due`, and in `depends_on` and
//! `blocked_by` the pages that must be finished before.

mod operations;
#[cfg(test)]
mod tests;

use serde_json::Value;
use svcfs_base::{Fault, TreePath};
use svcfs_config::LinksConfig;
use svcfs_index::{Index, MetaRow};
use svcfs_text::links::{LinkKind, links};

pub use operations::AREA;

/// The status of a task that anybody may take up.
const AVAILABLE: &str = "todo";

/// What `status` or `state` of a page says that nobody has to wait for.
const FINISHED: [&str; 9] =
    ["done", "complete", "completed", "finished", "closed", "resolved", "cancelled", "canceled", "archived"];

/// Words for priorities; numbers are what they are, with 1 before 2.
const WORDS: [(&str, f64); 10] = [
    ("critical", 0.0),
    ("urgent", 0.0),
    ("p0", 0.0),
    ("p1", 1.0),
    ("high", 1.0),
    ("p2", 2.0),
    ("p3", 3.0),
    ("medium", 3.0),
    ("normal", 3.0),
    ("low", 5.0),
];

/// The priority of a task that has none, or one that is no number and no known word (gaps.md 4.21, `task_create`).
const USUAL: f64 = 3.0;

/// The tasks at or below a place that can be taken up, the most urgent first: by priority, then by `due`, then by path.
///
/// # Errors
/// Those of the index.
pub fn list_eligible(index: &Index, below: &TreePath, limit: usize) -> Result<Vec<MetaRow>, Fault> {
    let mut tasks = index.pages_with_status(AVAILABLE, below)?;
    tasks.sort_by(|one, other| {
        let (one, other) = (urgency(&one.metadata), urgency(&other.metadata));
        one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1))
    });
    let mut eligible = Vec::new();
    for task in tasks {
        if eligible.len() == limit {
            break;
        }
        if !is_blocked(index, &task)? {
            eligible.push(task);
        }
    }
    Ok(eligible)
}

/// What tasks are sorted by: priority, then whether no date is set, then the date.
fn urgency(metadata: &Value) -> (f64, (bool, &str)) {
    let priority = match metadata.get("priority") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => {
            let text = text.trim().to_lowercase();
            let word = WORDS.iter().find(|(word, _)| *word == text).map(|(_, priority)| *priority);
            word.or_else(|| text.parse().ok().filter(|priority: &f64| priority.is_finite()))
        }
        Some(_) | None => None,
    };
    let due = ["due", "due_date"].iter().find_map(|field| metadata.get(*field)?.as_str()).unwrap_or_default();
    (priority.unwrap_or(USUAL), (due.is_empty(), due))
}

/// Whether a page that must be finished before is not. A name that leads to no page holds nothing up: nobody could ever finish it.
fn is_blocked(index: &Index, task: &MetaRow) -> Result<bool, Fault> {
    for name in LinksConfig::DEPENDENCY_FIELDS.iter().filter_map(|field| task.metadata.get(*field)).flat_map(names) {
        if let Some(page) = named(index, &task.path, &name)?
            && let Some(page) = index.page(&page)?
            && !is_finished(&Value::Object(page.frontmatter))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_finished(metadata: &Value) -> bool {
    let said = ["status", "state"].iter().filter_map(|field| metadata.get(*field)?.as_str());
    said.map(|text| text.trim().to_lowercase()).any(|text| FINISHED.contains(&text.as_str()))
}

/// The texts of a value, however deep: `depends_on: [[a]]` without quotes is a list in a list.
fn names(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(names).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// The page that a link, a path or a name in a task's frontmatter means.
fn named(index: &Index, from: &TreePath, text: &str) -> Result<Option<TreePath>, Fault> {
    let target = match links(text).into_iter().next() {
        Some(link) if link.kind == LinkKind::Wiki => link.target,
        Some(link) => format!("./{}", link.target),
        None => text.trim().to_owned(),
    };
    Ok(index.resolve(from, &target)?.map(|page| page.path))
}
