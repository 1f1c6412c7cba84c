//! The states of the workflow that a task names, from its definition.

use serde::Deserialize;
use svcfs_base::{Protocol, TreePath};

use crate::kernel::Space;

/// The workflow of created tasks.
pub(super) const TASK_WORKFLOW: &str = "tasks";

/// Its definition, written with the first task where the space has none.
pub(super) const DEFAULT_DEFINITION: &str = svcfs_config::templates::TASK_WORKFLOW;

/// The states of a definition.
#[derive(Debug, Deserialize)]
pub(super) struct WorkflowStates {
    states: Vec<WorkflowState>,
}

#[derive(Debug, Deserialize)]
struct WorkflowState {
    name: String,
    #[serde(default)]
    terminal: bool,
}

/// The path of a definition.
pub(super) fn definition_path(name: &str) -> Option<TreePath> {
    let is_name = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    is_name.then(|| TreePath::parse(&format!(".svc/workflows/{name}.json")).ok()).flatten()
}

impl WorkflowStates {
    /// The states of a workflow; none without a valid definition.
    pub(super) fn of(space: &Space, name: &str) -> Option<Self> {
        let file = space.vfs.read(Protocol::Internal, &definition_path(name)?).ok()?;
        serde_json::from_slice(&file.content).ok()
    }
    /// The states of [`DEFAULT_DEFINITION`].
    pub(super) fn default_states() -> Self {
        serde_json::from_str(DEFAULT_DEFINITION).unwrap_or(Self { states: Vec::new() })
    }
    /// The state of a new page.
    pub(super) fn first(&self) -> Option<&str> {
        self.states.first().map(|state| state.name.as_str())
    }
    /// The state with a name.
    pub(super) fn named(&self, name: &str) -> Option<&str> {
        self.states.iter().map(|state| state.name.as_str()).find(|state| state.eq_ignore_ascii_case(name))
    }
    /// The state of finished pages: `done`, else the first terminal one.
    pub(super) fn finished(&self) -> Option<&str> {
        let terminal = || self.states.iter().find(|state| state.terminal).map(|state| state.name.as_str());
        self.named("done").or_else(terminal)
    }
}
