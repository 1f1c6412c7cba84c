//! What is removed, moved and copied as a whole: folders with everything in them, in one change set each.
//!
//! Why not leave it to dav-server, which asks for one file after the other? Because history would then have a commit for each, and a refusal in the
//! middle would leave a half.

use std::collections::BTreeMap;

use svcfs_base::{Change, ChangeSet, DiskAttributes, ETag, Expect, Fault, FileKind, Kind, MAX_FILE_BYTES, TreePath};
use svcfs_vfs::{Attributes, EntryKind};

use crate::asked::Asked;
use crate::found::Found;
use crate::locks::Locks;
use crate::look::{self, Look};
use crate::properties;
use crate::upload::Beside;

/// Bytes of a large file copied at once.
const PIECE: usize = 1 << 20;

/// What a copy may be written over, by the place of each file of it.
type Over<'a> = dyn Fn(&TreePath) -> Option<Look> + 'a;

/// Everything in a folder.
#[derive(Default)]
struct Contents {
    /// Files and links, in path order.
    files: BTreeMap<TreePath, Attributes>,
    /// Folders, each after the one it lies in.
    folders: Vec<TreePath>,
    /// Pipes, sockets and devices: no client sees them, and they go with the folder they lie in.
    specials: Vec<TreePath>,
}

impl Contents {
    fn of(asked: &Asked, folder: &Found<'_>) -> Result<Self, Fault> {
        let mut contents = Self { folders: vec![folder.path.clone()], ..Self::default() };
        let mut next = 0;
        while let Some(path) = contents.folders.get(next).cloned() {
            next += 1;
            for (path, attributes) in Found::itself(asked, &path)?.all_entries(asked)? {
                match attributes.kind {
                    EntryKind::Directory => contents.folders.push(path),
                    EntryKind::File | EntryKind::Symlink => {
                        contents.files.insert(path, attributes);
                    }
                    EntryKind::Special(_) => contents.specials.push(path),
                }
            }
        }
        Ok(contents)
    }

    /// Checks that everything in these folders can be removed, before anything is.
    ///
    /// # Errors
    /// `NotEmpty` for what is hidden, or has a name that no tree has.
    fn check_removable(&self, asked: &Asked) -> Result<(), Fault> {
        self.folders.iter().try_for_each(|folder| match asked.space().vfs.unseen_in(asked.caller(), folder)? {
            Some(unseen) => {
                let unseen = svcfs_base::plain(&unseen);
                let told = format!(
                    "directory `{folder}` holds `{unseen}`, which cannot be removed from here; nothing was removed; remove it on the server's disk"
                );
                Err(Fault::new(Kind::NotEmpty, told))
            }
            None => Ok(()),
        })
    }
}

/// Removes what stands at a path, and everything in it.
///
/// # Errors
/// `NotFound`; `NotEmpty` when somebody puts something there meanwhile; those of the write path.
pub(crate) fn remove(asked: &Asked, path: &TreePath) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let found = Found::itself(asked, path)?;
    if !found.is_folder() {
        return remove_file(asked, &found);
    }
    // An empty one is gone by this; one that may not be removed is refused before anything in it is.
    match vfs.apply(caller, Change::RemoveDir { path: path.clone() }) {
        Ok(_) => return Ok(()),
        Err(fault) if fault.kind() == Kind::NotEmpty => {}
        Err(fault) => return Err(fault),
    }
    let contents = Contents::of(asked, &found)?;
    contents.check_removable(asked)?;
    let (large, recorded): (Vec<_>, Vec<_>) =
        contents.files.iter().partition(|(_, attributes)| attributes.large().is_some());
    let changes: Vec<_> = recorded.into_iter().map(|(path, _)| Change::remove(path.clone())).collect();
    if !changes.is_empty() {
        let message = format!("delete: {path}");
        vfs.apply(caller, ChangeSet::new(changes).message(message))?;
    }
    for (path, _) in large {
        remove_file(asked, &Found::itself(asked, path)?)?;
    }
    for path in &contents.specials {
        let special = Found::itself(asked, path)?;
        vfs.unlink(caller, Found::parent_of(asked, path)?.node, &special.name()?)?;
    }
    for folder in contents.folders.into_iter().rev() {
        vfs.apply(caller, Change::RemoveDir { path: folder })?;
    }
    Ok(())
}

