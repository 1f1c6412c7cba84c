//! Templates for new pages, in `.svc/templates`.

use svcfs_base::{Fault, Kind, TreePath};

use super::operations::TemplateText;
use crate::files;
use crate::kernel::OperationContext;

const TEMPLATE_FOLDER: &str = ".svc/templates";

/// The names of the templates, sorted: their file names without `.md`.
///
/// # Errors
/// `Internal` if the folder cannot be read; a missing one is empty.
pub fn names(cx: &OperationContext<'_>) -> Result<Vec<String>, Fault> {
    let mut names = files::list_stems(cx, &TreePath::parse(TEMPLATE_FOLDER)?, ".md")?;
    names.retain(|name| !name.starts_with('.'));
    Ok(names)
}

/// Reads a template by name, with or without `.md`.
///
/// # Errors
/// `Invalid` for a bad name; `NotFound` for an unknown one, with the existing names.
pub fn template(cx: &OperationContext<'_>, name: &str) -> Result<TemplateText, Fault> {
    let stem = name.strip_suffix(".md").unwrap_or(name);
    if stem.is_empty() || stem.starts_with('.') || stem.contains(['/', '\\']) {
        return Err(Fault::invalid(
            "name",
            format_args!(
                "`{}` is not a valid template name; use one such as `meeting`",
                svcfs_base::escape_unprintable(name)
            ),
        ));
    }
    let path = TreePath::parse(&format!("{TEMPLATE_FOLDER}/{stem}.md"))?;
    match super::file(cx, &path) {
        Err(fault) if fault.kind() == Kind::NotFound => {
            let available = names(cx)?;
            let available = if available.is_empty() {
                format!("there are no templates in `{TEMPLATE_FOLDER}`")
            } else {
                format!("available: {}", available.join(", "))
            };
            Err(Fault::not_found(format!("template not found: {stem}; {available}")))
        }
        file => Ok(TemplateText { content: super::text(&file?).into_owned(), name: stem.to_owned() }),
    }
}
