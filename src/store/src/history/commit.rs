//! Changes of a commit, and building a commit from them.

use std::borrow::Cow;

use git2::{Oid, Repository};
use svcfs_base::{Actor, CommitId, ETag, FileKind, Timestamp, TreePath};

use super::{EMAIL, HistoryResult, commit_id, object, tree};

/// Author, time and message of a commit.
#[derive(Debug, Clone)]
pub struct CommitAuthor<'a> {
    /// Author and committer.
    pub actor: &'a Actor,
    /// The e-mail address of the author, if it is known.
    pub email: Option<&'a str>,
    /// Time of author and committer.
    pub time: Timestamp,
    /// The full message.
    pub message: &'a str,
}

/// The change of one file in a commit.
#[derive(Debug, Clone)]
pub enum FileEdit<'a> {
    /// New content.
    Write {
        /// The path.
        path: &'a TreePath,
        /// The kind of file.
        kind: FileKind,
        /// The full content.
        content: &'a [u8],
    },
    /// A content that git has already, for example of a renamed file.
    Reuse {
        /// The path.
        path: &'a TreePath,
        /// The kind of file.
        kind: FileKind,
        /// Its blob.
        blob: ETag,
    },
    /// Removes the file.
    Remove {
        /// The path.
        path: &'a TreePath,
    },
}

impl FileEdit<'_> {
    /// The path.
    pub(crate) const fn path(&self) -> &TreePath {
        match self {
            FileEdit::Write { path, .. } | FileEdit::Reuse { path, .. } | FileEdit::Remove { path } => path,
        }
    }
}

/// The content that git records for an edit; none when it is that of the tree.
pub(super) type CleanContent<'e> = Option<Cow<'e, [u8]>>;

/// A commit whose objects exist, but no reference contains it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedCommit {
    /// The commit; the parent if nothing differs.
    pub commit: CommitId,
    /// False when the tree equals the parent's and no commit was made.
    pub is_new: bool,
}

/// Builds a commit of edits on a parent, with the contents that git records for them.
pub(super) fn build_commit(
    objects: &mut object::ObjectBuilder,
    repository: &Repository,
    parent: Option<Oid>,
    (edits, contents): (&[FileEdit<'_>], &[CleanContent<'_>]),
    author: &CommitAuthor<'_>,
) -> HistoryResult<StagedCommit> {
    let mut changes = tree::TreeChanges::default();
    for (edit, clean) in edits.iter().zip(contents) {
        let blob = match edit {
            FileEdit::Write { kind, content, .. } => {
                Some((*kind, objects.blob(repository, clean.as_deref().unwrap_or(content))?))
            }
            FileEdit::Reuse { kind, blob, .. } => Some((*kind, Oid::from_bytes(blob.as_bytes())?)),
            FileEdit::Remove { .. } => None,
        };
        changes.set(edit.path(), blob);
    }
    let parent_tree = match parent {
        Some(parent) => Some(objects.tree_of(repository, parent)?),
        None => None,
    };
    let tree = match tree::apply_changes(objects, repository, parent_tree, &changes)? {
        Some(tree) => tree,
        None => objects.tree(repository, Vec::new())?,
    };
    if let Some(parent) = parent.filter(|_| Some(tree) == parent_tree) {
        return Ok(StagedCommit { commit: commit_id(parent), is_new: false });
    }
    let commit = objects.commit(repository, tree, commit_text(tree, parent, author).as_bytes())?;
    Ok(StagedCommit { commit: commit_id(commit), is_new: true })
}

fn commit_text(tree: Oid, parent: Option<Oid>, author: &CommitAuthor<'_>) -> String {
    use std::fmt::Write;
    let mut text = format!("tree {tree}\n");
    // Writing to a string cannot fail.
    if let Some(parent) = parent {
        let _ = writeln!(text, "parent {parent}");
    }
    let seconds = author.time.as_second().max(0);
    // The committer's address says which commits svcfs made.
    for (role, email) in [("author", author.email.unwrap_or(EMAIL)), ("committer", EMAIL)] {
        let _ = writeln!(text, "{role} {} <{email}> {seconds} +0000", author.actor);
    }
    let _ = write!(text, "\n{}", author.message.replace('\0', ""));
    text
}
