//! Removes, moves and copies folders as a unit, each in one change set. What they replace is
//! handled by [`replace`](crate::replace).
//!
//! dav-server would process one file after the other: history would have a commit for each, and a
//! refusal in the middle would leave a part.

use svcfs_base::{
    Change, ChangeSet, DiskAttributes, Durability, ETag, Fault, FileKind, Kind, MAX_FILE_BYTES, Precondition, TreePath,
};
use svcfs_vfs::{EntryKind, PathAttributes};

use crate::context::WebdavRequestContext;
use crate::folder_contents::FolderContents;
use crate::locks::WebdavLocks;
use crate::observed_state::{self, ObservedState};
use crate::resolved::{ResolvedResource, check_not_protected};
use crate::upload::StagedResource;
use crate::{dead_properties, proposals, replace};

/// Bytes of one piece when a large file is copied.
const COPY_BYTES: usize = 1 << 20;

/// The state that each target file of a copy must have.
type OverwriteLookup<'a> = dyn Fn(&TreePath) -> Option<ObservedState> + 'a;

/// Removes a resource, with everything in it. Errors: `NotFound`; `NotEmpty` when a file is added
/// concurrently.
pub(crate) fn remove(context: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let (vfs, caller) = (&context.space().vfs, context.caller());
    let resource = ResolvedResource::at_no_follow(context, path)?;
    check_not_protected(context, path)?;
    if context.is_proposing() {
        return proposals::remove(context, &resource);
    }
    if !resource.is_folder() {
        return remove_file(context, &resource);
    }
    // This removes an empty folder, and refuses one that may not be removed before its content is
    // touched.
    match vfs.apply(caller, Change::RemoveDir { path: path.clone() }) {
        Ok(_) => return Ok(()),
        Err(fault) if fault.kind() == Kind::NotEmpty => {}
        Err(fault) => return Err(fault),
    }
    let contents = FolderContents::of(context, &resource)?;
    contents.check_removable(context)?;
    let changes: Vec<_> = contents.versioned().map(|(path, _)| Change::remove(path.clone())).collect();
    if !changes.is_empty() {
        let message = format!("delete: {path}");
        vfs.apply(caller, ChangeSet::new(changes).with_message(message))?;
    }
    contents.remove_unversioned(context)
}

/// Removes a file or a link.
pub(crate) fn remove_file(context: &WebdavRequestContext, resource: &ResolvedResource<'_>) -> Result<(), Fault> {
    let (vfs, caller) = (&context.space().vfs, context.caller());
    let observed = context.observed(&resource.path);
    let change =
        Change::remove(resource.path.clone()).with_precondition(observed_state::to_precondition(observed.as_ref()));
    match vfs.apply(caller, change) {
        // Created through a mount and not saved yet.
        Err(fault) if fault.kind() == Kind::NotFound => {}
        outcome => return outcome.map(drop),
    }
    let folder = ResolvedResource::parent_of(context, &resource.path)?;
    vfs.unlink(caller, folder.node(context)?, &resource.name()?)?;
    vfs.wait_applied().map(drop)
}

/// Renames a file or folder; a folder in one change set. Errors: `NotFound`, `Exists`; `Forbidden`
/// when one path contains the other.
pub(crate) fn rename(context: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    check_disjoint(from, to)?;
    let caller = context.caller();
    let source = ResolvedResource::at_no_follow(context, from)?;
    check_not_protected(context, from)?;
    // Concurrent writes to the source move along, so nothing is lost.
    observed_state::check(context, context.observed(from).as_ref(), from)?;
    context.space().check_path_access(&caller.permissions, caller.protocol, to)?;
    if context.is_proposing() {
        return proposals::rename(context, &source, to);
    }
    let mut expected = Some(ObservedState::Nothing);
    if context.claim_replacement(to) {
        expected = context.observed(to);
        let existing = ResolvedResource::at_no_follow(context, to)?;
        if source.is_folder() || existing.is_folder() {
            return replace::move_over(context, &source, &existing);
        }
    }
    rename_resource(context, &source, to, observed_state::to_precondition(expected.as_ref()))
}

/// Renames a resource, if the target is in the expected state.
pub(crate) fn rename_resource(
    context: &WebdavRequestContext,
    source: &ResolvedResource<'_>,
    to: &TreePath,
    to_precondition: Precondition,
) -> Result<(), Fault> {
    let (vfs, caller) = (&context.space().vfs, context.caller());
    let (old, new) = (ResolvedResource::parent_of(context, &source.path)?, ResolvedResource::parent_of(context, to)?);
    let name = svcfs_base::PathComponent::parse(to.name())?;
    let options = (to_precondition, Durability::Now);
    let (old_node, new_node) = (old.node(context)?, new.node(context)?);
    vfs.rename_node_expecting(caller, (old_node, &source.name()?), (new_node, &name), options)
}

