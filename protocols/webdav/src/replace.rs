//! Replaces the target of a copy or move, where either side is a folder: the target is lost only if
//! the operation succeeds.
//!
//! If one change set can hold it, it is one. Else the target is renamed to a backup for the time of
//! the operation, and [`replace_journal`](crate::replace_journal) restores it after a crash.

use svcfs_base::{Change, ChangeSet, Fault, MAX_FILE_BYTES, PathComponent, Precondition, TreePath};
use svcfs_vfs::{EntryKind, SetAttributes};
use uuid::Uuid;

use crate::context::WebdavRequestContext;
use crate::folder_contents::FolderContents;
use crate::folders::{create_folder, nested_paths_fault, remove, rename_resource};
use crate::replace_journal::ReplaceRecord;
use crate::resolved::ResolvedResource;
use crate::{dead_properties, observed_state, proposals};

/// Moves a resource over an existing target; at least one of them is a folder.
///
/// A rename of the folder would replace an empty target only, and content removed before a refused
/// rename would be lost. So each file is renamed, in one change set with the removal of what is
/// obsolete; if one set cannot hold it, the target gets a backup. Errors: `NotEmpty` for a target
/// that cannot be removed; `Conflict` when a precondition fails.
pub(crate) fn move_over(
    context: &WebdavRequestContext,
    source: &ResolvedResource<'_>,
    existing: &ResolvedResource<'_>,
) -> Result<(), Fault> {
    observed_state::check(context, context.observed(&existing.path).as_ref(), &existing.path)?;
    let (incoming, mut obsolete) = (FolderContents::of(context, source)?, FolderContents::of(context, existing)?);
    obsolete.check_removable(context)?;
    let to_target =
        |path: &TreePath| path.rebase(&source.path, &existing.path).unwrap_or_else(|| existing.path.clone());
    let fits_one_set = source.is_folder()
        && existing.is_folder()
        && incoming.can_replace(&obsolete, &to_target)
        && incoming.versioned_bytes() <= MAX_FILE_BYTES as u64
        // Hidden files can only move with their folder.
        && incoming.check_removable(context).is_ok();
    if !fits_one_set {
        return with_backup(
            context,
            existing,
            || rename_resource(context, source, &existing.path, Precondition::Absent),
            || {},
        );
    }
    obsolete.exclude(&incoming, &to_target);
    let (vfs, caller) = (&context.space().vfs, context.caller());
    let mut changes: Vec<_> =
        incoming.versioned().map(|(path, _)| Change::rename(path.clone(), to_target(path))).collect();
    changes.extend(obsolete.versioned().map(|(path, _)| Change::remove(path.clone())));
    if !changes.is_empty() {
        let message = format!("{}: rename dir {} → {}", caller.actor(), source.path, existing.path);
        vfs.apply(caller, ChangeSet::new(changes).with_message(message))?;
    }
    incoming.create_folders(context, &to_target)?;
    for path in incoming.unversioned() {
        rename_resource(context, &ResolvedResource::at_no_follow(context, path)?, &to_target(path), Precondition::Any)?;
    }
    obsolete.remove_unversioned(context)?;
    for folder in incoming.folders.iter().rev() {
        copy_folder_attributes(context, folder, &to_target(folder))?;
        vfs.apply(caller, Change::RemoveDir { path: folder.clone() })?;
    }
    Ok(())
}

/// Replaces a resource by an empty folder: a shallow copy.
pub(crate) fn with_empty_folder(context: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    if let Some(from) = context.path().filter(|from| from.is_under(path)) {
        return Err(nested_paths_fault(from, path));
    }
    let (vfs, caller) = (&context.space().vfs, context.caller());
    observed_state::check(context, context.observed(path).as_ref(), path)?;
    let existing = ResolvedResource::at_no_follow(context, path)?;
    if context.is_proposing() {
        return proposals::replace_by_empty_folder(context, &existing);
    }
    if !existing.is_folder() {
        let undo = || drop(vfs.apply(caller, Change::RemoveDir { path: path.clone() }));
        return with_backup(context, &existing, || create_folder(context, path), undo);
    }
    let mut obsolete = FolderContents::of(context, &existing)?;
    obsolete.check_removable(context)?;
    // First, because this is the only step that is refused with nothing removed.
    context.path().map_or(Ok(()), |from| dead_properties::copy(context, from, path))?;
    obsolete.folders.retain(|folder| folder != path);
    let changes: Vec<_> = obsolete.versioned().map(|(path, _)| Change::remove(path.clone())).collect();
    if !changes.is_empty() {
        vfs.apply(caller, ChangeSet::new(changes).with_message(format!("delete: {path}")))?;
    }
    obsolete.remove_unversioned(context)
}

/// Copies properties and mode of a folder to the folder that takes its role.
fn copy_folder_attributes(context: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    dead_properties::copy(context, from, to)?;
    let mode = ResolvedResource::at_no_follow(context, from)?.attributes.mode;
    let existing = ResolvedResource::at_no_follow(context, to)?;
    if existing.attributes.kind == EntryKind::Directory && existing.attributes.mode != mode {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        context.space().vfs.set_attributes(context.caller(), existing.node(context)?, set)?;
    }
    Ok(())
}

/// Runs work that replaces an existing resource. The resource is renamed to a backup first. The
/// backup is removed after the work, or renamed back when the work fails; if a new resource is in
/// the way, `undo` removes it first. Nothing else is removed: it belongs to other clients, or it is
/// the moved resource, which may not be flushed elsewhere. Errors: Those of the work, naming the
/// backup if it could not be restored.
pub(crate) fn with_backup(
    context: &WebdavRequestContext,
    existing: &ResolvedResource<'_>,
    work: impl FnOnce() -> Result<(), Fault>,
    undo: impl FnOnce(),
) -> Result<(), Fault> {
    let (vfs, caller) = (&context.space().vfs, context.caller());
    let folder = ResolvedResource::parent_of(context, &existing.path)?;
    // A page keeps its extension, so that no gate refuses the rename back.
    let extension = if existing.path.is_page() { ".md" } else { "" };
    let backup_name = PathComponent::parse(&format!(".svc-replaced-{}{extension}", Uuid::new_v4().simple()))?;
    let (name, backup_path) = (existing.name()?, folder.path.join(&backup_name));
    let folder = folder.node(context)?;
    let mut record = ReplaceRecord::create(context, &existing.path, &backup_path)?;
    if let Err(fault) = vfs.rename_node(caller, (folder, &name), (folder, &backup_name), false) {
        record.finish();
        return Err(fault);
    }
    let Err(fault) = work() else {
        return match record.mark_done() {
            Ok(()) => {
                // If this fails, the next start retries it.
                remove(context, &backup_path)?;
                record.finish();
                Ok(())
            }
            // Recovery with the old record would restore a part over the new resource: no record is
            // better.
            Err(error) => {
                tracing::warn!(page.path = %existing.path, ?error, "could not record that a replacement is complete");
                record.discard();
                remove(context, &backup_path)
            }
        };
    };
    let restore = || vfs.rename_node(caller, (folder, &backup_name), (folder, &name), false);
    let restored = restore().or_else(|_| {
        undo();
        restore()
    });
    if vfs.wait_applied().is_ok() {
        record.finish();
    }
    let Err(error) = restored else { return Err(fault) };
    tracing::error!(page.path = %existing.path, ?error, "could not restore the replaced resource; it is at `{backup_path}` now");
    let message = format!("{fault}; the replaced resource is at `{backup_path}` now");
    Err(Fault::new(fault.kind(), message).with_source(fault))
}
