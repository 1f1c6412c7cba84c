//! A file under another name, and the links that follow it (contract 4.3; gaps.md 2.1, D17).

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Change, ChangeSet, Door, ETag, Expect, Fault, Kind, TreePath};
use svcfs_index::Following;
use svcfs_vfs::{EntryKind, File, Vfs};

use super::follow::{Moved, View};
use crate::kernel::Cx;

/// How often a rename is worked out anew because somebody wrote one of the linking pages meanwhile.
const ATTEMPTS: usize = 8;

/// How long a rename waits for the index to know every link. One that is asked for right behind another, of a page that ten thousand
/// link to, waits some seconds.
const INDEX_PATIENCE: Duration = Duration::from_secs(20);

/// Pages that are read before the thread that rewrites them is told.
const READ_AT_ONCE: usize = 64;

/// A file under its new name.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Renamed {
    /// The old path
    pub from: TreePath,
    /// The new path
    pub to: TreePath,
    /// Hash of the content, which changes only when the file's own links had to be rewritten
    pub etag: ETag,
    /// How many links were rewritten
    pub updated_links: usize,
}

/// How a file gets its new name.
pub struct Manner {
    /// Whether links to it are rewritten, in the same commit.
    pub update_links: bool,
    /// What must be true of the new name before.
    pub expect: Expect,
}

