//! Templates put into a root, through the one write path: one commit, and nothing that is there is touched.

use serde::Serialize;
use svcfs_base::{Caller, Change, ChangeSet, EventAnnouncement, Fault, Kind, Precondition, TreePath};
use svcfs_config::templates::Template;

use crate::kernel::Space;

/// What became of each file of a template.
#[derive(Debug, Serialize)]
pub struct InstalledTemplate {
    /// New files.
    pub written: Vec<TreePath>,
    /// Files that were there, and are as they were.
    pub kept: Vec<TreePath>,
}

/// Writes the files of a template that are not there yet, in one commit by `caller`.
///
/// # Errors
/// Those of the write path; nothing is written then.
pub fn write_template(space: &Space, template: &Template, caller: &Caller) -> Result<InstalledTemplate, Fault> {
    let mut planted = InstalledTemplate { written: Vec::new(), kept: Vec::new() };
    let mut changes = Vec::new();
    for file in template.files() {
        let path = TreePath::parse(file.path)?;
        match space.vfs.stat(caller.protocol, &path) {
            Ok(_) => planted.kept.push(path),
            Err(fault) if fault.kind() == Kind::NotFound => {
                // Should somebody write it in this moment, theirs stays.
                changes
                    .push(Change::put(path.clone(), file.content.as_bytes()).with_precondition(Precondition::Absent));
                planted.written.push(path);
            }
            Err(fault) => return Err(fault),
        }
    }
    if !changes.is_empty() {
        let message = format!("{}: begin with the template `{}`", caller.actor(), template.id);
        space
            .vfs
            .apply(caller, ChangeSet::new(changes).with_message(message).with_announcement(EventAnnouncement::Bulk))?;
    }
    Ok(planted)
}
