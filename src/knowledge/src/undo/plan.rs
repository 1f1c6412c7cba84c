//! What an undo does, as far as it is possible now.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use svcfs_base::{Change, ETag, Fault, Kind, Precondition, TreePath, VersionId};
use svcfs_vfs::EntryKind;

use super::operations::UndoConflict;
use super::page::{PageFile, PageUndo, PageUndoer};
use super::selection::ResolvedSelection;
use crate::kernel::OperationContext;

/// Limits of one undo, which is in memory as a whole.
const MAX_PAGES: usize = 10_000;
const MAX_BYTES: usize = 256 << 20;

/// All pages of an undo.
#[derive(Debug, Default)]
pub struct UndoPlan {
    /// The pages that change, in path order.
    pub pages: Vec<PageUndo>,
    /// What cannot be undone.
    pub conflicts: Vec<UndoConflict>,
}

impl UndoPlan {
    /// Plans to undo the selected changes.
    ///
    /// # Errors
    /// `TooLarge` above the limits of pages and bytes; those of reading pages and history.
    pub fn new(cx: &OperationContext<'_>, selection: &ResolvedSelection) -> Result<Self, Fault> {
        let Some(first) = selection.first else { return Ok(Self::default()) };
        let steps = cx.space.vfs.page_steps(first)?;
        let selected: Vec<bool> = steps.sets.iter().map(|set| selection.includes_set(set)).collect();
        let mut undoer = PageUndoer { cx, steps: &steps, conflicts: Vec::new() };
        let (mut pages, mut bytes) = (Vec::new(), 0);
        for page in &steps.pages {
            let is_selected = |step: &_| is_in(&selected, step) && selection.includes_step(cx, step);
            let Some(undo) = undoer.undo(page, is_selected)? else { continue };
            let length = |file: &Option<PageFile>| file.as_ref().map_or(0, |file| file.content.len());
            bytes += length(&undo.now) + length(&undo.result);
            pages.push(undo);
            if pages.len() > MAX_PAGES || bytes > MAX_BYTES {
                let message = format!(
                    "the changes of more than {MAX_PAGES} pages or {} MiB cannot be undone at once; select fewer with `since` or `paths`",
                    MAX_BYTES >> 20
                );
                return Err(Fault::new(Kind::TooLarge, message));
            }
        }
        let mut plan = Self { pages, conflicts: undoer.conflicts };
        plan.drop_occupied(cx);
        plan.pages.sort_by(|a, b| a.path().cmp(&b.path()));
        plan.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(plan)
    }

    /// Leaves pages where they are whose former path another page has now.
    fn drop_occupied(&mut self, cx: &OperationContext<'_>) {
        loop {
            let moved = self.pages.iter().enumerate().filter(|(_, page)| !page.keeps_path());
            let vacated: HashSet<&TreePath> =
                moved.clone().filter_map(|(_, page)| Some(&page.now.as_ref()?.path)).collect();
            let mut taken: HashSet<&TreePath> = HashSet::new();
            let occupied: Vec<usize> = moved
                .filter(|(_, page)| {
                    let Some(result) = &page.result else { return false };
                    !taken.insert(&result.path) || is_occupied(cx, &result.path, &vacated)
                })
                .map(|(index, _)| index)
                .collect();
            if occupied.is_empty() {
                return;
            }
            for index in occupied {
                let page = &mut self.pages[index];
                let (Some(result), Some(commit)) = (&mut page.result, page.commits.first()) else { continue };
                let (path, commit): (TreePath, VersionId) = (result.path.clone(), *commit);
                let reason = "another page has this path now".to_owned();
                self.conflicts.push(UndoConflict { path, commit, reason, lines: None });
                match &page.now {
                    Some(now) => result.path = now.path.clone(),
                    None => page.result = None,
                }
            }
            self.pages.retain(|page| page.now != page.result);
        }
    }

