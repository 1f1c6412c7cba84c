//! Workflows: the states of pages, and the transitions between them.
//!
//! Invariant: a definition is the versioned file `.svc/workflows/<name>.json`, which users may edit
//! through any protocol. It is read when it is used, so a change takes effect immediately.

mod definition;
mod definition_gate;
#[cfg(test)]
mod tests;

use svcfs_base::{Fault, Kind, Protocol, TreePath, escape_unprintable};
use svcfs_vfs::Vfs;

pub use definition::{UNMATCHED, WorkflowDefinition, WorkflowState, WorkflowTransition, fold_state};
pub use definition_gate::DefinitionGate;

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
    match vfs.read(Protocol::Internal, &definition_path(name)?) {
        Ok(file) => WorkflowDefinition::parse(name, &file.content),
        Err(fault) if fault.kind() == Kind::NotFound => {
            let advice = format!("create it with `PUT /workflows/{name}`, or use one that `GET /workflows` lists");
            Err(Fault::not_found(format!("workflow not found: {name}")).with_advice(&advice))
        }
        Err(fault) => Err(fault),
    }
}
