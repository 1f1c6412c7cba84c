//! Renames of files and directories, and updates of the links to them.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Change, ETag, Fault, Kind, Precondition, TreePath};
use svcfs_vfs::EntryKind;

use super::link_rewrite::LinkRewrite;
use crate::kernel::OperationContext;

const ATTEMPTS: usize = 8;

/// The result of renaming a file.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RenamedFile {
    /// Old path
    pub from: TreePath,
    /// New path
    pub to: TreePath,
    /// Hash of the content; it changes only if links in the file itself were rewritten
    pub etag: ETag,
    /// Number of rewritten links
    pub updated_links: usize,
}

/// Whether links to a renamed file are rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkUpdatePolicy {
    /// They are, or the rename fails.
    Always,
    /// They are not.
    Never,
    /// By the settings for renames through file protocols.
    FileProtocolSettings,
}

/// Options of a rename.
pub struct RenameOptions {
    /// Whether links are rewritten, in the same commit.
    pub link_updates: LinkUpdatePolicy,
    /// Precondition on the destination.
    pub precondition: Precondition,
}

/// Renames a file. The caller's precondition applies to the content at `from`.
///
/// # Errors
/// `NotFound` with `source file not found`, `Exists` if `to` exists, `Conflict` if it does not meet
/// the precondition, `Rejected` if a page with a link to rewrite has a lint error, `Unavailable`
/// while the index does not know every link, and those of [`svcfs_vfs::Vfs::apply`].
pub fn rename(
    cx: &OperationContext<'_>,
    from: TreePath,
    to: TreePath,
    options: RenameOptions,
) -> Result<RenamedFile, Fault> {
    let RenameOptions { link_updates, precondition } = options;
    require_paths(&from, &to)?;
    with_retries(|| {
        let source = RenameSource::read(cx, &from)?;
        if from == to {
            return Ok(Ok(RenamedFile { etag: source.etag, from: from.clone(), to: to.clone(), updated_links: 0 }));
        }
        let rename = Change::rename(from.clone(), to.clone()).with_precondition(precondition.clone());
        let applied = match link_updates {
            LinkUpdatePolicy::Always => {
                let page = source.is_page.then_some(&from);
                let rewrite = LinkRewrite::of(cx, (&from, &to), std::slice::from_ref(&from), page)?;
                let links = rewrite.links();
                let set = rewrite.into_change_set(rename, &format!("{}: rename {from} → {to}", cx.caller.actor()));
                cx.apply(set).map(|applied| (applied, links))
            }
            LinkUpdatePolicy::Never => cx.apply(rename).map(|applied| (applied, 0)),
            LinkUpdatePolicy::FileProtocolSettings if cx.is_proposing() => cx.apply(rename).map(|applied| (applied, 0)),
            LinkUpdatePolicy::FileProtocolSettings => {
                cx.space.vfs.rename_with_links(cx.caller, &rename, |set| cx.apply(set))
            }
        };
        Ok(applied.map(|(applied, updated_links)| {
            let result = applied.files.iter().rev().find(|file| file.path == to);
            let etag = result.and_then(|file| file.etag).unwrap_or(source.etag);
            RenamedFile { from: from.clone(), to: to.clone(), etag, updated_links }
        }))
    })
    .map_err(|fault| explain(fault, &to))
}

/// The result of renaming a directory.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RenamedDirectory {
    /// Old path
    pub from: TreePath,
    /// New path
    pub to: TreePath,
    /// Number of files in it, at any depth
    pub renamed: usize,
}

/// Renames a directory. Links to its files are rewritten, both in other pages and in pages of the
/// directory.
///
/// # Errors
/// `NotFound` with `source directory not found`, `NotDirectory`, `Exists` if anything is at `to`,
/// `Invalid` if files that git ignores would become visible to the caller, `Rejected` if a page
/// with a link to rewrite has a lint error, and those of [`svcfs_vfs::Vfs::apply`].
pub fn rename_directory(cx: &OperationContext<'_>, from: TreePath, to: TreePath) -> Result<RenamedDirectory, Fault> {
    require_paths(&from, &to)?;
    let (vfs, tree, protocol) = (&cx.space.vfs, cx.tree(), cx.caller.protocol);
    with_retries(|| {
        let attributes =
            tree.stat(protocol, &from).map_err(|fault| source_not_found(fault, "source directory not found", &from))?;
        if attributes.kind != EntryKind::Directory {
            return Err(Fault::not_directory(&from));
        }
        let files: Vec<TreePath> = tree.walk(protocol, &from)?.into_iter().map(|file| file.path).collect();
        if from != to {
            if tree.stat(protocol, &to).is_ok() {
                return Err(Fault::exists(&to));
            }
            if protocol.serves_knowledge_only() && vfs.is_uncovering_rename(&from, &to)? {
                return Err(uncovering(&from, &to));
            }
            let rewrite = LinkRewrite::of(cx, (&from, &to), &files, None)?;
            let rename = Change::rename(from.clone(), to.clone()).with_precondition(Precondition::Absent);
            let message = format!("{}: rename dir {from} → {to}", cx.caller.actor());
            if let Err(fault) = cx.apply(rewrite.into_change_set(rename, &message)) {
                return Ok(Err(fault));
            }
        }
        Ok(Ok(RenamedDirectory { from: from.clone(), to: to.clone(), renamed: files.len() }))
    })
    .map_err(|fault| explain(fault, &to))
}

