//! A file under another name, and the links that follow it (contract 4.3; gaps.md 2.1, D17).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Change, ETag, Fault, Kind, Precondition, TreePath};
use svcfs_vfs::EntryKind;

use super::link_rewrite::LinkRewrite;
use crate::kernel::OperationContext;

/// How often a rename is worked out anew because somebody wrote one of the linking pages meanwhile.
const ATTEMPTS: usize = 8;

/// A file under its new name.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RenamedFile {
    /// The old path
    pub from: TreePath,
    /// The new path
    pub to: TreePath,
    /// Hash of the content, which changes only when the file's own links had to be rewritten
    pub etag: ETag,
    /// How many links were rewritten
    pub updated_links: usize,
}

/// Whether links follow a file to its new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkUpdatePolicy {
    /// They do, or nothing is renamed.
    Always,
    /// They stay as they are.
    Never,
    /// As when a filesystem door renames the file (gaps.md D7).
    AsByDoor,
}

/// How a file gets its new name.
pub struct RenameOptions {
    /// Whether links to it are rewritten, in the same commit.
    pub following: LinkUpdatePolicy,
    /// What must be true of the new name before.
    pub expect: Precondition,
}

/// Renames a file.
///
/// A condition of the caller's is about the content at `from`.
///
/// # Errors
/// `NotFound` with `source file not found`, `Exists` when `to` is taken, `Conflict` when it is not what may be replaced, `Rejected` when a page whose link would be rewritten
/// has a lint error, `Unavailable` while the index does not know every link, and those of [`svcfs_vfs::Vfs::apply`].
pub fn rename(
    cx: &OperationContext<'_>,
    from: TreePath,
    to: TreePath,
    manner: RenameOptions,
) -> Result<RenamedFile, Fault> {
    let RenameOptions { following, expect } = manner;
    check_named(&from, &to)?;
    settled(|| {
        let source = RenameSource::read(cx, &from)?;
        if from == to {
            return Ok(Ok(RenamedFile { etag: source.etag, from: from.clone(), to: to.clone(), updated_links: 0 }));
        }
        let rename = Change::rename(from.clone(), to.clone()).with_precondition(expect.clone());
        let applied = match following {
            LinkUpdatePolicy::Always => {
                let page = source.is_page.then_some(&from);
                let rewriting = LinkRewrite::of(cx, (&from, &to), std::slice::from_ref(&from), page)?;
                let links = rewriting.links();
                let set = rewriting.into_set(rename, &format!("{}: rename {from} → {to}", cx.caller.actor()));
                cx.apply(set).map(|applied| (applied, links))
            }
            LinkUpdatePolicy::Never => cx.apply(rename).map(|applied| (applied, 0)),
            LinkUpdatePolicy::AsByDoor => cx.space.vfs.rename_with_links(cx.caller, &rename, |set| cx.apply(set)),
        };
        Ok(applied.map(|(applied, updated_links)| {
            let settled = applied.files.iter().rev().find(|file| file.path == to);
            let etag = settled.and_then(|file| file.etag).unwrap_or(source.etag);
            RenamedFile { from: from.clone(), to: to.clone(), etag, updated_links }
        }))
    })
    .map_err(|fault| explained(fault, &to))
}

/// A directory under its new name.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RenamedDirectory {
    /// The old path
    pub from: TreePath,
    /// The new path
    pub to: TreePath,
    /// How many files are in it, however deep
    pub renamed: usize,
}

/// Renames a directory with all that is in it, and leads links to its files to the new places: those of pages elsewhere, and those of
/// pages in it.
///
/// # Errors
/// `NotFound` with `source directory not found`, `NotDirectory`, `Exists` when anything is at `to`, `Rejected` when a page whose link
/// would be rewritten has a lint error, and those of [`svcfs_vfs::Vfs::apply`].
pub fn rename_directory(cx: &OperationContext<'_>, from: TreePath, to: TreePath) -> Result<RenamedDirectory, Fault> {
    check_named(&from, &to)?;
    let (vfs, protocol) = (&cx.space.vfs, cx.caller.protocol);
    settled(|| {
        let there = vfs.stat(protocol, &from).map_err(|fault| missing(fault, "source directory not found", &from))?;
        if there.kind != EntryKind::Directory {
            return Err(Fault::not_directory(&from));
        }
        let files: Vec<TreePath> = vfs.walk(protocol, &from)?.into_iter().map(|file| file.path).collect();
        if from != to {
            if vfs.stat(protocol, &to).is_ok() {
                return Err(Fault::exists(&to));
            }
            let rewriting = LinkRewrite::of(cx, (&from, &to), &files, None)?;
            let first = Change::rename(from.clone(), to.clone()).with_precondition(Precondition::Absent);
            let message = format!("{}: rename dir {from} → {to}", cx.caller.actor());
            if let Err(fault) = cx.apply(rewriting.into_set(first, &message)) {
                return Ok(Err(fault));
            }
        }
        Ok(Ok(RenamedDirectory { from: from.clone(), to: to.clone(), renamed: files.len() }))
    })
    .map_err(|fault| explained(fault, &to))
}

