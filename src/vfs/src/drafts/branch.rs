//! The git branches of drafts.
//!
//! Invariant: they are derived, so an error here is logged and never fails a write: the branch is
//! made again with the next write or the next start. They are made one after another on a thread of
//! the helper pool, so that no writer waits for git.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{DraftId, DraftPage, Fault, TreePath};
use svcfs_store::{BranchPage, CommitAuthor, History, StoreError};
use tracing::warn;

use super::OpenDraft;
use crate::Vfs;
use crate::core::VfsCore;

impl Vfs {
    /// Queues a commit of pages of a draft on its branch, as [`VfsCore::update_draft_branch`].
    pub(super) fn queue_branch_update(&self, open: &Arc<OpenDraft>, changed: Option<Vec<TreePath>>, message: String) {
        let (core, open) = (Arc::clone(&self.core), Arc::clone(open));
        self.draft_branches.submit(move || {
            // It may be closed meanwhile.
            if core.drafts.drafts.read().contains_key(&open.draft.id) {
                core.update_draft_branch(&open, changed.as_deref(), &message);
            }
        });
    }

    /// Queues the removal of the branch of a closed draft.
    pub(super) fn queue_branch_removal(&self, id: DraftId) {
        let core = Arc::clone(&self.core);
        self.draft_branches.submit(move || core.remove_closed_branch(id));
    }

    /// Waits until the git branches of drafts have everything written so far.
    pub fn wait_draft_branches(&self) {
        self.draft_branches.wait_idle();
    }
}

impl VfsCore {
    /// Makes a commit of pages of a draft on its branch; of all pages if `changed` is none or there
    /// is no branch. Pages that are changed meanwhile are in it as they are then; their own update
    /// follows.
    fn update_draft_branch(&self, open: &OpenDraft, changed: Option<&[TreePath]>, message: &str) {
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
        let changed = if history.draft_branch_exists(id)? { changed } else { None };
        let pages: Vec<(TreePath, Option<DraftPage>)> = {
            let pages = open.pages.read();
            match changed {
                Some(changed) => changed.iter().map(|path| (path.clone(), pages.get(path).cloned())).collect(),
                None => pages.iter().map(|(path, page)| (path.clone(), Some(page.clone()))).collect(),
            }
        };
        let pages: Vec<_> = pages.into_iter().filter(|(path, _)| self.is_versioned(path)).collect();
        let mut contents: BTreeMap<&TreePath, Option<Bytes>> = BTreeMap::new();
        for (path, _) in pages.iter().filter(|(_, page)| page.is_some()) {
            contents.insert(path, self.drafts.file.contents(id, path)?.content);
        }
        let state = |path: &TreePath| match contents.get(path) {
            Some(Some(content)) => BranchPage::Content(content),
            Some(None) => BranchPage::Removed,
            None => BranchPage::Unchanged,
        };
        let states: Vec<_> = pages.iter().map(|(path, _)| (path, state(path))).collect();
        let newest = pages.iter().filter_map(|(_, page)| page.as_ref()).max_by_key(|page| page.changed_at);
        let (actor, time) =
            newest.map_or((&open.draft.actor, open.draft.created_at), |page| (&page.author, page.changed_at));
        let message = if message.is_empty() { format!("{actor}: draft {id}") } else { message.to_owned() };
        let author = CommitAuthor { actor, email: None, time, message: &message };
        Ok(history.update_draft_branch(id, open.draft.base_commit, &states, &author)?)
    }

    fn remove_draft_branch(&self, id: DraftId) {
        let removed = self.versions.git().map_or(Ok(true), |history| history.remove_draft_branch(id));
        if let Err(error) = removed {
            warn!(draft.id = %id, %error, "the git branch of a draft could not be removed");
        }
    }

    /// Removes the branch of a draft that is closed in the file of drafts; retried at the next
    /// start if it is checked out.
    fn remove_closed_branch(&self, id: DraftId) {
        let removed = self.versions.git().map_or(Ok(true), |history| history.remove_draft_branch(id));
        let forgotten = removed.and_then(|is_gone| if is_gone { self.drafts.file.forget_closed(id) } else { Ok(()) });
        if let Err(error) = forgotten {
            warn!(draft.id = %id, %error, "the git branch of a closed draft could not be removed");
        }
    }

    /// Makes missing and outdated branches again, and removes those of closed drafts; another
    /// branch of such a name belongs to a person. Without the file of drafts, after a restore from
    /// git for example, a branch may be the only copy: it stays under another name.
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
