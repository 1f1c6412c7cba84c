//! Workflows: the states of pages, and the transitions between them.
//!
//! Invariant: a definition is the versioned file `.svc/workflows/<name>.json`, which users may edit
//! through any protocol. It is read when it is used, so a change takes effect immediately.

mod blockers;
mod board;
mod card;
mod definition;
mod definition_gate;
mod operations;
mod state_change;
#[cfg(test)]
mod tests;
mod transition;
mod transition_gate;

use std::collections::HashMap;

use serde_json::{Map, Value};
use svcfs_base::{Change, ChangeSet, ETag, Fault, Kind, Protocol, TreePath, escape_unprintable, fold_label};
use svcfs_vfs::Vfs;

use crate::files;
use crate::kernel::OperationContext;
pub use blockers::{BlockerCheck, blocker_names, blocker_target, stored_fields, strings};
pub use board::{BoardCache, BoardColumns, StateCounts, WorkflowBoard, read_board};
pub use card::BoardCard;
pub use definition::{UNMATCHED, WorkflowDefinition, WorkflowState, WorkflowTransition};
pub use definition_gate::DefinitionGate;
pub use operations::AREA;
pub use transition_gate::TransitionGate;

const WORKFLOWS_FOLDER: &str = ".svc/workflows";

const MAX_NAME_BYTES: usize = 128;

/// The file of a definition.
///
/// # Errors
/// `Invalid` for a name that is not valid, such as a path.
pub fn definition_path(name: &str) -> Result<TreePath, Fault> {
    if is_valid_name(name) {
        return TreePath::parse(&format!("{WORKFLOWS_FOLDER}/{name}.json"));
    }
    let displayed = escape_unprintable(&name.chars().take(40).collect::<String>());
    let message = format!(
        "`{displayed}` is not a valid workflow name; use letters, digits, spaces, `_` and `-`, at most {MAX_NAME_BYTES}"
    );
    Err(Fault::invalid("workflow", message))
}

fn is_valid_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= MAX_NAME_BYTES
        && !name.ends_with(' ')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-'))
}

/// The workflow whose definition is at a path.
fn workflow_of(path: &TreePath) -> Option<&str> {
    path.as_str().strip_prefix(WORKFLOWS_FOLDER)?.strip_prefix('/')?.strip_suffix(".json")
}

/// Reads and validates a definition.
///
/// # Errors
/// `NotFound` if there is none; `Invalid` for a bad name or definition.
pub fn read_definition(vfs: &Vfs, name: &str) -> Result<WorkflowDefinition, Fault> {
    read_stored_definition(vfs, name).map(|(definition, _)| definition)
}

/// As [`read_definition`], with the entity tag of the file.
fn read_stored_definition(vfs: &Vfs, name: &str) -> Result<(WorkflowDefinition, ETag), Fault> {
    match vfs.read(Protocol::Internal, &definition_path(name)?) {
        Ok(file) => Ok((WorkflowDefinition::parse(name, &file.content)?, file.etag)),
        Err(fault) if fault.kind() == Kind::NotFound => {
            let advice = format!("create it with `PUT /workflows/{name}`, or use one that `GET /workflows` lists");
            Err(Fault::not_found(format!("workflow not found: {name}")).with_advice(&advice))
        }
        Err(fault) => Err(fault),
    }
}

/// The names of all definitions, sorted, valid or not.
///
/// # Errors
/// If the folder cannot be read.
pub fn names(cx: &OperationContext<'_>) -> Result<Vec<String>, Fault> {
    let mut names = files::list_stems(cx, &TreePath::parse(WORKFLOWS_FOLDER)?, ".json")?;
    names.retain(|name| is_valid_name(name));
    Ok(names)
}

/// All valid definitions by name, and for each invalid file its path and the reason.
fn read_all(cx: &OperationContext<'_>) -> Result<(Vec<WorkflowDefinition>, Vec<String>), Fault> {
    let (mut workflows, mut errors) = (Vec::new(), Vec::new());
    for name in files::list_stems(cx, &TreePath::parse(WORKFLOWS_FOLDER)?, ".json")? {
        match read_definition(&cx.space.vfs, &name) {
            Ok(workflow) => workflows.push(workflow),
            Err(fault) => errors.push(format!("{WORKFLOWS_FOLDER}/{name}.json: {}", fault.message())),
        }
    }
    Ok((workflows, errors))
}

/// Number of pages in each state that the caller may see; those with another state are
/// [`UNMATCHED`].
fn count_states(cx: &OperationContext<'_>, workflow: &WorkflowDefinition) -> Result<StateCounts, Fault> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for page in cx.index().workflow_pages(&workflow.name, None)? {
        let frontmatter: Map<String, Value> = serde_json::from_str(&page.frontmatter).unwrap_or_default();
        let text = |key: &str| frontmatter.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("workflow") == workflow.name && cx.caller.permissions.covers(&page.path) {
            *counts.entry(fold_label(text("state"))).or_default() += 1;
        }
    }
    let states = workflow
        .states
        .iter()
        .map(|state| (state.name.clone(), counts.remove(&fold_label(&state.name)).unwrap_or_default()));
    let mut states: Vec<(String, usize)> = states.collect();
    let unmatched = counts.values().sum();
    if unmatched > 0 {
        states.push((UNMATCHED.to_owned(), unmatched));
    }
    Ok(StateCounts(states))
}

/// Writes a definition and returns its entity tag. A state that pages have is removed only with
/// `force`.
fn save(cx: &OperationContext<'_>, workflow: &WorkflowDefinition, force: bool) -> Result<Option<ETag>, Fault> {
    let path = definition_path(&workflow.name)?;
    workflow.validate()?;
    let text = workflow.to_text()?;
    match read_definition(&cx.space.vfs, &workflow.name) {
        Ok(old) if !force => {
            let used = count_states(cx, &old)?.0.into_iter().filter(|(_, count)| *count > 0);
            let removed: Vec<(String, usize)> =
                used.filter(|(state, _)| state != UNMATCHED && workflow.state(state).is_none()).collect();
            if !removed.is_empty() {
                let states = removed.iter().map(|(state, count)| format!("`{state}` ({count} pages)"));
                let message = format!(
                    "workflow `{}` would lose states that pages have: {}; move the pages, or send `force`",
                    workflow.name,
                    states.collect::<Vec<_>>().join(", ")
                );
                let removed: Map<String, Value> =
                    removed.into_iter().map(|(state, count)| (state, count.into())).collect();
                return Err(Fault::new(Kind::NotAllowed, message).with_detail("states", removed));
            }
        }
        // An invalid definition may be replaced.
        Ok(_) | Err(_) => {}
    }
    let change = Change::put(path, text).with_precondition(cx.caller.precondition.clone());
    let set = ChangeSet::from(change).with_message(format!("workflow: {}", workflow.name));
    Ok(cx.apply(set)?.files.first().and_then(|file| file.etag))
}

/// Removes a definition; the pages keep their state.
fn delete(cx: &OperationContext<'_>, name: &str) -> Result<(), Fault> {
    let set = ChangeSet::from(Change::remove(definition_path(name)?)).with_message(format!("workflow: remove {name}"));
    match cx.apply(set) {
        Err(fault) if fault.kind() == Kind::NotFound => Err(Fault::not_found(format!("workflow not found: {name}"))),
        outcome => outcome.map(drop),
    }
}