/// Creates a folder. If it is the shallow copy of another one, it gets its properties. Errors:
/// `Exists`.
pub(crate) fn create_folder(context: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let vfs = &context.space().vfs;
    vfs.apply(context.caller(), Change::MakeDir { path: path.clone() })?;
    let outcome =
        context.path().filter(|_| context.is_copy()).map_or(Ok(()), |from| dead_properties::copy(context, from, path));
    if outcome.is_err() {
        // It stays if another client has put something into it.
        let _ = vfs.apply(context.caller(), Change::RemoveDir { path: path.clone() });
    }
    outcome
}

/// Copies a file, or a folder with everything in it.
pub(crate) fn copy(context: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    check_disjoint(from, to)?;
    let source = ResolvedResource::at(context, from)?;
    context.space().check_path_access(&context.caller().permissions, context.caller().protocol, to)?;
    ResolvedResource::parent_of(context, to)?;
    if context.is_proposing() {
        let _barrier = WebdavLocks::recheck(context, &[to])?;
        return proposals::copy(context, (from, &source), to);
    }
    let copies = CopyPlan { context, from, source: &source.path, to, copied: FolderContents::of(context, &source)? };
    let large = copies.stage_large()?;
    // After the slow part: new locks on the target wait from here on.
    let _barrier = WebdavLocks::recheck(context, &[to])?;
    let absent = |_: &TreePath| Some(ObservedState::Nothing);
    if !context.claim_replacement(to) {
        return copies.install(large, &absent, &FolderContents::default());
    }
    let expected = |path: &TreePath| context.observed(path).filter(|_| path == to);
    let existing = ResolvedResource::at_no_follow(context, to)?;
    if !source.is_folder() && !existing.is_folder() {
        return copies.install(large, &expected, &FolderContents::default());
    }
    let mut obsolete = FolderContents::of(context, &existing)?;
    obsolete.check_removable(context)?;
    let to_target = |path: &TreePath| copies.target_of(path);
    if source.is_folder() && existing.is_folder() && copies.copied.can_replace(&obsolete, &to_target) {
        obsolete.exclude(&copies.copied, &to_target);
        return copies.install(large, &expected, &obsolete);
    }
    observed_state::check(context, context.observed(to).as_ref(), to)?;
    replace::with_backup(
        context,
        &existing,
        || copies.install(large, &absent, &FolderContents::default()),
        || copies.undo(),
    )
}

/// Removes what an interrupted copy of an earlier process left. Does nothing if there are
/// unversioned files, since their origin is unknown.
pub(crate) fn undo_copy(context: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    let source = match ResolvedResource::at(context, from) {
        // Without the source, the copied files are unknown.
        Err(fault) if fault.kind() == Kind::NotFound => return Ok(()),
        source => source?,
    };
    let copied = FolderContents::of(context, &source)?;
    if FolderContents::of(context, &ResolvedResource::at_no_follow(context, to)?)?.unversioned().next().is_none() {
        CopyPlan { context, from, source: &source.path, to, copied }.undo();
    }
    Ok(())
}

/// Source and target of a copy.
struct CopyPlan<'a> {
    context: &'a WebdavRequestContext,
    /// The requested path, and its target with links followed.
    from: &'a TreePath,
    source: &'a TreePath,
    to: &'a TreePath,
    copied: FolderContents,
}

