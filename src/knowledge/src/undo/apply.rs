//! Makes or shows an undo.

use svcfs_base::{Caller, ChangeSet, ETag, EventAnnouncement, Fault, Kind, VersionId};

use super::hunks;
use super::operations::{UndoResult, UndonePage};
use super::plan::UndoPlan;
use super::selection::{ResolvedSelection, UndoSelection};
use crate::kernel::OperationContext;

/// Attempts of an undo that loses against concurrent writers. Each failure means that another
/// writer succeeded.
const UNDO_ATTEMPTS: usize = 16;
/// Commits that the message of an undo names.
const MAX_NAMED_COMMITS: usize = 100;

/// Which parts of the selected changes are undone.
#[derive(Debug, Default)]
pub struct HunkSelection {
    /// Numbers of hunks; all if absent.
    pub hunks: Option<Vec<u32>>,
    /// The state of a dry run, which must be the present one.
    pub etag: Option<ETag>,
}

/// Undoes the selected changes in one commit by this caller.
///
/// # Errors
/// Those of the selection and the plan; `Conflict` if the pages have changed since the dry run with
/// this ETag; those of [`svcfs_vfs::Vfs::apply`].
pub fn undo(
    cx: &OperationContext<'_>,
    caller: &Caller,
    selection: &UndoSelection,
    parts: &HunkSelection,
) -> Result<UndoResult, Fault> {
    let mut attempt = 1;
    loop {
        let resolved = selection.resolve(cx)?;
        let mut plan = plan(cx, &resolved, parts)?;
        let fault = loop {
            let changes = plan.changes();
            if changes.is_empty() {
                return Ok(UndoResult::new(plan, false));
            }
            let set = ChangeSet::new(changes).with_message(message(caller, selection, &plan));
            let set = set.with_announcement(match &plan.pages[..] {
                [_] => EventAnnouncement::Files,
                _ => EventAnnouncement::Bulk,
            });
            match cx.apply_as(caller, set) {
                Ok(applied) => {
                    let version = applied.commit.map(VersionId::Commit);
                    return Ok(UndoResult { version, ..UndoResult::new(plan, false) });
                }
                // One page that a rule protects must not prevent the undo of all others.
                Err(fault) if caller.claim_fence.is_none() && plan.leave_refused(cx, &fault) => {}
                Err(fault) => break fault,
            }
        };
        if !is_race(&fault) || attempt == UNDO_ATTEMPTS {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// What [`undo`] would do, with diffs and hunks.
///
/// # Errors
/// As [`undo`].
pub fn dry_run(
    cx: &OperationContext<'_>,
    selection: &UndoSelection,
    parts: &HunkSelection,
) -> Result<UndoResult, Fault> {
    let plan = plan(cx, &selection.resolve(cx)?, parts)?;
    let (etag, details) = (plan.etag(), hunks::describe(&plan)?);
    let mut result = UndoResult { etag: Some(etag), ..UndoResult::new(plan, true) };
    for (page, (hunks, diff)) in result.undone.iter_mut().zip(details) {
        (page.hunks, page.diff) = (Some(hunks), Some(diff));
    }
    Ok(result)
}

fn plan(cx: &OperationContext<'_>, selection: &ResolvedSelection, parts: &HunkSelection) -> Result<UndoPlan, Fault> {
    let mut plan = UndoPlan::new(cx, selection)?;
    let etag = plan.etag();
    if parts.etag.is_some_and(|expected| expected != etag) {
        let message = "the pages have changed since the dry run; make another one, and use its `etag` and hunks";
        return Err(Fault::new(Kind::Conflict, message).with_detail("current_etag", etag.to_string()));
    }
    match (&parts.hunks, parts.etag) {
        (None, _) => {}
        (Some(_), None) => {
            let message = "is required with `hunks`: hunks have the numbers of the dry run that answered this `etag`";
            return Err(Fault::invalid("etag", message));
        }
        (Some(numbers), Some(_)) => hunks::select(&mut plan, numbers)?,
    }
    Ok(plan)
}

/// Whether a page has changed between reading and writing.
fn is_race(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed | Kind::NotFound | Kind::Exists)
}

/// The message of the commit: whose changes are undone, and which commits.
fn message(caller: &Caller, selection: &UndoSelection, plan: &UndoPlan) -> String {
    let mut commits: Vec<VersionId> = plan.pages.iter().flat_map(|page| page.commits.iter().copied()).collect();
    commits.sort_unstable();
    commits.dedup();
    let (count, plural) = (commits.len(), if commits.len() == 1 { "" } else { "s" });
    let of_actor = selection.actor.as_ref().map(|actor| format!(" by {actor}")).unwrap_or_default();
    let mut message = format!("{}: undo {count} change{plural}{of_actor}\n", caller.actor());
    for commit in commits.iter().take(MAX_NAMED_COMMITS) {
        message.push_str(&format!("\nUndoes: {commit}"));
    }
    if count > MAX_NAMED_COMMITS {
        message.push_str(&format!("\nand {} more", count - MAX_NAMED_COMMITS));
    }
    message
}

impl UndoResult {
    fn new(plan: UndoPlan, dry_run: bool) -> Self {
        let page = |page: super::page::PageUndo| {
            let path = page.path()?.clone();
            let former = page.now.as_ref().map(|now| now.path.clone()).filter(|now| *now != path);
            let action = super::operations::UndoAction::of(&page);
            Some(UndonePage { path, action, former, commits: page.commits, diff: None, hunks: None })
        };
        let undone = plan.pages.into_iter().filter_map(page).collect();
        Self { version: None, undone, conflicts: plan.conflicts, dry_run, etag: None }
    }
}
