//! The git branches of drafts.
//!
//! Invariant: they are derived, so an error here is logged and never fails a write: the branch is
//! made again with the next write or the next start.

use std::collections::BTreeMap;

use bytes::Bytes;
use svcfs_base::{DraftId, Fault, TreePath};
use svcfs_store::{BranchPage, CommitAuthor, History, StoreError};
use tracing::warn;

use super::OpenDraft;
use crate::core::VfsCore;

impl VfsCore {
    /// Makes a commit of pages of a draft on its branch; of all pages if `changed` is none or there
    /// is no branch. The writer lock of the draft must be held, or the draft must be new.
    pub(super) fn update_draft_branch(&self, open: &OpenDraft, changed: Option<&[TreePath]>, message: &str) {
        let Some(history) = self.versions.git() else { return };
        let id = open.draft.id;
        if let Err(fault) = self.try_update_branch(history, open, changed, message) {
            warn!(draft.id = %id, error = ?fault, "the git branch of a draft could not be updated; the draft itself is complete");
        }
    }

    fn try_update_branch(
        &self,
        history: &History,
        open: &OpenDraft,
        changed: Option<&[TreePath]>,
        message: &str,
    ) -> Result<(), Fault> {
        let id = open.draft.id;
        let pages = open.pages.read();
        let all: Vec<TreePath>;
        let paths = match changed {
            Some(changed) if history.draft_branch_exists(id)? => changed,
            Some(_) | None => {
                all = pages.keys().cloned().collect();
                &all
            }
        };
        let paths: Vec<&TreePath> = paths.iter().filter(|path| self.is_versioned(path)).collect();
        let mut contents: BTreeMap<&TreePath, Option<Bytes>> = BTreeMap::new();
        for path in paths.iter().filter(|path| pages.contains_key(*path)) {
            contents.insert(path, self.drafts.file.contents(id, path)?.content);
        }
        let page = |path: &&TreePath| match contents.get(*path) {
            Some(Some(content)) => BranchPage::Content(content),
            Some(None) => BranchPage::Removed,
            None => BranchPage::Unchanged,
        };
        let states: Vec<_> = paths.iter().map(|path| (*path, page(path))).collect();
        let newest = paths.iter().filter_map(|path| pages.get(*path)).max_by_key(|page| page.changed_at);
        let (actor, time) =
            newest.map_or((&open.draft.actor, open.draft.created_at), |page| (&page.author, page.changed_at));
        let message = if message.is_empty() { format!("{actor}: draft {id}") } else { message.to_owned() };
        let author = CommitAuthor { actor, email: None, time, message: &message };
        Ok(history.update_draft_branch(id, open.draft.base_commit, &states, &author)?)
    }

    pub(super) fn remove_draft_branch(&self, id: DraftId) {
        let removed = self.versions.git().map_or(Ok(true), |history| history.remove_draft_branch(id));
        if let Err(error) = removed {
            warn!(draft.id = %id, %error, "the git branch of a draft could not be removed");
        }
    }

    /// Removes the branch of a draft that is closed in the file of drafts; retried at the next start
    /// if it is checked out.
    pub(super) fn remove_closed_branch(&self, id: DraftId) {
        let removed = self.versions.git().map_or(Ok(true), |history| history.remove_draft_branch(id));
        let forgotten = removed.and_then(|is_gone| if is_gone { self.drafts.file.forget_closed(id) } else { Ok(()) });
        if let Err(error) = forgotten {
            warn!(draft.id = %id, %error, "the git branch of a closed draft could not be removed");
        }
    }

    /// Makes missing and outdated branches again, and removes those of closed drafts; another branch
    /// of such a name belongs to a person. Without the file of drafts, after a restore from git for
    /// example, a branch may be the only copy: it stays under another name.
    pub(crate) fn sync_draft_branches(&self) {
        let Some(history) = self.versions.git() else { return };
        let drafts: Vec<_> = self.drafts.drafts.read().values().cloned().collect();
        if self.drafts.file.is_missing() {
            match history.draft_branches() {
                Ok(ids) => ids.into_iter().for_each(|id| self.set_draft_branch_aside(history, id)),
                Err(error) => warn!(%error, "the git branches of drafts cannot be listed"),
            }
        }
        match self.drafts.file.closed() {
            Ok(ids) => ids.into_iter().for_each(|id| self.remove_closed_branch(id)),
            Err(error) => warn!(%error, "the closed drafts cannot be listed"),
        }
        for open in drafts {
            match self.has_branch(history, &open) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    warn!(draft.id = %open.draft.id, %error, "the git branch of a draft is damaged and is made again");
                    if let Err(error) = history.remove_torn_objects() {
                        warn!(%error, "torn git objects could not be removed");
                    }
                    self.remove_draft_branch(open.draft.id);
                }
            }
            self.update_draft_branch(&open, None, "");
        }
    }

    fn set_draft_branch_aside(&self, history: &History, id: DraftId) {
        match history.set_draft_branch_aside(id) {
            Ok(()) => warn!(draft.id = %id, "a draft has a git branch and no record; see the branch `lost-draft/{id}`"),
            Err(error) => warn!(draft.id = %id, %error, "the git branch of a lost draft could not be renamed"),
        }
    }

    fn has_branch(&self, history: &History, open: &OpenDraft) -> Result<bool, StoreError> {
        let pages = open.pages.read();
        let versioned = pages.iter().filter(|(path, _)| self.is_versioned(path));
        let states: Vec<_> = versioned.map(|(path, page)| (path, page.etag)).collect();
        history.has_draft_branch(open.draft.id, &states)
    }
}
