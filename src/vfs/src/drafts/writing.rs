//! Writing in a draft.
//!
//! Invariant: a write passes the gates of any write and is answered after one flush. It changes
//! neither the tree nor the index, and is no event.

use std::collections::BTreeMap;

use bytes::Bytes;
use svcfs_base::{
    Caller, Change, ChangeSet, DraftDirectory, DraftPage, ETag, Fault, FileKind, Kind, MAX_FILE_BYTES, Precondition,
    Protocol, Timestamp, TreePath, WriteResult,
};
use svcfs_store::DraftWrite;

use super::proposals::check_is_proposable;
use super::view::below;
use super::{DraftView, OpenDraft, not_found};
use crate::apply::default_message;
use crate::core::EffectiveState;
use crate::gate::ProposedFile;
use crate::precondition::{CurrentState, check_precondition};
use crate::preview::{PreviewedState, previewed_files, renames};
use crate::{ChangePreview, Vfs};

/// Most pages that a draft changes, and most bytes of their contents: a person reviews it.
const MAX_PAGES: usize = 10_000;
const MAX_BYTES: u64 = 1 << 30;

/// What is at a path of a draft.
enum DraftState {
    Absent,
    Directory,
    File(ETag, Bytes),
}

/// A page as it will be after the set; none if the draft will not change it.
struct PlannedPage {
    write: DraftWrite,
    page: Option<DraftPage>,
    content: Option<Bytes>,
}

struct DraftPlan<'a> {
    view: &'a DraftView<'a>,
    caller: &'a Caller,
    now: Timestamp,
    planned: BTreeMap<TreePath, PlannedPage>,
    directories: BTreeMap<TreePath, Option<DraftDirectory>>,
    files: Vec<WriteResult>,
}

