//! Tasks: pages that describe work (`GET /eligible`).
//!
//! Invariant: a task is defined by its frontmatter alone: `status`, `priority`, `due`, and in
//! `depends_on` and `blocked_by` the pages that must be finished before.

mod operations;
#[cfg(test)]
mod tests;

use serde_json::Value;
use svcfs_base::{Fault, TreePath};
use svcfs_config::LinksConfig;
use svcfs_index::{Index, MetaRow};
use svcfs_text::links::{LinkKind, links};

pub use operations::AREA;

const OPEN_STATUS: &str = "todo";

/// Values of `status` or `state` of a page that blocks no task.
const FINISHED_STATUSES: [&str; 9] =
    ["done", "complete", "completed", "finished", "closed", "resolved", "cancelled", "canceled", "archived"];

/// Priorities as words; a lower number is more urgent.
const PRIORITY_WORDS: [(&str, f64); 10] = [
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

const DEFAULT_PRIORITY: f64 = 3.0;

/// The tasks at or below a path that can be started, by priority, then by `due`, then by path.
pub fn list_eligible(index: &Index, below: &TreePath, limit: usize) -> Result<Vec<MetaRow>, Fault> {
    let mut tasks = index.pages_with_status(OPEN_STATUS, below)?;
    tasks.sort_by(|a, b| {
        let (a, b) = (urgency(&a.metadata), urgency(&b.metadata));
        a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1))
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

/// The sort key: priority, whether there is no date, and the date.
fn urgency(metadata: &Value) -> (f64, (bool, &str)) {
    let priority = match metadata.get("priority") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => {
            let text = text.trim().to_lowercase();
            let word = PRIORITY_WORDS.iter().find(|(word, _)| *word == text).map(|(_, priority)| *priority);
            word.or_else(|| text.parse().ok().filter(|priority: &f64| priority.is_finite()))
        }
        Some(_) | None => None,
    };
    let due = ["due", "due_date"].iter().find_map(|field| metadata.get(*field)?.as_str()).unwrap_or_default();
    (priority.unwrap_or(DEFAULT_PRIORITY), (due.is_empty(), due))
}

/// Whether a page that must be finished first is not. A name without a page does not block.
fn is_blocked(index: &Index, task: &MetaRow) -> Result<bool, Fault> {
    for name in LinksConfig::DEPENDENCY_FIELDS.iter().filter_map(|field| task.metadata.get(*field)).flat_map(strings) {
        if let Some(page) = resolve_page(index, &task.path, &name)?
            && let Some(page) = index.page(&page)?
            && !is_finished(&Value::Object(page.frontmatter))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_finished(metadata: &Value) -> bool {
    let values = ["status", "state"].iter().filter_map(|field| metadata.get(*field)?.as_str());
    values.map(|text| text.trim().to_lowercase()).any(|text| FINISHED_STATUSES.contains(&text.as_str()))
}

/// All strings in a value: an unquoted `depends_on: [[a]]` is a list in a list.
fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

/// The page that a link, path or name in a task's frontmatter refers to.
fn resolve_page(index: &Index, from: &TreePath, text: &str) -> Result<Option<TreePath>, Fault> {
    let target = match links(text).into_iter().next() {
        Some(link) if link.kind == LinkKind::Wiki => link.target,
        Some(link) => format!("./{}", link.target),
        None => text.trim().to_owned(),
    };
    Ok(index.resolve(from, &target)?.map(|target| target.path).filter(TreePath::is_page))
}
