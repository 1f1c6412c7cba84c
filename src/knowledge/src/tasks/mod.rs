//! Tasks: pages that describe work, handed out to one worker each (`POST /tasks/next`).
//!
//! Invariant: a task is defined by its frontmatter alone: `status`, `priority`, `due`, and in
//! `depends_on` and `blocked_by` the pages that must be finished before. Its worker is a claim.

mod attempts;
mod creation;
mod edits;
mod operations;
mod progress;
mod queue;
#[cfg(test)]
mod tests;
mod work;

use serde_json::{Map, Value};
use svcfs_base::{Actor, Fault, Kind, TreePath};

use crate::kernel::Space;
use crate::workflows::{self, BlockerCheck, WorkflowDefinition, blocker_target, read_definition};

pub use attempts::{next_attempt, record_attempt};
pub use operations::AREA;
pub use queue::TaskQueue;

/// The value of `type` of a page that is always protected by a claim.
const TASK_TYPE: &str = "task";

const OPEN_STATUS: &str = "todo";

/// The state of a task on which no one can work now.
const BLOCKED_STATE: &str = "blocked";

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

/// The sort key: priority, whether there is no date, and the date.
fn urgency(fields: &Map<String, Value>) -> (f64, (bool, &str)) {
    let priority = match fields.get("priority") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => {
            let text = text.trim().to_lowercase();
            let word = PRIORITY_WORDS.iter().find(|(word, _)| *word == text).map(|(_, priority)| *priority);
            word.or_else(|| text.parse().ok().filter(|priority: &f64| priority.is_finite()))
        }
        Some(_) | None => None,
    };
    let due = ["due", "due_date"].iter().find_map(|field| fields.get(*field)?.as_str()).unwrap_or_default();
    (priority.unwrap_or(DEFAULT_PRIORITY), (due.is_empty(), due))
}

/// Whether a page is a task by its `type`.
pub fn is_task(fields: &Map<String, Value>) -> bool {
    fields.get("type").and_then(Value::as_str).is_some_and(|text| text.trim().eq_ignore_ascii_case(TASK_TYPE))
}

/// Checks that a file is a task: a page with that `type`, or with a `status`.
fn check_is_task(path: &TreePath, fields: &Map<String, Value>) -> Result<(), Fault> {
    if path.is_page() && (is_task(fields) || fields.contains_key("status")) {
        return Ok(());
    }
    let message = format!("`{path}` is no task: its frontmatter has neither `type: task` nor `status`");
    Err(Fault::new(Kind::Invalid, message))
}

/// Whether a page is work that can be started.
fn is_open(fields: &Map<String, Value>) -> bool {
    fields.get("status").and_then(Value::as_str).is_some_and(|text| text.trim().to_lowercase() == OPEN_STATUS)
}

/// Whether work on a page has ended, by its `status`, its `state`, or its workflow.
fn has_ended(space: &Space, fields: Map<String, Value>) -> bool {
    BlockerCheck::new(&space.vfs, &space.index).has_ended(&Value::Object(fields))
}

/// The states of the workflow that a page names, if it names a valid one.
fn workflow_of(space: &Space, fields: &Map<String, Value>) -> Option<WorkflowDefinition> {
    read_definition(&space.vfs, fields.get("workflow")?.as_str()?).ok()
}

/// Releases an actor's claim on a page that is finished now.
pub fn release_finished(space: &Space, actor: &Actor, path: &TreePath) {
    let is_theirs = space.vfs.claim_at(path).is_some_and(|claim| claim.claimed_by == *actor);
    if is_theirs
        && stored_fields(space, path).is_some_and(|fields| has_ended(space, fields))
        && let Err(error) = space.vfs.release_claim(actor, path, None)
    {
        tracing::warn!(page.path = %path, ?error, "the claim of a finished page could not be released");
    }
}

/// The pages that must be finished before a task and are not. A name without a page does not block.
fn unfinished_dependencies(space: &Space, task: &TreePath, names: &[String]) -> Result<Vec<TreePath>, Fault> {
    BlockerCheck::of_stored_pages(&space.vfs, &space.index).unfinished_of(task, names)
}

/// The frontmatter of a page as it is stored now; none without a page.
fn stored_fields(space: &Space, path: &TreePath) -> Option<Map<String, Value>> {
    workflows::stored_fields(&space.vfs, path)
}

/// Whether a text in the frontmatter of the page `from` would refer to a page that does not exist
/// yet.
fn names_path(from: &TreePath, text: &str, new: &TreePath) -> bool {
    let target = blocker_target(text);
    let target = target.strip_suffix(".md").unwrap_or(&target);
    let folder = from.parent().unwrap_or_else(TreePath::root);
    let new_name = new.as_str().strip_suffix(".md").unwrap_or(new.as_str());
    let relative = target.strip_prefix("./").map(|rest| format!("{folder}/{rest}"));
    relative.is_some_and(|path| path.trim_start_matches('/') == new_name)
        || target == new_name
        || new_name.rsplit('/').next() == Some(target)
}

/// The page that a link, path or name in a task's frontmatter refers to.
fn resolve_page(space: &Space, from: &TreePath, text: &str) -> Result<Option<TreePath>, Fault> {
    BlockerCheck::of_stored_pages(&space.vfs, &space.index).resolve(from, text)
}
