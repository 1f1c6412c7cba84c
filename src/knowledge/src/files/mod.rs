//! Operations on files: list, read, write, append, delete, rename.
//!
//! Invariant: each request that changes something becomes one change set, which `vfs` checks and
//! commits. This module decides what is in it: provenance, formatted text, rewritten links.

mod assets;
mod content;
mod dry_run;
mod edit;
mod fields;
mod lines;
mod link_rewrite;
mod link_targets;
mod merged_write;
mod operations;
mod past_tree;
mod read;
mod rename;
mod symlink;
#[cfg(test)]
mod tests;
mod tree;
mod tree_text;
mod write;

use svcfs_base::{Fault, TreePath};

use crate::kernel::require_path;

pub use content::TextOrBytes;
pub use fields::{set_fields, with_frontmatter};
pub use lines::{LineRange, select_lines};
pub(crate) use link_rewrite::SpaceLinkResolver;
pub use link_targets::resolve_target;
pub use operations::{AREA, DeletedFile};
pub(crate) use read::{SEGMENT, file_url, url_below};
pub use read::{frontmatter, list_stems, permalink, read_file, to_timestamp};
pub(crate) use tree::FileTreeNode;
pub use write::format_new_page;
pub(crate) use write::prepare_with;

/// The path of a file to change: any path except the root.
pub(crate) fn named(path: TreePath) -> Result<TreePath, Fault> {
    require_path("path", &path)?;
    Ok(path)
}
