//! Lists the keys of a bucket in order, from any key on.
//!
//! Keys are ordered as bytes, and the name of a folder includes its `/`. So a depth-first walk
//! returns the keys in order, and a page reads only the folders from its start on. The only state
//! between two pages is the last key.

use std::ops::ControlFlow;

use svcfs_base::{Fault, TreePath};
use svcfs_vfs::{EntryKind, PathAttributes};

use crate::context::S3RequestContext;
use crate::key::SERVER_FOLDER;
use crate::object_metadata::is_missing;

/// Keys of one page (S3's own limit).
pub(crate) const MAX_KEYS: usize = 1000;

/// Parameters of a listing.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListQuery {
    /// Only keys with this prefix.
    pub(crate) prefix: String,
    /// Only keys after this one.
    pub(crate) after: String,
    /// Keys that are equal up to this delimiter are grouped.
    pub(crate) delimiter: Option<String>,
    /// Lines of the page.
    pub(crate) limit: usize,
}

/// A line of a listing.
#[derive(Debug, Clone)]
pub(crate) enum ListEntry {
    /// A file with its path, links followed; or an empty folder without a path.
    Object { key: String, file: Option<TreePath>, attributes: Option<Box<PathAttributes>> },
    /// The common prefix of several keys.
    Prefix(String),
}

impl ListEntry {
    /// The key or common prefix.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Object { key, .. } | Self::Prefix(key) => key,
        }
    }
}

/// A page, and whether there are more.
#[derive(Debug, Default)]
pub(crate) struct KeyPage {
    pub(crate) lines: Vec<ListEntry>,
    pub(crate) is_truncated: bool,
}

impl ListQuery {
    /// Reads one page.
    pub(crate) fn page(&self, context: &S3RequestContext) -> Result<KeyPage, Fault> {
        let mut walk = KeyWalk { context, listing: self, page: KeyPage::default() };
        // No key starts with an invalid path.
        let folder = self.prefix.rfind('/').map_or("", |slash| &self.prefix[..slash]);
        let Ok(start) = TreePath::parse(folder).and_then(|path| match path.as_str() == folder {
            true => Ok(path),
            false => Err(Fault::not_found("not a path")),
        }) else {
            return Ok(walk.page);
        };
        if self.limit > 0 && walk.may_contain_visible(&start) {
            // The walk stops when the page is full.
            let _full = walk.walk_folder(&start)?;
        }
        Ok(walk.page)
    }

    /// Whether a key comes after the marker. A marker that is a common prefix excludes all keys of
    /// its group.
    fn is_after_marker(&self, key: &str) -> bool {
        key > self.after.as_str() && !(key.starts_with(&self.after) && self.is_marker(&self.after))
    }

    /// Whether the marker is this common prefix, and not a key of its group.
    pub(crate) fn is_marker(&self, common_prefix: &str) -> bool {
        self.after == common_prefix && self.common_prefix(common_prefix).as_deref() == Some(common_prefix)
    }

    /// The common prefix of a key, if it has one.
    pub(crate) fn common_prefix(&self, key: &str) -> Option<String> {
        let delimiter = self.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty())?;
        let rest = key.strip_prefix(&self.prefix)?;
        let at = rest.find(delimiter)?;
        Some(format!("{}{}{delimiter}", self.prefix, &rest[..at]))
    }
}

struct KeyWalk<'a> {
    context: &'a S3RequestContext,
    listing: &'a ListQuery,
    page: KeyPage,
}

/// A child of a folder, with the start of its keys.
struct FolderChild {
    key: String,
    path: TreePath,
    attributes: PathAttributes,
    is_folder: bool,
}

