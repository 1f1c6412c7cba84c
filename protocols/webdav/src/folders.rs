//! What is removed, moved and copied as a whole: folders with everything in them, in one change set each. What they take the place of is
//! [`replaced`](crate::replaced).
//!
//! Why not leave it to dav-server, which asks for one file after the other? Because history would then have a commit for each, and a refusal in the
//! middle would leave a half.

use svcfs_base::{
    Change, ChangeSet, DiskAttributes, Durability, ETag, Fault, FileKind, Kind, MAX_FILE_BYTES, Precondition, TreePath,
};
use svcfs_vfs::{EntryKind, PathAttributes};

use crate::context::WebdavRequestContext;
use crate::folder_contents::FolderContents;
use crate::locks::WebdavLocks;
use crate::observed_state::{self, ObservedState};
use crate::resolved::{ResolvedResource, check_not_ours};
use crate::upload::StagedResource;
use crate::{dead_properties, replace};

/// Bytes of a large file copied at once.
const PIECE: usize = 1 << 20;

/// What a copy may be written over, by the place of each file of it.
type OverwriteLookup<'a> = dyn Fn(&TreePath) -> Option<ObservedState> + 'a;

/// Removes what stands at a path, and everything in it.
///
/// # Errors
/// `NotFound`; `NotEmpty` when somebody puts something there meanwhile; those of the write path.
pub(crate) fn remove(asked: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let found = ResolvedResource::itself(asked, path)?;
    check_not_ours(asked, path)?;
    if !found.is_folder() {
        return remove_file(asked, &found);
    }
    // An empty one is gone by this; one that may not be removed is refused before anything in it is.
    match vfs.apply(caller, Change::RemoveDir { path: path.clone() }) {
        Ok(_) => return Ok(()),
        Err(fault) if fault.kind() == Kind::NotEmpty => {}
        Err(fault) => return Err(fault),
    }
    let contents = FolderContents::of(asked, &found)?;
    contents.check_removable(asked)?;
    let changes: Vec<_> = contents.recorded().map(|(path, _)| Change::remove(path.clone())).collect();
    if !changes.is_empty() {
        let message = format!("delete: {path}");
        vfs.apply(caller, ChangeSet::new(changes).with_message(message))?;
    }
    contents.remove_unrecorded(asked)
}

/// Removes a file or a link.
///
/// # Errors
/// As [`remove`].
pub(crate) fn remove_file(asked: &WebdavRequestContext, found: &ResolvedResource<'_>) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let look = asked.seen(&found.path);
    let change = Change::remove(found.path.clone()).with_precondition(observed_state::expect(look.as_ref()));
    match vfs.apply(caller, change) {
        // Made through a mount, and not saved yet.
        Err(fault) if fault.kind() == Kind::NotFound => {}
        outcome => return outcome.map(drop),
    }
    let folder = ResolvedResource::parent_of(asked, &found.path)?;
    vfs.unlink(caller, folder.node, &found.name()?)?;
    vfs.wait_applied().map(drop)
}

/// Gives a file or folder another name; a folder in one change set.
///
/// # Errors
/// `NotFound`, `Exists`; `Forbidden` for a place in itself or around it; those of the write path.
pub(crate) fn rename(asked: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    check_apart(from, to)?;
    let caller = asked.caller();
    let source = ResolvedResource::itself(asked, from)?;
    check_not_ours(asked, from)?;
    // What is written meanwhile goes along, and is not lost.
    observed_state::check(asked, asked.seen(from).as_ref(), from)?;
    asked.space().check_path_access(&caller.permissions, caller.protocol, to)?;
    let mut over = Some(ObservedState::Nothing);
    if asked.is_to_replace(to) {
        over = asked.seen(to);
        let there = ResolvedResource::itself(asked, to)?;
        if source.is_folder() || there.is_folder() {
            return replace::by_move(asked, &source, &there);
        }
    }
    give_name(asked, &source, to, observed_state::expect(over.as_ref()))
}

/// Gives what was found another name, where what is expected stands.
///
/// # Errors
/// As [`rename`].
pub(crate) fn give_name(
    asked: &WebdavRequestContext,
    source: &ResolvedResource<'_>,
    to: &TreePath,
    expect: Precondition,
) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let (old, new) = (ResolvedResource::parent_of(asked, &source.path)?, ResolvedResource::parent_of(asked, to)?);
    let name = svcfs_base::PathComponent::parse(to.name())?;
    let how = (expect, Durability::Now);
    vfs.rename_node_expecting(caller, (old.node, &source.name()?), (new.node, &name), how)
}

