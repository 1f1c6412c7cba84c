//! Preparation of content for writing: size limit, provenance, formatting and change sets.

use std::borrow::Cow;
use std::collections::HashMap;

use bytes::Bytes;
use svcfs_base::{
    ApplyResult, Caller, Change, ChangeSet, CommitId, ETag, EventAnnouncement, Fault, Kind, MAX_FILE_BYTES,
    MAX_PAGE_BYTES, Precondition, Provenance, TreePath, WriteResult,
};
use svcfs_text::frontmatter;
use svcfs_vfs::{EntryKind, FileView};

use super::edit::{self, TextEdit};
use super::merged_write::{MergedWrite, write_merged};
use crate::kernel::OperationContext;
use crate::lint;

/// Attempts of an append that loses against concurrent writers. Each failure means that another
/// writer succeeded; only a steady stream of more than this many makes an append fail.
const APPEND_ATTEMPTS: usize = 256;

pub struct BulkEntry {
    pub path: TreePath,
    /// The full new content.
    pub content: Bytes,
    pub precondition: Precondition,
}

/// Writes one file; with `is_exact` a page is not formatted. With `is_forced` the write may end the
/// protection of an append-only page, on a server without authentication.
///
/// # Errors
/// `TooLarge`, `Invalid` for bad text or frontmatter, and those of [`svcfs_vfs::Vfs::apply`].
pub fn write(
    cx: &OperationContext<'_>,
    path: TreePath,
    content: Bytes,
    (is_exact, is_forced): (bool, bool),
) -> Result<WriteResult, Fault> {
    let content = prepare(cx, cx.caller, (&path, is_exact), content)?;
    let may_unlock = cx.caller.may_unlock || is_forced && !cx.needs_credentials();
    let caller = Caller { may_unlock, ..cx.caller.clone() };
    let change = Change::put(path, content).with_precondition(caller.precondition.clone());
    cx.apply_as(&caller, change)?.single()
}

/// As [`write()`]; a text that is based on an older version is merged with the present one.
///
/// # Errors
/// Those of [`write()`] and [`write_merged`].
pub fn merge(
    cx: &OperationContext<'_>,
    path: &TreePath,
    content: &Bytes,
    is_exact: bool,
) -> Result<MergedWrite, Fault> {
    if content.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("file", MAX_PAGE_BYTES));
    }
    if path.is_page() {
        as_text(content)?;
    }
    let prepare = |merged| prepare(cx, cx.caller, (path, is_exact), merged);
    write_merged(cx, path, |_| Ok(content.clone()), prepare)
}

/// Writes many files in one commit, all or none. The actor is that of `caller`.
///
/// # Errors
/// `Invalid` for an empty list or a duplicate path, and those of [`write()`]; each names the entry.
pub fn bulk(
    cx: &OperationContext<'_>,
    caller: &Caller,
    entries: Vec<BulkEntry>,
    message: Option<String>,
) -> Result<ApplyResult, Fault> {
    if entries.is_empty() {
        return Err(Fault::invalid("files", "at least one file is required"));
    }
    let mut indexes: HashMap<TreePath, usize> = HashMap::with_capacity(entries.len());
    let count = entries.len();
    let mut changes = Vec::with_capacity(count);
    for (index, BulkEntry { path, content, precondition }) in entries.into_iter().enumerate() {
        if path.is_root() {
            return Err(Fault::new(Kind::Invalid, format!("files[{index}].path is required")));
        }
        if let Some(first) = indexes.insert(path.clone(), index) {
            let message = format!("`{path}` is already the path of files[{first}]; each path may occur once");
            return Err(Fault::invalid(&format!("files[{index}].path"), message));
        }
        let content = prepare(cx, caller, (&path, false), content).map_err(|fault| with_entry(&fault, index, &path))?;
        changes.push(Change::put(path, content).with_precondition(precondition));
    }
    let message = message.unwrap_or_else(|| format!("{}: bulk write — {count} files", caller.actor()));
    let set = ChangeSet::new(changes).with_message(message).with_announcement(EventAnnouncement::Bulk);
    cx.apply_as(caller, set).map_err(|fault| {
        let path = fault.detail().get("path").and_then(|path| TreePath::parse(path.as_str()?).ok());
        match path.and_then(|path| Some((*indexes.get(&path)?, path))) {
            Some((index, path)) if fault.kind().refuses_content() => with_entry(&fault, index, &path),
            Some(_) | None => fault,
        }
    })
}

