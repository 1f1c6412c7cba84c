//! The pages that an agent reads first.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Kind, Permissions, TreePath};

use crate::files;
use crate::kernel::OperationContext;

/// The three pages that describe a tree; a text is empty if there is no such page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentContext {
    /// Rules of work: `playbook.md`
    pub playbook: String,
    /// Types of pages: `SCHEMA.md`
    pub schema: String,
    /// Start page: `index.md`
    pub index: String,
}

/// Reads them from their [`candidate_paths`].
pub fn read_context(cx: &OperationContext<'_>) -> Result<AgentContext, Fault> {
    Ok(AgentContext {
        playbook: read_first(cx, "playbook.md")?,
        schema: read_first(cx, "SCHEMA.md")?,
        index: read_first(cx, "index.md")?,
    })
}

/// The possible paths of such a page, in order of preference: below `.svc/`, then in the root; with
/// a key of a folder, in that folder.
///
/// # Errors
/// `Invalid` for a bad name.
pub fn candidate_paths(permissions: &Permissions, name: &str) -> Result<Vec<TreePath>, Fault> {
    match &permissions.folder {
        Some(folder) => Ok(vec![TreePath::parse(&format!("{folder}/{name}"))?]),
        None => Ok(vec![TreePath::parse(&format!(".svc/{name}"))?, TreePath::parse(name)?]),
    }
}

fn read_first(cx: &OperationContext<'_>, name: &str) -> Result<String, Fault> {
    let permissions = &cx.caller.permissions;
    for path in candidate_paths(permissions, name)? {
        cx.space.check_path_access(permissions, cx.caller.protocol, &path)?;
        match files::read_file(cx, &path) {
            Err(fault) if fault.kind() == Kind::NotFound => {}
            file => return Ok(String::from_utf8_lossy(&file?.content).into_owned()),
        }
    }
    Ok(String::new())
}