/// Makes a folder; with the properties of another one, where it is the copy of that without what is in it.
///
/// # Errors
/// `Exists`; those of the write path.
pub(crate) fn make(asked: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
    let vfs = &asked.space().vfs;
    vfs.apply(asked.caller(), Change::MakeDir { path: path.clone() })?;
    let copied =
        asked.path().filter(|_| asked.is_copy()).map_or(Ok(()), |from| dead_properties::copy(asked, from, path));
    if copied.is_err() {
        // Somebody may have put something there: it stays then.
        let _ = vfs.apply(asked.caller(), Change::RemoveDir { path: path.clone() });
    }
    copied
}

/// Copies a file, or a folder with everything in it.
///
/// # Errors
/// As [`rename`].
pub(crate) fn copy(asked: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    check_apart(from, to)?;
    let source = ResolvedResource::at(asked, from)?;
    asked.space().check_path_access(&asked.caller().permissions, asked.caller().protocol, to)?;
    ResolvedResource::parent_of(asked, to)?;
    let copies = CopyPlan { asked, from, source: &source.path, to, copied: FolderContents::of(asked, &source)? };
    let large = copies.of_large()?;
    // After what takes its time: whoever asks for a lock there waits from here on.
    let _unlocked = WebdavLocks::check_again(asked, &[to])?;
    let nothing = |_: &TreePath| Some(ObservedState::Nothing);
    if !asked.is_to_replace(to) {
        return copies.put(large, &nothing, &FolderContents::default());
    }
    let over = |path: &TreePath| asked.seen(path).filter(|_| path == to);
    let there = ResolvedResource::itself(asked, to)?;
    if !source.is_folder() && !there.is_folder() {
        return copies.put(large, &over, &FolderContents::default());
    }
    let mut left = FolderContents::of(asked, &there)?;
    left.check_removable(asked)?;
    let moved = |path: &TreePath| copies.place(path);
    if source.is_folder() && there.is_folder() && copies.copied.fits_in_place_of(&left, &moved) {
        left.leave_out(&copies.copied, &moved);
        return copies.put(large, &over, &left);
    }
    observed_state::check(asked, asked.seen(to).as_ref(), to)?;
    replace::aside(asked, &there, || copies.put(large, &nothing, &FolderContents::default()), || copies.take_away())
}

/// Takes away what came of a copy that a server before this one did not end, as of one that failed; nothing where something stands there that no
/// version has, of which nobody can say whose it is.
///
/// # Errors
/// Those of looking at what was copied.
pub(crate) fn take_away(asked: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    let source = match ResolvedResource::at(asked, from) {
        // With what it was made of, nobody knows what came of it.
        Err(fault) if fault.kind() == Kind::NotFound => return Ok(()),
        source => source?,
    };
    let copied = FolderContents::of(asked, &source)?;
    if FolderContents::of(asked, &ResolvedResource::itself(asked, to)?)?.unrecorded().next().is_none() {
        CopyPlan { asked, from, source: &source.path, to, copied }.take_away();
    }
    Ok(())
}

/// What is copied, and where to.
struct CopyPlan<'a> {
    asked: &'a WebdavRequestContext,
    /// As it was asked for, and where that leads to.
    from: &'a TreePath,
    source: &'a TreePath,
    to: &'a TreePath,
    copied: FolderContents,
}