impl CopyPlan<'_> {
    /// The target of a file or folder.
    fn target_of(&self, path: &TreePath) -> TreePath {
        path.rebase(self.source, self.to).unwrap_or_else(|| self.to.clone())
    }

    /// Copies the large files into staged files.
    fn stage_large(&self) -> Result<Vec<(TreePath, StagedResource)>, Fault> {
        let large = self.copied.files.iter().filter(|(_, attributes)| attributes.large_file().is_some());
        large
            .map(|(path, attributes)| Ok((path.clone(), copy_large(self.context, path, attributes.size, self.to)?)))
            .collect()
    }

    /// Installs the copies with their properties, and removes what is obsolete in the target.
    fn install(
        &self,
        large: Vec<(TreePath, StagedResource)>,
        expected: &OverwriteLookup<'_>,
        obsolete: &FolderContents,
    ) -> Result<(), Fault> {
        self.install_versioned(expected, obsolete)?;
        for (path, copy) in large {
            observed_state::check(self.context, self.context.observed(self.from).as_ref(), &path)?;
            let to = self.target_of(&path);
            copy.install(self.context, &to, expected(&to).as_ref())?;
        }
        obsolete.remove_unversioned(self.context)?;
        let mut all = self.copied.folders.iter().chain(self.copied.files.keys());
        all.try_for_each(|path| dead_properties::copy(self.context, path, &self.target_of(path)))
    }

    /// Removes the files of a failed copy, but none of other clients: unversioned files stay.
    fn undo(&self) {
        let (vfs, caller) = (&self.context.space().vfs, self.context.caller());
        for (path, attributes) in self.copied.versioned() {
            if let Ok(Change::Put { path, content, .. }) =
                copy_change(self.context, (path, attributes, None), self.target_of(path))
            {
                // A file with another content belongs to another client.
                let _ = vfs.apply(
                    caller,
                    Change::remove(path).with_precondition(Precondition::OneOf(vec![ETag::from_content(&content)])),
                );
            }
        }
        for folder in self.copied.folders.iter().rev() {
            let _ = vfs.apply(caller, Change::RemoveDir { path: self.target_of(folder) });
        }
    }

    /// Writes the copies of versioned files, and removes what is obsolete, with one change set for
    /// as much as it may hold.
    fn install_versioned(&self, expected: &OverwriteLookup<'_>, obsolete: &FolderContents) -> Result<(), Fault> {
        let Self { context, from, to, copied, .. } = self;
        let (vfs, caller) = (&context.space().vfs, context.caller());
        let message = format!("{}: copy {from} → {to}", caller.actor());
        let mut changes = Vec::new();
        // The state of the source, if preconditions were checked on a file.
        let observed = context.observed(from);
        let mut bytes = 0;
        for (path, attributes) in copied.files.iter().filter(|(_, attributes)| attributes.large_file().is_none()) {
            let to = self.target_of(path);
            let to_precondition = observed_state::to_precondition(expected(&to).as_ref());
            let change =
                copy_change(context, (path, attributes, observed.as_ref()), to)?.with_precondition(to_precondition);
            if let Change::Put { content, .. } = &change {
                bytes += content.len();
            }
            if bytes > MAX_FILE_BYTES && !changes.is_empty() {
                vfs.apply(caller, ChangeSet::new(std::mem::take(&mut changes)).with_message(&message))?;
                bytes = 0;
            }
            changes.push(change);
        }
        // With the last set, so that an earlier refusal has removed nothing.
        changes.extend(obsolete.versioned().map(|(path, _)| Change::remove(path.clone())));
        if !changes.is_empty() {
            vfs.apply(caller, ChangeSet::new(changes).with_message(&message))?;
        }
        copied.create_folders(context, &|path| self.target_of(path))
    }
}

/// The change that copies a file or link; refused if the file is not in the observed state.
pub(crate) fn copy_change(
    context: &WebdavRequestContext,
    (from, attributes, observed): (&TreePath, &PathAttributes, Option<&ObservedState>),
    to: TreePath,
) -> Result<Change, Fault> {
    let (tree, protocol) = (context.tree(), context.caller().protocol);
    if attributes.kind == EntryKind::Symlink {
        return Ok(Change::symlink(to, &tree.read_link(protocol, from)?));
    }
    let (content, etag) = match tree.read(protocol, from) {
        // Created through a mount and not saved yet.
        Err(fault) if fault.kind() == Kind::NotFound => (bytes::Bytes::new(), ETag::from_content(b"")),
        file => file.map(|file| (file.content, file.etag))?,
    };
    observed.map_or(Ok(()), |observed| observed.check_unchanged(from, etag))?;
    let is_executable = attributes.mode & 0o100 != 0;
    let kind = Some(if is_executable { FileKind::Executable } else { FileKind::Regular });
    Ok(Change::Put { path: to, content, precondition: Precondition::Any, kind, attributes: DiskAttributes::default() })
}

/// Copies a large file to a staged file in the target folder.
fn copy_large(
    context: &WebdavRequestContext,
    from: &TreePath,
    size: u64,
    to: &TreePath,
) -> Result<StagedResource, Fault> {
    let resource = ResolvedResource::at_no_follow(context, from)?;
    let node = resource.node(context)?;
    let mut copy = StagedResource::new(context, to)?;
    let mut offset = 0;
    while offset < size {
        let piece = context.space().vfs.read_node(node, offset, COPY_BYTES)?;
        if piece.is_empty() {
            break;
        }
        copy.append(&piece)?;
        offset += piece.len() as u64;
    }
    copy.flush()?;
    Ok(copy)
}

/// Refuses to move or copy a resource into itself, or over a folder that contains it.
fn check_disjoint(from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    if from.is_under(to) || to.is_under(from) {
        return Err(nested_paths_fault(from, to));
    }
    Ok(())
}

/// The fault for such paths.
pub(crate) fn nested_paths_fault(from: &TreePath, to: &TreePath) -> Fault {
    Fault::new(Kind::Forbidden, format!("`{from}` and `{to}` contain each other; choose another target"))
}
