//! Views of a single page: headings, sections, links, lint issues, summary.
//!
//! Invariant: answers come from the current text; the index is used only to resolve links.

mod operations;
mod page_summary;
mod templates;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use svcfs_base::{Fault, TreePath};
use svcfs_vfs::FileView;

use crate::files;
use crate::kernel::OperationContext;

pub use operations::AREA;

/// The text of a page; invalid UTF-8 becomes `U+FFFD`.
fn text(file: &FileView) -> Cow<'_, str> {
    String::from_utf8_lossy(&file.content)
}

fn file(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    files::read_file(cx, path)
}