impl CopyPlan<'_> {
    /// Where the copy of a file or folder comes.
    fn place(&self, path: &TreePath) -> TreePath {
        path.rebase(self.source, self.to).unwrap_or_else(|| self.to.clone())
    }

    /// Copies of large files, beside the place.
    fn of_large(&self) -> Result<Vec<(TreePath, StagedResource)>, Fault> {
        let large = self.copied.files.iter().filter(|(_, attributes)| attributes.large_file().is_some());
        large
            .map(|(path, attributes)| Ok((path.clone(), copy_large(self.asked, path, attributes.size, self.to)?)))
            .collect()
    }

    /// Puts copies where they belong, with what clients gave the files, and removes what is left of what they replace.
    fn put(
        &self,
        large: Vec<(TreePath, StagedResource)>,
        over: &OverwriteLookup<'_>,
        left: &FolderContents,
    ) -> Result<(), Fault> {
        self.put_recorded(over, left)?;
        for (path, copy) in large {
            observed_state::check(self.asked, self.asked.seen(self.from).as_ref(), &path)?;
            let to = self.place(&path);
            copy.into_place(self.asked, &to, over(&to).as_ref())?;
        }
        left.remove_unrecorded(self.asked)?;
        let mut all = self.copied.folders.iter().chain(self.copied.files.keys());
        all.try_for_each(|path| dead_properties::copy(self.asked, path, &self.place(path)))
    }

    /// Takes away what has come of a copy that failed, and nothing that others put there: what has no versions stays.
    fn take_away(&self) {
        let (vfs, caller) = (&self.asked.space().vfs, self.asked.caller());
        for (path, attributes) in self.copied.recorded() {
            if let Ok(Change::Put { path, content, .. }) =
                copy_of(self.asked, (path, attributes, None), self.place(path))
            {
                // What is another content is nothing of ours, or was never put there.
                let _ = vfs.apply(
                    caller,
                    Change::remove(path).with_precondition(Precondition::OneOf(vec![ETag::from_content(&content)])),
                );
            }
        }
        for folder in self.copied.folders.iter().rev() {
            let _ = vfs.apply(caller, Change::RemoveDir { path: self.place(folder) });
        }
    }

    /// Writes copies of all files but large ones, and removes what is left of what they replace: one change set for as much as one may hold.
    fn put_recorded(&self, over: &OverwriteLookup<'_>, left: &FolderContents) -> Result<(), Fault> {
        let Self { asked, from, to, copied, .. } = self;
        let (vfs, caller) = (&asked.space().vfs, asked.caller());
        let message = format!("{}: copy {from} → {to}", caller.actor());
        let mut changes = Vec::new();
        // What conditions were about, if it is a file.
        let look = asked.seen(from);
        let mut bytes = 0;
        for (path, attributes) in copied.files.iter().filter(|(_, attributes)| attributes.large_file().is_none()) {
            let to = self.place(path);
            let expect = observed_state::expect(over(&to).as_ref());
            let change = copy_of(asked, (path, attributes, look.as_ref()), to)?.with_precondition(expect);
            if let Change::Put { content, .. } = &change {
                bytes += content.len();
            }
            if bytes > MAX_FILE_BYTES && !changes.is_empty() {
                vfs.apply(caller, ChangeSet::new(std::mem::take(&mut changes)).with_message(&message))?;
                bytes = 0;
            }
            changes.push(change);
        }
        // With the last of it: what is refused before has removed nothing.
        changes.extend(left.recorded().map(|(path, _)| Change::remove(path.clone())));
        if !changes.is_empty() {
            vfs.apply(caller, ChangeSet::new(changes).with_message(&message))?;
        }
        copied.make_folders(asked, &|path| self.place(path))
    }
}

/// The change that makes a copy of a file or link; of a file that was looked at, only of that.
fn copy_of(
    asked: &WebdavRequestContext,
    (from, attributes, look): (&TreePath, &PathAttributes, Option<&ObservedState>),
    to: TreePath,
) -> Result<Change, Fault> {
    let (vfs, protocol) = (&asked.space().vfs, asked.caller().protocol);
    if attributes.kind == EntryKind::Symlink {
        return Ok(Change::symlink(to, &vfs.read_link(protocol, from)?));
    }
    let (content, etag) = match vfs.read(protocol, from) {
        // Made through a mount, and not saved yet.
        Err(fault) if fault.kind() == Kind::NotFound => (bytes::Bytes::new(), ETag::from_content(b"")),
        file => file.map(|file| (file.content, file.etag))?,
    };
    look.map_or(Ok(()), |look| look.admits(from, etag))?;
    let is_executable = attributes.mode & 0o100 != 0;
    let kind = Some(if is_executable { FileKind::Executable } else { FileKind::Regular });
    Ok(Change::Put { path: to, content, precondition: Precondition::Any, kind, attributes: DiskAttributes::default() })
}

/// A copy of a large file, on the disk beside the place where it comes, or the folder that it lies in.
fn copy_large(
    asked: &WebdavRequestContext,
    from: &TreePath,
    size: u64,
    to: &TreePath,
) -> Result<StagedResource, Fault> {
    let found = ResolvedResource::itself(asked, from)?;
    let mut copy = StagedResource::new(asked, to)?;
    let mut offset = 0;
    while offset < size {
        let piece = asked.space().vfs.read_node(found.node, offset, PIECE)?;
        if piece.is_empty() {
            break;
        }
        copy.append(&piece)?;
        offset += piece.len() as u64;
    }
    copy.flush()?;
    Ok(copy)
}

/// Nothing is moved or copied into itself, or in place of what it lies in.
fn check_apart(from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    if from.is_under(to) || to.is_under(from) {
        return Err(lie_in_each_other(from, to));
    }
    Ok(())
}

/// Why something is not moved or copied into itself, or in place of what it lies in.
pub(crate) fn lie_in_each_other(from: &TreePath, to: &TreePath) -> Fault {
    Fault::new(Kind::Forbidden, format!("`{from}` and `{to}` lie in each other; choose a place beside it"))
}
