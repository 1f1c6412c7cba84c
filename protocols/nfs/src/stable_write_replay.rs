//! What a server that died had promised: bytes that clients were told are safe, of files that were not saved yet.
//!
//! One rule: a promise goes once it is done, or once what was written is kept as the text of a refused save is (gaps.md D6), or is found in what
//! stands there or in a version since. What the disk refuses stays promised, and is tried again when a server opens the space next.

use std::ops::Range;

use bytes::Bytes;
use svcfs_base::{
    Actor, Caller, DiskAttributes, Durability, ETag, Fault, Kind, MAX_FILE_BYTES, PathComponent, Protocol, TreePath,
};
use svcfs_vfs::{
    HandleId, InodeTable, NodeId, OpenMode, SetAttributes, StableOperation, StableWrite, StoredContent, StoredVersion,
    Vfs, WriteAt,
};

/// Does what was promised, before any client is heard.
///
/// # Errors
/// When the promises cannot be read. What cannot be done is told to the log.
pub(crate) fn settle(vfs: &Vfs, numbers: &InodeTable) -> Result<(), Fault> {
    for number in numbers.pending_inodes()? {
        let promises = numbers.pending_writes(number)?;
        let settled = match numbers.path(number)? {
            Some(path) => settle_one(vfs, &path, &promises),
            None => {
                let gone = Fault::not_found("the directory that it was in is gone");
                TreePath::parse(&format!("nfs-{number}")).and_then(|path| keep(vfs, (&path, &path), &promises, &gone))
            }
        };
        match settled {
            Ok(_) => numbers.discard_writes(&[(number, InodeTable::ALL_POSITIONS)], true)?,
            Err(fault) => {
                tracing::error!(number, error = ?fault, "what was written over NFS before the server died could neither be saved nor be kept aside; it stays promised");
            }
        }
    }
    Ok(())
}

fn settle_one(vfs: &Vfs, path: &TreePath, promises: &[StableWrite]) -> Result<bool, Fault> {
    let now = standing_at(vfs, path)?;
    // Not always from the first one on: what came after a save may stand there beside what was done by it.
    let from = promises.iter().position(|promise| promise.base_etag == now).unwrap_or(promises.len());
    let (earlier, rest) = promises.split_at(from);
    let mut unsaved = Vec::new();
    if !rest.is_empty() {
        match save(vfs, path, rest) {
            Err(fault) if is_passing(fault.kind()) => return Err(fault),
            Err(fault) => unsaved.push((rest, fault)),
            Ok(()) => {}
        }
    }
    let told = if now.is_none() { "its name was taken away since" } else { "others saved it since" };
    let runs = earlier.chunk_by(|one, next| one.base_etag == next.base_etag);
    unsaved.extend(runs.rev().map(|run| (run, Fault::new(Kind::Conflict, told))));
    // After what is saved: that makes earlier refusals void.
    let mut kept = 0;
    for (run, fault) in unsaved {
        let place = if kept == 0 { path.clone() } else { TreePath::parse(&format!("{path}.{kept}"))? };
        kept += usize::from(keep(vfs, (path, &place), run, &fault)?);
    }
    Ok(kept > 0)
}

/// Whether what is refused so may be taken another time.
const fn is_passing(kind: Kind) -> bool {
    use Kind as K;
    matches!(
        kind,
        K::NoSpace | K::ReadOnly | K::DiskFailed | K::Unavailable | K::Internal | K::Upstream | K::RateLimited
    )
}

fn author(promises: &[StableWrite]) -> Actor {
    promises.iter().rev().find_map(|promise| promise.author.clone()).unwrap_or_else(|| Actor::new("nfs"))
}

fn save(vfs: &Vfs, path: &TreePath, promises: &[StableWrite]) -> Result<(), Fault> {
    let caller = Caller::new(Protocol::Nfs).with_actor(author(promises));
    let (node, handle) = open(vfs, path, (&caller, own(promises)))?;
    let written = promises.iter().try_for_each(|promise| match &promise.operation {
        StableOperation::Resize(size) => {
            let set = SetAttributes { size: Some(*size), ..SetAttributes::default() };
            vfs.set_attributes(&caller, node, set).map(drop)
        }
        StableOperation::Write(offset, data) => {
            vfs.write_node(&caller, handle, WriteAt::Offset(*offset), data).map(drop)
        }
    });
    let published = written.and_then(|()| vfs.publish(&caller, node, Durability::Now));
    let released = vfs.release(&caller, handle);
    vfs.forget(node, 1);
    published.and(released)
}

/// Permission bits and owner of a file that was not in the tree.
fn own(promises: &[StableWrite]) -> DiskAttributes {
    promises.iter().rev().map(|promise| promise.attributes).find(|disk| disk.mode.is_some()).unwrap_or_default()
}

