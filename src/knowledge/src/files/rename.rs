//! A file under another name, and the links that follow it (contract 4.3; gaps.md 2.1, D17).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Change, ChangeSet, ETag, Expect, Fault, Kind, TreePath};
use svcfs_vfs::EntryKind;

use super::follow::{Moved, View};
use crate::kernel::Cx;

/// How often a rename is worked out anew because somebody wrote one of the linking pages meanwhile.
const ATTEMPTS: usize = 8;

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
/// has a lint error, and those of [`svcfs_vfs::Vfs::apply`].
pub fn rename(cx: &Cx<'_>, from: TreePath, to: TreePath, manner: Manner) -> Result<Renamed, Fault> {
    let Manner { update_links, expect } = manner;
    for (field, path) in [("from", &from), ("to", &to)] {
        if path.is_root() {
            return Err(Fault::new(Kind::Invalid, format!("{field} is required")));
        }
    }
    let mut attempt = 1;
    loop {
        let plan = Plan::make(cx, &from, &to, update_links)?;
        if from == to {
            return Ok(Renamed { etag: plan.source.etag, from, to, updated_links: 0 });
        }
        let (etag, updated_links) = (plan.source.etag, plan.updated_links);
        let is_guarded = plan.is_guarded;
        match cx.apply(plan.into_set(cx, (&from, &to), &expect)) {
            Ok(applied) => {
                let settled = applied.files.iter().rev().find(|file| file.path == to);
                let etag = settled.and_then(|file| file.etag).unwrap_or(etag);
                return Ok(Renamed { from, to, etag, updated_links });
            }
            Err(fault) if fault.kind() == Kind::Conflict && is_guarded && attempt < ATTEMPTS => attempt += 1,
            Err(fault) => return Err(explained(fault, &to)),
        }
    }
}

/// What a rename will change, worked out from the tree as it is.
struct Plan {
    source: Source,
    /// The file's new content, when its own links change.
    content: Option<String>,
    /// Linking pages with their present hash and new text.
    pages: Vec<(TreePath, ETag, String)>,
    updated_links: usize,
    /// Whether the set holds a condition that another writer can break.
    is_guarded: bool,
}

impl Plan {
    fn make(cx: &Cx<'_>, from: &TreePath, to: &TreePath, update_links: bool) -> Result<Self, Fault> {
        let source = Source::read(cx, from)?;
        let mut plan = Self { source, content: None, pages: Vec::new(), updated_links: 0, is_guarded: false };
        if from == to || !update_links {
            return Ok(plan);
        }
        let vfs = &cx.space.vfs;
        let index = cx.index();
        let moved = Moved::new(from, to, plan.source.text.as_deref());
        let mut sources = index.sources_of(from)?;
        sources.retain(|source| source != from && source != to);
        for path in sources {
            let page = match vfs.read(cx.caller.door, &path) {
                Ok(page) => page,
                // Removed since the index read it: it links to nothing any more.
                Err(fault) if fault.kind() == Kind::NotFound => continue,
                Err(fault) => return Err(fault),
            };
            let Ok(old) = std::str::from_utf8(&page.content) else {
                continue;
            };
            let view = View::new(cx, &moved, (&path, &path));
            if let Some((new, count)) = view.rewritten(old)? {
                plan.updated_links += count;
                plan.pages.push((path, page.etag, new));
            }
        }
        if let Some(old) = &plan.source.text {
            let view = View::new(cx, &moved, (from, to));
            if let Some((new, count)) = view.rewritten(old)? {
                plan.updated_links += count;
                plan.content = Some(new);
            }
        }
        plan.is_guarded = !plan.pages.is_empty() || plan.content.is_some();
        Ok(plan)
    }

    fn into_set(self, cx: &Cx<'_>, (from, to): (&TreePath, &TreePath), expect: &Expect) -> ChangeSet {
        // Without rewritten links the set is a rename and nothing else, which has a subject of its own.
        let message = (self.updated_links > 0)
            .then(|| format!("{}: rename {from} → {to} (updated {} links)", cx.caller.actor(), self.updated_links));
        let mut changes = vec![Change::rename(from.clone(), to.clone()).expecting(expect.clone())];
        if let Some(content) = self.content {
            // At its turn the moved file stands at `to`: written only if it is still the one that was read.
            changes.push(Change::put(to.clone(), content).expecting(Expect::OneOf(vec![self.source.etag])));
        }
        for (path, etag, text) in self.pages {
            changes.push(Change::put(path, text).expecting(Expect::OneOf(vec![etag])));
        }
        ChangeSet { message, ..ChangeSet::new(changes) }
    }
}

/// What is to be renamed.
struct Source {
    etag: ETag,
    /// The text of a page; none for other files, and for links, which are renamed themselves.
    text: Option<String>,
}

impl Source {
    fn read(cx: &Cx<'_>, from: &TreePath) -> Result<Self, Fault> {
        let source = Self::at(cx, from).map_err(|fault| {
            if fault.kind() == Kind::NotFound {
                Fault::not_found("source file not found").with("path", from.as_str())
            } else {
                fault
            }
        })?;
        match &cx.caller.expect {
            Expect::OneOf(etags) if !etags.contains(&source.etag) => Err(Fault::modified(from, Some(source.etag))),
            Expect::Any | Expect::Present | Expect::OneOf(_) => Ok(source),
            Expect::Absent => {
                let why = "a rename needs the file it renames; `If-None-Match: *` cannot hold";
                Err(Fault::invalid("If-None-Match", why))
            }
        }
    }

    fn at(cx: &Cx<'_>, from: &TreePath) -> Result<Self, Fault> {
        let (vfs, door) = (&cx.space.vfs, cx.caller.door);
        match vfs.stat(door, from)?.kind {
            EntryKind::Directory => Err(Fault::is_directory(from)),
            EntryKind::Special(_) => Err(Fault::file_not_found(from)),
            EntryKind::Symlink => Ok(Self { etag: ETag::of(vfs.read_link(door, from)?.as_bytes()), text: None }),
            EntryKind::File => {
                let file = vfs.read(door, from)?;
                let text = || String::from_utf8(file.content.to_vec()).ok();
                Ok(Self { etag: file.etag, text: if from.is_page() { text() } else { None } })
            }
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