/// Computes and applies a rename; retries if a page it rewrites was written concurrently.
///
/// `attempt` fails with errors that a retry would not change; else it returns the result of
/// applying.
fn with_retries<T>(attempt: impl Fn() -> Result<Result<T, Fault>, Fault>) -> Result<T, Fault> {
    for _ in 1..ATTEMPTS {
        match attempt()? {
            Err(fault) if fault.kind() == Kind::Conflict => {}
            outcome => return outcome,
        }
    }
    attempt()?
}

fn require_paths(from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    match [("from", from), ("to", to)].into_iter().find(|(_, path)| path.is_root()) {
        Some((field, _)) => Err(Fault::new(Kind::Invalid, format!("{field} is required"))),
        None => Ok(()),
    }
}

/// Refuses a rename after which callers could read files that git ignores. Names none of them.
fn uncovering(from: &TreePath, to: &TreePath) -> Fault {
    let message = format_args!(
        "path denied: `{from}` contains files that git ignores there and would not ignore in `{to}`; rename it \
         through a mount, or change the rules before"
    );
    Fault::invalid("from", message)
}

/// Replaces the message of `NotFound` by the documented one.
fn source_not_found(fault: Fault, message: &str, path: &TreePath) -> Fault {
    match fault.kind() {
        Kind::NotFound => Fault::not_found(message).with_detail("path", path.as_str()).with_missing_path(path),
        _ => fault,
    }
}

struct RenameSource {
    etag: ETag,
    /// False for other files and for symbolic links, which are renamed themselves.
    is_page: bool,
}

impl RenameSource {
    fn read(cx: &OperationContext<'_>, from: &TreePath) -> Result<Self, Fault> {
        let source = Self::at(cx, from).map_err(|fault| source_not_found(fault, "source file not found", from))?;
        match &cx.caller.precondition {
            Precondition::OneOf(etags) if !etags.contains(&source.etag) => {
                Err(Fault::edit_conflict(from, Some(source.etag)))
            }
            Precondition::Large(_) => Err(Fault::edit_conflict(from, Some(source.etag))),
            Precondition::Any | Precondition::Present | Precondition::OneOf(_) => Ok(source),
            Precondition::Absent => {
                let why = "`If-None-Match: *` cannot be used with a rename, which needs an existing file";
                Err(Fault::new(Kind::PreconditionFailed, why))
            }
        }
    }

    fn at(cx: &OperationContext<'_>, from: &TreePath) -> Result<Self, Fault> {
        let (tree, protocol) = (cx.tree(), cx.caller.protocol);
        match tree.stat(protocol, from)?.kind {
            EntryKind::Directory => Err(Fault::is_directory(from)),
            EntryKind::Special(_) => Err(Fault::file_not_found(from)),
            EntryKind::Symlink => {
                Ok(Self { etag: ETag::from_content(tree.read_link(protocol, from)?.as_bytes()), is_page: false })
            }
            EntryKind::File => Ok(Self { etag: tree.read(protocol, from)?.etag, is_page: from.is_page() }),
        }
    }
}

/// Explains an error of applying if it is about a page that the caller did not name.
fn explain(fault: Fault, to: &TreePath) -> Fault {
    match fault.kind() {
        // The caller did not send `If-None-Match`: for it an existing name is a conflict.
        Kind::PreconditionFailed => Fault::exists(to),
        Kind::Rejected => {
            let why = format!("{}; fix the page, or rename with `update_links` set to false", fault.message());
            let message = match fault.detail().get("path").and_then(|path| path.as_str()) {
                Some(path) => format!("cannot rewrite links in `{path}`: {why}"),
                None => why,
            };
            let details = fault.detail().iter();
            details.fold(Fault::rejected(message), |message, (key, value)| message.with_detail(key, value.clone()))
        }
        _ => fault,
    }
}
