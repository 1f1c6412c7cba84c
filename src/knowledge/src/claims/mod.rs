//! Claims: write leases of actors on pages (`POST /claim`).
//!
//! Invariant: the write path enforces claims, so that every protocol obeys the same rules. Here
//! they are started and ended.

mod duration;
mod operations;
mod sweeper;
#[cfg(test)]
mod tests;

use std::time::Duration;

use svcfs_base::{Actor, Claim, Fault, Kind, Protocol, TreePath};
use svcfs_config::ClaimsConfig;
use svcfs_text::frontmatter;
use svcfs_vfs::{ClaimAttempt, ClaimPolicy, StartedClaim};

use crate::kernel::{OperationContext, Space};
use crate::tasks;

pub use duration::{LeaseDuration, parse_duration};
pub use operations::AREA;
pub use sweeper::ClaimSweeper;

/// How the settings `[claims]` use claims.
pub fn policy(settings: ClaimsConfig) -> ClaimPolicy {
    let is_task =
        |content: &[u8]| std::str::from_utf8(content).is_ok_and(|text| tasks::is_task(&frontmatter::parse(text).map));
    ClaimPolicy { is_enabled: settings.enabled, is_enforced: settings.enforce, is_task: Box::new(is_task) }
}

/// The name of the caller, which a claim needs: a default name would be shared by many.
///
/// # Errors
/// `Invalid` without a name.
pub fn require_actor(cx: &OperationContext<'_>) -> Result<Actor, Fault> {
    let name = if cx.caller.protocol == Protocol::Mcp { "actor" } else { "X-Actor" };
    let message = || format!("{name} is required: a claim belongs to an actor");
    cx.caller.actor.clone().ok_or_else(|| Fault::new(Kind::Invalid, message()))
}

/// Claims a page, or renews the caller's claim.
///
/// # Errors
/// `Conflict` with `active_claim` when another actor has claimed it; those of the disk.
pub fn claim(space: &Space, actor: &Actor, path: &TreePath, lease: Duration) -> Result<Claim, Fault> {
    match start(space, actor, path, lease)? {
        Ok(mut started) => {
            if let Some(attempt) = tasks::next_attempt(space, path) {
                started.set_attempt(attempt);
            }
            started.confirm()
        }
        Err(active) => Err(Fault::new(Kind::Conflict, "already claimed").with_detail("active_claim", active.to_json())),
    }
}

/// Starts a claim, after ending a lapsed one; or returns the active claim of another actor.
///
/// # Errors
/// Those of [`svcfs_vfs::Vfs::start_claim`], and of the disk.
pub fn start<'s>(
    space: &'s Space,
    actor: &Actor,
    path: &TreePath,
    lease: Duration,
) -> Result<Result<StartedClaim<'s>, Claim>, Fault> {
    loop {
        match space.vfs.start_claim(actor, path, lease)? {
            ClaimAttempt::Started(started) => return Ok(Ok(started)),
            ClaimAttempt::Active(active) => return Ok(Err(active)),
            ClaimAttempt::Lapsed(lapsed) => end_lapsed(space, &lapsed)?,
        }
    }
}

/// Ends a lapsed claim. An unfinished task has failed an attempt.
///
/// # Errors
/// Those of the disk; the claim stays then.
pub fn end_lapsed(space: &Space, lapsed: &Claim) -> Result<(), Fault> {
    if lapsed.attempt > 0 {
        tasks::record_attempt(space, lapsed)?;
    }
    space.vfs.end_lapsed_claim(lapsed)
}