/// Works a rename out and applies it; anew when one of the pages it rewrites was written meanwhile.
///
/// The attempt fails with what no other attempt would change, and gives what became of its set.
fn settled<T>(attempt: impl Fn() -> Result<Result<T, Fault>, Fault>) -> Result<T, Fault> {
    for _ in 1..ATTEMPTS {
        match attempt()? {
            Err(fault) if fault.kind() == Kind::Conflict => {}
            outcome => return outcome,
        }
    }
    attempt()?
}

fn check_named(from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    match [("from", from), ("to", to)].into_iter().find(|(_, path)| path.is_root()) {
        Some((field, _)) => Err(Fault::new(Kind::Invalid, format!("{field} is required"))),
        None => Ok(()),
    }
}

/// A fault that says in the contract's words what is missing.
fn missing(fault: Fault, said: &str, path: &TreePath) -> Fault {
    if fault.kind() == Kind::NotFound { Fault::not_found(said).with_detail("path", path.as_str()) } else { fault }
}

/// What is to be renamed.
struct RenameSource {
    etag: ETag,
    /// Not of other files, and of links, which are renamed themselves.
    is_page: bool,
}

impl RenameSource {
    fn read(cx: &OperationContext<'_>, from: &TreePath) -> Result<Self, Fault> {
        let source = Self::at(cx, from).map_err(|fault| missing(fault, "source file not found", from))?;
        match &cx.caller.precondition {
            Precondition::OneOf(etags) if !etags.contains(&source.etag) => {
                Err(Fault::edit_conflict(from, Some(source.etag)))
            }
            Precondition::Large(_) => Err(Fault::edit_conflict(from, Some(source.etag))),
            Precondition::Any | Precondition::Present | Precondition::OneOf(_) => Ok(source),
            Precondition::Absent => {
                let why = "a rename needs the file it renames; `If-None-Match: *` cannot hold";
                Err(Fault::new(Kind::PreconditionFailed, why))
            }
        }
    }

    fn at(cx: &OperationContext<'_>, from: &TreePath) -> Result<Self, Fault> {
        let (vfs, protocol) = (&cx.space.vfs, cx.caller.protocol);
        match vfs.stat(protocol, from)?.kind {
            EntryKind::Directory => Err(Fault::is_directory(from)),
            EntryKind::Special(_) => Err(Fault::file_not_found(from)),
            EntryKind::Symlink => {
                Ok(Self { etag: ETag::from_content(vfs.read_link(protocol, from)?.as_bytes()), is_page: false })
            }
            EntryKind::File => Ok(Self { etag: vfs.read(protocol, from)?.etag, is_page: from.is_page() }),
        }
    }
}

/// The refusal of a set, explained when it is about a page the caller did not name.
fn explained(fault: Fault, to: &TreePath) -> Fault {
    match fault.kind() {
        // Who finds the name taken did not send `If-None-Match`: to them it is a conflict, not a failed precondition.
        Kind::PreconditionFailed => Fault::exists(to),
        Kind::Rejected => {
            let why = format!("{}; mend the page, or rename with `update_links` false", fault.message());
            let named = match fault.detail().get("path").and_then(|path| path.as_str()) {
                Some(path) => format!("links in `{path}` cannot be rewritten: {why}"),
                None => why,
            };
            let members = fault.detail().iter();
            members.fold(Fault::rejected(named), |named, (key, value)| named.with_detail(key, value.clone()))
        }
        _ => fault,
    }
}
