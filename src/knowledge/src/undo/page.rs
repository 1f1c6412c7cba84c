//! Undo of the selected changes of one page.

use bytes::Bytes;
use svcfs_base::{ETag, Fault, FileKind, Kind, Seq, TreePath, VersionId};
use svcfs_vfs::{EntryKind, PageState, PageStep, PageSteps, PageTrail};

use super::operations::{ConflictLines, UndoConflict};
use crate::history;
use crate::kernel::OperationContext;
use crate::merge::merge_file;

/// A file at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFile {
    pub path: TreePath,
    pub content: Bytes,
    pub kind: FileKind,
}

impl PageFile {
    pub fn etag(&self) -> ETag {
        ETag::from_content(&self.content)
    }
}

/// What an undo does with one page.
#[derive(Debug, Clone)]
pub struct PageUndo {
    /// The page now; none if it does not exist.
    pub now: Option<PageFile>,
    /// The page after the undo; none if it is removed.
    pub result: Option<PageFile>,
    /// The undone commits, newest first.
    pub commits: Vec<VersionId>,
}

impl PageUndo {
    /// Whether the page has the same path before and after the undo.
    pub fn keeps_path(&self) -> bool {
        matches!((&self.now, &self.result), (Some(now), Some(result)) if now.path == result.path)
    }
    /// The path after the undo; of a removed page, its last one.
    pub fn path(&self) -> Option<&TreePath> {
        self.result.as_ref().or(self.now.as_ref()).map(|file| &file.path)
    }
}

/// Undoes the selected changes of a page, newest first. Changes between which no other change was
/// made are undone together.
pub struct PageUndoer<'a> {
    pub cx: &'a OperationContext<'a>,
    pub steps: &'a PageSteps,
    pub conflicts: Vec<UndoConflict>,
}

/// Selected changes of a page with no other change between them.
struct Run<'a> {
    steps: &'a [PageStep],
    commits: Vec<VersionId>,
}

impl Run<'_> {
    fn before(&self) -> &PageState {
        &self.steps[0].before
    }
    fn last(&self) -> &PageStep {
        &self.steps[self.steps.len() - 1]
    }
    fn after(&self) -> &PageState {
        &self.last().after
    }
}

