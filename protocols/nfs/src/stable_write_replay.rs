//! Replay of stable writes after a crash: bytes acknowledged to clients as durable, of files that
//! were not saved yet.
//!
//! Invariant: a record is dropped only when its file is saved, its text is stored as a rejected
//! save, or its bytes are in the current file or a later version. After an I/O error it stays and
//! is retried when the space is opened next.

use std::ops::Range;

use bytes::Bytes;
use svcfs_base::{
    Actor, Caller, DiskAttributes, Durability, ETag, Fault, Kind, MAX_FILE_BYTES, PathComponent, Protocol, TreePath,
};
use svcfs_vfs::{
    HandleId, InodeTable, NodeId, OpenMode, SetAttributes, StableOperation, StableWrite, StoredContent, StoredVersion,
    Vfs, WriteAt,
};

/// Replays all recorded stable writes, before the first call is read. Errors: when the records
/// cannot be read. Failures of single files are logged.
pub(crate) fn replay(vfs: &Vfs, inode_table: &InodeTable) -> Result<(), Fault> {
    for inode in inode_table.pending_inodes()? {
        let writes = inode_table.pending_writes(inode)?;
        let replayed = match inode_table.path(inode)? {
            Some(path) => replay_file(vfs, &path, &writes),
            None => {
                let fault = Fault::not_found("the directory of this file was removed");
                TreePath::parse(&format!("nfs-{inode}"))
                    .and_then(|path| store_unsaved(vfs, (&path, &path), &writes, &fault))
            }
        };
        match replayed {
            Ok(_) => inode_table.discard_writes(&[(inode, InodeTable::ALL_POSITIONS)], true)?,
            Err(fault) => {
                tracing::error!(inode, error = ?fault, "stable NFS writes from before a crash could neither be saved nor stored as a rejected save; they are retried when the space is opened next");
            }
        }
    }
    Ok(())
}

fn replay_file(vfs: &Vfs, path: &TreePath, writes: &[StableWrite]) -> Result<bool, Fault> {
    let current = saved_etag_at(vfs, path)?;
    // The first records may be obsolete: those that came after a save follow those that it
    // included.
    let first_valid = writes.iter().position(|write| write.base_etag == current).unwrap_or(writes.len());
    let (earlier, rest) = writes.split_at(first_valid);
    let mut unsaved = Vec::new();
    if !rest.is_empty() {
        match save(vfs, path, rest) {
            Err(fault) if is_transient(fault.kind()) => return Err(fault),
            Err(fault) => unsaved.push((rest, fault)),
            Ok(()) => {}
        }
    }
    let reason = if current.is_none() { "the file was removed since" } else { "the file was changed since" };
    let runs = earlier.chunk_by(|a, b| a.base_etag == b.base_etag);
    unsaved.extend(runs.rev().map(|run| (run, Fault::new(Kind::Conflict, reason))));
    // Stored after the save, which removes earlier rejections of the path.
    let mut stored = 0;
    for (run, fault) in unsaved {
        let copy_path = if stored == 0 { path.clone() } else { TreePath::parse(&format!("{path}.{stored}"))? };
        stored += usize::from(store_unsaved(vfs, (path, &copy_path), run, &fault)?);
    }
    Ok(stored > 0)
}

const fn is_transient(kind: Kind) -> bool {
    use Kind as K;
    matches!(
        kind,
        K::NoSpace | K::ReadOnly | K::DiskFailed | K::Unavailable | K::Internal | K::Upstream | K::RateLimited
    )
}

fn author(writes: &[StableWrite]) -> Actor {
    writes.iter().rev().find_map(|write| write.author.clone()).unwrap_or_else(|| Actor::new("nfs"))
}

