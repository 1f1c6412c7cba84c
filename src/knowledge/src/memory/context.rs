//! What an agent reads first.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Kind, Permissions, TreePath};

use crate::files;
use crate::kernel::OperationContext;

/// The three pages that tell how a tree is meant (contract 2.1); a text is empty when there is no such page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentContext {
    /// How to work here: `playbook.md`
    pub playbook: String,
    /// What kinds of pages there are: `SCHEMA.md`
    pub schema: String,
    /// Where to begin reading: `index.md`
    pub index: String,
}

/// Reads them from their [`places`].
///
/// # Errors
/// Those of reading a file that is there.
pub fn read_context(cx: &OperationContext<'_>) -> Result<AgentContext, Fault> {
    Ok(AgentContext {
        playbook: page(cx, "playbook.md")?,
        schema: page(cx, "SCHEMA.md")?,
        index: page(cx, "index.md")?,
    })
}

/// Where a page that tells how a tree is meant may stand, the first that is there counts: below `.svc/`, else in the root (gaps.md D19); for
/// whoever is limited to a folder, in that folder.
///
/// # Errors
/// `Invalid` for a name that is none.
pub fn candidate_paths(reach: &Permissions, name: &str) -> Result<Vec<TreePath>, Fault> {
    match &reach.folder {
        Some(folder) => Ok(vec![TreePath::parse(&format!("{folder}/{name}"))?]),
        None => Ok(vec![TreePath::parse(&format!(".svc/{name}"))?, TreePath::parse(name)?]),
    }
}

fn page(cx: &OperationContext<'_>, name: &str) -> Result<String, Fault> {
    let reach = &cx.caller.permissions;
    for place in candidate_paths(reach, name)? {
        cx.space.check_path_access(reach, cx.caller.protocol, &place)?;
        match files::read_file(cx, &place) {
            Err(fault) if fault.kind() == Kind::NotFound => {}
            file => return Ok(String::from_utf8_lossy(&file?.content).into_owned()),
        }
    }
    Ok(String::new())
}
