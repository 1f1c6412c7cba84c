//! Branches of drafts: for people with git, derived from the contents in `drafts.db`.
//!
//! Their objects are loose and not flushed: a lost branch is made again. No method touches HEAD,
//! the index or the work tree.

use std::collections::BTreeSet;

use git2::build::TreeUpdateBuilder;
use git2::{ErrorCode, FileMode, ObjectType, Oid, Repository, Signature, Time, Tree};
use svcfs_base::{CommitId, DraftId, ETag, TreePath};
use tracing::warn;

use super::{EMAIL, History, HistoryResult, etag, oid, owner};
use crate::{CommitAuthor, StoreError};

const BRANCHES: &str = "refs/heads/draft/";
/// Branches of drafts that are not in `drafts.db` any more.
const LOST_BRANCHES: &str = "refs/heads/lost-draft/";

/// The state of a page in the branch of a draft.
#[derive(Debug, Clone, Copy)]
pub enum BranchPage<'a> {
    /// This content.
    Content(&'a [u8]),
    /// As in the commit that the draft started from.
    Unchanged,
    /// No page.
    Removed,
}

impl History {
    /// The ids of drafts that have a branch with a newest commit by svcfs.
    pub fn draft_branches(&self) -> HistoryResult<Vec<DraftId>> {
        self.reader(|repository| {
            let mut ids = Vec::new();
            for reference in repository.references_glob(&format!("{BRANCHES}*"))? {
                let reference = reference?;
                let id = reference.name().ok().and_then(|name| DraftId::parse(name.strip_prefix(BRANCHES)?));
                let is_own = |tip: Oid| {
                    repository.find_commit(tip).is_ok_and(|tip| tip.committer().email_bytes() == EMAIL.as_bytes())
                };
                ids.extend(id.filter(|_| reference.target().is_some_and(is_own)));
            }
            Ok(ids)
        })
    }

