//! `.svc/lint/<path>`: what is wrong with a page, a line for each, as compilers tell it and editors jump to it.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{Caller, Fault, Kind, PathComponent, Protocol, TreePath};
use svcfs_vfs::EntryKind;

use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};

/// The pages of a directory.
pub(super) struct LintFolder(pub(super) TreePath);

impl ViewNode for LintFolder {
    fn key(&self) -> Vec<u8> {
        format!("lint {}", self.0).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&self.0))
    }

    fn find(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let path = self.0.join(name);
        if !views.is_shown(&path)? {
            return Ok(None);
        }
        if views.vfs.stat(Protocol::Fuse, &path)?.kind == EntryKind::Directory {
            return Ok(Some(Arc::new(Self(path))));
        }
        if !path.is_page() {
            return Ok(None);
        }
        let text = report(views, &reader.caller, &path)?;
        Ok(Some(Arc::new(LintFile { path, text })))
    }

    fn list(&self, views: &MountViews, _reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let below = views.directory(&self.0)?.unwrap_or_default();
        let listed = |(path, kind): (TreePath, _)| {
            let name = path.name().to_owned();
            let place: ViewNodeRef = if kind == EntryKind::Directory {
                Arc::new(Self(path))
            } else if path.is_page() {
                // Listed unread: what is wrong with it is looked up with the name.
                Arc::new(LintFile { path, text: String::new() })
            } else {
                return None;
            };
            Some(ViewEntry { name, place })
        };
        Ok(below.into_iter().filter_map(listed).collect())
    }
}

/// What is wrong with a page. Another text is another file, so that what was read of one stays true.
struct LintFile {
    path: TreePath,
    text: String,
}

impl ViewNode for LintFile {
    fn key(&self) -> Vec<u8> {
        format!("lint {}\0{}", self.path, self.text).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::File
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::of(self.text.len(), &self.path))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::copy_from_slice(self.text.as_bytes()))
    }
}

/// Of a page whose last save was refused, what is wrong with that text: an editor still shows it.
fn report(views: &MountViews, caller: &Caller, path: &TreePath) -> Result<String, Fault> {
    let content = match views.vfs.rejected_text(path)? {
        Some(refused) => refused,
        None => match views.vfs.read(Protocol::Fuse, path) {
            Ok(file) => file.content,
            // A link that leads nowhere, or out of the tree.
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::Invalid | Kind::IsDirectory) => Bytes::new(),
            Err(fault) => return Err(fault),
        },
    };
    // What is no text has no rules.
    let Ok(text) = std::str::from_utf8(&content) else { return Ok(String::new()) };
    let mut report = String::new();
    for finding in views.knowledge()?.lint(caller, text)? {
        let message = finding.message.replace('\n', " ");
        // Writing to a string cannot fail.
        let _ = writeln!(report, "{path}:{}:{}: {}: {message}", finding.line, finding.column, finding.severity);
    }
    Ok(report)
}
