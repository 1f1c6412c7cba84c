//! One page looked at: its headings, its sections, its links, its faults, all of it at a glance (contract 4.3, 4.17).
//!
//! One rule: these answers are made from the text as it is now, not from the index; only where links lead is asked there.

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

/// The text of a page; bytes that are not UTF-8 are shown as `U+FFFD`.
fn text(file: &FileView) -> Cow<'_, str> {
    String::from_utf8_lossy(&file.content)
}

/// A file, read as contract 7 wants it.
fn file(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    files::read_file(cx, path)
}
