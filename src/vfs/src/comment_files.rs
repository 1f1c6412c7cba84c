//! Files with the comments of pages, which follow their pages.
//!
//! Invariant: the removal or rename of a page through any protocol removes or renames its comments
//! in the same change set. Out-of-band changes do not: see `comments` in `knowledge`.

use bytes::Bytes;
use svcfs_base::{Change, Fault, FileKind, Precondition, TreePath};
use svcfs_store::are_similar_contents;

use crate::core::{EffectiveState, VfsCore};
use crate::path_class::PathClass;

/// New pages of a set that are compared with a removed one, and the size of the larger one.
const MAX_COMPARED_FILES: usize = 50;
const MAX_COMPARED_BYTES: usize = 1 << 20;

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

/// Whether a page is renamed to a backup, such as `page.md.bak`: its editor writes it anew.
pub fn is_backup(page: &TreePath, to: &TreePath) -> bool {
    let suffix = to.as_str().strip_prefix(page.as_str());
    page.is_page() && !to.is_page() && suffix.is_some_and(|suffix| !suffix.starts_with('/'))
}

/// The comment files that a change set may change, to lock them with its paths.
pub(crate) fn touched_comment_files(changes: &[Change]) -> impl Iterator<Item = TreePath> {
    let may_exchange = matches!(changes, [Change::Put { .. }, Change::Put { .. }]);
    let paths = changes.iter().flat_map(move |change| match change {
        Change::Remove { path, .. } => [Some(path), None],
        Change::Move { from, to, .. } => [Some(from), Some(to)],
        Change::Put { path, .. } if may_exchange => [Some(path), None],
        Change::Put { .. } | Change::MakeDir { .. } | Change::RemoveDir { .. } => [None, None],
    });
    paths.flatten().filter_map(|path| comment_file(path).ok())
}

impl VfsCore {
    /// The changes that comment files need beside these changes of their pages. None for files that
    /// the set changes itself. A page that is renamed to an unversioned name or to a backup is
    /// about to be replaced by its editor: its comments stay.
    pub(crate) fn comment_changes(&self, changes: &[Change]) -> Result<Vec<Change>, Fault> {
        let mut follow_ups = Vec::new();
        if let [Change::Put { path: a, content: new_a, .. }, Change::Put { path: b, content: new_b, .. }] = changes {
            self.add_exchange((a, new_a), (b, new_b), &mut follow_ups)?;
        }
        for change in changes {
            match change {
                Change::Remove { path, .. } if self.is_content(path) => {
                    if let Some(file) = self.existing_comment_file(path)? {
                        match self.new_name(path, changes)? {
                            Some(to) => self.add_moves(path, to, &mut follow_ups)?,
                            None => follow_ups.push(Change::remove(file)),
                        }
                    }
                }
                Change::Move { from, to, .. }
                    if from != to && !is_backup(from, to) && self.is_content(from) && self.is_content(to) =>
                {
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

    /// The name that a removed page gets in the same set, as in the merge of a draft: a new file
    /// with the same content, else with a similar one.
    fn new_name<'c>(&self, removed: &TreePath, changes: &'c [Change]) -> Result<Option<&'c TreePath>, Fault> {
        let EffectiveState::Leaf(page, _) = self.effective_state(removed)? else { return Ok(None) };
        let mut similar = Vec::new();
        for change in changes {
            let Change::Put { path, content, .. } = change else { continue };
            let is_same = *content == page.content;
            let may_be_similar = path.is_page() && content.len().max(page.content.len()) <= MAX_COMPARED_BYTES;
            if (is_same || may_be_similar)
                && self.is_content(path)
                && matches!(self.effective_state(path)?, EffectiveState::Absent)
            {
                if is_same {
                    return Ok(Some(path));
                }
                similar.push((path, content));
            }
        }
        if similar.len() > MAX_COMPARED_FILES {
            return Ok(None);
        }
        let is_similar = |content: &Bytes| are_similar_contents(&page.content, content).unwrap_or(false);
        Ok(similar.into_iter().find(|(_, content)| is_similar(content)).map(|(path, _)| path))
    }

    /// Adds the changes that exchange the comments of two pages, if these exchange their contents.
    /// An editor may save by exchanging a page with a temporary file, which is no page.
    fn add_exchange(
        &self,
        (a, new_a): (&TreePath, &Bytes),
        (b, new_b): (&TreePath, &Bytes),
        follow_ups: &mut Vec<Change>,
    ) -> Result<(), Fault> {
        let has_comments = |page| self.existing_comment_file(page).map(|file| file.is_some());
        if !a.is_page() || !b.is_page() || new_a == new_b || !(has_comments(a)? || has_comments(b)?) {
            return Ok(());
        }
        let (EffectiveState::Leaf(old_a, _), EffectiveState::Leaf(old_b, _)) =
            (self.effective_state(a)?, self.effective_state(b)?)
        else {
            return Ok(());
        };
        if old_a.content != *new_b || old_b.content != *new_a || !self.is_content(a) || !self.is_content(b) {
            return Ok(());
        }
        let (Ok(file_a), Ok(file_b)) = (comment_file(a), comment_file(b)) else { return Ok(()) };
        let comments = |file: &TreePath| match self.effective_state(file)? {
            EffectiveState::Leaf(leaf, _) => Ok((leaf.kind == FileKind::Regular).then_some(Some(leaf))),
            _ => Ok::<_, Fault>(self.is_free(file).then_some(None)),
        };
        // A comment file that cannot be moved stays.
        let (Some(of_a), Some(of_b)) = (comments(&file_a)?, comments(&file_b)?) else { return Ok(()) };
        for (file, own, other) in [(file_a, &of_a, &of_b), (file_b, &of_b, &of_a)] {
            let precondition = own.as_ref().map_or(Precondition::Absent, |own| Precondition::OneOf(vec![own.etag]));
            let change = match other {
                Some(other) => Change::put(file, other.content.clone()),
                None => Change::remove(file),
            };
            follow_ups.push(change.with_precondition(precondition));
        }
        Ok(())
    }

    /// Whether a comment file can be written here. If not, its comments are found by the former
    /// names of the page.
    fn is_free(&self, file: &TreePath) -> bool {
        let is_parent = |path: TreePath| {
            matches!(self.effective_state(&path), Ok(EffectiveState::Absent | EffectiveState::Directory))
        };
        let is_file = matches!(self.effective_state(file), Ok(EffectiveState::Absent | EffectiveState::Leaf(..)));
        is_file && file.ancestors().all(is_parent)
    }

    /// Adds the changes that rename the comments of a page, or of the pages of a directory. They
    /// are written at their new names: a set renames one directory only. A comment file that
    /// cannot be moved stays: it must not affect its page.
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
            if let EffectiveState::Leaf(leaf, _) = self.effective_state(&file)?
                && leaf.kind == FileKind::Regular
                && self.is_free(&target)
            {
                let put = Change::put(target, leaf.content.clone());
                follow_ups.push(put);
                let precondition = Precondition::OneOf(vec![leaf.etag]);
                follow_ups.push(Change::remove(file).with_precondition(precondition));
            }
        }
        Ok(())
    }
}