impl PageUndoer<'_> {
    /// The page without the selected changes; none if nothing changes.
    ///
    /// # Errors
    /// Those of reading page and history.
    pub fn undo(
        &mut self,
        page: &PageTrail,
        is_selected: impl Fn(&PageStep) -> bool,
    ) -> Result<Option<PageUndo>, Fault> {
        let Some(last) = page.steps.last() else { return Ok(None) };
        let selected: Vec<bool> = page.steps.iter().map(is_selected).collect();
        if !selected.contains(&true) {
            return Ok(None);
        }
        let path = &last.after.path;
        if !history::can_read(self.cx, path) {
            let at = selected.iter().rposition(|is_selected| *is_selected).unwrap_or_default();
            let reason = "the page was moved since to where you may not write";
            self.add_conflict(&page.steps[at], reason.to_owned());
            return Ok(None);
        }
        let now = if page.is_replaced { None } else { self.read(path, last)? };
        let (mut current, mut commits) = (now.clone(), Vec::new());
        let mut end = page.steps.len();
        while end > 0 {
            if !selected[end - 1] {
                end -= 1;
                continue;
            }
            let start = selected[..end].iter().rposition(|is_selected| !is_selected).map_or(0, |other| other + 1);
            let steps = &page.steps[start..end];
            let ids = steps.iter().rev().map(|step| self.steps.sets[step.set].id);
            let run = Run { steps, commits: ids.collect() };
            let kind_before = start.checked_sub(1).map(|before| page.steps[before].kind);
            let undone = self.undo_run(&run, kind_before, current.clone())?;
            if undone != current {
                commits.extend(run.commits);
                current = undone;
            }
            end = start;
        }
        commits.dedup();
        Ok((current != now).then_some(PageUndo { now, result: current, commits }))
    }

    /// The page at a path now.
    fn read(&mut self, path: &TreePath, step: &PageStep) -> Result<Option<PageFile>, Fault> {
        let (vfs, protocol) = (&self.cx.space.vfs, self.cx.caller.protocol);
        let attributes = match vfs.stat(protocol, path) {
            Ok(attributes) => attributes,
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let (content, kind) = match attributes.kind {
            EntryKind::Symlink => (vfs.read_link(protocol, path)?.into(), FileKind::Symlink),
            EntryKind::File if attributes.large_file().is_none() => {
                let is_executable = attributes.mode & 0o100 != 0;
                let kind = if is_executable { FileKind::Executable } else { FileKind::Regular };
                match vfs.read(protocol, path) {
                    Ok(file) => (file.content, kind),
                    Err(fault) if fault.kind() == Kind::NotFound => return Ok(None),
                    Err(fault) => return Err(fault),
                }
            }
            // A large file has no versions, and was not changed by a version.
            EntryKind::File | EntryKind::Directory | EntryKind::Special(_) => {
                self.add_conflict(step, "the path now has a directory or a file without versions".to_owned());
                return Ok(None);
            }
        };
        Ok(Some(PageFile { path: path.clone(), content, kind }))
    }

    /// The page without the changes of a run. What cannot be undone is added to the conflicts.
    fn undo_run(
        &mut self,
        run: &Run<'_>,
        kind_before: Option<FileKind>,
        current: Option<PageFile>,
    ) -> Result<Option<PageFile>, Fault> {
        let (before, after) = (run.before(), run.after());
        match (before.content, after.content, current) {
            // Created and removed again: what is there now is by others.
            (None, None, current) => Ok(current),
            (None, Some(created), Some(current)) => {
                if current.etag() == created && current.path == after.path {
                    return Ok(None);
                }
                self.add_conflict(run.last(), "the page was created by this change and changed since".to_owned());
                Ok(Some(current))
            }
            (None, Some(_), None) => Ok(None),
            (Some(old), None, None) => {
                let Some(content) = self.stored(run, &before.path, old)? else { return Ok(None) };
                Ok(Some(PageFile { path: before.path.clone(), content, kind: run.last().kind }))
            }
            (Some(old), None, Some(current)) => {
                if current.etag() != old {
                    self.add_conflict(run.last(), "the page was removed by this change, and exists again".to_owned());
                }
                Ok(Some(current))
            }
            (Some(old), Some(new), None) => {
                if old != new || before.path != after.path {
                    self.add_conflict(run.last(), "the page was removed since".to_owned());
                }
                Ok(None)
            }
            (Some(old), Some(new), Some(current)) => {
                let kind_before = match kind_before {
                    Some(kind) => Some(kind),
                    None => self.recorded_kind(run)?,
                };
                let current = self.rename_back(run, current);
                self.merge_back(run, (old, new), kind_before, current).map(Some)
            }
        }
    }

    fn recorded_kind(&self, run: &Run<'_>) -> Result<Option<FileKind>, Fault> {
        let seq = self.steps.sets[run.steps[0].set].seq;
        self.cx.space.vfs.recorded_kind(&run.before().path, Seq(seq.0.saturating_sub(1)))
    }

    fn rename_back(&mut self, run: &Run<'_>, mut current: PageFile) -> PageFile {
        let (before, after) = (&run.before().path, &run.after().path);
        if before != after && current.path == *after {
            current.path = before.clone();
        } else if before != after && current.path != *before {
            self.add_conflict(run.last(), format!("the page was renamed to `{}` since", current.path));
        }
        current
    }

    /// The reverse of a change of content, merged into a page.
    fn merge_back(
        &mut self,
        run: &Run<'_>,
        (old, new): (ETag, ETag),
        kind_before: Option<FileKind>,
        mut current: PageFile,
    ) -> Result<PageFile, Fault> {
        let kind_after = run.last().kind;
        let is_link = [Some(current.kind), kind_before, Some(kind_after)].contains(&Some(FileKind::Symlink));
        let etag = current.etag();
        if etag == old || old == new {
            if etag == new && current.kind == kind_after {
                current.kind = kind_before.unwrap_or(kind_after);
            }
            return Ok(current);
        }
        let Some(old_content) = self.stored(run, &run.before().path, old)? else { return Ok(current) };
        if etag == new {
            let kind = if current.kind == kind_after { kind_before.unwrap_or(kind_after) } else { current.kind };
            return Ok(PageFile { content: old_content, kind, ..current });
        }
        let Some(new_content) = self.stored(run, &run.after().path, new)? else { return Ok(current) };
        let texts = [&new_content, &current.content, &old_content].map(|content| std::str::from_utf8(content));
        let [Ok(base), Ok(present), Ok(reverse)] = texts else {
            self.add_conflict(run.last(), "the file was changed since, and is not text".to_owned());
            return Ok(current);
        };
        if is_link {
            self.add_conflict(run.last(), "the symbolic link was changed since".to_owned());
            return Ok(current);
        }
        let merged = merge_file(&current.path, base, present, reverse);
        for conflict in merged.conflicts {
            let place = conflict.key.map_or("the lines were".to_owned(), |key| format!("the key `{key}` was"));
            self.add_conflict(run.last(), format!("{place} changed since"));
            if let Some(added) = self.conflicts.last_mut() {
                added.path = current.path.clone();
                added.lines = Some(ConflictLines { start: conflict.start, end: conflict.end });
            }
        }
        Ok(PageFile { content: merged.text.into(), ..current })
    }

    /// A content that the page had; none, with a conflict, if it is not stored.
    fn stored(&mut self, run: &Run<'_>, path: &TreePath, etag: ETag) -> Result<Option<Bytes>, Fault> {
        let content = self.cx.space.vfs.recorded_content(path, etag)?;
        if content.is_none() {
            self.add_conflict(run.last(), "the version is no longer stored".to_owned());
        }
        Ok(content)
    }

    fn add_conflict(&mut self, step: &PageStep, reason: String) {
        let (path, commit) = (step.after.path.clone(), self.steps.sets[step.set].id);
        self.conflicts.push(UndoConflict { path, commit, reason, lines: None });
    }
}