/// Removes a file, a link or an empty directory.
///
/// # Errors
/// `NotFound` if nothing is there and there is no precondition; `Invalid` for a directory with an
/// ETag; those of [`svcfs_vfs::Vfs::apply`].
pub fn remove(cx: &OperationContext<'_>, path: TreePath) -> Result<TreePath, Fault> {
    let change = match cx.tree().stat(cx.caller.protocol, &path) {
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

/// Appends to a file, creating it if absent; a file with content gets `separator` in between.
///
/// Appends of concurrent writers are all kept. The text is not formatted: the existing part may be
/// by other authors.
///
/// # Errors
/// `TooLarge` for an addition over 32 MiB or a result over 64 MiB; those of
/// [`svcfs_vfs::Vfs::apply`]; `Conflict` after [`APPEND_ATTEMPTS`].
pub fn append(
    cx: &OperationContext<'_>,
    path: &TreePath,
    separator: &str,
    addition: &Bytes,
) -> Result<WriteResult, Fault> {
    if addition.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("file", MAX_PAGE_BYTES));
    }
    let mut existing = read_existing(cx, path)?;
    let mut attempt = 1;
    loop {
        let etag = existing.as_ref().map(|file| file.etag);
        let content = concat_content(existing.as_ref().map(|file| &file.content), separator, addition)?;
        let precondition = precondition_for(&cx.caller.precondition, etag);
        let fault = match cx.apply(Change::put(path.clone(), content).with_precondition(precondition)) {
            Ok(applied) => return applied.single(),
            Err(fault) => fault,
        };
        let is_race = matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed | Kind::Exists);
        existing = read_existing(cx, path)?;
        // The file is unchanged: the error has another reason, which a retry would not change.
        if !is_race || attempt == APPEND_ATTEMPTS || existing.as_ref().map(|file| file.etag) == etag {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// Edits parts of a stored text; returns its ETag and the commit. Without a precondition of the
/// caller the edits are repeated when another writer was first. New lines are formatted as in
/// [`write()`].
///
/// # Errors
/// `NotFound` if there is no file; `Invalid` for a file that is no text; those of [`edit::apply`],
/// and of [`svcfs_vfs::Vfs::apply`].
pub fn edit(cx: &OperationContext<'_>, path: &TreePath, edits: &[TextEdit]) -> Result<(ETag, Option<CommitId>), Fault> {
    let mut attempt = 1;
    loop {
        let file = cx.tree().read(cx.caller.protocol, path)?;
        let precondition = precondition_for(&cx.caller.precondition, Some(file.etag));
        // Before the edits are tried: they may not fit to a text that the caller did not read.
        if precondition != Precondition::OneOf(vec![file.etag]) {
            return Err(Fault::edit_conflict(path, Some(file.etag)));
        }
        let text = std::str::from_utf8(&file.content);
        let text = text.map_err(|_| Fault::invalid("path", format_args!("`{path}` is not UTF-8 text")))?;
        let edited = edit::apply(path, text, edits)?;
        let edited = prepare(cx, cx.caller, (path, false), edited.into())?;
        let fault = match cx.apply(Change::put(path.clone(), edited).with_precondition(precondition)) {
            Ok(applied) => {
                let commit = applied.commit;
                return Ok((applied.single()?.etag.unwrap_or(file.etag), commit));
            }
            Err(fault) => fault,
        };
        let is_race = cx.caller.precondition == Precondition::Any && fault.kind() == Kind::Conflict;
        let is_changed = || cx.tree().read(cx.caller.protocol, path).is_ok_and(|now| now.etag != file.etag);
        if !is_race || attempt == APPEND_ATTEMPTS || !is_changed() {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// As [`append`]; if the caller's precondition names an older version, the addition to that is
/// merged with the present one.
///
/// # Errors
/// Those of [`append`] and [`write_merged`].
pub fn merge_appended(
    cx: &OperationContext<'_>,
    path: &TreePath,
    separator: &str,
    addition: &Bytes,
) -> Result<MergedWrite, Fault> {
    if addition.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("file", MAX_PAGE_BYTES));
    }
    read_existing(cx, path)?;
    let check_size = |content: Bytes| match content.len() > MAX_FILE_BYTES {
        true => Err(Fault::too_large("the resulting file", MAX_FILE_BYTES)),
        false => Ok(content),
    };
    write_merged(cx, path, |existing| concat_content(Some(existing), separator, addition), check_size)
}

/// The precondition for content based on `current`: the file is unchanged. A caller's precondition
/// that is already violated stays as it is, so that the write fails with the usual error.
fn precondition_for(requested: &Precondition, current: Option<ETag>) -> Precondition {
    let is_met = match requested {
        Precondition::Any => true,
        Precondition::Absent => current.is_none(),
        Precondition::Present => current.is_some(),
        Precondition::OneOf(etags) => current.is_some_and(|current| etags.contains(&current)),
        Precondition::Large(_) => false,
    };
    match current {
        _ if !is_met => requested.clone(),
        Some(current) => Precondition::OneOf(vec![current]),
        None => Precondition::Absent,
    }
}

fn concat_content(existing: Option<&Bytes>, separator: &str, addition: &Bytes) -> Result<Bytes, Fault> {
    let Some(existing) = existing.filter(|content| !content.is_empty()) else {
        return Ok(addition.clone());
    };
    let length = existing.len() + separator.len() + addition.len();
    if length > MAX_FILE_BYTES {
        return Err(Fault::too_large("the resulting file", MAX_FILE_BYTES));
    }
    Ok([&existing[..], separator.as_bytes(), &addition[..]].concat().into())
}

fn read_existing(cx: &OperationContext<'_>, path: &TreePath) -> Result<Option<FileView>, Fault> {
    let (tree, protocol) = (cx.tree(), cx.caller.protocol);
    let read = || match tree.stat(protocol, path)?.kind {
        EntryKind::Symlink => {
            let target = tree.read_link(protocol, path)?;
            let message = format!("`{path}` is a symbolic link to `{target}`; append to its target");
            Err(Fault::new(Kind::Invalid, message))
        }
        EntryKind::File | EntryKind::Directory | EntryKind::Special(_) => tree.read(protocol, path),
    };
    match read() {
        Ok(file) => Ok(Some(file)),
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// The text of a new page that an operation made, formatted if set for the caller's protocol.
///
/// # Errors
/// As [`write()`].
pub fn format_new_page(cx: &OperationContext<'_>, path: &TreePath, text: String) -> Result<Bytes, Fault> {
    prepare(cx, cx.caller, (path, false), text.into())
}

/// Prepares content from a caller: checks the size; for a page adds the provenance and, if set for
/// the protocol, formats the lines that the stored page lacks. Formatting happens here and not in
/// the gate, because only here the full text is the caller's: an append or a rewritten link must
/// not change the rest.
fn prepare(
    cx: &OperationContext<'_>,
    caller: &Caller,
    (path, is_exact): (&TreePath, bool),
    content: Bytes,
) -> Result<Bytes, Fault> {
    prepare_with(cx, caller, (path, is_exact), content, || cx.tree().read(caller.protocol, path))
}

/// Prepares content for a page whose stored version is elsewhere, as in a draft.
///
/// # Errors
/// `TooLarge`, `Invalid` for bad text or frontmatter.
pub fn prepare_with(
    cx: &OperationContext<'_>,
    caller: &Caller,
    (path, is_exact): (&TreePath, bool),
    content: Bytes,
    read_stored: impl Fn() -> Result<FileView, Fault>,
) -> Result<Bytes, Fault> {
    if content.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("file", MAX_PAGE_BYTES));
    }
    if !path.is_page() {
        return Ok(content);
    }
    let text = as_text(&content)?;
    let with_provenance = match &caller.provenance {
        Some(provenance) => Some(add_provenance(cx, caller, text, provenance)?),
        None => None,
    };
    let source = with_provenance.as_deref().unwrap_or(text);
    if !is_exact
        && cx.settings().lint.should_format(caller.protocol)
        && let Some(formatted) = format(source, read_stored)
    {
        return Ok(formatted.into());
    }
    Ok(with_provenance.map_or(content, Bytes::from))
}

/// The text with its new lines formatted; none if nothing changes. The stored page is read only if
/// formatting would change something.
fn format(text: &str, read_stored: impl Fn() -> Result<FileView, Fault>) -> Option<String> {
    let Cow::Owned(as_new_page) = lint::format_text(None, text) else { return None };
    let stored = match read_stored() {
        Ok(file) => file.content,
        // Whether the path can be written is checked when it is.
        Err(_) => return Some(as_new_page),
    };
    let Ok(stored) = std::str::from_utf8(&stored) else { return Some(as_new_page) };
    match lint::format_text(Some(stored), text) {
        Cow::Owned(formatted) => Some(formatted),
        Cow::Borrowed(_) => None,
    }
}

fn as_text(content: &Bytes) -> Result<&str, Fault> {
    std::str::from_utf8(content).map_err(|error| {
        let message = format!("a page must be UTF-8 text; byte {} is not", error.valid_up_to() + 1);
        Fault::invalid("content", message)
    })
}

fn add_provenance(
    cx: &OperationContext<'_>,
    caller: &Caller,
    text: &str,
    provenance: &Provenance,
) -> Result<String, Fault> {
    let (date, actor) = (cx.now().to_string(), caller.actor());
    let entry =
        frontmatter::DerivedFrom { kind: &provenance.kind, id: &provenance.id, date: &date, actor: actor.as_str() };
    frontmatter::append_provenance(text, &entry)
        .map_err(|error| Fault::new(Kind::Invalid, format!("provenance: {error}")))
}

fn with_entry(fault: &Fault, index: usize, path: &TreePath) -> Fault {
    let named = Fault::new(fault.kind(), format!("files[{index}] ({path}): {}", fault.message()));
    fault.detail().iter().fold(named, |named, (key, value)| named.with_detail(key, value.clone()))
}
