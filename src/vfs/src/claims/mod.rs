//! Claims: cooperative write leases of actors on pages, with fence numbers.
//!
//! Invariant: expiry is checked with the clock at every use; removing lapsed claims only makes
//! them known to followers. A claim starts while its page is locked: writes before it are complete,
//! later ones see it.

mod registry;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use svcfs_base::{Actor, Caller, Change, Claim, Fault, Kind, Timestamp, TreePath};

use crate::Vfs;
use crate::core::VfsCore;
pub use registry::{ClaimEvent, ClaimEventKind};
pub(crate) use registry::{ClaimRegistry, WriteOutcome};

/// Maximum number of claims in a space.
const MAX_CLAIMS: usize = 100_000;

const NOT_ENABLED: &str = "claims not enabled";

/// Whether the content of a page is that of a task.
pub type TaskTest = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// How a space uses claims.
pub struct ClaimPolicy {
    /// Whether there are claims.
    pub is_enabled: bool,
    /// Whether writes by others than the holder are refused on all pages, not only on tasks.
    pub is_enforced: bool,
    /// Whether the content of a page is that of a task.
    pub is_task: TaskTest,
}

impl Default for ClaimPolicy {
    fn default() -> Self {
        Self { is_enabled: true, is_enforced: false, is_task: Box::new(|_| false) }
    }
}

/// The result of an attempt to claim a page.
pub enum ClaimAttempt<'a> {
    /// The claim has started; it must be confirmed.
    Started(StartedClaim<'a>),
    /// Another actor has an active claim.
    Active(Claim),
    /// A lapsed claim has not been ended yet, see [`Vfs::end_lapsed_claim`].
    Lapsed(Claim),
}

/// A claim that others see already. It ends on drop, unless it was confirmed.
#[must_use = "the claim ends when this is dropped"]
pub struct StartedClaim<'a> {
    core: &'a VfsCore,
    claim: Claim,
    /// The caller's earlier claim, which this one renews.
    renewed: Option<Claim>,
    is_confirmed: bool,
}

impl StartedClaim<'_> {
    /// The claim.
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }
    /// Whether the actor had an active claim already.
    pub const fn is_renewal(&self) -> bool {
        self.renewed.is_some()
    }
    /// Sets which attempt at a task it is.
    pub const fn set_attempt(&mut self, attempt: u32) {
        self.claim.attempt = attempt;
    }
    /// Makes the claim durable.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be stored; there is no claim then.
    pub fn confirm(mut self) -> Result<Claim, Fault> {
        self.is_confirmed = true;
        let core = self.core;
        let claim = self.claim.clone();
        let keep = |present: Option<&Claim>, _| match present {
            Some(present) if present.fence == claim.fence => Ok(Some(claim.clone())),
            _ => Err(()),
        };
        let Ok((_, outcome)) = core.claims.update_durably(&claim.path, keep) else {
            return Err(Fault::unavailable("the claim could not be stored; claim the page again"));
        };
        core.claims.wait(&outcome)?;
        core.claims.announce(ClaimEventKind::Claim, core.clock.now(), claim.clone());
        Ok(claim)
    }
}

impl Drop for StartedClaim<'_> {
    fn drop(&mut self) {
        if self.is_confirmed {
            return;
        }
        let _unless_changed = self.core.claims.update(&self.claim.path, |present, _| match present {
            Some(present) if present.fence == self.claim.fence => Ok(self.renewed.clone()),
            _ => Err(()),
        });
    }
}

impl VfsCore {
    pub(crate) fn claim_policy(&self) -> &ClaimPolicy {
        self.claim_policy.get_or_init(ClaimPolicy::default)
    }

    fn check_enabled(&self) -> Result<(), Fault> {
        if self.claim_policy().is_enabled { Ok(()) } else { Err(Fault::new(Kind::NotEnabled, NOT_ENABLED)) }
    }
}

impl Vfs {
    /// Sets how claims are used, once, before the first one.
    pub fn set_claim_policy(&self, policy: ClaimPolicy) {
        let _only_the_first = self.core.claim_policy.set(policy);
    }

    /// Checks that the space has claims.
    ///
    /// # Errors
    /// `Unavailable` when they are switched off.
    pub fn check_claims_enabled(&self) -> Result<(), Fault> {
        self.core.check_enabled()
    }

