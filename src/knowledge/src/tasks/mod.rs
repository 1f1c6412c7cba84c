//! Tasks: pages that describe work (`GET /eligible`).
//!
//! Invariant: a task is defined by its frontmatter alone: `status`, `priority`, `due`, and in
//! `depends_on` and `blocked_by` the pages that must be finished before.

mod operations;
#[cfg(test)]
mod tests;

use serde_json::Value;
use svcfs_base::{Fault, TreePath};
use svcfs_index::{Index, MetaRow};
use svcfs_vfs::Vfs;

use crate::workflows::BlockerCheck;

pub use operations::AREA;

const OPEN_STATUS: &str = "todo";

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
pub fn list_eligible((vfs, index): (&Vfs, &Index), below: &TreePath, limit: usize) -> Result<Vec<MetaRow>, Fault> {
    let mut tasks = index.pages_with_status(OPEN_STATUS, below)?;
    tasks.sort_by(|a, b| {
        let (a, b) = (urgency(&a.metadata), urgency(&b.metadata));
        a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1))
    });
    let (mut eligible, mut blockers) = (Vec::new(), BlockerCheck::new(vfs, index));
    for task in tasks {
        if eligible.len() == limit {
            break;
        }
        let is_finished = blockers.is_finished(&task.metadata);
        if !is_finished && blockers.unfinished(&task.path, &task.metadata)?.is_empty() {
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
