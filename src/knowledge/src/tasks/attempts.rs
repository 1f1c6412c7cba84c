//! Attempts at a task: each lease that ends before its task is finished is a failed one.
//!
//! Invariant: the number of an attempt is part of its claim, so that recording it twice, after a
//! crash, counts it once.

use serde_json::{Value, json};
use svcfs_base::{Caller, Claim, Fault, Kind, Protocol, TreePath};
use svcfs_text::frontmatter;

use super::edits::edit_page;
use crate::files::set_fields;
use crate::kernel::Space;

/// After this many lapsed leases a task has failed.
const MAX_ATTEMPTS: u32 = 3;

/// The number of the next attempt at an open task; none for other pages.
pub fn next_attempt(space: &Space, path: &TreePath) -> Option<u32> {
    let fields = super::stored_fields(space, path)?;
    let count = attempts(fields.get("attempts")).saturating_add(1);
    (super::is_open(&fields) && !super::has_ended(space, fields)).then_some(count)
}

fn attempts(value: Option<&Value>) -> u32 {
    value.and_then(Value::as_u64).and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

/// Records the failed attempt of a lapsed claim in its task, if that is still open.
///
/// # Errors
/// Those of the disk. A page that cannot be edited is logged and stays.
pub fn record_attempt(space: &Space, lapsed: &Claim) -> Result<(), Fault> {
    let (path, holder) = (&lapsed.path, &lapsed.claimed_by);
    let message = format!("the lease of {holder} ended: {path}");
    let record = |with_state: bool| {
        edit_page(space, &Caller::new(Protocol::Internal), path, &message, |text| {
            let fields = frontmatter::parse(text).map;
            if !super::is_open(&fields) {
                return Ok(None);
            }
            let count = attempts(fields.get("attempts")).max(lapsed.attempt);
            let mut changes = vec![("attempts", json!(count))];
            if count >= MAX_ATTEMPTS {
                changes.push(("status", json!("failed")));
                let workflow = super::workflow_of(space, &fields).filter(|_| with_state);
                let state = workflow.as_ref().and_then(|workflow| workflow.state("failed"));
                changes.extend(state.map(|state| ("state", json!(state.name))));
            }
            set_fields(text, &changes).map(Some)
        })
    };
    // The workflow may have no transition to the failed state.
    let recorded = match record(true) {
        Err(fault) if fault.kind() == Kind::NotAllowed => record(false),
        outcome => outcome,
    };
    match recorded {
        Err(fault) if is_lasting(fault.kind()) => {
            tracing::warn!(page.path = %path, error = ?fault, "a failed attempt could not be recorded");
            Ok(())
        }
        outcome => outcome.map(drop),
    }
}

/// Whether a later try would fail, too.
const fn is_lasting(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::NotFound
            | Kind::NotAllowed
            | Kind::IsDirectory
            | Kind::Invalid
            | Kind::Rejected
            | Kind::Conflict
            | Kind::Forbidden
    )
}
