//! Merging a draft into the tree.
//!
//! Invariant: what is written was merged with exactly the versions that it replaces, in one change
//! set. The pages leave the draft after that: a merge that is repeated after a crash finds its
//! pages in the tree, writes nothing and completes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{
    Actor, Change, ChangeSet, CommitId, ETag, EventAnnouncement, Fault, Kind, Precondition, Protocol, TreePath,
};
use svcfs_store::INTERNAL_EMAIL;
use svcfs_text::headings::{Heading, headings};
use svcfs_vfs::{AcceptedPage, DraftMerge, DraftView};

use super::hunks::{self, ChangedPage};
use super::{check_folder, state_etag, visible_pages};
use crate::kernel::OperationContext;
use crate::merge::{MergeConflict, merge_file};

/// Attempts of a merge that loses against concurrent writers.
const MERGE_ATTEMPTS: usize = 64;
/// Maximum number of conflicts that the message of a refusal names.
const MAX_NAMED_CONFLICTS: usize = 5;

/// Which side wins where both changed the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum MergeSide {
    /// The tree.
    Ours,
    /// The draft.
    Theirs,
}

/// What a caller accepts.
pub struct MergeRequest {
    pub paths: Option<Vec<TreePath>>,
    pub hunks: Option<Vec<usize>>,
    pub etag: Option<ETag>,
    pub resolve: BTreeMap<TreePath, MergeSide>,
}

/// The result of a merge.
pub struct MergedDraft {
    pub commit: Option<CommitId>,
    /// The pages that changed in the tree.
    pub paths: Vec<TreePath>,
    /// The pages that remain in the draft.
    pub remaining: Vec<TreePath>,
}

/// A place that the tree and the draft changed differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct DraftConflict {
    path: TreePath,
    #[serde(flatten)]
    place: MergeConflict,
    /// Why the whole file is in conflict; absent for lines and keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The headings above the place, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headings: Vec<String>,
}

/// A page that the caller accepts.
struct SelectedPage {
    page: ChangedPage,
    /// For a part of a page: its base with the accepted hunks.
    part: Option<Bytes>,
}

enum PageOutcome {
    Unchanged,
    Put(Bytes),
    Remove,
}

/// A change set that merges the selected pages, and the versions that it was made for.
struct MergePlan {
    changes: Vec<Change>,
    /// Authors of the changes, with the number of their pages.
    authors: BTreeMap<Actor, usize>,
    seen: Vec<Option<ETag>>,
}

/// Merges a draft, or the part of it that the caller accepts.
///
/// # Errors
/// `Conflict` with `conflicts` where both changed the same, and for another state of the draft than
/// `etag`; `Invalid` for hunks that the draft does not have, `NotFound` for such pages; those of
/// [`svcfs_vfs::Vfs::apply`]. The draft stays open then.
pub fn merge(cx: &OperationContext<'_>, view: &DraftView<'_>, request: &MergeRequest) -> Result<MergedDraft, Fault> {
    let merge = view.lock_for_merge()?;
    let selected = select(cx, view, request)?;
    let mut plan = plan_merge(cx, &selected, &request.resolve)?;
    for _ in 1..MERGE_ATTEMPTS {
        if plan.changes.is_empty() {
            return finish(view, merge, selected, (None, Vec::new()));
        }
        let paths = plan.changes.iter().map(|change| change.path().clone()).collect();
        let fault = match cx.apply(change_set(cx, view, &plan)) {
            Ok(applied) => return finish(view, merge, selected, (applied.commit, paths)),
            Err(fault) => fault,
        };
        let next = plan_merge(cx, &selected, &request.resolve)?;
        // Nothing has moved: the error has another reason, which a retry would not change.
        if !matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed | Kind::NotFound) || next.seen == plan.seen
        {
            return Err(fault);
        }
        plan = next;
    }
    Err(Fault::unavailable("the pages of the draft change all the time; merge it again"))
}

