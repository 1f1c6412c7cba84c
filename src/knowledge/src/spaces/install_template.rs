//! Installation of templates in a root: one commit; existing files are not changed.

use serde::Serialize;
use svcfs_base::{Caller, Change, ChangeSet, EventAnnouncement, Fault, Kind, Precondition, Protocol, TreePath};
use svcfs_config::templates::Template;

use crate::kernel::Space;

/// The files of an installed template.
#[derive(Debug, Serialize)]
pub struct InstalledTemplate {
    /// New files.
    pub written: Vec<TreePath>,
    /// Existing files, unchanged.
    pub existing: Vec<TreePath>,
}

/// Writes the missing files of a template, in one commit by `caller`.
///
/// # Errors
/// Those of writing; nothing is written then.
pub fn write_template(space: &Space, template: &Template, caller: &Caller) -> Result<InstalledTemplate, Fault> {
    // Templates have hidden files (`.gitignore`), which other callers cannot write.
    let caller = &Caller { protocol: Protocol::Internal, actor: Some(caller.actor()), ..caller.clone() };
    let mut installed = InstalledTemplate { written: Vec::new(), existing: Vec::new() };
    let mut changes = Vec::new();
    for file in template.files() {
        let path = TreePath::parse(file.path)?;
        match space.vfs.stat(caller.protocol, &path) {
            Ok(_) => installed.existing.push(path),
            Err(fault) if fault.kind() == Kind::NotFound => {
                // A concurrently written file is kept.
                changes
                    .push(Change::put(path.clone(), file.content.as_bytes()).with_precondition(Precondition::Absent));
                installed.written.push(path);
            }
            Err(fault) => return Err(fault),
        }
    }
    if !changes.is_empty() {
        let message = format!("{}: install the template `{}`", caller.actor(), template.id);
        space
            .vfs
            .apply(caller, ChangeSet::new(changes).with_message(message).with_announcement(EventAnnouncement::Bulk))?;
    }
    Ok(installed)
}
