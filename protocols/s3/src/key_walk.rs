//! The keys of a bucket, in their order, from any of them on.
//!
//! Keys are ordered as bytes, and a folder's name counts with the `/` behind it: walked so, one folder after the other gives the keys as they follow, and
//! a page that begins somewhere looks only at the folders on the way there. Nothing is remembered between two pages but the last key.

use std::ops::ControlFlow;

use svcfs_base::{Fault, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes};

use crate::context::S3RequestContext;
use crate::key::SERVERS;
use crate::object_metadata::is_missing;
use crate::staged_upload::is_on_its_way;

/// Most keys of one answer.
pub(crate) const MOST: usize = 1000;

/// Which keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListQuery {
    /// Those that begin so.
    pub(crate) prefix: String,
    /// Those behind this one.
    pub(crate) after: String,
    /// What lies behind the next of these is told together.
    pub(crate) delimiter: Option<String>,
    /// As many.
    pub(crate) most: usize,
}

/// One line of a listing.
#[derive(Debug, Clone)]
pub(crate) enum ListEntry {
    /// A file, and where it is, links followed; or an empty folder, of which no place is told.
    Object { key: String, file: Option<TreePath>, attributes: Option<Box<PathAttributes>> },
    /// What several keys begin with.
    Prefix(String),
}

impl ListEntry {
    /// Its key, or what its keys begin with.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Object { key, .. } | Self::Prefix(key) => key,
        }
    }
}

/// Some lines, and whether there are more.
#[derive(Debug, Default)]
pub(crate) struct KeyPage {
    pub(crate) lines: Vec<ListEntry>,
    pub(crate) is_truncated: bool,
}

impl ListQuery {
    /// The lines of one page.
    ///
    /// # Errors
    /// Those of reading folders.
    pub(crate) fn page(&self, asked: &S3RequestContext) -> Result<KeyPage, Fault> {
        let mut walk = KeyWalk { asked, listing: self, page: KeyPage::default() };
        // No key begins with what is no path.
        let folder = self.prefix.rfind('/').map_or("", |slash| &self.prefix[..slash]);
        let Ok(begin) = TreePath::parse(folder).and_then(|path| match path.as_str() == folder {
            true => Ok(path),
            false => Err(Fault::not_found("no path")),
        }) else {
            return Ok(walk.page);
        };
        if self.most > 0 && walk.may_look(&begin) {
            // Broken off when the page is full.
            let _full = walk.folder(&begin)?;
        }
        Ok(walk.page)
    }

    /// Whether a key lies behind what was told before. What was told together counts as told.
    fn is_ahead(&self, key: &str) -> bool {
        key > self.after.as_str() && !(key.starts_with(&self.after) && self.begins_behind(&self.after))
    }

    /// Whether the page begins behind all that is told together so, and not somewhere in it.
    pub(crate) fn begins_behind(&self, together: &str) -> bool {
        self.after == together && self.together(together).as_deref() == Some(together)
    }

    /// What a key is told together as, if it is.
    pub(crate) fn together(&self, key: &str) -> Option<String> {
        let delimiter = self.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
        let rest = key.strip_prefix(&self.prefix)?;
        let at = rest.find(delimiter)?;
        Some(format!("{}{}{delimiter}", self.prefix, &rest[..at]))
    }
}

struct KeyWalk<'a> {
    asked: &'a S3RequestContext,
    listing: &'a ListQuery,
    page: KeyPage,
}

/// A name in a folder, as its key begins.
struct FolderChild {
    key: String,
    path: TreePath,
    attributes: PathAttributes,
    is_folder: bool,
}

