//! Content on its way into the tree: its size, its origin, its form, and the changes it becomes.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use svcfs_base::{
    ApplyResult, Caller, Change, ChangeSet, ETag, EventAnnouncement, Fault, Kind, MAX_FILE_BYTES, MAX_PAGE_BYTES,
    Precondition, Provenance, TreePath, WriteResult,
};
use svcfs_text::frontmatter;
use svcfs_vfs::{EntryKind, FileView};

use crate::kernel::OperationContext;
use crate::lint;

/// How often an append is tried when other writers are faster. Every failure means that another writer succeeded, and fewer
/// writers than this are let in at once, so that only a writer who loses against a steady stream of others gives up.
const APPEND_ATTEMPTS: usize = 256;

/// One file of a bulk write.
pub struct BulkEntry {
    /// Where.
    pub path: TreePath,
    /// The whole new content.
    pub content: Bytes,
    /// What must be true before.
    pub expect: Precondition,
}

/// Writes one file; `is_exact` says that a page is not to be tidied.
///
/// # Errors
/// `TooLarge`, `Invalid` for text or frontmatter that cannot be used, and those of [`svcfs_vfs::Vfs::apply`].
pub fn write(cx: &OperationContext<'_>, path: TreePath, content: Bytes, is_exact: bool) -> Result<WriteResult, Fault> {
    let content = prepare(cx, cx.caller, (&path, is_exact), content)?;
    cx.apply(Change::put(path, content).with_precondition(cx.caller.precondition.clone()))?.single()
}

/// Writes many files in one commit, all or none. The actor is that of `caller`.
///
/// # Errors
/// `Invalid` for an empty list or a path that comes twice, and those of [`write()`]; each names the entry it is about.
pub fn bulk(
    cx: &OperationContext<'_>,
    caller: &Caller,
    entries: Vec<BulkEntry>,
    message: Option<String>,
) -> Result<ApplyResult, Fault> {
    if entries.is_empty() {
        return Err(Fault::invalid("files", "at least one file is required"));
    }
    let mut places: HashMap<TreePath, usize> = HashMap::with_capacity(entries.len());
    let count = entries.len();
    let mut changes = Vec::with_capacity(count);
    for (index, BulkEntry { path, content, expect }) in entries.into_iter().enumerate() {
        if path.is_root() {
            return Err(Fault::new(Kind::Invalid, format!("files[{index}].path is required")));
        }
        if let Some(first) = places.insert(path.clone(), index) {
            let why =
                format!("`{path}` is the path of files[{first}] already; one write cannot have two contents for it");
            return Err(Fault::invalid(&format!("files[{index}].path"), why));
        }
        let content = prepare(cx, caller, (&path, false), content).map_err(|fault| about(&fault, index, &path))?;
        changes.push(Change::put(path, content).with_precondition(expect));
    }
    let message = message.unwrap_or_else(|| format!("{}: bulk write — {count} files", caller.actor()));
    let set = ChangeSet::new(changes).with_message(message).with_announcement(EventAnnouncement::Bulk);
    cx.space.vfs.apply(caller, set).map_err(|fault| {
        let path = fault.detail().get("path").and_then(|path| TreePath::parse(path.as_str()?).ok());
        match path.and_then(|path| Some((*places.get(&path)?, path))) {
            Some((index, path)) if fault.kind() == Kind::Rejected => about(&fault, index, &path),
            Some(_) | None => fault,
        }
    })
}

/// Removes a file, a link or an empty directory.
///
/// # Errors
/// `NotFound` when nothing is there and no condition was given; `Invalid` for a directory and an ETag; those of [`svcfs_vfs::Vfs::apply`].
pub fn remove(cx: &OperationContext<'_>, path: TreePath) -> Result<TreePath, Fault> {
    let change = match cx.space.vfs.stat(cx.caller.protocol, &path) {
        Ok(attributes) if attributes.kind == EntryKind::Directory => match &cx.caller.precondition {
            Precondition::Any | Precondition::Present => Change::RemoveDir { path: path.clone() },
            Precondition::Absent | Precondition::OneOf(_) | Precondition::Large(_) => {
                return Err(Fault::invalid("If-Match", format_args!("`{path}` is a directory, which has no ETag")));
            }
        },
        Err(fault) if cx.caller.precondition == Precondition::Any => return Err(fault),
        Ok(_) | Err(_) => Change::remove(path.clone()).with_precondition(cx.caller.precondition.clone()),
    };
    cx.apply(change)?;
    Ok(path)
}

