//! Comments on pages, stored as `.svc/comments/<page>.json`.
//!
//! Invariant: a comment file is an ordinary versioned file, which users may edit. It is validated
//! when it is used, and a bad one never affects its page. The write path moves and removes it with
//! its page; after an external rename (`git mv`) the comments are found by the former names of the
//! page, and the next write of a comment moves the file.

mod anchor;
mod cleanup;
mod file;
mod index;
mod operations;
#[cfg(test)]
mod tests;

use svcfs_base::{Fault, Kind, TreePath};

use crate::files;
use crate::kernel::OperationContext;

pub use cleanup::CommentCleanup;
pub use file::count_open;
pub use index::CommentIndex;
pub use operations::AREA;
pub use svcfs_vfs::commented_page;

/// Limit of comments on one page.
const MAX_COMMENTS: usize = 500;
/// Limit of the text of a comment.
const MAX_BODY_BYTES: usize = 64 << 10;

/// The text of a page that has or may get comments.
fn page_text(cx: &OperationContext<'_>, path: &TreePath) -> Result<String, Fault> {
    let file = files::read_file(cx, path)?;
    Ok(String::from_utf8_lossy(&file.content).into_owned())
}

/// Whether the caller may read a page, and so its comments.
fn is_readable(cx: &OperationContext<'_>, page: &TreePath) -> bool {
    let protocol = cx.caller.protocol;
    cx.space.check_path_access(&cx.caller.permissions, protocol, page).is_ok()
        && cx.space.check_served(protocol, page, true).is_ok()
        && cx.tree().stat(protocol, page).is_ok()
}

fn comment_not_found(id: &str) -> Fault {
    let displayed: String = svcfs_base::escape_unprintable(&id.chars().take(40).collect::<String>());
    Fault::new(Kind::NotFound, format!("comment not found: {displayed}"))
}