impl KeyWalk<'_> {
    /// Whether something that the caller may see can lie in a folder.
    fn may_look(&self, path: &TreePath) -> bool {
        let folder = self.asked.caller.permissions.folder.as_ref();
        folder.is_none_or(|folder| path.is_under(folder) || folder.is_under(path))
    }

    fn folder(&mut self, path: &TreePath) -> Result<ControlFlow<()>, Fault> {
        let (vfs, protocol) = (&self.asked.space.vfs, self.asked.caller.protocol);
        let entries = match vfs.list(protocol, path) {
            Ok(entries) => entries,
            // Never there, or removed while we walk.
            Err(fault) if is_missing(&fault) => return Ok(ControlFlow::Continue(())),
            Err(fault) => return Err(fault),
        };
        let mut children: Vec<FolderChild> = entries
            .into_iter()
            .filter(|entry| !is_on_its_way(entry.path.name()) && self.may_look(&entry.path))
            .map(|entry| {
                let is_folder = entry.attributes.kind == EntryKind::Directory;
                let key = format!("{}{}", entry.path, if is_folder { "/" } else { "" });
                FolderChild { key, path: entry.path, attributes: entry.attributes, is_folder }
            })
            .collect();
        // The server's own folder is there whatever is in it.
        if children.is_empty()
            && !path.is_root()
            && path.as_str() != SERVERS
            && self.asked.caller.permissions.covers(path)
        {
            let key = format!("{path}/");
            let folder = vfs.stat(protocol, path).ok();
            return Ok(self.offer(&key, None, folder));
        }
        children.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        for child in children {
            let next = if child.is_folder { self.below(&child)? } else { self.file(&child)? };
            if next.is_break() {
                return Ok(next);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn below(&mut self, FolderChild { key, path, .. }: &FolderChild) -> Result<ControlFlow<()>, Fault> {
        let ListQuery { prefix, after, .. } = self.listing;
        let is_sought = key.starts_with(prefix) || prefix.starts_with(key);
        let is_told = after > key && !after.starts_with(key);
        if !is_sought || is_told {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(together) = self.listing.together(key).filter(|together| key.starts_with(together)) {
            if matches!(self.page.lines.last(), Some(ListEntry::Prefix(told)) if *told == together) {
                return Ok(ControlFlow::Continue(()));
            }
            // What is told together need not be looked into, unless the page begins in the midst of it: then it is told if something lies behind.
            if !after.starts_with(&together) || self.listing.begins_behind(&together) {
                if path.as_str() == SERVERS && !self.has_keys(path)? {
                    return Ok(ControlFlow::Continue(()));
                }
                return Ok(self.offer(&together, None, None));
            }
        }
        self.folder(path)
    }

    /// Whether a key lies below a folder.
    fn has_keys(&self, path: &TreePath) -> Result<bool, Fault> {
        let first = ListQuery { prefix: format!("{path}/"), most: 1, ..ListQuery::default() };
        Ok(!first.page(self.asked)?.lines.is_empty())
    }

    fn file(&mut self, FolderChild { key, path, attributes, .. }: &FolderChild) -> Result<ControlFlow<()>, Fault> {
        if !key.starts_with(&self.listing.prefix) || !self.listing.is_ahead(key) {
            return Ok(ControlFlow::Continue(()));
        }
        let (vfs, protocol) = (&self.asked.space.vfs, self.asked.caller.protocol);
        let (mut place, mut found) = (path.clone(), attributes.clone());
        if attributes.kind == EntryKind::Symlink {
            // Folders behind links are not walked into: links may lead in circles.
            let led = self.asked.check(path).and_then(|()| vfs.resolve_links(protocol, path));
            let led = led.and_then(|path| Ok((vfs.stat(protocol, &path)?, path)));
            match led {
                Ok((attributes, path)) if attributes.kind == EntryKind::File => (place, found) = (path, attributes),
                Ok(_) | Err(_) => return Ok(ControlFlow::Continue(())),
            }
        }
        Ok(self.offer(key, Some(place), Some(found)))
    }

    fn offer(&mut self, key: &str, file: Option<TreePath>, attributes: Option<PathAttributes>) -> ControlFlow<()> {
        if !key.starts_with(&self.listing.prefix) || !self.listing.is_ahead(key) {
            return ControlFlow::Continue(());
        }
        let line = match self.listing.together(key) {
            Some(together) => ListEntry::Prefix(together),
            None => ListEntry::Object { key: key.to_owned(), file, attributes: attributes.map(Box::new) },
        };
        if matches!((&line, self.page.lines.last()), (ListEntry::Prefix(one), Some(ListEntry::Prefix(last))) if one == last)
        {
            return ControlFlow::Continue(());
        }
        if self.page.lines.len() == self.listing.most {
            self.page.is_truncated = true;
            return ControlFlow::Break(());
        }
        self.page.lines.push(line);
        ControlFlow::Continue(())
    }
}