impl KeyWalk<'_> {
    /// Whether a folder can contain keys that the caller may see.
    fn may_contain_visible(&self, path: &TreePath) -> bool {
        let folder = self.context.caller.permissions.folder.as_ref();
        folder.is_none_or(|folder| path.is_under(folder) || folder.is_under(path))
    }

    fn walk_folder(&mut self, path: &TreePath) -> Result<ControlFlow<()>, Fault> {
        let (tree, protocol) = (self.context.tree(), self.context.caller.protocol);
        let entries = match tree.list(protocol, path) {
            Ok(entries) => entries,
            // Removed during the walk, or never existed.
            Err(fault) if is_missing(&fault) => return Ok(ControlFlow::Continue(())),
            Err(fault) => return Err(fault),
        };
        let mut children: Vec<FolderChild> = entries
            .into_iter()
            .filter(|entry| !svcfs_vfs::is_upload_name(entry.path.name()) && self.may_contain_visible(&entry.path))
            .map(|entry| {
                let is_folder = entry.attributes.kind == EntryKind::Directory;
                let key = format!("{}{}", entry.path, if is_folder { "/" } else { "" });
                FolderChild { key, path: entry.path, attributes: entry.attributes, is_folder }
            })
            .collect();
        // The server's own folder is not an object.
        if children.is_empty()
            && !path.is_root()
            && path.as_str() != SERVER_FOLDER
            && self.context.caller.permissions.covers(path)
        {
            let key = format!("{path}/");
            let folder = tree.stat(protocol, path).ok();
            return Ok(self.push_line(&key, None, folder));
        }
        children.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        for child in children {
            let next = if child.is_folder { self.walk_child(&child)? } else { self.push_file(&child)? };
            if next.is_break() {
                return Ok(next);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn walk_child(&mut self, FolderChild { key, path, .. }: &FolderChild) -> Result<ControlFlow<()>, Fault> {
        let ListQuery { prefix, after, .. } = self.listing;
        let matches_prefix = key.starts_with(prefix) || prefix.starts_with(key);
        let was_listed = after > key && !after.starts_with(key);
        if !matches_prefix || was_listed {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(common_prefix) =
            self.listing.common_prefix(key).filter(|common_prefix| key.starts_with(common_prefix))
        {
            if matches!(self.page.lines.last(), Some(ListEntry::Prefix(last)) if *last == common_prefix) {
                return Ok(ControlFlow::Continue(()));
            }
            // A group need not be walked, unless the page starts inside of it; then it is listed if
            // a key follows.
            if !after.starts_with(&common_prefix) || self.listing.is_marker(&common_prefix) {
                if path.as_str() == SERVER_FOLDER && !self.has_keys(path)? {
                    return Ok(ControlFlow::Continue(()));
                }
                return Ok(self.push_line(&common_prefix, None, None));
            }
        }
        self.walk_folder(path)
    }

    /// Whether a folder contains keys.
    fn has_keys(&self, path: &TreePath) -> Result<bool, Fault> {
        let first = ListQuery { prefix: format!("{path}/"), limit: 1, ..ListQuery::default() };
        Ok(!first.page(self.context)?.lines.is_empty())
    }

    fn push_file(&mut self, FolderChild { key, path, attributes, .. }: &FolderChild) -> Result<ControlFlow<()>, Fault> {
        if !key.starts_with(&self.listing.prefix) || !self.listing.is_after_marker(key) {
            return Ok(ControlFlow::Continue(()));
        }
        let (tree, protocol) = (self.context.tree(), self.context.caller.protocol);
        let (mut target, mut target_attributes) = (path.clone(), attributes.clone());
        if attributes.kind == EntryKind::Symlink {
            // Links to folders are not followed: they may form cycles.
            let resolved = self.context.check(path).and_then(|()| tree.resolve_links(protocol, path));
            let resolved = resolved.and_then(|path| Ok((tree.stat(protocol, &path)?, path)));
            match resolved {
                Ok((attributes, path)) if attributes.kind == EntryKind::File => {
                    (target, target_attributes) = (path, attributes)
                }
                Ok(_) | Err(_) => return Ok(ControlFlow::Continue(())),
            }
        }
        Ok(self.push_line(key, Some(target), Some(target_attributes)))
    }

    fn push_line(&mut self, key: &str, file: Option<TreePath>, attributes: Option<PathAttributes>) -> ControlFlow<()> {
        if !key.starts_with(&self.listing.prefix) || !self.listing.is_after_marker(key) {
            return ControlFlow::Continue(());
        }
        let line = match self.listing.common_prefix(key) {
            Some(common_prefix) => ListEntry::Prefix(common_prefix),
            None => ListEntry::Object { key: key.to_owned(), file, attributes: attributes.map(Box::new) },
        };
        if matches!((&line, self.page.lines.last()), (ListEntry::Prefix(next), Some(ListEntry::Prefix(last))) if next == last)
        {
            return ControlFlow::Continue(());
        }
        if self.page.lines.len() == self.listing.limit {
            self.page.is_truncated = true;
            return ControlFlow::Break(());
        }
        self.page.lines.push(line);
        ControlFlow::Continue(())
    }
}
