//! What a server that died had promised: bytes that clients were told are safe, of files that were not saved yet.

use svcfs_base::{Actor, Caller, Door, Durability, ETag, Fault, Kind, Name, TreePath};
use svcfs_vfs::{Act, FileNumbers, HandleId, NodeId, OpenMode, Promise, SetAttributes, Vfs, WriteAt};

/// A file that is open, and what is to be done to it.
type Owed<'a> = ((NodeId, HandleId), &'a [Promise]);

/// Does what was promised, before any client is heard.
///
/// # Errors
/// When the promises cannot be read. What cannot be done is told to the log.
pub(crate) fn settle(vfs: &Vfs, numbers: &FileNumbers) -> Result<(), Fault> {
    for number in numbers.owed()? {
        let path = numbers.path(number)?;
        let promises = numbers.promised(number)?;
        if let Some(path) = path
            && let Err(fault) = settle_one(vfs, &path, &promises)
        {
            tracing::error!(page.path = %path, error = ?fault, "what was written over NFS before the server died could not be saved");
            // A disk that is full today may not be tomorrow.
            if !matches!(
                fault.kind(),
                Kind::Rejected | Kind::Conflict | Kind::Locked | Kind::NotFound | Kind::NotDirectory
            ) {
                continue;
            }
        }
        numbers.kept(&[(number, i64::MAX)], true)?;
    }
    Ok(())
}

fn settle_one(vfs: &Vfs, path: &TreePath, promises: &[Promise]) -> Result<(), Fault> {
    let author = promises.iter().rev().find_map(|promise| promise.author.clone());
    let caller = Caller::new(Door::Nfs).named(author.unwrap_or_else(|| Actor::new("nfs")));
    let Some((opened, promises)) = open(vfs, path, promises, &caller)? else {
        tracing::warn!(page.path = %path, "what was written over NFS before the server died was saved then, or somebody saved since");
        return Ok(());
    };
    let (node, handle) = opened;
    let written = promises.iter().try_for_each(|promise| match &promise.act {
        Act::Resized(size) => {
            let set = SetAttributes { size: Some(*size), ..SetAttributes::default() };
            vfs.set_attributes(&caller, node, set).map(drop)
        }
        Act::Written(offset, data) => vfs.write_node(&caller, handle, WriteAt::Offset(*offset), data).map(drop),
    });
    let published = written.and_then(|()| vfs.publish(&caller, node, Durability::Now));
    let released = vfs.release(&caller, handle);
    vfs.forget(node, 1);
    published.and(released)
}

/// What tells apart what stands under a file's name, with no regard to writes that are not saved yet: the hash of its content; of a file too
/// large for any version, that of its size and time. None of one that was made and never saved.
pub(crate) fn standing(vfs: &Vfs, node: NodeId) -> Option<ETag> {
    let there = vfs.path_of(node).and_then(|path| vfs.stat(Door::Internal, &path));
    match there.ok().and_then(|there| there.large()) {
        Some(large) => Some(ETag::of(large.to_string().as_bytes())),
        None => vfs.etag(node).ok(),
    }
}

/// The file, when it is as it was when a promise was made, and what was promised from then on. Found once.
///
/// Not always from the first one on: what came after a save may stand there beside what was done by it.
fn open<'a>(vfs: &Vfs, path: &TreePath, promises: &'a [Promise], caller: &Caller) -> Result<Option<Owed<'a>>, Fault> {
    let found = match vfs.find(caller, path) {
        Ok((node, _)) => Some(node),
        Err(fault) if fault.kind() == Kind::NotFound => None,
        Err(fault) => return Err(fault),
    };
    let now = found.and_then(|node| standing(vfs, node));
    let from = promises.iter().position(|promise| promise.base == now);
    let Some(rest) = from.map(|from| &promises[from..]) else {
        if let Some(node) = found {
            vfs.forget(node, 1);
        }
        return Ok(None);
    };
    if let Some(node) = found {
        let handle = vfs.open_node(caller, node, OpenMode { write: true, truncate: false })?;
        return Ok(Some(((node, handle), rest)));
    }
    let (parent, _) = vfs.find(caller, &path.parent().unwrap_or_else(TreePath::root))?;
    let made = vfs.create(caller, parent, &Name::parse(path.name())?, 0o644);
    vfs.forget(parent, 1);
    let (node, _, handle) = made?;
    Ok(Some(((node, handle), rest)))
}