/// The file, made where nothing is. Found once.
fn open(vfs: &Vfs, path: &TreePath, (caller, own): (&Caller, DiskAttributes)) -> Result<(NodeId, HandleId), Fault> {
    match vfs.lookup_path(caller, path) {
        Ok((node, _)) => {
            let opened = vfs.open_node(caller, node, OpenMode { write: true, truncate: false });
            opened.map(|handle| (node, handle)).inspect_err(|_| vfs.forget(node, 1))
        }
        Err(fault) if fault.kind() == Kind::NotFound => {
            let (parent, _) = vfs.lookup_path(caller, &path.parent().unwrap_or_else(TreePath::root))?;
            let made = PathComponent::parse(path.name())
                .and_then(|name| vfs.create(caller, parent, &name, own.mode.unwrap_or(0o644)));
            vfs.forget(parent, 1);
            let (node, _, handle) = made?;
            let (uid, gid) = own.owner.unzip();
            let set = SetAttributes { mode: own.mode, uid, gid, ..SetAttributes::default() };
            match vfs.set_attributes(caller, node, set) {
                Ok(_) => Ok((node, handle)),
                Err(fault) => {
                    let _abandoned = vfs.release(caller, handle);
                    vfs.forget(node, 1);
                    Err(fault)
                }
            }
        }
        Err(fault) => Err(fault),
    }
}

/// What tells apart what stands under a file's name, with no regard to writes that are not saved yet: the hash of its content; of a file too
/// large for any version, that of its size and time. None of one that was made and never saved.
pub(crate) fn standing(vfs: &Vfs, node: NodeId) -> Option<ETag> {
    let there = vfs.path_of(node).and_then(|path| vfs.stat(Protocol::Internal, &path));
    match there.ok().and_then(|there| there.large_file()) {
        Some(large) => Some(ETag::from_content(large.to_string().as_bytes())),
        None => vfs.etag(node).ok(),
    }
}

/// The same by name; none where nothing is.
fn standing_at(vfs: &Vfs, path: &TreePath) -> Result<Option<ETag>, Fault> {
    match vfs.lookup_path(&Caller::new(Protocol::Nfs), path) {
        Ok((node, _)) => {
            let now = standing(vfs, node);
            vfs.forget(node, 1);
            Ok(now)
        }
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Keeps what was written and cannot be saved, below the place of refused saves; nothing where all of it is in what stands there or in a version
/// since. What stays of the file is as it was when it was written, zeros where nobody knows that any more. Says whether something was kept.
fn keep(
    vfs: &Vfs,
    (path, place): (&TreePath, &TreePath),
    promises: &[StableWrite],
    fault: &Fault,
) -> Result<bool, Fault> {
    let base = promises.first().and_then(|promise| promise.base_etag);
    let (before, since) = past(vfs, path, base)?;
    let (text, written) = done(before, promises)?;
    if written.is_empty() || stands(vfs, path, &text, &written) {
        return Ok(false);
    }
    for version in since {
        let version = vfs.stored_content(&version.content)?;
        if written.iter().all(|range| version.get(range.clone()) == text.get(range.clone())) {
            return Ok(false);
        }
    }
    let by = author(promises);
    let told = format!("`{by}` wrote this over NFS before the server died, and it was not saved: {}", fault.message());
    vfs.store_rejected((path, place), text.into(), &Fault::new(fault.kind(), told), own(promises))?;
    Ok(true)
}

/// What a page was, and its versions since; nothing of one that has no such version.
fn past(vfs: &Vfs, path: &TreePath, base: Option<ETag>) -> Result<(Bytes, Vec<StoredVersion>), Fault> {
    let mut since: Vec<StoredVersion> = Vec::new();
    for version in vfs.stored_versions(path)?.into_iter().rev() {
        let etag = match &version.content {
            StoredContent::Blob(etag) => *etag,
            StoredContent::Snapshot(..) => ETag::from_content(&vfs.stored_content(&version.content)?),
        };
        if base == Some(etag) {
            return Ok((vfs.stored_content(&version.content)?, since));
        }
        // A number is missing where the page was removed: what was there before is of another one.
        if base.is_none() && since.last().is_some_and(|later| later.number != version.number + 1) {
            break;
        }
        since.push(version);
    }
    if base.is_some() {
        since.clear();
    }
    Ok((Bytes::new(), since))
}

/// A text to which that was done, and where it has bytes that were written.
fn done(text: Bytes, promises: &[StableWrite]) -> Result<(Vec<u8>, Vec<Range<usize>>), Fault> {
    let too_long = || Fault::too_large("file", MAX_FILE_BYTES);
    let place = |at: u64| usize::try_from(at).ok().filter(|at| *at <= MAX_FILE_BYTES).ok_or_else(too_long);
    let (mut text, mut written) = (Vec::from(text), Vec::<Range<usize>>::new());
    for promise in promises {
        match &promise.operation {
            StableOperation::Resize(size) => {
                text.resize(place(*size)?, 0);
                written.iter_mut().for_each(|range| range.end = range.end.min(text.len()));
                written.retain(|range| range.start < range.end);
            }
            StableOperation::Write(offset, data) => {
                let start = place(*offset)?;
                let end = place(start as u64 + data.len() as u64)?;
                text.resize(text.len().max(end), 0);
                text[start..end].copy_from_slice(data);
                written.push(start..end);
            }
        }
    }
    Ok((text, written))
}

/// Whether what stands there has these parts of a text.
fn stands(vfs: &Vfs, path: &TreePath, text: &[u8], parts: &[Range<usize>]) -> bool {
    let Ok((node, _)) = vfs.lookup_path(&Caller::new(Protocol::Nfs), path) else { return false };
    let is_there = |part: &Range<usize>| {
        let there = vfs.read_node(node, part.start as u64, part.len());
        there.is_ok_and(|there| text.get(part.clone()) == Some(&there[..]))
    };
    let stands = parts.iter().all(is_there);
    vfs.forget(node, 1);
    stands
}