/// Renames a file.
///
/// A condition of the caller's is about the content at `from`.
///
/// # Errors
/// `NotFound` with `source file not found`, `Exists` when `to` is taken, `Conflict` when it is not what may be replaced, `Rejected` when a page whose link would be rewritten
/// has a lint error, `Unavailable` while the index does not know every link, and those of [`svcfs_vfs::Vfs::apply`].
pub fn rename(cx: &Cx<'_>, from: TreePath, to: TreePath, manner: Manner) -> Result<Renamed, Fault> {
    let Manner { update_links, expect } = manner;
    check_named(&from, &to)?;
    settled(|| {
        let source = Source::read(cx, &from)?;
        if from == to {
            return Ok(Ok(Renamed { etag: source.etag, from: from.clone(), to: to.clone(), updated_links: 0 }));
        }
        let rewriting = if update_links {
            let page = source.is_page.then_some(&from);
            Rewriting::of(cx, (&from, &to), std::slice::from_ref(&from), page)?
        } else {
            Rewriting::default()
        };
        let updated_links = rewriting.updated_links;
        let first = Change::rename(from.clone(), to.clone()).expecting(expect.clone());
        // Without rewritten links the set is a rename and nothing else, which has a subject of its own.
        let message = format!("{}: rename {from} → {to}", cx.caller.actor());
        let applied = cx.apply(rewriting.into_set(first, message));
        Ok(applied.map(|applied| {
            let settled = applied.files.iter().rev().find(|file| file.path == to);
            let etag = settled.and_then(|file| file.etag).unwrap_or(source.etag);
            Renamed { from: from.clone(), to: to.clone(), etag, updated_links }
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
pub fn rename_directory(cx: &Cx<'_>, from: TreePath, to: TreePath) -> Result<RenamedDirectory, Fault> {
    check_named(&from, &to)?;
    let (vfs, door) = (&cx.space.vfs, cx.caller.door);
    settled(|| {
        let there = vfs.stat(door, &from).map_err(|fault| missing(fault, "source directory not found", &from))?;
        if there.kind != EntryKind::Directory {
            return Err(Fault::not_directory(&from));
        }
        let files: Vec<TreePath> = vfs.walk(door, &from)?.into_iter().map(|file| file.path).collect();
        if from != to {
            if vfs.stat(door, &to).is_ok() {
                return Err(Fault::exists(&to));
            }
            let rewriting = Rewriting::of(cx, (&from, &to), &files, None)?;
            let first = Change::rename(from.clone(), to.clone()).expecting(Expect::Absent);
            let message = format!("{}: rename dir {from} → {to}", cx.caller.actor());
            if let Err(fault) = cx.apply(rewriting.into_set(first, message)) {
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
    if fault.kind() == Kind::NotFound { Fault::not_found(said).with("path", path.as_str()) } else { fault }
}

/// The pages whose links a rename leads elsewhere, worked out from the tree as it is.
#[derive(Default)]
struct Rewriting {
    /// Where each will stand, the hash of its text now, and the new text.
    pages: Vec<(TreePath, ETag, String)>,
    updated_links: usize,
}

impl Rewriting {
    /// For these files, which are at `from` or below it; `other` is a page that is looked at though the index may not have it.
    fn of(
        cx: &Cx<'_>,
        (from, to): (&TreePath, &TreePath),
        files: &[TreePath],
        other: Option<&TreePath>,
    ) -> Result<Self, Fault> {
        let index = cx.index_within(INDEX_PATIENCE)?;
        index.following(from, |links| {
            let moved = Moved::new((from, to), files, links.names_of_text(from)?);
            let mut pages = links.concerned(from, files)?;
            // What the index leaves out.
            pages.extend(files.iter().filter(|file| file.is_dotted() && file.is_page()).chain(other).cloned());
            // What is there gives way.
            pages.remove(to);
            // To whoever is limited to a folder nothing links there from elsewhere, and which page does is none of their business.
            pages.retain(|page| cx.caller.reach.covers(page));
            let mut rewriting = Self::default();
            let add = |page: &TreePath, file: File| rewriting.add(cx, &moved, links, (page, &file));
            Ok(each_read(cx, &pages, add).map(|()| rewriting))
        })?
    }

    fn add(
        &mut self,
        cx: &Cx<'_>,
        moved: &Moved<'_>,
        links: &mut Following<'_>,
        (page, file): (&TreePath, &File),
    ) -> Result<(), Fault> {
        let Ok(old) = std::str::from_utf8(&file.content) else {
            cx.note(format!("the page `{page}` is not UTF-8, so that its links stay as they are"));
            return Ok(());
        };
        let view = View::new(cx, moved, links, page);
        if let Some((new, count)) = view.rewritten(old)? {
            self.updated_links += count;
            self.pages.push((view.into_place(), file.etag, new));
        }
        Ok(())
    }

    /// The rename, and the pages, each under the condition that it is still the one that was read; one that moves is at its new place
    /// when its turn comes. Without any, the set is a rename and nothing else, which has a subject of its own.
    fn into_set(self, rename: Change, message: String) -> ChangeSet {
        let message = (self.updated_links > 0).then(|| format!("{message} (updated {} links)", self.updated_links));
        let mut changes = vec![rename];
        for (path, etag, text) in self.pages {
            changes.push(Change::put(path, text).expecting(Expect::OneOf(vec![etag])));
        }
        ChangeSet { message, ..ChangeSet::new(changes) }
    }
}

/// Hands over what stands at each of these paths, as far as it is a file. The next ones are read by another thread meanwhile, when they
/// are many: reading ten thousand takes as long as rewriting them.
fn each_read(
    cx: &Cx<'_>,
    pages: &BTreeSet<TreePath>,
    mut work: impl FnMut(&TreePath, File) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (vfs, door) = (&*cx.space.vfs, cx.caller.door);
    let mut take = |page: &TreePath, read: Result<Option<File>, Fault>| read?.map_or(Ok(()), |file| work(page, file));
    if pages.len() <= READ_AT_ONCE {
        return pages.iter().try_for_each(|page| take(page, read(vfs, door, page)));
    }
    let all: Vec<&TreePath> = pages.iter().collect();
    thread::scope(|scope| {
        let (hand_over, handed) = sync_channel(1);
        scope.spawn(move || {
            for some in all.chunks(READ_AT_ONCE) {
                let files: Vec<_> = some.iter().map(|page| (*page, read(vfs, door, page))).collect();
                if hand_over.send(files).is_err() {
                    // One of those before was refused, which is told below.
                    return;
                }
            }
        });
        handed.into_iter().flatten().try_for_each(|(page, file)| take(page, file))
    })
}

/// The file at a path; none when something else stands there.
fn read(vfs: &Vfs, door: Door, page: &TreePath) -> Result<Option<File>, Fault> {
    let read = vfs.stat(door, page).and_then(|there| match there.kind {
        EntryKind::File => vfs.read(door, page).map(Some),
        EntryKind::Directory | EntryKind::Symlink | EntryKind::Special(_) => Ok(None),
    });
    match read {
        // Removed since the index read it: it links to nothing any more.
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        outcome => outcome,
    }
}

/// What is to be renamed.
struct Source {
    etag: ETag,
    /// Not of other files, and of links, which are renamed themselves.
    is_page: bool,
}

impl Source {
    fn read(cx: &Cx<'_>, from: &TreePath) -> Result<Self, Fault> {
        let source = Self::at(cx, from).map_err(|fault| missing(fault, "source file not found", from))?;
        match &cx.caller.expect {
            Expect::OneOf(etags) if !etags.contains(&source.etag) => Err(Fault::modified(from, Some(source.etag))),
            Expect::Large(_) => Err(Fault::modified(from, Some(source.etag))),
            Expect::Any | Expect::Present | Expect::OneOf(_) => Ok(source),
            Expect::Absent => {
                let why = "a rename needs the file it renames; `If-None-Match: *` cannot hold";
                Err(Fault::new(Kind::PreconditionFailed, why))
            }
        }
    }

    fn at(cx: &Cx<'_>, from: &TreePath) -> Result<Self, Fault> {
        let (vfs, door) = (&cx.space.vfs, cx.caller.door);
        match vfs.stat(door, from)?.kind {
            EntryKind::Directory => Err(Fault::is_directory(from)),
            EntryKind::Special(_) => Err(Fault::file_not_found(from)),
            EntryKind::Symlink => Ok(Self { etag: ETag::of(vfs.read_link(door, from)?.as_bytes()), is_page: false }),
            EntryKind::File => Ok(Self { etag: vfs.read(door, from)?.etag, is_page: from.is_page() }),
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
            members.fold(Fault::rejected(named), |named, (key, value)| named.with(key, value.clone()))
        }
        _ => fault,
    }
}
