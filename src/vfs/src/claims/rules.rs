//! Which writes a claim refuses.
//!
//! 1. A write that names a fence is refused when that is not the fence of an active claim of its
//!    actor on a changed page.
//! 2. A write by an actor other than the holder is refused when claims are enforced or the page is
//!    a task; else it is done, with a note.
//! 3. Rename and removal are writes. A rename by the holder moves the claim, also of a directory.
//! 4. File protocols name no fence: for them rule 2 applies, by actor.

use std::collections::BTreeSet;

use svcfs_base::{Actor, Caller, Change, Claim, Fault, Kind, Protocol, Timestamp, TreePath};

use super::registry::{ClaimEventKind, WriteOutcome};
use crate::core::{EffectiveState, VfsCore};

/// A claim that a rename moves.
pub(crate) struct ClaimMove {
    claim: Claim,
    to: TreePath,
}

impl VfsCore {
    /// Checks all changes of a set; returns notes for its writer.
    pub(crate) fn check_claims(&self, caller: &Caller, changes: &[Change]) -> Result<Vec<String>, Fault> {
        if caller.claim_fence.is_none() && self.claims.is_empty() {
            return Ok(Vec::new());
        }
        let active = self.check_named_fence(caller, changes)?;
        let mut notes = Vec::new();
        for claim in &active {
            notes.extend(self.check_holder(caller, claim)?);
        }
        Ok(notes)
    }

    /// Rule 1 alone, for a write in a draft: it changes no claimed page, but a worker that names
    /// the fence of a lost claim must stop. Returns the active claims of the changed pages.
    pub(crate) fn check_named_fence(&self, caller: &Caller, changes: &[Change]) -> Result<Vec<Claim>, Fault> {
        if caller.claim_fence.is_some() && !self.claim_policy().is_enabled {
            return Err(Fault::new(Kind::NotEnabled, super::NOT_ENABLED));
        }
        let now = self.clock.now();
        let active = self.claims_touched_by(changes, now);
        self.check_fence(caller, changes, (&active, now))?;
        Ok(active)
    }

    /// Rule 2 for one path, before a file is opened or created.
    pub(crate) fn check_not_claimed(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        let Some(claim) = self.claims.at(path) else { return Ok(()) };
        if claim.has_lapsed(self.clock.now()) {
            return Ok(());
        }
        self.check_holder(caller, &claim).map(drop)
    }

    /// Active claims of the pages that a set changes.
    fn claims_touched_by(&self, changes: &[Change], now: Timestamp) -> Vec<Claim> {
        let mut seen = BTreeSet::new();
        let paths = changes.iter().flat_map(|change| match change {
            Change::Move { from, to, .. } => vec![from, to],
            Change::MakeDir { .. } => Vec::new(),
            Change::Put { path, .. } | Change::Remove { path, .. } | Change::RemoveDir { path } => vec![path],
        });
        let claims = paths.flat_map(|path| self.claims.below(path));
        claims.filter(|claim| !claim.has_lapsed(now) && seen.insert(claim.path.clone())).collect()
    }

    /// Rule 1.
    fn check_fence(
        &self,
        caller: &Caller,
        changes: &[Change],
        (active, now): (&[Claim], Timestamp),
    ) -> Result<(), Fault> {
        let Some(fence) = caller.claim_fence else { return Ok(()) };
        let actor = caller.actor();
        if active.iter().any(|claim| claim.fence == fence && claim.claimed_by == actor) {
            return Ok(());
        }
        let Some(path) = changes.first().map(Change::path) else { return Ok(()) };
        let claim = active.iter().find(|claim| claim.fence == fence).or_else(|| active.first()).cloned();
        let lapsed = self.claims.at(path).filter(|claim| claim.has_lapsed(now));
        Err(claim_lost(caller, path, &lost_reason((path, fence), claim.as_ref(), lapsed.as_ref()), claim.as_ref()))
    }

    /// Rule 2 for an active claim; a note when the write is not refused.
    fn check_holder(&self, caller: &Caller, claim: &Claim) -> Result<Option<String>, Fault> {
        let is_exempt = matches!(caller.protocol, Protocol::Internal | Protocol::Direct);
        if is_exempt || caller.actor() == claim.claimed_by || !self.claim_policy().is_enabled {
            return Ok(None);
        }
        let path = &claim.path;
        let held = format!("`{path}` is claimed by `{}` until {:.0}", claim.claimed_by, claim.expires_at);
        if self.claim_policy().is_enforced || self.is_task(path) {
            let advice = "wait until the claim ends, or ask its holder to release it";
            return Err(claim_lost(caller, path, &format!("{held}; {advice}"), Some(claim)));
        }
        Ok(Some(held))
    }

