//! Drafts: pages that are changed beside the tree, and merged into it after a review.
//!
//! Invariant: the truth is `drafts.db`. The branch `draft/<id>` is derived from it, for people with
//! git. A page that a draft changes is read from the draft, every other page from the tree as it is
//! now: [`DraftView`] is the tree as a draft shows it, for reading and writing.

mod branch;
mod merging;
mod proposals;
#[cfg(test)]
mod tests;
mod view;
mod writing;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use svcfs_base::{Actor, Draft, DraftDirectory, DraftId, DraftPage, Fault, Kind, Timestamp, TreePath};
use svcfs_store::{DraftFile, StatePaths, StoredDraft};

use crate::Vfs;

pub use merging::{AcceptedPage, DraftMerge};
pub use proposals::CallerTree;

const MAX_WAIT: Duration = Duration::from_secs(30);

/// The open drafts of a space.
pub(crate) struct DraftRegistry {
    file: DraftFile,
    drafts: RwLock<BTreeMap<DraftId, Arc<OpenDraft>>>,
    /// Locked while a draft is opened, so that the limit is exact.
    open_lock: Mutex<()>,
    /// Locked while the draft of a proposing caller is found or opened, so that it gets one.
    proposal_lock: Mutex<()>,
    /// Maximum number of drafts that writers open; none disables drafts.
    max_active: OnceLock<Option<usize>>,
}

/// An open draft and the pages that it changes.
pub(crate) struct OpenDraft {
    draft: Draft,
    pages: RwLock<BTreeMap<TreePath, DraftPage>>,
    directories: RwLock<BTreeMap<TreePath, DraftDirectory>>,
    /// Locked by writers and merges; false once the draft is merged or discarded.
    is_open: Mutex<bool>,
}

/// The tree as a draft shows it.
pub struct DraftView<'a> {
    vfs: &'a Vfs,
    draft: Arc<OpenDraft>,
}

impl DraftRegistry {
    pub(crate) fn open(paths: &StatePaths) -> Result<Self, Fault> {
        let (file, stored) = DraftFile::open(&paths.drafts())?;
        let open = |stored: StoredDraft| (stored.draft.id, Arc::new(OpenDraft::from(stored)));
        let drafts = RwLock::new(stored.into_iter().map(open).collect());
        let (open_lock, proposal_lock, max_active) = Default::default();
        Ok(Self { file, drafts, open_lock, proposal_lock, max_active })
    }

    fn check_count(&self, max_active: usize) -> Result<(), Fault> {
        if self.drafts.read().len() < max_active {
            return Ok(());
        }
        let message = format!(
            "maximum active drafts reached: there are {max_active}; merge or discard one, or raise `drafts.max_active`"
        );
        Err(Fault::new(Kind::Conflict, message))
    }
}

impl From<StoredDraft> for OpenDraft {
    fn from(StoredDraft { draft, pages, directories }: StoredDraft) -> Self {
        let (pages, directories) = (RwLock::new(pages), RwLock::new(directories));
        Self { draft, pages, directories, is_open: Mutex::new(true) }
    }
}

fn not_found() -> Fault {
    Fault::not_found("draft not found")
}

impl Vfs {
    /// Opens a draft of the current tree.
    ///
    /// # Errors
    /// `Disabled` when versions are not in git; `Conflict` when there are `max_active` drafts, or
    /// no commit yet; those of the disk.
    pub fn open_draft(&self, actor: Actor, max_active: usize) -> Result<Draft, Fault> {
        self.check_has_git()?;
        self.core.wait_committed(MAX_WAIT)?;
        let registry = &self.core.drafts;
        let _opening = registry.open_lock.lock();
        registry.check_count(max_active)?;
        let Some(base_commit) = self.core.versions.head()? else {
            return Err(Fault::new(Kind::Conflict, "the space has no version yet; write a page first"));
        };
        let id = loop {
            let random = uuid::Uuid::new_v4().as_fields().0;
            if !registry.drafts.read().contains_key(&DraftId(random)) {
                break DraftId(random);
            }
        };
        let base_seq = self.core.feed.last_seq();
        let draft = Draft { id, actor, created_at: self.core.clock.now(), base_commit: Some(base_commit), base_seq };
        registry.file.create(&draft)?;
        let (pages, directories) = (BTreeMap::new(), BTreeMap::new());
        let opened = Arc::new(OpenDraft::from(StoredDraft { draft: draft.clone(), pages, directories }));
        registry.drafts.write().insert(id, Arc::clone(&opened));
        self.queue_branch_update(&opened, None, String::new());
        Ok(draft)
    }

