//! The page of each comment, by the id of the comment.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use svcfs_base::{Fault, Kind, Protocol, Seq, TreePath};
use svcfs_vfs::{COMMENTS_DIRECTORY, commented_page};

use super::file::read_file;
use crate::kernel::Space;

/// Pages by comment id, read from the comment files when an id is not where it was.
#[derive(Default)]
pub struct CommentIndex {
    pages: Mutex<IndexedPages>,
    edits: Mutex<()>,
}

#[derive(Default)]
struct IndexedPages {
    by_id: HashMap<String, TreePath>,
    /// The log position of the last scan.
    scanned_at: Option<Seq>,
}

impl CommentIndex {
    /// Serializes edits of comments in this process.
    pub(super) fn edit_lock(&self) -> MutexGuard<'_, ()> {
        self.edits.lock()
    }

    pub(super) fn insert(&self, id: String, page: TreePath) {
        self.pages.lock().by_id.insert(id, page);
    }

    pub(super) fn remove(&self, id: &str) {
        self.pages.lock().by_id.remove(id);
    }

    /// The page with a comment; `None` for an unknown id.
    ///
    /// # Errors
    /// Those of listing the files.
    pub(super) fn find(&self, space: &Space, id: &str) -> Result<Option<TreePath>, Fault> {
        let has_comment = |page: &TreePath| {
            let comments = svcfs_vfs::comment_file(page).and_then(|file| read_file(space, &file));
            comments.is_ok_and(|read| read.is_some_and(|(comments, _)| comments.iter().any(|it| it.id == id)))
        };
        let known = self.pages.lock().by_id.get(id).cloned();
        if let Some(page) = known.filter(has_comment) {
            return Ok(Some(page));
        }
        let now = space.vfs.last_seq();
        // Guessed ids must not cost a scan each.
        let is_scanned = self.pages.lock().scanned_at == Some(now);
        if !is_scanned {
            let by_id = scan(space)?;
            *self.pages.lock() = IndexedPages { by_id, scanned_at: Some(now) };
        }
        Ok(self.pages.lock().by_id.get(id).cloned())
    }
}

fn scan(space: &Space) -> Result<HashMap<String, TreePath>, Fault> {
    let files = match space.vfs.walk(Protocol::Internal, &TreePath::parse(COMMENTS_DIRECTORY)?) {
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Vec::new(),
        files => files?,
    };
    let mut by_id = HashMap::new();
    for file in files {
        let Some(page) = commented_page(&file.path) else { continue };
        // An invalid file is reported where its page is read.
        let comments = read_file(space, &file.path).ok().flatten().map(|(comments, _)| comments);
        by_id.extend(comments.into_iter().flatten().map(|comment| (comment.id, page.clone())));
    }
    Ok(by_id)
}