impl DraftView<'_> {
    /// Applies a set of changes in the draft: all of them or none. A rename is a removal and a new
    /// page. A directory without files is not merged.
    ///
    /// # Errors
    /// Those of [`Vfs::apply`]; `Invalid` for a symbolic link; `TooLarge` beyond the limits of a
    /// draft; `Conflict` when the caller names a fence that is not the one of its active claim.
    pub fn apply(&self, caller: &Caller, set: impl Into<ChangeSet>) -> Result<Vec<WriteResult>, Fault> {
        let set = self.admit(caller, set.into())?;
        let is_open = self.draft.is_open.lock();
        if !*is_open {
            return Err(not_found());
        }
        let core = &self.vfs.core;
        let message = set.message.unwrap_or_else(|| default_message(caller, &set.changes, core));
        let mut plan = DraftPlan::new(self, caller);
        set.changes.into_iter().try_for_each(|change| plan.add(change))?;
        let DraftPlan { planned, directories, files, .. } = plan;
        if planned.is_empty() && directories.is_empty() {
            return Ok(files);
        }
        let (mut writes, mut pages) = (Vec::new(), Vec::new());
        for (path, planned) in planned {
            writes.push(planned.write);
            pages.push((path, planned.page));
        }
        self.check_size(&pages)?;
        writes.extend(directories.iter().map(|(path, directory)| DraftWrite::Directory(path.clone(), *directory)));
        core.drafts.file.write(self.draft.draft.id, &writes)?;
        let changed: Vec<TreePath> = pages.iter().map(|(path, _)| path.clone()).collect();
        set_all(&mut self.draft.directories.write(), directories);
        self.draft.set_pages(pages);
        if !changed.is_empty() {
            self.vfs.queue_branch_update(&self.draft, Some(changed), message);
        }
        Ok(files)
    }

    /// What [`apply`](Self::apply) would do.
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply), apart from those of the disk.
    pub fn preview(&self, caller: &Caller, set: impl Into<ChangeSet>) -> Result<ChangePreview, Fault> {
        let set = self.admit(caller, set.into())?;
        let is_open = self.draft.is_open.lock();
        if !*is_open {
            return Err(not_found());
        }
        let renames = renames(&set.changes);
        let mut plan = DraftPlan::new(self, caller);
        set.changes.into_iter().try_for_each(|change| plan.add(change))?;
        let pages: Vec<_> = plan.planned.iter().map(|(path, planned)| (path.clone(), planned.page.clone())).collect();
        self.check_size(&pages)?;
        let changes = plan.planned.into_iter().map(|(path, planned)| match planned.content {
            Some(content) => (path, PreviewedState::Content(content)),
            None => (path, PreviewedState::Removed),
        });
        let present = DraftPlan::new(self, caller);
        let content_at = |path: &TreePath| match present.state(path)? {
            DraftState::File(_, content) => Ok(Some(content)),
            DraftState::Absent | DraftState::Directory => Ok(None),
        };
        let files = previewed_files(changes.collect(), &renames, content_at)?;
        Ok(ChangePreview { files, results: plan.files, notes: Vec::new() })
    }

    /// Whether the caller may make these changes, whatever the draft contains.
    fn admit(&self, caller: &Caller, mut set: ChangeSet) -> Result<ChangeSet, Fault> {
        self.resolve_put_links(caller, &mut set)?;
        check_is_proposable(caller, &set.changes)?;
        self.vfs.admit(caller, &set)?;
        if caller.claim_fence.is_some() {
            self.vfs.core.check_named_fence(caller, &set.changes)?;
        }
        Ok(set)
    }

    /// Refuses a set with which the draft would exceed its limits; a set that makes it smaller is
    /// accepted.
    fn check_size(&self, changed: &[(TreePath, Option<DraftPage>)]) -> Result<(), Fault> {
        let pages = self.draft.pages.read();
        let (mut count, mut bytes) = (pages.len(), pages.values().map(|page| page.size).sum::<u64>());
        let before = (count, bytes);
        for (path, page) in changed {
            count = count + usize::from(page.is_some()) - usize::from(pages.contains_key(path));
            bytes = bytes + page.as_ref().map_or(0, |page| page.size) - pages.get(path).map_or(0, |page| page.size);
        }
        let exceeds = |what: String| {
            let message = format!("the draft would have more than {what}; merge or discard a part of it first");
            Err(Fault::new(Kind::TooLarge, message))
        };
        if count > MAX_PAGES && count > before.0 {
            return exceeds(format!("{MAX_PAGES} changed pages"));
        }
        if bytes > MAX_BYTES && bytes > before.1 {
            return exceeds(format!("{} MiB", MAX_BYTES >> 20));
        }
        Ok(())
    }

    fn resolve_put_links(&self, caller: &Caller, set: &mut ChangeSet) -> Result<(), Fault> {
        for change in &mut set.changes {
            if let Change::Put { path, kind: None, .. } = change
                && !caller.protocol.is_filesystem()
                && self.page(path).is_none()
            {
                *path = self.vfs.resolve_final_link(caller.protocol, path)?;
            }
        }
        Ok(())
    }
}

impl OpenDraft {
    pub(super) fn set_pages(&self, changed: Vec<(TreePath, Option<DraftPage>)>) {
        set_all(&mut self.pages.write(), changed);
    }
}

fn set_all<T>(map: &mut BTreeMap<TreePath, T>, changed: impl IntoIterator<Item = (TreePath, Option<T>)>) {
    for (path, value) in changed {
        match value {
            Some(value) => drop(map.insert(path, value)),
            None => drop(map.remove(&path)),
        }
    }
}

impl Vfs {
    /// The content of a page after the gates.
    fn run_draft_gates(
        &self,
        caller: &Caller,
        path: &TreePath,
        (content, old_content): (Bytes, Option<Bytes>),
    ) -> Result<Bytes, Fault> {
        if !self.core.is_gated(path) {
            return Ok(content);
        }
        let mut proposal = ProposedFile { path: path.clone(), content, old_content };
        self.gates.iter().try_for_each(|gate| gate.check(caller, &mut proposal))?;
        Ok(proposal.content)
    }
}

