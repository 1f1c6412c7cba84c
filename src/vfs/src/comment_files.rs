//! Files with the comments of pages, which follow their pages.
//!
//! Invariant: the removal or rename of a page through any protocol removes or renames its comments
//! in the same change set. Out-of-band changes do not: see `comments` in `knowledge`.

use svcfs_base::{Change, Fault, Precondition, TreePath};

use crate::core::{EffectiveState, VfsCore};
use crate::path_class::PathClass;

/// The directory of the comments of all pages.
pub const COMMENTS_DIRECTORY: &str = ".svc/comments";

/// The file with the comments of a page.
///
/// # Errors
/// `NameTooLong` when its name would be too long.
pub fn comment_file(page: &TreePath) -> Result<TreePath, Fault> {
    TreePath::parse(&format!("{COMMENTS_DIRECTORY}/{page}.json"))
}

/// The page whose comments a file contains; none for other files.
pub fn commented_page(file: &TreePath) -> Option<TreePath> {
    let name = file.as_str().strip_prefix(COMMENTS_DIRECTORY)?.strip_prefix('/')?.strip_suffix(".json")?;
    TreePath::parse(name).ok().filter(|page| !page.is_root())
}

/// The comment files that a change set may change, to lock them with its paths.
pub(crate) fn touched_comment_files(changes: &[Change]) -> impl Iterator<Item = TreePath> {
    let paths = changes.iter().flat_map(|change| match change {
        Change::Remove { path, .. } => [Some(path), None],
        Change::Move { from, to, .. } => [Some(from), Some(to)],
        Change::Put { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => [None, None],
    });
    paths.flatten().filter_map(|path| comment_file(path).ok())
}

impl VfsCore {
    /// The changes that comment files need beside these changes of their pages. None for files that
    /// the set changes itself. A page that is renamed to an unversioned name is about to be
    /// replaced by its editor: its comments stay.
    pub(crate) fn comment_changes(&self, changes: &[Change]) -> Result<Vec<Change>, Fault> {
        let mut follow_ups = Vec::new();
        for change in changes {
            match change {
                Change::Remove { path, .. } if self.is_content(path) => {
                    if let Some(file) = self.existing_comment_file(path)? {
                        follow_ups.push(Change::remove(file));
                    }
                }
                Change::Move { from, to, .. } if from != to && self.is_content(from) && self.is_content(to) => {
                    self.add_moves(from, to, &mut follow_ups)?;
                }
                Change::Put { .. }
                | Change::Remove { .. }
                | Change::Move { .. }
                | Change::MakeDir { .. }
                | Change::RemoveDir { .. } => {}
            }
        }
        let changed = Self::touched_paths(changes);
        follow_ups.retain(|change| !changed.contains(change.path()));
        Ok(follow_ups)
    }

    fn is_content(&self, path: &TreePath) -> bool {
        self.path_classes.classify(path) == PathClass::Content && self.is_versioned(path)
    }

    /// The comment file of a page, if it exists.
    fn existing_comment_file(&self, page: &TreePath) -> Result<Option<TreePath>, Fault> {
        let Ok(file) = comment_file(page) else { return Ok(None) };
        let exists = matches!(self.effective_state(&file)?, EffectiveState::Leaf(..));
        Ok(exists.then_some(file))
    }

    /// Adds the changes that rename the comments of a page, or of the pages of a directory. They
    /// are written at their new names: a set renames one directory only.
    fn add_moves(&self, from: &TreePath, to: &TreePath, follow_ups: &mut Vec<Change>) -> Result<(), Fault> {
        let mut files: Vec<TreePath> = self.existing_comment_file(from)?.into_iter().collect();
        let directory = TreePath::parse(&format!("{COMMENTS_DIRECTORY}/{from}"))?;
        if matches!(self.effective_state(&directory)?, EffectiveState::Directory)
            && matches!(self.effective_state(from)?, EffectiveState::Directory)
        {
            files.extend(self.versions.list_states(&directory)?.into_iter().map(|(path, ..)| path));
        }
        for file in files {
            let target = commented_page(&file).and_then(|page| page.rebase(from, to));
            let Some(target) = target.and_then(|page| comment_file(&page).ok()) else { continue };
            if let EffectiveState::Leaf(leaf, _) = self.effective_state(&file)? {
                let put = Change::put(target, leaf.content.clone());
                follow_ups.push(put);
                let precondition = Precondition::OneOf(vec![leaf.etag]);
                follow_ups.push(Change::remove(file).with_precondition(precondition));
            }
        }
        Ok(())
    }
}