    /// A draft that is not open, to find out what a change would do in a new one.
    fn unopened_draft(&self, actor: Actor, max_active: usize) -> Result<DraftView<'_>, Fault> {
        self.check_has_git()?;
        self.core.drafts.check_count(max_active)?;
        let (id, created_at, base_seq) = (DraftId(0), self.core.clock.now(), self.core.feed.last_seq());
        let draft = Draft { id, actor, created_at, base_commit: None, base_seq };
        let (pages, directories) = (BTreeMap::new(), BTreeMap::new());
        Ok(DraftView { vfs: self, draft: Arc::new(OpenDraft::from(StoredDraft { draft, pages, directories })) })
    }

    fn check_has_git(&self) -> Result<(), Fault> {
        match self.core.versions.git() {
            Some(_) => Ok(()),
            None => Err(Fault::new(Kind::Disabled, "drafts need `versioning.strategy = \"git\"`")),
        }
    }

    /// The open drafts, oldest first.
    pub fn drafts(&self) -> Vec<DraftView<'_>> {
        let mut drafts: Vec<_> = self.core.drafts.drafts.read().values().cloned().collect();
        drafts.sort_by_key(|draft| (draft.draft.created_at, draft.draft.id));
        drafts.into_iter().map(|draft| DraftView { vfs: self, draft }).collect()
    }

    /// An open draft.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn draft(&self, id: DraftId) -> Result<DraftView<'_>, Fault> {
        let draft = self.core.drafts.drafts.read().get(&id).cloned();
        draft.map(|draft| DraftView { vfs: self, draft }).ok_or_else(not_found)
    }

    /// Removes a draft and its branch.
    ///
    /// # Errors
    /// `NotFound`; those of the disk.
    pub fn discard_draft(&self, id: DraftId) -> Result<(), Fault> {
        let view = self.draft(id)?;
        let mut is_open = view.draft.is_open.lock();
        if !*is_open {
            return Err(not_found());
        }
        self.close_draft(&view.draft, &mut is_open)
    }

    /// Removes an open draft whose lock is held.
    fn close_draft(&self, draft: &OpenDraft, is_open: &mut bool) -> Result<(), Fault> {
        let id = draft.draft.id;
        self.core.drafts.file.remove(id)?;
        *is_open = false;
        self.core.drafts.drafts.write().remove(&id);
        self.queue_branch_removal(id);
        Ok(())
    }

    /// Discards the drafts that were not changed after this time; returns them.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn discard_old_drafts(&self, before: Timestamp) -> Result<Vec<DraftId>, Fault> {
        let mut discarded = Vec::new();
        for view in self.drafts() {
            let mut is_open = view.draft.is_open.lock();
            // Checked under the lock: a writer may have changed it just now.
            if *is_open && view.changed_at() < before {
                self.close_draft(&view.draft, &mut is_open)?;
                discarded.push(view.draft.draft.id);
            }
        }
        Ok(discarded)
    }
}

impl DraftView<'_> {
    /// The draft.
    pub fn draft(&self) -> &Draft {
        &self.draft.draft
    }
    /// When a page was last changed in the draft; when it was opened, if none was.
    pub fn changed_at(&self) -> Timestamp {
        let pages = self.draft.pages.read();
        pages.values().map(|page| page.changed_at).max().unwrap_or(self.draft.draft.created_at)
    }
    /// The pages that the draft changes, in path order, without scratch files. Pages that git
    /// ignores since they were written are included: they must not be lost with the draft.
    pub fn pages(&self) -> Vec<(TreePath, DraftPage)> {
        let pages = self.draft.pages.read();
        let changed = pages.iter().filter(|(path, _)| self.vfs.core.path_classes.classify(path).is_versioned());
        changed.map(|(path, page)| (path.clone(), page.clone())).collect()
    }
    /// The content of a page in the draft and the version of the tree that it is based on.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn contents(&self, path: &TreePath) -> Result<svcfs_store::DraftContents, Fault> {
        Ok(self.vfs.core.drafts.file.contents(self.draft.draft.id, path)?)
    }
}