impl<'a> DraftPlan<'a> {
    fn new(view: &'a DraftView<'_>, caller: &'a Caller) -> Self {
        let now = view.vfs.core.clock.now();
        let (planned, directories, files) = Default::default();
        Self { view, caller, now, planned, directories, files }
    }

    fn add(&mut self, change: Change) -> Result<(), Fault> {
        match change {
            Change::Put { path, content, precondition, kind, attributes: _ } => {
                if kind == Some(FileKind::Symlink) {
                    return Err(no_links(&path));
                }
                self.put(path, content, &precondition)
            }
            Change::Remove { path, precondition } => self.remove(path, &precondition),
            Change::Move { from, to, precondition } => self.rename(&from, to, &precondition),
            Change::MakeDir { path } => match self.state(&path)? {
                DraftState::Absent => {
                    self.check_parents(&path)?;
                    self.set_directory(path, true)
                }
                DraftState::File(..) | DraftState::Directory => Err(Fault::exists(&path)),
            },
            Change::RemoveDir { path } => match self.state(&path)? {
                DraftState::Absent => Err(Fault::file_not_found(&path)),
                DraftState::File(..) => Err(Fault::not_directory(&path)),
                DraftState::Directory => {
                    self.check_empty(&path)?;
                    self.keep_parent(&path)?;
                    self.set_directory(path, false)
                }
            },
        }
    }

    fn put(&mut self, path: TreePath, content: Bytes, precondition: &Precondition) -> Result<(), Fault> {
        self.check_parents(&path)?;
        let old = match self.state(&path)? {
            DraftState::Absent => None,
            DraftState::Directory => return Err(Fault::is_directory(&path)),
            DraftState::File(etag, content) => Some((etag, content)),
        };
        let current = old.as_ref().map_or(CurrentState::Nothing, |(etag, _)| CurrentState::Content(*etag));
        check_precondition(&path, current, precondition)?;
        if content.len() > MAX_FILE_BYTES {
            return Err(Fault::too_large("file", MAX_FILE_BYTES));
        }
        let old_content = old.as_ref().map(|(_, content)| content.clone());
        let content = self.view.vfs.run_draft_gates(self.caller, &path, (content, old_content))?;
        let etag = ETag::from_content(&content);
        self.files.push(WriteResult { path: path.clone(), etag: Some(etag) });
        if old.is_some_and(|(old, _)| old == etag) {
            return Ok(());
        }
        self.set(path, Some((etag, content)))
    }

    fn remove(&mut self, path: TreePath, precondition: &Precondition) -> Result<(), Fault> {
        let current = match self.state(&path)? {
            DraftState::Absent => CurrentState::Nothing,
            DraftState::Directory => return Err(Fault::is_directory(&path)),
            DraftState::File(etag, _) => CurrentState::Content(etag),
        };
        check_precondition(&path, current, precondition)?;
        if matches!(current, CurrentState::Nothing) {
            return Err(Fault::file_not_found(&path));
        }
        self.check_removal(&path)?;
        self.keep_parent(&path)?;
        self.files.push(WriteResult { path: path.clone(), etag: None });
        self.set(path, None)
    }

    /// The gates of the merge: a page that the tree does not have can always be removed.
    fn check_removal(&self, path: &TreePath) -> Result<(), Fault> {
        let vfs = self.view.vfs;
        if !vfs.core.is_gated(path) {
            return Ok(());
        }
        match self.state_in_tree(path)? {
            DraftState::File(_, content) => {
                vfs.gates.iter().try_for_each(|gate| gate.check_removal(self.caller, path, &content))
            }
            DraftState::Absent | DraftState::Directory => Ok(()),
        }
    }