fn save(vfs: &Vfs, path: &TreePath, writes: &[StableWrite]) -> Result<(), Fault> {
    let caller = Caller::new(Protocol::Nfs).with_actor(author(writes));
    let (node, handle) = open(vfs, path, (&caller, last_attributes(writes)))?;
    let written = writes.iter().try_for_each(|write| match &write.operation {
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

fn last_attributes(writes: &[StableWrite]) -> DiskAttributes {
    writes.iter().rev().map(|write| write.attributes).find(|disk| disk.mode.is_some()).unwrap_or_default()
}

/// Opens the file with one lookup, or creates it if it does not exist.
fn open(
    vfs: &Vfs,
    path: &TreePath,
    (caller, last_attributes): (&Caller, DiskAttributes),
) -> Result<(NodeId, HandleId), Fault> {
    match vfs.lookup_path(caller, path) {
        Ok((node, _)) => {
            let opened = vfs.open_node(caller, node, OpenMode { write: true, truncate: false });
            opened.map(|handle| (node, handle)).inspect_err(|_| vfs.forget(node, 1))
        }
        Err(fault) if fault.kind() == Kind::NotFound => {
            let (parent, _) = vfs.lookup_path(caller, &path.parent().unwrap_or_else(TreePath::root))?;
            let created = PathComponent::parse(path.name())
                .and_then(|name| vfs.create(caller, parent, &name, last_attributes.mode.unwrap_or(0o644)));
            vfs.forget(parent, 1);
            let (node, _, handle) = created?;
            let (uid, gid) = last_attributes.owner.unzip();
            let set = SetAttributes { mode: last_attributes.mode, uid, gid, ..SetAttributes::default() };
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

/// Identifies the saved content of a file, without unsaved writes: the hash of the content; for a
/// file too large for versions, the hash of its size and time; `None` for one that was never saved.
pub(crate) fn saved_etag(vfs: &Vfs, node: NodeId) -> Option<ETag> {
    let stat = vfs.path_of(node).and_then(|path| vfs.stat(Protocol::Internal, &path));
    match stat.ok().and_then(|stat| stat.large_file()) {
        Some(large) => Some(ETag::from_content(large.to_string().as_bytes())),
        None => vfs.etag(node).ok(),
    }
}

/// As `saved_etag`, by path; `None` if it does not exist.
fn saved_etag_at(vfs: &Vfs, path: &TreePath) -> Result<Option<ETag>, Fault> {
    match vfs.lookup_path(&Caller::new(Protocol::Nfs), path) {
        Ok((node, _)) => {
            let current = saved_etag(vfs, node);
            vfs.forget(node, 1);
            Ok(current)
        }
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Stores writes that cannot be saved as a rejected save, unless the current file or a later
/// version contains them all. The other bytes are those of the base version, or zeros when it is
/// unknown. Returns whether something was stored.
fn store_unsaved(
    vfs: &Vfs,
    (path, copy_path): (&TreePath, &TreePath),
    writes: &[StableWrite],
    fault: &Fault,
) -> Result<bool, Fault> {
    let base = writes.first().and_then(|write| write.base_etag);
    let (base_text, later_versions) = load_base(vfs, path, base)?;
    let (text, written) = apply_writes(base_text, writes)?;
    if written.is_empty() || contains_parts(vfs, path, &text, &written) {
        return Ok(false);
    }
    for version in later_versions {
        let version = vfs.stored_content(&version.content)?;
        if written.iter().all(|range| version.get(range.clone()) == text.get(range.clone())) {
            return Ok(false);
        }
    }
    let author = author(writes);
    let reason =
        format!("`{author}` wrote this over NFS before the server crashed; it was not saved: {}", fault.message());
    vfs.store_rejected((path, copy_path), text.into(), &Fault::new(fault.kind(), reason), last_attributes(writes))?;
    Ok(true)
}

/// The content of the base version and the versions after it; empty when there is no such version.
fn load_base(vfs: &Vfs, path: &TreePath, base: Option<ETag>) -> Result<(Bytes, Vec<StoredVersion>), Fault> {
    let mut later_versions: Vec<StoredVersion> = Vec::new();
    for version in vfs.stored_versions(path)?.into_iter().rev() {
        let etag = match &version.content {
            StoredContent::Blob(etag) => *etag,
            StoredContent::Converted(..) | StoredContent::Snapshot(..) => {
                ETag::from_content(&vfs.stored_content(&version.content)?)
            }
        };
        if base == Some(etag) {
            return Ok((vfs.stored_content(&version.content)?, later_versions));
        }
        // A gap in the version numbers is a removal: older versions belong to another file.
        if base.is_none() && later_versions.last().is_some_and(|later| later.number != version.number + 1) {
            break;
        }
        later_versions.push(version);
    }
    if base.is_some() {
        later_versions.clear();
    }
    Ok((Bytes::new(), later_versions))
}

/// Applies writes to a text; returns it and the ranges that were written.
fn apply_writes(text: Bytes, writes: &[StableWrite]) -> Result<(Vec<u8>, Vec<Range<usize>>), Fault> {
    let too_large = || Fault::too_large("file", MAX_FILE_BYTES);
    let copy_path = |at: u64| usize::try_from(at).ok().filter(|at| *at <= MAX_FILE_BYTES).ok_or_else(too_large);
    let (mut text, mut written) = (Vec::from(text), Vec::<Range<usize>>::new());
    for write in writes {
        match &write.operation {
            StableOperation::Resize(size) => {
                text.resize(copy_path(*size)?, 0);
                written.iter_mut().for_each(|range| range.end = range.end.min(text.len()));
                written.retain(|range| range.start < range.end);
            }
            StableOperation::Write(offset, data) => {
                let start = copy_path(*offset)?;
                let end = copy_path(start as u64 + data.len() as u64)?;
                text.resize(text.len().max(end), 0);
                text[start..end].copy_from_slice(data);
                written.push(start..end);
            }
        }
    }
    Ok((text, written))
}

/// Whether the current file contains these parts of a text.
fn contains_parts(vfs: &Vfs, path: &TreePath, text: &[u8], parts: &[Range<usize>]) -> bool {
    let Ok((node, _)) = vfs.lookup_path(&Caller::new(Protocol::Nfs), path) else { return false };
    let matches_part = |part: &Range<usize>| {
        let current_bytes = vfs.read_node(node, part.start as u64, part.len());
        current_bytes.is_ok_and(|current_bytes| text.get(part.clone()) == Some(&current_bytes[..]))
    };
    let contains_parts = parts.iter().all(matches_part);
    vfs.forget(node, 1);
    contains_parts
}