/// The pages that leave the draft, and those that stay.
fn finish(
    view: &DraftView<'_>,
    merge: DraftMerge<'_>,
    selected: Vec<SelectedPage>,
    (commit, paths): (Option<CommitId>, Vec<TreePath>),
) -> Result<MergedDraft, Fault> {
    let accepted = |SelectedPage { page, part }: SelectedPage| AcceptedPage { path: page.path, new_base: part };
    let is_closed = merge.accept(selected.into_iter().map(accepted).collect())?;
    let remaining = if is_closed { Vec::new() } else { view.pages() };
    Ok(MergedDraft { commit, paths, remaining: remaining.into_iter().map(|(path, _)| path).collect() })
}

fn select(cx: &OperationContext<'_>, view: &DraftView<'_>, request: &MergeRequest) -> Result<Vec<SelectedPage>, Fault> {
    let visible = visible_pages(cx, view);
    let etag = state_etag(&visible);
    if request.etag.is_some_and(|expected| expected != etag) {
        let message = format!("the draft has changed: it is now at etag {etag}; read its diff again, and retry");
        return Err(Fault::new(Kind::Conflict, message).with_detail("current_etag", etag.to_string()));
    }
    let MergeRequest { paths, hunks, .. } = request;
    let is_all = paths.is_none() && hunks.is_none();
    let all_pages = if is_all { view.pages() } else { Vec::new() };
    if is_all && visible.len() < all_pages.len() {
        check_folder(cx, view)?;
        if let Some((path, _)) = all_pages.iter().find(|(path, _)| !cx.space.vfs.is_versioned(path)) {
            let message = format!(
                "`{path}` cannot be merged: git ignores it since it was written in the draft, which stays open; change \
                 the rule in `.gitignore`, name the pages to merge in `paths`, or discard the draft"
            );
            return Err(Fault::new(Kind::Conflict, message).with_detail("path", path.as_str()));
        }
        let message =
            "the draft changes files that are not served here, such as hidden ones; name the pages to merge in `paths`";
        return Err(Fault::new(Kind::Forbidden, message));
    }
    let pages = hunks::changed_pages(view, visible)?;
    let paths: BTreeSet<TreePath> = paths.iter().flatten().cloned().collect();
    let changed: BTreeSet<TreePath> = pages.iter().flat_map(|page| with_ancestors(&page.path)).collect();
    if let Some(path) = paths.iter().find(|path| !changed.contains(*path)) {
        return Err(Fault::not_found(format!("`{path}` is not changed by the draft")));
    }
    let count = pages.iter().map(|page| page.hunks.len()).sum::<usize>();
    let hunks: BTreeSet<usize> = hunks.iter().flatten().copied().collect();
    if let Some(unknown) = hunks.iter().find(|id| !(1..=count).contains(*id)) {
        return Err(Fault::invalid("hunks", format_args!("the draft has no hunk {unknown}; it has {count} hunks")));
    }
    if !is_all && paths.is_empty() && hunks.is_empty() {
        return Err(Fault::invalid("hunks", "name at least one hunk or path, or leave both out to merge all"));
    }
    let select = |page: ChangedPage| {
        let is_whole = is_all || with_ancestors(&page.path).any(|path| paths.contains(&path));
        let is_selected = is_whole || page.hunks.iter().any(|hunk| hunks.contains(&hunk.id));
        let part = if is_whole { None } else { page.base_with(&hunks) };
        is_selected.then_some(SelectedPage { page, part })
    };
    let selected: Vec<SelectedPage> = pages.into_iter().filter_map(select).collect();
    let merged: BTreeSet<TreePath> = selected.iter().map(|selected| selected.page.path.clone()).collect();
    match request.resolve.keys().find(|path| !merged.contains(*path)) {
        Some(path) => Err(Fault::invalid("resolve", format_args!("`{path}` is not merged"))),
        None => Ok(selected),
    }
}