fn remove_file(asked: &Asked, found: &Found<'_>) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let look = asked.seen(&found.path);
    let change = Change::remove(found.path.clone()).expecting(look::expect(look.as_ref()));
    match vfs.apply(caller, change) {
        // Made through a mount, and not saved yet.
        Err(fault) if fault.kind() == Kind::NotFound => {}
        outcome => return outcome.map(drop),
    }
    let folder = Found::parent_of(asked, &found.path)?;
    vfs.unlink(caller, folder.node, &found.name()?)?;
    vfs.settled().map(drop)
}

/// Gives a file or folder another name; a folder in one change set.
///
/// # Errors
/// `NotFound`, `Exists`; `Forbidden` for a place in itself or around it; those of the write path.
pub(crate) fn rename(asked: &Asked, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    check_apart(from, to)?;
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let source = Found::itself(asked, from)?;
    // What is written meanwhile goes along, and is not lost.
    look::check(asked, asked.seen(from).as_ref(), from)?;
    asked.space().check_reach(&caller.reach, caller.door, to)?;
    let (old, new) = (Found::parent_of(asked, from)?, Found::parent_of(asked, to)?);
    let mut over = Some(Look::Nothing);
    if asked.is_to_replace(to) {
        over = asked.seen(to);
        if source.is_folder() || Found::itself(asked, to)?.is_folder() {
            remove(asked, to)?;
            over = None;
        }
    }
    let name = svcfs_base::Name::parse(to.name())?;
    let expect = look::expect(over.as_ref());
    vfs.rename_node_expecting(caller, (old.node, &source.name()?), (new.node, &name), expect)?;
    vfs.settled().map(drop)
}

/// Copies a file, or a folder with everything in it.
///
/// # Errors
/// As [`rename`].
pub(crate) fn copy(asked: &Asked, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    check_apart(from, to)?;
    let source = Found::at(asked, from)?;
    asked.space().check_reach(&asked.caller().reach, asked.caller().door, to)?;
    Found::parent_of(asked, to)?;
    let mut copied = Contents::default();
    if source.is_folder() {
        copied = Contents::of(asked, &source)?;
    } else {
        copied.files.insert(source.path.clone(), source.attributes.clone());
    }
    let large = copied.files.iter().filter(|(_, attributes)| attributes.large().is_some());
    let large = large.map(|(path, attributes)| Ok((path.clone(), copy_large(asked, path, attributes.size, to)?)));
    let large = large.collect::<Result<Vec<_>, Fault>>()?;
    // After what takes its time: whoever asks for a lock there waits from here on.
    let _unlocked = Locks::check_again(asked, &[to])?;
    let moved = |path: &TreePath| path.moved(&source.path, to).unwrap_or_else(|| to.clone());
    let replaces = asked.is_to_replace(to);
    let left = if replaces { make_way(asked, to, &copied, &moved)? } else { Contents::default() };
    let over = |path: &TreePath| match replaces {
        false => Some(Look::Nothing),
        true => asked.seen(path).filter(|_| path == to),
    };
    put_all(asked, (&copied, &moved), (&left, &over), from, to)?;
    for (path, copy) in large {
        look::check(asked, asked.seen(from).as_ref(), &path)?;
        let to = moved(&path);
        copy.into_place(asked, &to, over(&to).as_ref())?;
    }
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    for folder in left.folders.iter().rev().filter(|folder| !copied.folders.iter().any(|path| moved(path) == **folder))
    {
        vfs.apply(caller, Change::RemoveDir { path: folder.clone() })?;
    }
    for path in copied.folders.iter().chain(copied.files.keys()) {
        properties::copy(asked, path, &moved(path))?;
    }
    Ok(())
}

