//! The tasks of a page as rows.

use serde_json::Value as Json;

use super::lexemes::ValueStep;
use super::row::QueryRow;
use crate::IndexError;
use crate::value::Value;

pub(crate) const PARTS: [&str; 5] = ["text", "completed", "line", "tags", "due"];

/// The other details of a task, as `meta.key`.
pub(crate) const META: &str = "meta";

pub(crate) fn rows(page: &QueryRow, tasks: &str) -> Result<Vec<QueryRow>, IndexError> {
    let damaged = |why: &dyn std::fmt::Display| IndexError::Damaged(format!("tasks of `{}`: {why}", page.path));
    let tasks: Vec<Json> = serde_json::from_str(tasks).map_err(|error| damaged(&error))?;
    let row = |task: &Json| {
        let part = |name: &str| {
            let value = task.get(name).map_or(Value::Null, Value::of);
            (vec![ValueStep::Key(name.to_owned())], value)
        };
        QueryRow { overrides: PARTS.into_iter().chain([META]).map(part).collect(), ..page.clone() }
    };
    Ok(tasks.iter().map(row).collect())
}
