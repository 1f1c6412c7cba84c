//! Drafts: pages that are changed beside the tree, reviewed, and merged.
//!
//! Invariant: a page that a draft changes is read from the draft, every other page from the tree as
//! it is now ([`svcfs_vfs::DraftView`]). A merge is a three-way merge of each page and one change
//! set: all pages or none. Search, backlinks and queries do not see drafts.

mod hunks;
mod merge;
mod operations;
mod retention;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Actor, Caller, DraftId, DraftPage, ETag, Fault, Kind, Protocol, Scope, Timestamp, TreePath};
use svcfs_vfs::DraftView;

use crate::kernel::OperationContext;

pub use operations::AREA;
pub(crate) use retention::DraftRetention;

/// A draft as callers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DraftSummary {
    /// Id of the draft: 8 hexadecimal digits
    pub id: String,
    /// The git branch with its content
    pub branch: String,
    /// Actor that opened it
    pub actor: Actor,
    /// When it was opened
    pub created_at: Timestamp,
    /// When it was last changed
    pub changed_at: Timestamp,
    /// Number of pages that it changes
    pub ahead: usize,
    /// Number of changes of the tree since it was opened
    pub behind: u64,
    /// The pages that it changes
    pub paths: Vec<TreePath>,
}

/// Finds a draft by the id that a caller sent.
///
/// # Errors
/// `Disabled` if the settings disable drafts; `NotFound`.
pub(crate) fn find<'a>(cx: &OperationContext<'a>, id: &str) -> Result<DraftView<'a>, Fault> {
    check_enabled(cx)?;
    let not_found = || Fault::not_found("draft not found");
    cx.space.vfs.draft(DraftId::parse(id).ok_or_else(not_found)?)
}

/// Finds a draft that the caller may change: with the scope `propose` only those of its actor.
///
/// # Errors
/// Those of [`find`]; `Forbidden`, naming the scopes.
pub(crate) fn find_for_change<'a>(cx: &OperationContext<'a>, id: &str) -> Result<DraftView<'a>, Fault> {
    let view = find(cx, id)?;
    if cx.is_proposing() && view.draft().actor != cx.caller.actor() {
        cx.caller.permissions.check_scope(Scope::Write, "a change of a draft of someone else")?;
    }
    Ok(view)
}

fn check_enabled(cx: &OperationContext<'_>) -> Result<(), Fault> {
    if !cx.settings().drafts.enabled {
        return Err(Fault::new(Kind::Disabled, "drafts are disabled: `drafts.enabled` is false"));
    }
    Ok(())
}

/// The caller with the default name of an operation on drafts, if it sent none over HTTP. The name
/// in a request is that of the caller, unless its key says who it is.
fn named_caller(cx: &OperationContext<'_>, actor: Option<Actor>, default: &str) -> Caller {
    let mut caller = cx.caller.clone().with_input_actor(actor);
    if caller.protocol == Protocol::Http {
        caller.actor = caller.actor.or_else(|| Some(Actor::new(default)));
    }
    caller
}

/// Refuses a draft with pages outside the folder of the caller's key, without their names.
fn check_folder(cx: &OperationContext<'_>, view: &DraftView<'_>) -> Result<(), Fault> {
    if view.pages().iter().all(|(path, _)| cx.caller.permissions.covers(path)) {
        return Ok(());
    }
    let message = "path outside key scope: the draft also changes pages outside the folder of this key";
    Err(Fault::new(Kind::Forbidden, message))
}

/// The pages of a draft that a caller may see.
fn visible_pages(cx: &OperationContext<'_>, view: &DraftView<'_>) -> Vec<(TreePath, DraftPage)> {
    let mut pages = view.pages();
    let is_visible =
        |path: &TreePath| cx.caller.permissions.covers(path) && cx.space.vfs.is_visible(cx.caller.protocol, path);
    pages.retain(|(path, _)| is_visible(path));
    pages
}

fn summary(cx: &OperationContext<'_>, view: &DraftView<'_>) -> DraftSummary {
    let draft = view.draft();
    let pages = visible_pages(cx, view);
    DraftSummary {
        id: draft.id.to_string(),
        branch: draft.id.branch(),
        actor: draft.actor.clone(),
        created_at: draft.created_at,
        changed_at: view.changed_at(),
        ahead: pages.len(),
        behind: cx.space.vfs.last_seq().0.saturating_sub(draft.base_seq.0),
        paths: pages.into_iter().map(|(path, _)| path).collect(),
    }
}

/// Identifies the state of a draft: it changes with each change of a page.
fn state_etag(pages: &[(TreePath, DraftPage)]) -> ETag {
    let hash = |etag: Option<ETag>| etag.map(|etag| etag.to_string()).unwrap_or_default();
    let lines = pages.iter().map(|(path, page)| format!("{path}\0{}\0{}\n", hash(page.base), hash(page.etag)));
    ETag::from_content(lines.collect::<String>().as_bytes())
}
