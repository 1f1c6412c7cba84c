//! Audit hook: reports requested changes to an observer.

use std::time::{Duration, Instant};

use svcfs_base::{ApplyResult, Caller, Change, ChangeSet, Durability, Fault, Seq, Timestamp, TreePath};

use crate::Vfs;
use crate::core::VfsCore;

/// A requested change, without content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedChange {
    /// `PUT`, `DELETE`, `MOVE`; for directories `MKCOL` and `RMCOL`.
    pub method: &'static str,
    /// Its path; for a move, the old one.
    pub path: TreePath,
    /// For a move, the new path.
    pub destination: Option<TreePath>,
}

/// A requested change set and its outcome.
#[derive(Debug)]
pub struct ChangeOutcome<'a> {
    /// Its caller.
    pub caller: &'a Caller,
    /// Its changes, in order.
    pub changes: &'a [RequestedChange],
    /// When it was answered.
    pub timestamp: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// Why it was refused, if it was.
    pub refusal: Option<&'a Fault>,
}

/// Called with all requested changes, done or refused; must not block.
pub type OnChange = Box<dyn Fn(&ChangeOutcome<'_>) + Send + Sync>;

/// Called with each accepted change set: caller, and log position if it is logged. Must not block.
pub type OnAccepted = Box<dyn Fn(&Caller, Option<Seq>) + Send + Sync>;

impl Vfs {
    /// Registers the one observer of accepted change sets; later ones are ignored.
    pub fn on_accepted(&self, observer: OnAccepted) {
        let _only_the_first = self.core.on_accepted.set(observer);
    }
    /// Registers the one observer of requested changes; later ones are ignored.
    pub fn on_change(&self, observer: OnChange) {
        let _only_the_first = self.core.on_change.set(observer);
    }
}

impl VfsCore {
    /// Applies a set and reports it to the observers.
    pub(crate) fn apply_audited(
        &self,
        caller: &Caller,
        set: ChangeSet,
        apply: impl FnOnce(ChangeSet) -> Result<ApplyResult, Fault>,
    ) -> Result<ApplyResult, Fault> {
        let durability = set.durability;
        let outcome = self.report_outcome(caller, set, apply);
        if let (Some(observer), Ok(applied)) = (self.on_accepted.get(), &outcome) {
            observer(caller, (durability == Durability::Now).then_some(applied.seq));
        }
        outcome
    }

    fn report_outcome(
        &self,
        caller: &Caller,
        set: ChangeSet,
        apply: impl FnOnce(ChangeSet) -> Result<ApplyResult, Fault>,
    ) -> Result<ApplyResult, Fault> {
        let Some(observer) = self.on_change.get() else { return apply(set) };
        let changes: Vec<RequestedChange> = set.changes.iter().map(RequestedChange::of).collect();
        let started = Instant::now();
        let outcome = apply(set);
        observer(&ChangeOutcome {
            caller,
            changes: &changes,
            timestamp: self.clock.now(),
            duration: started.elapsed(),
            refusal: outcome.as_ref().err(),
        });
        outcome
    }
}

impl RequestedChange {
    fn of(change: &Change) -> Self {
        let (method, to) = match change {
            Change::Put { .. } => ("PUT", None),
            Change::Remove { .. } => ("DELETE", None),
            Change::Move { to, .. } => ("MOVE", Some(to.clone())),
            Change::MakeDir { .. } => ("MKCOL", None),
            Change::RemoveDir { .. } => ("RMCOL", None),
        };
        Self { method, path: change.path().clone(), destination: to }
    }
}