    fn is_task(&self, path: &TreePath) -> bool {
        match self.effective_state(path) {
            Ok(EffectiveState::Leaf(leaf, _)) => (self.claim_policy().is_task)(&leaf.content),
            Ok(EffectiveState::Absent | EffectiveState::Directory | EffectiveState::Large(_)) | Err(_) => false,
        }
    }

    /// The caller's claims that the renames of a set move. A page that is renamed to a name without
    /// versions is about to be replaced by its editor: its claim stays.
    pub(crate) fn claims_moved_by(&self, caller: &Caller, changes: &[Change]) -> Vec<ClaimMove> {
        if self.claims.is_empty() {
            return Vec::new();
        }
        let renames = changes.iter().filter_map(|change| match change {
            Change::Move { from, to, .. } if self.is_versioned(to) => Some((from, to)),
            _ => None,
        });
        let actor = caller.actor();
        let moved = renames.flat_map(|(from, to)| {
            self.claims.below(from).into_iter().filter_map(|claim| {
                let target = claim.path.rebase(from, to)?;
                (claim.claimed_by == actor).then_some(ClaimMove { claim, to: target })
            })
        });
        moved.collect()
    }

    /// Moves claims to the new names of their pages.
    pub(crate) fn move_claims(&self, moves: Vec<ClaimMove>) -> Option<WriteOutcome> {
        if moves.is_empty() {
            return None;
        }
        let now = self.clock.now();
        let mut last = None;
        for ClaimMove { claim, to } in moves {
            let is_same = |present: Option<&Claim>| present.is_some_and(|present| present.fence == claim.fence);
            let take = |present: Option<&Claim>, _| if is_same(present) { Ok(None) } else { Err(()) };
            let Ok((_, outcome)) = self.claims.update_durably(&claim.path, take) else { continue };
            last = Some(outcome);
            let moved = Claim { path: to.clone(), ..claim.clone() };
            let is_free = |present: &Claim| present.has_lapsed(now) || present.claimed_by == claim.claimed_by;
            let put = |present: Option<&Claim>, _| match present {
                Some(other) if !is_free(other) => Err(()),
                _ => Ok(Some(moved.clone())),
            };
            let put = self.claims.update_durably(&to, put);
            self.claims.announce(ClaimEventKind::Release, now, claim);
            if let Ok((_, outcome)) = put {
                last = Some(outcome);
                self.claims.announce(ClaimEventKind::Claim, now, moved);
            }
        }
        last
    }

    /// Waits until moved claims are durable. The rename is done in any case.
    pub(crate) fn wait_for_moved_claims(&self, outcome: Option<&WriteOutcome>) {
        if let Some(Err(fault)) = outcome.map(|outcome| self.claims.wait(outcome)) {
            tracing::warn!(error = ?fault, "a page was renamed without its claim");
        }
    }
}

fn lost_reason((path, fence): (&TreePath, u64), active: Option<&Claim>, lapsed: Option<&Claim>) -> String {
    match (active, lapsed) {
        (Some(claim), _) if claim.fence == fence => {
            let holder = &claim.claimed_by;
            format!("fence {fence} of `{}` belongs to `{holder}`; write as that actor", claim.path)
        }
        (Some(claim), _) => {
            let Claim { path, claimed_by, fence: newest, .. } = claim;
            format!("`{path}` is claimed by `{claimed_by}` with fence {newest}; fence {fence} is over; do not write it")
        }
        (None, Some(claim)) if claim.fence == fence => {
            let ended = claim.expires_at;
            format!(
                "the lease of `{path}` with fence {fence} ended at {ended:.0}; claim it again and read it before you write"
            )
        }
        (None, _) => format!("`{path}` has no claim with fence {fence}; claim it and read it before you write"),
    }
}

/// `claim_lost`, with the active claim. File protocols have an error of their own for locks.
pub(super) fn claim_lost(caller: &Caller, path: &TreePath, reason: &str, active: Option<&Claim>) -> Fault {
    let kind = if caller.protocol.is_filesystem() { Kind::Locked } else { Kind::Conflict };
    let active = active.map(Claim::to_json);
    Fault::new(kind, format!("claim_lost: {reason}"))
        .with_detail("active_claim", active)
        .with_detail("path", path.as_str())
}

/// The message of [`super::Vfs::renew_claim`] and [`super::Vfs::release_claim`].
pub(super) fn renewal_lost(
    caller: &Caller,
    (path, fence): (&TreePath, u64),
    present: Option<&Claim>,
    now: Timestamp,
) -> Fault {
    let active = present.filter(|claim| !claim.has_lapsed(now));
    let lapsed = present.filter(|claim| claim.has_lapsed(now));
    claim_lost(caller, path, &lost_reason((path, fence), active, lapsed), active)
}

/// Whether a claim is active, of an actor and with a fence.
pub(super) fn is_held(claim: &Claim, actor: &Actor, fence: u64, now: Timestamp) -> bool {
    claim.fence == fence && claim.claimed_by == *actor && !claim.has_lapsed(now)
}
