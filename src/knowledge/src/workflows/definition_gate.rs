//! Validation of definitions that are written as files, through any protocol.

use svcfs_base::{Caller, Fault};
use svcfs_vfs::{ProposedFile, WriteGate};

use super::{WorkflowDefinition, definition_path, workflow_of};

/// Refuses files in `.svc/workflows` that are not valid definitions.
#[derive(Debug, Clone, Copy)]
pub struct DefinitionGate;

impl WriteGate for DefinitionGate {
    fn check(&self, _caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        let Some(name) = workflow_of(&proposal.path) else { return Ok(()) };
        definition_path(name)?;
        WorkflowDefinition::parse(name, &proposal.content).map(drop)
    }
}