    fn rename(&mut self, from: &TreePath, to: TreePath, precondition: &Precondition) -> Result<(), Fault> {
        match self.state(from)? {
            DraftState::Absent => Err(Fault::file_not_found(from)),
            _ if *from == to => Ok(()),
            DraftState::File(_, content) => {
                self.remove(from.clone(), &Precondition::Any)?;
                self.put(to, content, precondition)
            }
            DraftState::Directory => {
                if to.is_under(from) {
                    return Err(Fault::invalid("to", format_args!("`{from}` cannot be moved below itself")));
                }
                match self.state(&to)? {
                    DraftState::File(..) => return Err(Fault::not_directory(&to)),
                    DraftState::Directory => self.check_empty(&to)?,
                    DraftState::Absent => self.check_parents(&to)?,
                }
                let directories = self.view.directories(self.caller.protocol, from)?;
                for directory in directories.iter().filter_map(|directory| directory.rebase(from, &to)) {
                    self.set_directory(directory, true)?;
                }
                for file in self.view.walk(self.caller.protocol, from)? {
                    let Some(target) = file.path.rebase(from, &to) else { continue };
                    self.rename(&file.path, target, &Precondition::Absent)?;
                }
                for directory in directories {
                    self.set_directory(directory, false)?;
                }
                self.keep_parent(from)
            }
        }
    }

    /// Plans the new content of a page; none removes it.
    fn set(&mut self, path: TreePath, content: Option<(ETag, Bytes)>) -> Result<(), Fault> {
        let (tree_etag, tree_content) = match self.state_in_tree(&path)? {
            DraftState::File(etag, content) => (Some(etag), Some(content)),
            DraftState::Absent | DraftState::Directory => (None, None),
        };
        // The base of a page that the draft changes already stays. If the tree has the page as the
        // draft has it, a merge was interrupted after its commit: the page starts again.
        let stored = self.view.page(&path).filter(|page| page.etag != tree_etag);
        let (base, base_content) = match &stored {
            Some(page) => (page.base, None),
            None => (tree_etag, tree_content),
        };
        let (etag, content) = content.unzip();
        let page = DraftPage {
            base,
            etag,
            size: content.as_ref().map_or(0, Bytes::len) as u64,
            author: self.caller.actor(),
            changed_at: self.now,
        };
        let (write, page) = if etag == base {
            (DraftWrite::Drop(path.clone()), None)
        } else if stored.is_some() {
            (DraftWrite::Update { path: path.clone(), page: page.clone(), content: content.clone() }, Some(page))
        } else {
            let (path, page, content) = (path.clone(), page.clone(), content.clone());
            (DraftWrite::Start { path, page: page.clone(), base: base_content, content }, Some(page))
        };
        self.planned.insert(path, PlannedPage { write, page, content });
        Ok(())
    }

    /// Plans that a directory exists, also without files, or that it does not.
    fn set_directory(&mut self, path: TreePath, exists: bool) -> Result<(), Fault> {
        let is_in_tree = matches!(self.state_in_tree(&path)?, DraftState::Directory);
        let directory = match exists {
            _ if exists == is_in_tree => None,
            true => Some(DraftDirectory::Made),
            false => Some(DraftDirectory::Removed),
        };
        if self.view.directory(&path) == directory {
            self.directories.remove(&path);
        } else {
            self.directories.insert(path, directory);
        }
        Ok(())
    }

    /// Keeps the directory of a removed entry, as a file protocol expects.
    fn keep_parent(&mut self, path: &TreePath) -> Result<(), Fault> {
        match path.parent().filter(|parent| !parent.is_root()) {
            Some(parent) if self.caller.protocol.is_filesystem() => self.set_directory(parent, true),
            Some(_) | None => Ok(()),
        }
    }

    fn check_empty(&self, path: &TreePath) -> Result<(), Fault> {
        let listed = match self.view.list(self.caller.protocol, path) {
            // Made by this set.
            Err(fault) if fault.kind() == Kind::NotFound => Vec::new(),
            listed => listed?,
        };
        let mut is_empty = !self.has_planned_below(path);
        for entry in listed.iter().map(|entry| &entry.path) {
            let is_planned = self.planned.contains_key(entry) || self.directories.contains_key(entry);
            is_empty &= is_planned && matches!(self.state(entry)?, DraftState::Absent);
        }
        if is_empty { Ok(()) } else { Err(Fault::new(Kind::NotEmpty, format!("directory `{path}` is not empty"))) }
    }

