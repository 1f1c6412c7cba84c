//! Templates: pages under `.svc/templates` that others are begun from (contract 4.3).

use svcfs_base::{Fault, Kind, TreePath};

use super::operations::TemplateText;
use crate::files;
use crate::kernel::OperationContext;

/// Where they lie.
const FOLDER: &str = ".svc/templates";

/// The names of the templates, in order: their files' names without `.md`.
///
/// # Errors
/// `Internal` when the folder cannot be read; a missing one holds none.
pub fn names(cx: &OperationContext<'_>) -> Result<Vec<String>, Fault> {
    let mut names = files::list_stems(cx, &TreePath::parse(FOLDER)?, ".md")?;
    names.retain(|name| !name.starts_with('.'));
    Ok(names)
}

/// A template; its name is taken with `.md` and without.
///
/// # Errors
/// `Invalid` for a name that is none; `NotFound` for an unknown one, naming those there are.
pub fn template(cx: &OperationContext<'_>, name: &str) -> Result<TemplateText, Fault> {
    let stem = name.strip_suffix(".md").unwrap_or(name);
    if stem.is_empty() || stem.starts_with('.') || stem.contains(['/', '\\']) {
        return Err(Fault::invalid(
            "name",
            format_args!("`{}` is no template's name; use one such as `meeting`", svcfs_base::escape_unprintable(name)),
        ));
    }
    let path = TreePath::parse(&format!("{FOLDER}/{stem}.md"))?;
    match super::file(cx, &path) {
        Err(fault) if fault.kind() == Kind::NotFound => {
            let known = names(cx)?;
            let known = if known.is_empty() {
                format!("`{FOLDER}` holds none")
            } else {
                format!("there are: {}", known.join(", "))
            };
            Err(Fault::not_found(format!("template not found: {stem}; {known}")))
        }
        file => Ok(TemplateText { content: super::text(&file?).into_owned(), name: stem.to_owned() }),
    }
}
