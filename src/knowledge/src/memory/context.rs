//! What an agent reads first.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Fault, Kind, TreePath};

use crate::files;
use crate::kernel::Cx;

/// The three pages that tell how a tree is meant (contract 2.1); a text is empty when there is no such page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Context {
    /// How to work here: `playbook.md`
    pub playbook: String,
    /// What kinds of pages there are: `SCHEMA.md`
    pub schema: String,
    /// Where to begin reading: `index.md`
    pub index: String,
}

/// Reads them: each from `.svc/`, else from the root (gaps.md D19); for a caller who sees a folder only, from that folder.
///
/// # Errors
/// Those of reading a file that is there.
pub fn context(cx: &Cx<'_>) -> Result<Context, Fault> {
    Ok(Context { playbook: page(cx, "playbook.md")?, schema: page(cx, "SCHEMA.md")?, index: page(cx, "index.md")? })
}

fn page(cx: &Cx<'_>, name: &str) -> Result<String, Fault> {
    let reach = &cx.caller.reach;
    let places = match &reach.folder {
        Some(folder) => vec![TreePath::parse(&format!("{folder}/{name}"))?],
        None => vec![TreePath::parse(&format!(".svc/{name}"))?, TreePath::parse(name)?],
    };
    for place in places {
        cx.space.check_reach(reach, cx.caller.door, &place)?;
        match files::file(cx, &place) {
            Err(fault) if fault.kind() == Kind::NotFound => {}
            file => return Ok(String::from_utf8_lossy(&file?.content).into_owned()),
        }
    }
    Ok(String::new())
}