    /// Leaves a page as it is whose change a rule or a claim refused. Returns whether the plan has
    /// the page that the refusal names.
    pub fn leave_refused(&mut self, cx: &OperationContext<'_>, refusal: &Fault) -> bool {
        let Some(path) = refusal.detail().get("path").and_then(Value::as_str) else { return false };
        let is_at = |file: &Option<PageFile>| file.as_ref().is_some_and(|file| file.path.as_str() == path);
        let Some(index) = self.pages.iter().position(|page| is_at(&page.now) || is_at(&page.result)) else {
            return false;
        };
        let page = self.pages.remove(index);
        if let (Some(path), Some(commit)) = (page.path(), page.commits.first()) {
            let (path, commit, reason) = (path.clone(), *commit, refusal.message().to_owned());
            self.conflicts.push(UndoConflict { path, commit, reason, lines: None });
        }
        // No other page can get the path of the one that stays.
        self.drop_occupied(cx);
        self.conflicts.sort_by(|a, b| a.path.cmp(&b.path));
        true
    }

    /// Identifies the state of the pages and what the undo makes of them.
    pub fn etag(&self) -> ETag {
        let mut text = String::new();
        for page in &self.pages {
            for file in [&page.now, &page.result] {
                match file {
                    Some(file) => text.push_str(&format!("{} {:?} {}\n", file.etag(), file.kind, file.path)),
                    None => text.push_str("-\n"),
                }
            }
        }
        ETag::from_content(text.as_bytes())
    }

    /// The changes of the undo, which fail if a page is no longer as it was read.
    pub fn changes(&self) -> Vec<Change> {
        let (mut removals, mut renames, mut writes) = (Vec::new(), Vec::new(), Vec::new());
        for page in &self.pages {
            match (&page.now, &page.result) {
                (Some(now), None) => removals.push(Change::remove(now.path.clone()).with_precondition(is_at(now))),
                (None, Some(result)) => writes.push(put(result, Precondition::Absent)),
                (Some(now), Some(result)) if now.path == result.path => writes.push(put(result, is_at(now))),
                (Some(now), Some(result)) => renames.push((now, result)),
                (None, None) => {}
            }
        }
        let mut changes = removals;
        let mut sources: HashMap<&TreePath, &PageFile> = renames.iter().map(|(now, _)| (&now.path, *now)).collect();
        // A page moves once its former path is free.
        while !renames.is_empty() {
            let count = renames.len();
            let mut waiting = Vec::new();
            for (now, result) in std::mem::take(&mut renames) {
                if sources.contains_key(&result.path) {
                    waiting.push((now, result));
                    continue;
                }
                sources.remove(&now.path);
                let rename = Change::rename(now.path.clone(), result.path.clone());
                changes.push(rename.with_precondition(Precondition::Absent));
                changes.push(put(result, is_at(now)));
            }
            if waiting.len() == count {
                // Pages that exchanged their paths: each path gets its former content.
                let target =
                    |result: &PageFile| sources.get(&result.path).map_or(Precondition::Present, |now| is_at(now));
                changes.extend(waiting.iter().map(|(_, result)| put(result, target(result))));
                break;
            }
            renames = waiting;
        }
        changes.extend(writes);
        changes
    }
}

/// Whether a path has a file that stays, or is below one.
fn is_occupied(cx: &OperationContext<'_>, path: &TreePath, vacated: &HashSet<&TreePath>) -> bool {
    let kind_at = |path: &TreePath| Some(cx.space.vfs.stat(cx.caller.protocol, path).ok()?.kind);
    let is_file = |path: &TreePath| kind_at(path).is_some_and(|kind| kind != EntryKind::Directory);
    let exists = kind_at(path).is_some() && !vacated.contains(path);
    exists || path.ancestors().any(|above| !above.is_root() && is_file(&above) && !vacated.contains(&above))
}

fn is_in(selected: &[bool], step: &svcfs_vfs::PageStep) -> bool {
    selected.get(step.set).copied().unwrap_or_default()
}

fn is_at(file: &PageFile) -> Precondition {
    Precondition::OneOf(vec![file.etag()])
}

fn put(file: &PageFile, precondition: Precondition) -> Change {
    match Change::put(file.path.clone(), file.content.clone()).with_precondition(precondition) {
        Change::Put { path, content, precondition, attributes, kind: _ } => {
            Change::Put { path, content, precondition, attributes, kind: Some(file.kind) }
        }
        other => other,
    }
}
