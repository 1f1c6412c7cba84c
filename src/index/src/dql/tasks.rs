//! The tasks of a page as rows (gaps.md 4.6, TASK).

use serde_json::Value as Json;

use super::lexemes::ValueStep;
use super::row::QueryRow;
use crate::IndexError;
use crate::value::Value;

/// What the cells of a task are, behind the path.
pub(crate) const PARTS: [&str; 5] = ["text", "completed", "line", "tags", "due"];

/// The details of a task that are none of its [`PARTS`], as `meta.key`.
pub(crate) const META: &str = "meta";

/// The rows of a page's tasks.
pub(crate) fn rows(page: &QueryRow, tasks: &str) -> Result<Vec<QueryRow>, IndexError> {
    let damaged = |why: &dyn std::fmt::Display| IndexError::Damaged(format!("tasks of `{}`: {why}", page.path));
    let tasks: Vec<Json> = serde_json::from_str(tasks).map_err(|error| damaged(&error))?;
    let row = |task: &Json| {
        let part = |name: &str| {
            let value = task.get(name).map_or(Value::Null, Value::of);
            (vec![ValueStep::Key(name.to_owned())], value)
        };
        QueryRow { own: PARTS.into_iter().chain([META]).map(part).collect(), ..page.clone() }
    };
    Ok(tasks.iter().map(row).collect())
}