/// What stands where a copy goes and is not written over by it: to be removed in the same change set. What cannot be is removed before: a
/// folder where a file comes, a file where a folder does.
fn make_way(
    asked: &Asked,
    to: &TreePath,
    copied: &Contents,
    moved: &dyn Fn(&TreePath) -> TreePath,
) -> Result<Contents, Fault> {
    let there = Found::itself(asked, to)?;
    let is_file = copied.folders.is_empty();
    if is_file == there.is_folder() {
        remove(asked, to)?;
        return Ok(Contents::default());
    }
    if is_file {
        return Ok(Contents::default());
    }
    let mut left = Contents::of(asked, &there)?;
    left.check_removable(asked)?;
    let is_in_the_way = copied.folders.iter().any(|path| left.files.contains_key(&moved(path)))
        || copied.files.keys().any(|path| left.folders.contains(&moved(path)))
        || left.files.values().any(|attributes| attributes.large().is_some())
        || !left.specials.is_empty();
    if is_in_the_way {
        remove(asked, to)?;
        return Ok(Contents::default());
    }
    for path in copied.files.keys() {
        left.files.remove(&moved(path));
    }
    Ok(left)
}

/// Writes copies of all files but large ones, and removes what is left of what they replace: one change set for as much as one may hold.
fn put_all(
    asked: &Asked,
    (copied, moved): (&Contents, &dyn Fn(&TreePath) -> TreePath),
    (left, over): (&Contents, &Over<'_>),
    from: &TreePath,
    to: &TreePath,
) -> Result<(), Fault> {
    let (vfs, caller) = (&asked.space().vfs, asked.caller());
    let message = format!("{}: copy {from} → {to}", caller.actor());
    let mut changes: Vec<_> = left.files.keys().map(|path| Change::remove(path.clone())).collect();
    // What conditions were about, if it is a file.
    let look = asked.seen(from);
    let mut bytes = 0;
    for (path, attributes) in copied.files.iter().filter(|(_, attributes)| attributes.large().is_none()) {
        let to = moved(path);
        let expect = look::expect(over(&to).as_ref());
        let change = copy_of(asked, (path, attributes, look.as_ref()), to)?.expecting(expect);
        if let Change::Put { content, .. } = &change {
            bytes += content.len();
        }
        if bytes > MAX_FILE_BYTES && !changes.is_empty() {
            vfs.apply(caller, ChangeSet::new(std::mem::take(&mut changes)).message(&message))?;
            bytes = 0;
        }
        changes.push(change);
    }
    if !changes.is_empty() {
        vfs.apply(caller, ChangeSet::new(changes).message(&message))?;
    }
    for folder in copied.folders.iter().map(moved) {
        match vfs.apply(caller, Change::MakeDir { path: folder }) {
            Err(fault) if fault.kind() == Kind::Exists => {}
            outcome => drop(outcome?),
        }
    }
    Ok(())
}

/// The change that makes a copy of a file or link; of a file that was looked at, only of that.
fn copy_of(
    asked: &Asked,
    (from, attributes, look): (&TreePath, &Attributes, Option<&Look>),
    to: TreePath,
) -> Result<Change, Fault> {
    let (vfs, door) = (&asked.space().vfs, asked.caller().door);
    if attributes.kind == EntryKind::Symlink {
        return Ok(Change::link(to, &vfs.read_link(door, from)?));
    }
    let (content, etag) = match vfs.read(door, from) {
        // Made through a mount, and not saved yet.
        Err(fault) if fault.kind() == Kind::NotFound => (bytes::Bytes::new(), ETag::of(b"")),
        file => file.map(|file| (file.content, file.etag))?,
    };
    look.map_or(Ok(()), |look| look.admits(from, etag))?;
    let is_executable = attributes.mode & 0o100 != 0;
    let kind = Some(if is_executable { FileKind::Executable } else { FileKind::Regular });
    Ok(Change::Put { path: to, content, expect: Expect::Any, kind, disk: DiskAttributes::default() })
}

/// A copy of a large file, on the disk beside the place where it comes, or the folder that it lies in.
fn copy_large(asked: &Asked, from: &TreePath, size: u64, to: &TreePath) -> Result<Beside, Fault> {
    let found = Found::itself(asked, from)?;
    let mut copy = Beside::new(asked, to)?;
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
        let told = format!("`{from}` and `{to}` lie in each other; choose a place beside it");
        return Err(Fault::new(Kind::Forbidden, told));
    }
    Ok(())
}
