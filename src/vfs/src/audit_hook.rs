//! Who changed what, for whoever keeps that.

use std::time::{Duration, Instant};

use svcfs_base::{ApplyResult, Caller, Change, ChangeSet, Durability, Fault, Seq, Timestamp, TreePath};

use crate::Vfs;
use crate::core::VfsCore;

/// One change that was asked for, without what it brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedChange {
    /// What it is: `PUT`, `DELETE`, `MOVE`, and of directories `MKCOL` and `RMCOL`.
    pub method: &'static str,
    /// The path it is about; of a move, the old name.
    pub path: TreePath,
    /// Of a move, the new name.
    pub destination: Option<TreePath>,
}

/// Changes that were asked for together, and what became of them.
#[derive(Debug)]
pub struct ChangeOutcome<'a> {
    /// Who asked.
    pub caller: &'a Caller,
    /// In the order asked.
    pub changes: &'a [RequestedChange],
    /// When they were answered.
    pub timestamp: Timestamp,
    /// How long that took.
    pub duration: Duration,
    /// Why nothing was changed, when nothing was.
    pub refusal: Option<&'a Fault>,
}

/// Told of all changes that are asked for, done or refused; must not block.
pub type OnChange = Box<dyn Fn(&ChangeOutcome<'_>) + Send + Sync>;

/// Called with each accepted change set: its caller, and its position in the change log; no position while it may still be queued. Must not
/// block.
pub type OnAccepted = Box<dyn Fn(&Caller, Option<Seq>) + Send + Sync>;

impl Vfs {
    /// Registers the one observer of accepted change sets, before there are any; a second one is ignored.
    pub fn on_accepted(&self, observer: OnAccepted) {
        let _only_the_first = self.core.on_accepted.set(observer);
    }
    /// Has somebody told of all changes that are asked for from here on; only the first who asks is.
    pub fn on_change(&self, told: OnChange) {
        let _only_the_first = self.core.on_change.set(told);
    }
}

impl VfsCore {
    /// Does what is asked, and tells of it where somebody wants to know.
    pub(crate) fn telling(
        &self,
        caller: &Caller,
        set: ChangeSet,
        apply: impl FnOnce(ChangeSet) -> Result<ApplyResult, Fault>,
    ) -> Result<ApplyResult, Fault> {
        let durability = set.durability;
        let outcome = self.audited(caller, set, apply);
        if let (Some(observer), Ok(applied)) = (self.on_accepted.get(), &outcome) {
            observer(caller, (durability == Durability::Now).then_some(applied.seq));
        }
        outcome
    }

    fn audited(
        &self,
        caller: &Caller,
        set: ChangeSet,
        apply: impl FnOnce(ChangeSet) -> Result<ApplyResult, Fault>,
    ) -> Result<ApplyResult, Fault> {
        let Some(told) = self.on_change.get() else { return apply(set) };
        let changes: Vec<RequestedChange> = set.changes.iter().map(RequestedChange::of).collect();
        let begun = Instant::now();
        let outcome = apply(set);
        told(&ChangeOutcome {
            caller,
            changes: &changes,
            timestamp: self.clock.now(),
            duration: begun.elapsed(),
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