    /// Whether the branch of a draft exists and has these contents; none is a removed page.
    pub fn has_draft_branch(&self, id: DraftId, pages: &[(&TreePath, Option<ETag>)]) -> HistoryResult<bool> {
        self.reader(|repository| {
            let Some(tip) = tip_of(repository, id)? else { return Ok(false) };
            let tree = repository.find_commit(tip)?.tree()?;
            for (path, content) in pages {
                let entry = entry_of(&tree, path)?.map(|(id, _)| etag(id));
                if entry != *content {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Makes a commit with these pages on the branch of a draft. Without the branch, it is created
    /// at `base`; then `pages` must be all pages that the draft changes. Nothing is done while the
    /// branch is checked out.
    ///
    /// # Errors
    /// `Git` when a commit or tree cannot be read or written.
    pub fn update_draft_branch(
        &self,
        id: DraftId,
        base: Option<CommitId>,
        pages: &[(&TreePath, BranchPage<'_>)],
        author: &CommitAuthor<'_>,
    ) -> HistoryResult<()> {
        self.reader(|repository| update(repository, (id, base), pages, author))
    }

    /// Whether the branch of a draft exists.
    pub fn draft_branch_exists(&self, id: DraftId) -> HistoryResult<bool> {
        self.reader(|repository| Ok(tip_of(repository, id)?.is_some()))
    }

    /// Renames the branch of a draft that is not in `drafts.db` any more to `lost-draft/<id>`,
    /// unless it is checked out.
    pub fn set_draft_branch_aside(&self, id: DraftId) -> HistoryResult<()> {
        self.reader(|repository| {
            let (name, aside) = (reference_name(id), format!("{LOST_BRANCHES}{id}"));
            if is_checked_out(repository, &name) {
                return Ok(());
            }
            let mut reference = repository.find_reference(&name)?;
            reference.rename(&aside, true, "the draft is not in drafts.db")?;
            Ok(owner::give_branch(repository, &aside)?)
        })
    }

    /// Removes the branch of a draft, unless it is checked out; false then.
    pub fn remove_draft_branch(&self, id: DraftId) -> HistoryResult<bool> {
        self.reader(|repository| {
            let name = reference_name(id);
            if is_checked_out(repository, &name) {
                return Ok(false);
            }
            match repository.find_reference(&name) {
                Ok(mut reference) => reference.delete().map(|()| true).map_err(Into::into),
                Err(error) if error.code() == ErrorCode::NotFound => Ok(true),
                Err(error) => Err(error.into()),
            }
        })
    }
}

fn reference_name(id: DraftId) -> String {
    format!("refs/heads/{}", id.branch())
}

fn is_checked_out(repository: &Repository, name: &str) -> bool {
    let head = repository.find_reference("HEAD");
    head.is_ok_and(|head| head.symbolic_target().is_ok_and(|target| target == Some(name)))
}

fn tip_of(repository: &Repository, id: DraftId) -> HistoryResult<Option<Oid>> {
    match repository.refname_to_id(&reference_name(id)) {
        Ok(tip) => Ok(Some(tip)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn entry_of(tree: &Tree<'_>, path: &TreePath) -> HistoryResult<Option<(Oid, i32)>> {
    match tree.get_path(path.as_str().as_ref()) {
        Ok(entry) if entry.kind() == Some(ObjectType::Tree) => Ok(None),
        Ok(entry) => Ok(Some((entry.id(), entry.filemode()))),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn update(
    repository: &Repository,
    (id, base): (DraftId, Option<CommitId>),
    pages: &[(&TreePath, BranchPage<'_>)],
    author: &CommitAuthor<'_>,
) -> HistoryResult<()> {
    let name = reference_name(id);
    if is_checked_out(repository, &name) {
        warn!(draft.id = %id, "the branch of a draft is checked out; it is not updated");
        return Ok(());
    }
    let base = base.map(oid).transpose()?.filter(|base| repository.find_commit(*base).is_ok());
    // The base may be gone after a rewrite of history.
    let base = base.or_else(|| repository.refname_to_id("HEAD").ok());
    let tip = tip_of(repository, id)?;
    let parent = tip.or(base).map(|parent| repository.find_commit(parent)).transpose()?;
    let Some(parent) = parent else { return Err(StoreError::Repository("there is no commit yet".to_owned())) };
    let old_tree = parent.tree()?;
    let base_tree = base.map(|base| repository.find_commit(base)?.tree()).transpose()?;
    let mut builder = TreeUpdateBuilder::new();
    for (path, page) in pages {
        let old = entry_of(&old_tree, path)?;
        let unchanged = || base_tree.as_ref().map_or(Ok(None), |tree| entry_of(tree, path));
        let new = match page {
            BranchPage::Content(content) => {
                let mode = old.map(|(_, mode)| mode).filter(|mode| *mode == i32::from(FileMode::BlobExecutable));
                Some((repository.blob(content)?, mode.unwrap_or_else(|| FileMode::Blob.into())))
            }
            BranchPage::Unchanged => unchanged()?,
            BranchPage::Removed => None,
        };
        match new {
            Some((blob, mode)) => {
                let mode =
                    if mode == i32::from(FileMode::BlobExecutable) { FileMode::BlobExecutable } else { FileMode::Blob };
                builder.upsert(path.as_str(), blob, mode);
            }
            None if old.is_some() => {
                builder.remove(path.as_str());
            }
            None => {}
        }
    }
    let tree = builder.create_updated(repository, &old_tree)?;
    if tree == old_tree.id() && tip.is_some() {
        return Ok(());
    }
    let commit = if tree == old_tree.id() {
        parent.id()
    } else {
        let time = Time::new(author.time.as_second().max(0), 0);
        let signature = Signature::new(author.actor.as_str(), EMAIL, &time)?;
        let tree = repository.find_tree(tree)?;
        repository.commit(None, &signature, &signature, author.message, &tree, &[&parent])?
    };
    repository.reference(&name, commit, true, "svcfs: draft")?;
    if let Err(error) = give_to_owner(repository, &name, commit, pages) {
        warn!(%error, "the owner of the branch of a draft could not be set to the owner of the repository");
    }
    Ok(())
}

/// As root, gives a branch and the objects of its newest commit to the owner of the repository,
/// whose git writes into the same directories.
fn give_to_owner(
    repository: &Repository,
    name: &str,
    commit: Oid,
    pages: &[(&TreePath, BranchPage<'_>)],
) -> HistoryResult<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let tree = repository.find_commit(commit)?.tree()?;
    let mut objects = BTreeSet::from([commit, tree.id()]);
    for (path, _) in pages {
        for path in std::iter::once((*path).clone()).chain(path.ancestors()).filter(|path| !path.is_root()) {
            objects.extend(tree.get_path(path.as_str().as_ref()).map(|entry| entry.id()));
        }
    }
    for object in objects.into_iter().map(|object| object.to_string()) {
        owner::give_below(repository.commondir(), &format!("objects/{}/{}", &object[..2], &object[2..]))?;
    }
    Ok(owner::give_branch(repository, name)?)
}