    /// Whether this set makes a file or a directory below a path.
    fn has_planned_below(&self, path: &TreePath) -> bool {
        below(&self.planned, path).any(|(_, planned)| planned.content.is_some())
            || below(&self.directories, path).any(|(_, directory)| *directory == Some(DraftDirectory::Made))
    }

    /// Whether the draft has a file or a directory below a path that this set does not change.
    fn has_unplanned_below(&self, path: &TreePath) -> bool {
        let (pages, directories) = (self.view.draft.pages.read(), self.view.draft.directories.read());
        below(&pages, path).any(|(path, page)| page.etag.is_some() && !self.planned.contains_key(path))
            || below(&directories, path)
                .any(|(path, directory)| *directory == DraftDirectory::Made && !self.directories.contains_key(path))
    }

    /// What the draft shows at a path; links are not followed.
    fn state(&self, path: &TreePath) -> Result<DraftState, Fault> {
        if let Some(planned) = self.planned.get(path) {
            return Ok(match &planned.content {
                Some(content) => DraftState::File(ETag::from_content(content), content.clone()),
                None => self.absent_or_directory(path),
            });
        }
        match self.view.page(path) {
            Some(DraftPage { etag: Some(etag), .. }) => {
                let content = self.view.contents(path)?.content.ok_or_else(|| Fault::file_not_found(path))?;
                Ok(DraftState::File(etag, content))
            }
            Some(_) => Ok(self.absent_or_directory(path)),
            None if self.view.is_below_page(path) => Ok(DraftState::Absent),
            None => match self.state_in_tree(path)? {
                DraftState::Absent => Ok(self.absent_or_directory(path)),
                DraftState::Directory if self.is_removed(path)? => Ok(self.absent_or_directory(path)),
                state => Ok(state),
            },
        }
    }

    /// Whether a directory of the tree is removed in the draft.
    fn is_removed(&self, path: &TreePath) -> Result<bool, Fault> {
        match self.directories.get(path) {
            Some(planned) => Ok(*planned == Some(DraftDirectory::Removed)),
            None if self.view.directory(path) != Some(DraftDirectory::Removed) => Ok(false),
            None => Ok(self.view.stat(Protocol::Internal, path).is_err()),
        }
    }

    fn absent_or_directory(&self, path: &TreePath) -> DraftState {
        let is_made = |directory: Option<DraftDirectory>| directory == Some(DraftDirectory::Made);
        let is_directory = is_made(self.directories.get(path).copied().unwrap_or_else(|| self.view.directory(path)))
            || self.has_unplanned_below(path)
            || self.has_planned_below(path);
        if is_directory { DraftState::Directory } else { DraftState::Absent }
    }

    fn state_in_tree(&self, path: &TreePath) -> Result<DraftState, Fault> {
        match self.view.vfs.core.effective_state(path)? {
            EffectiveState::Absent => Ok(DraftState::Absent),
            EffectiveState::Directory => Ok(DraftState::Directory),
            EffectiveState::Leaf(leaf, _) if leaf.kind == FileKind::Symlink => Err(no_links(path)),
            EffectiveState::Leaf(leaf, _) => Ok(DraftState::File(leaf.etag, leaf.content)),
            EffectiveState::Large(_) => Err(Fault::too_large("file", MAX_FILE_BYTES)),
        }
    }

    /// Refuses a path below a file.
    fn check_parents(&self, path: &TreePath) -> Result<(), Fault> {
        for above in path.ancestors().filter(|above| !above.is_root()) {
            match self.state(&above)? {
                DraftState::Directory => return Ok(()),
                DraftState::File(..) => return Err(Fault::not_directory(&above)),
                DraftState::Absent => {}
            }
        }
        Ok(())
    }
}

fn no_links(path: &TreePath) -> Fault {
    Fault::invalid("path", format_args!("`{path}`: a draft cannot change symbolic links"))
}