/// Adds to the end of a file, creating it when absent; a file with content gets `separator` in between.
///
/// Appends of several writers at once are all kept. The text is not tidied: what is already there belongs to others.
///
/// # Errors
/// `TooLarge` for an addition over 32 MiB or a result over 64 MiB; those of [`svcfs_vfs::Vfs::apply`]; `Conflict` after
/// losing against other writers too often.
pub fn append(
    cx: &OperationContext<'_>,
    path: &TreePath,
    separator: &str,
    addition: &Bytes,
) -> Result<WriteResult, Fault> {
    if addition.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("file", MAX_PAGE_BYTES));
    }
    let mut before = present(cx, path)?;
    let mut attempt = 1;
    loop {
        let etag = before.as_ref().map(|file| file.etag);
        let content = joined(before.as_ref(), separator, addition)?;
        let expect = narrowed(&cx.caller.precondition, etag);
        let fault = match cx.apply(Change::put(path.clone(), content).with_precondition(expect)) {
            Ok(applied) => return applied.single(),
            Err(fault) => fault,
        };
        let raced = matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed | Kind::Exists);
        before = present(cx, path)?;
        // The file is as it was: the refusal has another reason, and trying again would not help.
        if !raced || attempt == APPEND_ATTEMPTS || before.as_ref().map(|file| file.etag) == etag {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// The condition under which content made from `now` may be written: nobody wrote since. A condition of the caller's that
/// `now` does not meet stays as it is, so that the write is refused in the usual words.
fn narrowed(asked: &Precondition, now: Option<ETag>) -> Precondition {
    let met = match asked {
        Precondition::Any => true,
        Precondition::Absent => now.is_none(),
        Precondition::Present => now.is_some(),
        Precondition::OneOf(etags) => now.is_some_and(|now| etags.contains(&now)),
        Precondition::Large(_) => false,
    };
    match now {
        _ if !met => asked.clone(),
        Some(now) => Precondition::OneOf(vec![now]),
        None => Precondition::Absent,
    }
}

fn joined(before: Option<&FileView>, separator: &str, addition: &Bytes) -> Result<Bytes, Fault> {
    let Some(before) = before.filter(|file| !file.content.is_empty()) else {
        return Ok(addition.clone());
    };
    let length = before.content.len() + separator.len() + addition.len();
    if length > MAX_FILE_BYTES {
        return Err(Fault::too_large("the file with what is appended", MAX_FILE_BYTES));
    }
    Ok([&before.content[..], separator.as_bytes(), &addition[..]].concat().into())
}

/// The regular file at a path, if there is one.
fn present(cx: &OperationContext<'_>, path: &TreePath) -> Result<Option<FileView>, Fault> {
    let (vfs, protocol) = (&cx.space.vfs, cx.caller.protocol);
    let read = || match vfs.stat(protocol, path)?.kind {
        EntryKind::Symlink => {
            let target = vfs.read_link(protocol, path)?;
            let why = format!("`{path}` is a symbolic link to `{target}`; append to the file it leads to");
            Err(Fault::new(Kind::Invalid, why))
        }
        EntryKind::File | EntryKind::Directory | EntryKind::Special(_) => vfs.read(protocol, path),
    };
    match read() {
        Ok(file) => Ok(Some(file)),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// A body a caller hands in, made ready: within its size; of a page, its origin noted and its text tidied where the door
/// asks for it. Tidying happens here and not in the gate, because only the operation knows that the whole text is the
/// caller's: an append and a rewritten link leave the rest of the page as its author wrote it.
fn prepare(
    cx: &OperationContext<'_>,
    caller: &Caller,
    (path, is_exact): (&TreePath, bool),
    content: Bytes,
) -> Result<Bytes, Fault> {
    if content.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("file", MAX_PAGE_BYTES));
    }
    if !path.is_page() {
        return Ok(content);
    }
    let text = text_of(&content)?;
    let noted = match &caller.provenance {
        Some(origin) => Some(note_origin(cx, caller, text, origin)?),
        None => None,
    };
    let origin_noted = noted.as_deref().unwrap_or(text);
    if !is_exact
        && cx.settings().lint.should_format(caller.protocol)
        && let Cow::Owned(tidy) = lint::format_text(origin_noted)
    {
        return Ok(tidy.into());
    }
    Ok(noted.map_or(content, Bytes::from))
}

fn text_of(content: &Bytes) -> Result<&str, Fault> {
    std::str::from_utf8(content).map_err(|error| {
        let why = format!("a page must be UTF-8 text; byte {} is not", error.valid_up_to() + 1);
        Fault::invalid("content", why)
    })
}

/// Adds the origin to the list `derived-from` of the frontmatter (gaps.md 4.1).
fn note_origin(cx: &OperationContext<'_>, caller: &Caller, text: &str, origin: &Provenance) -> Result<String, Fault> {
    let (date, actor) = (cx.now().to_string(), caller.actor());
    let entry = frontmatter::DerivedFrom { kind: &origin.kind, id: &origin.id, date: &date, actor: actor.as_str() };
    frontmatter::append_provenance(text, &entry)
        .map_err(|error| Fault::new(Kind::Invalid, format!("provenance: {error}")))
}

/// The same refusal, naming the entry of a bulk write it is about.
fn about(fault: &Fault, index: usize, path: &TreePath) -> Fault {
    let named = Fault::new(fault.kind(), format!("files[{index}] ({path}): {}", fault.message()));
    fault.detail().iter().fold(named, |named, (key, value)| named.with_detail(key, value.clone()))
}
