//! What a copy or a move takes the place of, where a folder is replaced or replaces: nothing of it is lost unless that is done.

use svcfs_base::{Change, ChangeSet, Expect, Fault, Kind, MAX_FILE_BYTES, Name, TreePath};
use svcfs_vfs::{EntryKind, SetAttributes};
use uuid::Uuid;

use crate::asked::Asked;
use crate::contents::Contents;
use crate::folders::{give_name, remove};
use crate::found::Found;
use crate::properties;

/// Moves what was found in place of what is there, one of which is a folder at least.
///
/// Why not the rename of a folder? Because that takes the place of an empty one only, and what is removed before it is gone if it is refused. So each
/// file gets another name, in one change set with the removal of what is left; what one set cannot hold goes the longer way.
///
/// # Errors
/// `NotEmpty` for what cannot be removed there; those of the write path. What is there stands then.
pub(crate) fn by_move(asked: &Asked, source: &Found<'_>, there: &Found<'_>) -> Result<(), Fault> {
    let (came, mut left) = (Contents::of(asked, source)?, Contents::of(asked, there)?);
    left.check_removable(asked)?;
    let moved = |path: &TreePath| path.moved(&source.path, &there.path).unwrap_or_else(|| there.path.clone());
    let is_one_set = source.is_folder()
        && there.is_folder()
        && came.fits_in_place_of(&left, &moved)
        && came.bytes() <= MAX_FILE_BYTES as u64
        // What no client sees goes along with its folder only.
        && came.check_removable(asked).is_ok();
    if !is_one_set {
        return aside(asked, there, || give_name(asked, source, &there.path, Expect::Absent));
    }
    left.leave_out(&came, &moved);
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let mut changes: Vec<_> = came.recorded().map(|(path, _)| Change::rename(path.clone(), moved(path))).collect();
    changes.extend(left.recorded().map(|(path, _)| Change::remove(path.clone())));
    if !changes.is_empty() {
        let message = format!("{}: rename dir {} → {}", caller.actor(), source.path, there.path);
        vfs.apply(caller, ChangeSet::new(changes).message(message))?;
    }
    came.make_folders(asked, &moved)?;
    for path in came.unrecorded() {
        give_name(asked, &Found::itself(asked, path)?, &moved(path), Expect::Any)?;
    }
    left.remove_unrecorded(asked)?;
    for folder in came.folders.iter().rev() {
        make_alike(asked, folder, &moved(folder))?;
        vfs.apply(caller, Change::RemoveDir { path: folder.clone() })?;
    }
    Ok(())
}

/// Gives a folder what another has that it takes the place of it for.
fn make_alike(asked: &Asked, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    properties::copy(asked, from, to)?;
    let mode = Found::itself(asked, from)?.attributes.mode;
    let there = Found::itself(asked, to)?;
    if there.attributes.kind == EntryKind::Directory && there.attributes.mode != mode {
        let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        asked.space().vfs.set_attributes(asked.caller(), there.node, set)?;
    }
    Ok(())
}

/// Does what puts something else in place of what is there. That is beside its place meanwhile: it is removed once it is done, and is back if it
/// is not.
///
/// # Errors
/// Those of the work; those of the write path.
pub(crate) fn aside(asked: &Asked, there: &Found<'_>, work: impl FnOnce() -> Result<(), Fault>) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let folder = Found::parent_of(asked, &there.path)?;
    // A page stays one, so that no gate is in its way back.
    let extension = if there.path.is_page() { ".md" } else { "" };
    let beside = Name::parse(&format!(".svc-replaced-{}{extension}", Uuid::new_v4().simple()))?;
    let (name, place) = (there.name()?, folder.path.join(&beside));
    vfs.rename_node(caller, (folder.node, &name), (folder.node, &beside), false)?;
    let Err(fault) = work() else {
        return remove(asked, &place);
    };
    // What has come of it is not to be in the way.
    let back = match remove(asked, &there.path) {
        Err(fault) if fault.kind() != Kind::NotFound => Err(fault),
        Ok(()) | Err(_) => vfs.rename_node(caller, (folder.node, &beside), (folder.node, &name), false),
    };
    if let Err(back) = back {
        tracing::error!(page.path = %there.path, error = ?back, "what was to be replaced is at `{place}` now");
    }
    Err(fault)
}
