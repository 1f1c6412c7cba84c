//! Callers with the scope `propose`: they change a draft and not the tree.
//!
//! Invariant: this is the only place that decides between tree and draft. Writes come through
//! [`Vfs::apply`], reads through [`CallerTree`]; any other write of such a caller is refused, by
//! [`Vfs::check_writes_tree`].

use std::sync::Arc;

use svcfs_base::{ApplyResult, Caller, Change, ChangeSet, DraftId, Fault, Kind, Protocol, Scope, TreePath};

use super::DraftView;
use crate::core::VfsCore;
use crate::{ChangePreview, DirectoryEntry, FileView, OpenedFile, PathAttributes, Vfs};

/// The tree as a caller sees it: with its open draft over it, if it may only propose changes.
pub enum CallerTree<'a> {
    /// The tree itself.
    Tree(&'a Arc<Vfs>),
    /// A draft over the tree.
    Draft(DraftView<'a>),
}

impl Vfs {
    /// The tree as this caller sees it.
    pub fn tree_of<'a>(self: &'a Arc<Self>, caller: &Caller) -> CallerTree<'a> {
        match self.proposal_of(caller) {
            Some(view) => CallerTree::Draft(view),
            None => CallerTree::Tree(self),
        }
    }

    /// The draft into which this caller writes; none if it writes into the tree, or has written
    /// nothing yet. Of several open drafts of its actor it is the newest.
    pub fn proposal_of(&self, caller: &Caller) -> Option<DraftView<'_>> {
        if !caller.permissions.is_proposing() {
            return None;
        }
        let actor = caller.actor();
        self.drafts().into_iter().rev().find(|view| view.draft().actor == actor)
    }

    /// Sets the maximum number of open drafts; none disables drafts. Only the first call counts.
    pub fn set_max_drafts(&self, max_active: Option<usize>) {
        let _only_the_first = self.core.drafts.max_active.set(max_active);
    }

    /// Whether drafts are enabled (`drafts.enabled`).
    pub fn are_drafts_enabled(&self) -> bool {
        self.core.drafts.max_active.get().is_none_or(Option::is_some)
    }

    /// Applies a set in the draft of a caller that may only propose changes; none for others.
    pub(crate) fn try_propose(&self, caller: &Caller, set: &ChangeSet) -> Option<Result<ApplyResult, Fault>> {
        caller.permissions.is_proposing().then(|| self.propose(caller, set))
    }

    /// Refuses a write that cannot go into a draft.
    ///
    /// # Errors
    /// `Forbidden`, naming the scopes.
    pub fn check_writes_tree(&self, caller: &Caller) -> Result<(), Fault> {
        if caller.permissions.is_proposing() {
            caller.permissions.check_scope(Scope::Write, "a change that a draft cannot contain")
        } else {
            Ok(())
        }
    }

    fn propose(&self, caller: &Caller, set: &ChangeSet) -> Result<ApplyResult, Fault> {
        check_is_proposable(caller, &set.changes)?;
        // The set is checked before a draft is opened for it.
        self.admit(caller, set)?;
        // If the draft refuses the set, a new draft stays open and empty: another write of the
        // actor may be using it already.
        let mut id = self.find_or_open_proposal(caller)?;
        let apply = |id| self.draft(id)?.apply(caller, set.clone());
        let mut applied = apply(id);
        // Merged or discarded meanwhile.
        if applied.is_err() && self.draft(id).is_err() {
            id = self.find_or_open_proposal(caller)?;
            applied = apply(id);
        }
        Ok(ApplyResult { seq: self.last_seq(), commit: None, files: applied?, notes: Vec::new(), draft: Some(id) })
    }

    fn find_or_open_proposal(&self, caller: &Caller) -> Result<DraftId, Fault> {
        let _opening = self.core.drafts.proposal_lock.lock();
        if let Some(view) = self.proposal_of(caller) {
            return Ok(view.draft().id);
        }
        Ok(self.open_draft(caller.actor(), self.max_proposals()?)?.id)
    }

    /// The maximum number of open drafts, of a caller that needs one.
    fn max_proposals(&self) -> Result<usize, Fault> {
        self.core.drafts.max_active.get().copied().unwrap_or(Some(usize::MAX)).ok_or_else(|| {
            let message = "this key may only propose changes, which needs drafts: `drafts.enabled` is false";
            Fault::new(Kind::Disabled, message)
        })
    }

    /// What a set would do in the draft of a caller that may only propose changes; without a draft,
    /// in a new one.
    pub(crate) fn preview_proposal(&self, caller: &Caller, set: ChangeSet) -> Result<ChangePreview, Fault> {
        check_is_proposable(caller, &set.changes)?;
        self.admit(caller, &set)?;
        match self.proposal_of(caller) {
            Some(view) => view.preview(caller, set),
            None => self.unopened_draft(caller.actor(), self.max_proposals()?)?.preview(caller, set),
        }
    }
}