/// A path and the directories above it.
fn with_ancestors(path: &TreePath) -> impl Iterator<Item = TreePath> {
    std::iter::once(path.clone()).chain(path.ancestors())
}

fn plan_merge(
    cx: &OperationContext<'_>,
    selected: &[SelectedPage],
    resolve: &BTreeMap<TreePath, MergeSide>,
) -> Result<MergePlan, Fault> {
    let (changes, authors, seen) = Default::default();
    let mut plan = MergePlan { changes, authors, seen };
    let mut conflicts = Vec::new();
    for SelectedPage { page, part } in selected {
        let path = &page.path;
        let current = read_current(cx, path)?;
        let etag = current.as_ref().map(|(etag, _)| *etag);
        let theirs = part.as_ref().or(page.contents.content.as_ref());
        let texts = [page.contents.base.as_ref(), current.as_ref().map(|(_, content)| content), theirs];
        plan.seen.push(etag);
        let precondition = etag.map_or(Precondition::Absent, |etag| Precondition::OneOf(vec![etag]));
        match merge_contents(path, texts, resolve.get(path).copied()) {
            Ok(PageOutcome::Unchanged) => continue,
            Ok(PageOutcome::Put(content)) => {
                plan.changes.push(Change::put(path.clone(), content).with_precondition(precondition));
            }
            Ok(PageOutcome::Remove) => plan.changes.push(Change::remove(path.clone()).with_precondition(precondition)),
            Err(places) => conflicts.extend(places),
        }
        *plan.authors.entry(page.page.author.clone()).or_default() += 1;
    }
    // Removals first: a page may replace a directory.
    plan.changes.sort_by_key(|change| !matches!(change, Change::Remove { .. }));
    if conflicts.is_empty() { Ok(plan) } else { Err(conflict(&conflicts)) }
}

