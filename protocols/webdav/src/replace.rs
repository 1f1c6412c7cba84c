//! What a copy or a move takes the place of, where a folder is replaced or replaces: nothing of it is lost unless that is done.
//!
//! Where one change set can hold it, it is one. Else what is replaced is beside its place meanwhile, and [`unfinished`](crate::unfinished) says what
//! becomes of it when the server is killed.

use svcfs_base::{Change, ChangeSet, Fault, MAX_FILE_BYTES, PathComponent, Precondition, TreePath};
use svcfs_vfs::{EntryKind, SetAttributes};
use uuid::Uuid;

use crate::context::WebdavRequestContext;
use crate::folder_contents::FolderContents;
use crate::folders::{give_name, lie_in_each_other, make, remove};
use crate::replace_journal::ReplaceRecord;
use crate::resolved::ResolvedResource;
use crate::{dead_properties, observed_state};

/// Moves what was found in place of what is there, one of which is a folder at least.
///
/// Why not the rename of a folder? Because that takes the place of an empty one only, and what is removed before it is gone if it is refused. So each
/// file gets another name, in one change set with the removal of what is left; what one set cannot hold goes the longer way.
///
/// # Errors
/// `NotEmpty` for what cannot be removed there; `Conflict` where it is not what conditions were about; those of the write path. What is there stands
/// then.
pub(crate) fn by_move(
    asked: &WebdavRequestContext,
    source: &ResolvedResource<'_>,
    there: &ResolvedResource<'_>,
) -> Result<(), Fault> {
    observed_state::check(asked, asked.seen(&there.path).as_ref(), &there.path)?;
    let (came, mut left) = (FolderContents::of(asked, source)?, FolderContents::of(asked, there)?);
    left.check_removable(asked)?;
    let moved = |path: &TreePath| path.rebase(&source.path, &there.path).unwrap_or_else(|| there.path.clone());
    let is_one_set = source.is_folder()
        && there.is_folder()
        && came.fits_in_place_of(&left, &moved)
        && came.bytes() <= MAX_FILE_BYTES as u64
        // What no client sees goes along with its folder only.
        && came.check_removable(asked).is_ok();
    if !is_one_set {
        return aside(asked, there, || give_name(asked, source, &there.path, Precondition::Absent), || {});
    }
    left.leave_out(&came, &moved);
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let mut changes: Vec<_> = came.recorded().map(|(path, _)| Change::rename(path.clone(), moved(path))).collect();
    changes.extend(left.recorded().map(|(path, _)| Change::remove(path.clone())));
    if !changes.is_empty() {
        let message = format!("{}: rename dir {} → {}", caller.actor(), source.path, there.path);
        vfs.apply(caller, ChangeSet::new(changes).with_message(message))?;
    }
    came.make_folders(asked, &moved)?;
    for path in came.unrecorded() {
        give_name(asked, &ResolvedResource::itself(asked, path)?, &moved(path), Precondition::Any)?;
    }
    left.remove_unrecorded(asked)?;
    for folder in came.folders.iter().rev() {
        make_alike(asked, folder, &moved(folder))?;
        vfs.apply(caller, Change::RemoveDir { path: folder.clone() })?;
    }
    Ok(())
}

/// Puts an empty folder in place of what is there: the copy of a folder without what is in it.
///
/// # Errors
/// As [`by_move`].
pub(crate) fn by_empty_folder(asked: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    if let Some(from) = asked.path().filter(|from| from.is_under(path)) {
        return Err(lie_in_each_other(from, path));
    }
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    observed_state::check(asked, asked.seen(path).as_ref(), path)?;
    let there = ResolvedResource::itself(asked, path)?;
    if !there.is_folder() {
        let unmake = || drop(vfs.apply(caller, Change::RemoveDir { path: path.clone() }));
        return aside(asked, &there, || make(asked, path), unmake);
    }
    let mut left = FolderContents::of(asked, &there)?;
    left.check_removable(asked)?;
    // First: what follows is refused before anything is removed, or not at all.
    asked.path().map_or(Ok(()), |from| dead_properties::copy(asked, from, path))?;
    left.folders.retain(|folder| folder != path);
    let changes: Vec<_> = left.recorded().map(|(path, _)| Change::remove(path.clone())).collect();
    if !changes.is_empty() {
        vfs.apply(caller, ChangeSet::new(changes).with_message(format!("delete: {path}")))?;
    }
    left.remove_unrecorded(asked)
}

/// Gives a folder what another has that it takes the place of it for.
fn make_alike(asked: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    dead_properties::copy(asked, from, to)?;
    let mode = ResolvedResource::itself(asked, from)?.attributes.mode;
    let there = ResolvedResource::itself(asked, to)?;
    if there.attributes.kind == EntryKind::Directory && there.attributes.mode != mode {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        asked.space().vfs.set_attributes(asked.caller(), there.node, set)?;
    }
    Ok(())
}

/// Does what puts something else in place of what is there. That is beside its place meanwhile: it is removed once it is done, and is back if it
/// is not, once `undo` took away what had come. Of what stands there no more may go: it is of others, who were told that it is safe, or it is what
/// was moved, and only nobody knows whether that is on the disk.
///
/// # Errors
/// Those of the work, with the place of what was to be replaced where it is not back; those of the write path.
pub(crate) fn aside(
    asked: &WebdavRequestContext,
    there: &ResolvedResource<'_>,
    work: impl FnOnce() -> Result<(), Fault>,
    undo: impl FnOnce(),
) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let folder = ResolvedResource::parent_of(asked, &there.path)?;
    // A page stays one, so that no gate is in its way back.
    let extension = if there.path.is_page() { ".md" } else { "" };
    let beside = PathComponent::parse(&format!(".svc-replaced-{}{extension}", Uuid::new_v4().simple()))?;
    let (name, place) = (there.name()?, folder.path.join(&beside));
    let mut note = ReplaceRecord::begin(asked, &there.path, &place)?;
    if let Err(fault) = vfs.rename_node(caller, (folder.node, &name), (folder.node, &beside), false) {
        note.over();
        return Err(fault);
    }
    let Err(fault) = work() else {
        return match note.done() {
            Ok(()) => {
                // Where this fails, the next server tries it again.
                remove(asked, &place)?;
                note.over();
                Ok(())
            }
            // Whoever goes by the note of before would put a half back: none is better.
            Err(error) => {
                tracing::warn!(page.path = %there.path, ?error, "that something is replaced cannot be noted");
                note.withdrawn();
                remove(asked, &place)
            }
        };
    };
    let back = || vfs.rename_node(caller, (folder.node, &beside), (folder.node, &name), false);
    let is_back = back().or_else(|_| {
        undo();
        back()
    });
    if vfs.wait_applied().is_ok() {
        note.over();
    }
    let Err(error) = is_back else { return Err(fault) };
    tracing::error!(page.path = %there.path, ?error, "what was to be replaced is at `{place}` now");
    let told = format!("{fault}; what was to be replaced is at `{place}` now");
    Err(Fault::new(fault.kind(), told).with_source(fault))
}
