//! Files: listed, read, written, appended to, removed, renamed (contract 4.3).
//!
//! One rule: each request that changes something becomes one change set, checked and committed by `vfs` as a whole. What is
//! decided here is what the set holds: the origin noted in a page's frontmatter, the tidied text, the rewritten links.

mod assets;
mod content;
mod lines;
mod link_rewrite;
mod link_targets;
mod operations;
mod read;
mod rename;
mod symlink;
#[cfg(test)]
mod tests;
mod tree;
mod tree_text;
mod write;

use svcfs_base::{Fault, TreePath};

use crate::kernel::given;

pub use content::TextOrBytes;
pub use lines::{LineRange, select_lines};
pub(crate) use link_rewrite::SpaceLinkResolver;
pub use link_targets::resolve_target;
pub use operations::AREA;
pub(crate) use read::SEGMENT;
pub use read::{list_stems, permalink, read_file, to_timestamp};

/// The path of a file that is to be changed: any but the root.
fn named(path: TreePath) -> Result<TreePath, Fault> {
    given("path", &path)?;
    Ok(path)
}
