//! `.svc/lint/<path>`: lint findings of a page, one per line in the format of compilers.

use std::fmt::Write;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{Caller, Fault, Kind, PathComponent, Protocol, TreePath};
use svcfs_vfs::EntryKind;

use super::{LintFinding, MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};

pub(super) struct LintFolder(pub(super) TreePath);

impl ViewNode for LintFolder {
    fn key(&self) -> Vec<u8> {
        format!("lint {}", self.0).into_bytes()
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&self.0))
    }

    fn lookup(
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
            let node: ViewNodeRef = if kind == EntryKind::Directory {
                Arc::new(Self(path))
            } else if path.is_page() {
                // Listed without findings; a lookup computes them.
                Arc::new(LintFile { path, text: String::new() })
            } else {
                return None;
            };
            Some(ViewEntry { name, node })
        };
        Ok(below.into_iter().filter_map(listed).collect())
    }
}

/// Findings of a page. Other findings are another inode, so that cached content stays valid.
struct LintFile {
    path: TreePath,
    text: String,
}

impl ViewNode for LintFile {
    fn key(&self) -> Vec<u8> {
        format!("lint {}\0{}", self.path, self.text).into_bytes()
    }

    fn node_kind(&self) -> ViewNodeKind {
        ViewNodeKind::File
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::sized(self.text.len(), &self.path))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::copy_from_slice(self.text.as_bytes()))
    }
}

impl MountViews {
    /// The lint errors of a stored page, one per line; none if it has none.
    ///
    /// # Errors
    /// Those of reading and of the rules.
    pub(crate) fn lint_errors(&self, reader: &ViewReader, path: &TreePath) -> Result<Option<String>, Fault> {
        if self.knowledge().is_err() || !path.is_page() || !self.is_shown(path)? {
            return Ok(None);
        }
        Ok(errors_of(findings(self, &reader.caller, path)?))
    }

    /// The same of a text.
    pub(crate) fn lint_errors_in(&self, caller: &Caller, text: &str) -> Result<Option<String>, Fault> {
        self.knowledge().map_or(Ok(None), |knowledge| knowledge.lint(caller, text).map(errors_of))
    }
}

fn errors_of(findings: Vec<LintFinding>) -> Option<String> {
    let errors = findings.into_iter().filter(|finding| finding.severity == "error");
    let lines: Vec<String> =
        errors.map(|error| format!("{} (line {}): {}", error.rule, error.line, error.message)).collect();
    if lines.is_empty() { None } else { Some(lines.join("\n")) }
}

/// The findings as lines of a report.
fn report(views: &MountViews, caller: &Caller, path: &TreePath) -> Result<String, Fault> {
    let mut report = String::new();
    for finding in findings(views, caller, path)? {
        let message = finding.message.replace('\n', " ");
        // Writing to a string cannot fail.
        let _ = writeln!(report, "{path}:{}:{}: {}: {message}", finding.line, finding.column, finding.severity);
    }
    Ok(report)
}

/// Lints the rejected text if the last save was rejected: an editor still shows that.
fn findings(views: &MountViews, caller: &Caller, path: &TreePath) -> Result<Vec<LintFinding>, Fault> {
    let content = match views.vfs.rejected_text(path)? {
        Some(rejected) => rejected,
        None => match views.vfs.read(Protocol::Fuse, path) {
            Ok(file) => file.content,
            // A link with a missing target, or one outside the tree.
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::Invalid | Kind::IsDirectory) => Bytes::new(),
            Err(fault) => return Err(fault),
        },
    };
    // Binary content has no lint rules.
    let Ok(text) = std::str::from_utf8(&content) else { return Ok(Vec::new()) };
    views.knowledge()?.lint(caller, text)
}