/// Refuses changes of the server's own files by a caller that may only propose: they have an effect
/// at once when they are merged.
pub(super) fn check_is_proposable(caller: &Caller, changes: &[Change]) -> Result<(), Fault> {
    for path in VfsCore::touched_paths(changes) {
        if path.components().next() == Some(".svc") {
            caller.permissions.check_scope(Scope::Write, &format!("change of {path}"))?;
        }
    }
    Ok(())
}

impl CallerTree<'_> {
    /// As [`Vfs::read`].
    ///
    /// # Errors
    /// Those of [`Vfs::read`].
    pub fn read(&self, protocol: Protocol, path: &TreePath) -> Result<FileView, Fault> {
        match self {
            Self::Tree(vfs) => vfs.read(protocol, path),
            Self::Draft(view) => view.read(protocol, path),
        }
    }
    /// As [`Vfs::open_content`].
    ///
    /// # Errors
    /// Those of [`Vfs::open_content`].
    pub fn open_content(&self, protocol: Protocol, path: &TreePath) -> Result<OpenedFile, Fault> {
        match self {
            Self::Tree(vfs) => vfs.open_content(protocol, path),
            Self::Draft(view) => Ok(view.read(protocol, path)?.into()),
        }
    }
    /// As [`Vfs::stat`].
    ///
    /// # Errors
    /// Those of [`Vfs::stat`].
    pub fn stat(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        match self {
            Self::Tree(vfs) => vfs.stat(protocol, path),
            Self::Draft(view) => view.stat(protocol, path),
        }
    }
    /// Attributes of the entry at a path: a link at its end is not followed.
    ///
    /// # Errors
    /// Those of [`Vfs::stat`].
    pub fn stat_entry(&self, protocol: Protocol, path: &TreePath) -> Result<PathAttributes, Fault> {
        match self {
            Self::Tree(vfs) => vfs.stat(protocol, path),
            Self::Draft(view) => view.stat_entry(protocol, path),
        }
    }
    /// As [`Vfs::list`].
    ///
    /// # Errors
    /// Those of [`Vfs::list`].
    pub fn list(&self, protocol: Protocol, path: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        match self {
            Self::Tree(vfs) => vfs.list(protocol, path),
            Self::Draft(view) => view.list(protocol, path),
        }
    }
    /// As [`Vfs::walk`].
    ///
    /// # Errors
    /// Those of [`Vfs::walk`].
    pub fn walk(&self, protocol: Protocol, below: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        match self {
            Self::Tree(vfs) => vfs.walk(protocol, below),
            Self::Draft(view) => view.walk(protocol, below),
        }
    }
    /// As [`Vfs::read_link`].
    ///
    /// # Errors
    /// Those of [`Vfs::read_link`].
    pub fn read_link(&self, protocol: Protocol, path: &TreePath) -> Result<String, Fault> {
        match self {
            Self::Tree(vfs) => vfs.read_link(protocol, path),
            Self::Draft(view) if view.page(path).is_none() => view.vfs.read_link(protocol, path),
            Self::Draft(_) => Err(Fault::invalid("path", format_args!("`{path}` is not a symbolic link"))),
        }
    }
    /// As [`Vfs::resolve_links`].
    ///
    /// # Errors
    /// Those of [`Vfs::resolve_links`].
    pub fn resolve_links(&self, protocol: Protocol, path: &TreePath) -> Result<TreePath, Fault> {
        match self {
            Self::Tree(vfs) => vfs.resolve_links(protocol, path),
            Self::Draft(view) => view.resolve(protocol, path),
        }
    }
    /// Whether it is a draft and not the tree.
    pub const fn is_draft(&self) -> bool {
        matches!(self, Self::Draft(_))
    }
}