/// The file in the tree; none if there is no file.
fn read_current(cx: &OperationContext<'_>, path: &TreePath) -> Result<Option<(ETag, Bytes)>, Fault> {
    match cx.space.vfs.read(Protocol::Internal, path) {
        Ok(file) => Ok(Some((file.etag, file.content))),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory | Kind::NotDirectory) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Merges a file. `ours` is the tree, `theirs` the draft; none is a missing file.
fn merge_contents(
    path: &TreePath,
    [base, ours, theirs]: [Option<&Bytes>; 3],
    resolution: Option<MergeSide>,
) -> Result<PageOutcome, Vec<DraftConflict>> {
    let of_draft = || theirs.map_or(PageOutcome::Remove, |content| PageOutcome::Put(content.clone()));
    if ours == theirs || theirs == base {
        return Ok(PageOutcome::Unchanged);
    }
    if ours == base {
        return Ok(of_draft());
    }
    let text = |content: Option<&Bytes>| content.and_then(|bytes| std::str::from_utf8(bytes).ok().map(str::to_owned));
    let base_text = base.map_or(Some(String::new()), |base| text(Some(base)));
    if let (Some(base), Some(ours), Some(theirs)) = (base_text, text(ours), text(theirs)) {
        return merge_texts(path, [&base, &ours, &theirs], resolution);
    }
    // One side removed what the other changed, or a content is not text.
    match resolution {
        Some(MergeSide::Ours) => Ok(PageOutcome::Unchanged),
        Some(MergeSide::Theirs) => Ok(of_draft()),
        None => {
            let shown = |content: Option<&Bytes>| text(content).unwrap_or_default();
            let end = shown(ours).lines().count();
            let reason = match (ours, theirs) {
                (None, _) => "removed or renamed in the tree",
                (_, None) => "removed in the draft",
                (Some(_), Some(_)) => "not text",
            };
            let (base, ours, theirs) = (shown(base), shown(ours), shown(theirs));
            let place = MergeConflict { key: None, start: 1, end, base, ours, theirs };
            Err(vec![DraftConflict { path: path.clone(), place, reason: Some(reason), headings: Vec::new() }])
        }
    }
}

fn merge_texts(
    path: &TreePath,
    [base, ours, theirs]: [&str; 3],
    resolution: Option<MergeSide>,
) -> Result<PageOutcome, Vec<DraftConflict>> {
    // The merged text has that of the first side where both changed the same.
    let merged = match resolution {
        Some(MergeSide::Theirs) => merge_file(path, base, theirs, ours),
        Some(MergeSide::Ours) | None => merge_file(path, base, ours, theirs),
    };
    if merged.conflicts.is_empty() || resolution.is_some() {
        let is_unchanged = merged.text == ours;
        return Ok(if is_unchanged { PageOutcome::Unchanged } else { PageOutcome::Put(merged.text.into()) });
    }
    let headings = headings(ours);
    let conflict = |place: MergeConflict| {
        let headings = headings_above(&headings, place.start);
        DraftConflict { path: path.clone(), place, reason: None, headings }
    };
    Err(merged.conflicts.into_iter().map(conflict).collect())
}

/// The headings of the sections that a line is in, outermost first.
fn headings_above(headings: &[Heading], line: usize) -> Vec<String> {
    let mut above: Vec<(u8, &str)> = Vec::new();
    for heading in headings.iter().filter(|heading| heading.line <= line && !heading.is_nested) {
        above.retain(|(level, _)| *level < heading.level);
        above.push((heading.level, &heading.text));
    }
    above.into_iter().map(|(_, text)| text.to_owned()).collect()
}

fn conflict(conflicts: &[DraftConflict]) -> Fault {
    let place = |conflict: &DraftConflict| {
        let DraftConflict { path, place: MergeConflict { key, start, end, .. }, reason, .. } = conflict;
        if let Some(reason) = reason {
            return format!("`{path}` ({reason})");
        }
        match key {
            Some(key) => format!("`{path}` key `{key}`"),
            None if end > start => format!("`{path}` lines {start}-{end}"),
            None => format!("`{path}` line {start}"),
        }
    };
    let mut places: Vec<String> = conflicts.iter().take(MAX_NAMED_CONFLICTS).map(place).collect();
    if conflicts.len() > MAX_NAMED_CONFLICTS {
        places.push(format!("and {} more", conflicts.len() - MAX_NAMED_CONFLICTS));
    }
    let message = format!(
        "merge conflict: the tree and the draft changed the same: {}; the draft stays open: change it, or merge with \
         `resolve`, where \"ours\" keeps the tree and \"theirs\" takes the draft",
        places.join(", ")
    );
    let listed = serde_json::to_value(conflicts).unwrap_or_default();
    Fault::new(Kind::Conflict, message).with_detail("conflicts", listed)
}

/// One commit by the author of most pages, of several the owner of the draft; others and the caller
/// are named in trailers.
fn change_set(cx: &OperationContext<'_>, view: &DraftView<'_>, plan: &MergePlan) -> ChangeSet {
    let (merger, id, owner) = (cx.caller.actor(), view.draft().id, &view.draft().actor);
    let most = plan.authors.iter().max_by_key(|(author, pages)| (**pages, *author == owner));
    let author = most.map_or(&merger, |(author, _)| author);
    let (count, plural) = (plan.changes.len(), if plan.changes.len() == 1 { "" } else { "s" });
    let mut message = format!("{author}: merge draft {id} — {count} file{plural}\n\n");
    for other in plan.authors.keys().filter(|other| *other != author) {
        message.push_str(&format!("Co-authored-by: {other} <{INTERNAL_EMAIL}>\n"));
    }
    message.push_str(&format!("Merged-by: {merger} <{INTERNAL_EMAIL}>\n"));
    let set = ChangeSet::new(plan.changes.clone()).with_message(message).with_announcement(EventAnnouncement::Merge);
    set.with_author(author.clone())
}