    /// Starts a claim of an actor, or renews it, from now for a time.
    ///
    /// # Errors
    /// `Unavailable` when claims are switched off, or there are too many.
    pub fn start_claim(&self, actor: &Actor, path: &TreePath, lease: Duration) -> Result<ClaimAttempt<'_>, Fault> {
        self.core.check_enabled()?;
        // Writes that passed their checks finish first; later ones see the claim.
        let _locked = self.core.path_locks.lock([path.clone()].into());
        let now = self.core.clock.now();
        let expires_at = expiry(now, lease);
        let is_full = self.core.claims.len() >= MAX_CLAIMS;
        let mut started = None;
        let outcome = self.core.claims.update(path, |present, new_fence| match present {
            Some(present) if present.has_lapsed(now) => Err(Some(Box::new(ClaimAttempt::Lapsed(present.clone())))),
            Some(present) if present.claimed_by != *actor => Err(Some(Box::new(ClaimAttempt::Active(present.clone())))),
            Some(present) => Ok(Some(started.insert(Claim { expires_at, ..present.clone() }).clone())),
            None if is_full => Err(None),
            None => {
                let (path, claimed_by) = (path.clone(), actor.clone());
                // The first of a new file: earlier ones may have been lost with the old file.
                let fence = if new_fence == 1 { u64::try_from(now.as_millisecond()).unwrap_or(1) } else { new_fence };
                let claim = Claim { path, claimed_by, claimed_at: now, expires_at, fence, attempt: 0 };
                Ok(Some(started.insert(claim).clone()))
            }
        });
        match (outcome, started) {
            (Ok(renewed), Some(claim)) => {
                Ok(ClaimAttempt::Started(StartedClaim { core: &self.core, claim, renewed, is_confirmed: false }))
            }
            (Err(Some(attempt)), _) => Ok(*attempt),
            (Err(None) | Ok(_), _) => Err(Fault::unavailable(format!(
                "{MAX_CLAIMS} pages are claimed in this space; release some of them first"
            ))),
        }
    }

    /// Renews an active claim of the caller.
    ///
    /// # Errors
    /// `Conflict`, with the active claim, when the fence is not the newest or the lease has ended.
    pub fn renew_claim(&self, caller: &Caller, path: &TreePath, fence: u64, lease: Duration) -> Result<Claim, Fault> {
        self.core.check_enabled()?;
        let (now, actor) = (self.core.clock.now(), caller.actor());
        let expires_at = expiry(now, lease);
        let mut renewed = None;
        let (_, outcome) = self.core.claims.update_durably(path, |present, _| match present {
            Some(claim) if rules::is_held(claim, &actor, fence, now) => {
                Ok(Some(renewed.insert(Claim { expires_at, ..claim.clone() }).clone()))
            }
            present => Err(rules::renewal_lost(caller, (path, fence), present, now)),
        })?;
        let Some(claim) = renewed else { return Err(Fault::not_found("no claim")) };
        self.core.claims.wait(&outcome)?;
        self.core.claims.announce(ClaimEventKind::Claim, now, claim.clone());
        Ok(claim)
    }

    /// Ends an active claim of an actor, with this fence if one is given; false when there is none.
    ///
    /// # Errors
    /// `Unavailable` when claims are switched off, or the end cannot be stored.
    pub fn release_claim(&self, actor: &Actor, path: &TreePath, fence: Option<u64>) -> Result<bool, Fault> {
        self.core.check_enabled()?;
        let now = self.core.clock.now();
        let released = self.core.claims.update_durably(path, |present, _| match present {
            Some(claim) if rules::is_held(claim, actor, fence.unwrap_or(claim.fence), now) => Ok(None),
            _ => Err(()),
        });
        let Ok((Some(claim), outcome)) = released else { return Ok(false) };
        self.core.claims.wait(&outcome)?;
        self.core.claims.announce(ClaimEventKind::Release, now, claim);
        Ok(true)
    }

    /// Checks that a caller may write a page that others may have claimed.
    ///
    /// # Errors
    /// `Conflict`, with the active claim, when a write would be refused.
    pub fn check_claim(&self, caller: &Caller, path: &TreePath) -> Result<(), Fault> {
        self.core.check_claims(caller, &[Change::remove(path.clone())]).map(drop)
    }

    /// The active claim of a page; none while claims are switched off.
    pub fn claim_at(&self, path: &TreePath) -> Option<Claim> {
        self.core.check_enabled().ok()?;
        self.core.claims.at(path).filter(|claim| !claim.has_lapsed(self.core.clock.now()))
    }

    /// Active claims at and below a path, the oldest first.
    ///
    /// # Errors
    /// `Unavailable` when claims are switched off.
    pub fn claims_below(&self, path: &TreePath) -> Result<Vec<Claim>, Fault> {
        self.core.check_enabled()?;
        if self.core.claims.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.core.clock.now();
        let mut claims = self.core.claims.below(path);
        claims.retain(|claim| !claim.has_lapsed(now));
        claims.sort_by(|a, b| (a.claimed_at, &a.path).cmp(&(b.claimed_at, &b.path)));
        Ok(claims)
    }

    /// Claims whose lease has ended and that were not ended yet.
    pub fn lapsed_claims(&self) -> Vec<Claim> {
        if self.core.claims.is_empty() {
            return Vec::new();
        }
        self.core.claims.lapsed(self.core.clock.now())
    }

    /// Removes a lapsed claim, unless the page has another one by now.
    ///
    /// # Errors
    /// `Unavailable` when that cannot be stored.
    pub fn end_lapsed_claim(&self, lapsed: &Claim) -> Result<(), Fault> {
        let now = self.core.clock.now();
        let removed = self.core.claims.update_durably(&lapsed.path, |present, _| match present {
            Some(claim) if claim.fence == lapsed.fence && claim.has_lapsed(now) => Ok(None),
            _ => Err(()),
        });
        let Ok((Some(claim), outcome)) = removed else { return Ok(()) };
        self.core.claims.wait(&outcome)?;
        self.core.claims.announce(ClaimEventKind::Expire, now, claim);
        Ok(())
    }

    /// Calls `wake` with the number of each new claim event, until it returns false; it must not
    /// block.
    pub fn on_claim_event(&self, wake: impl Fn(u64) -> bool + Send + Sync + 'static) {
        self.core.claims.on_event(Box::new(wake));
    }

    /// The number of the newest claim event.
    pub fn last_claim_event(&self) -> u64 {
        self.core.claims.last_event()
    }

    /// Claim events after a number, and whether some are missing before them.
    pub fn claim_events_after(&self, number: u64) -> (Vec<Arc<ClaimEvent>>, bool) {
        self.core.claims.events_after(number)
    }
}

fn expiry(now: Timestamp, lease: Duration) -> Timestamp {
    now.checked_add(lease).unwrap_or(Timestamp::MAX)
}
