//! The counters of one agent.

use std::collections::HashSet;

use svcfs_base::Timestamp;

use super::{CountedSet, window};

/// Number of new pages that are remembered as the agent's own.
const MAX_CREATED: usize = 10_000;

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LimitKind {
    /// Deleted pages in a minute.
    Deletes,
    /// Rewritten pages in an hour.
    Rewrites,
}

impl LimitKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Deletes => "deletes_per_minute",
            Self::Rewrites => "rewritten_per_hour",
        }
    }
    /// Verb, participle and window, for messages.
    pub(super) const fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Deletes => ("delete", "deleted", "a minute"),
            Self::Rewrites => ("rewrite", "rewritten", "an hour"),
        }
    }
}

/// A window starts with the first change that counts, and ends after its length.
#[derive(Debug, Default)]
struct LimitWindow {
    started_at: Option<Timestamp>,
    /// Whether reaching the limit was announced in this window.
    is_announced: bool,
}

impl LimitWindow {
    fn has_ended(&self, kind: LimitKind, now: Timestamp) -> bool {
        // A clock that was set back ends the window, too: it must not last for days.
        self.started_at.is_some_and(|start| now < start || now >= end(start, kind))
    }
}

fn end(start: Timestamp, kind: LimitKind) -> Timestamp {
    start.checked_add(window(kind)).unwrap_or(Timestamp::MAX)
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ActorCounters {
    delete_window: LimitWindow,
    deleted: usize,
    rewrite_window: LimitWindow,
    /// Hashes of the paths, as below.
    rewritten: HashSet<u64>,
    /// Pages that the agent created in the window of rewrites: it may rewrite them.
    created: HashSet<u64>,
}

impl ActorCounters {
    /// Ends the windows that are over.
    pub(super) fn expire(&mut self, now: Timestamp) {
        if self.delete_window.has_ended(LimitKind::Deletes, now) {
            (self.delete_window, self.deleted) = Default::default();
        }
        if self.rewrite_window.has_ended(LimitKind::Rewrites, now) {
            (self.rewrite_window, self.rewritten, self.created) = Default::default();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.delete_window.started_at.is_none() && self.rewrite_window.started_at.is_none()
    }

    /// Removes from a set what is counted already, and pages of the agent itself, which remain its
    /// own under a new name.
    pub(super) fn retain_new(&self, set: &mut CountedSet) {
        let own = set.renamed.iter().filter(|(from, _)| self.created.contains(from));
        set.created.extend(own.map(|(_, to)| *to));
        set.rewritten.retain(|page| !self.rewritten.contains(page) && !self.created.contains(page));
        set.created.retain(|page| !self.created.contains(page));
        set.created.truncate(MAX_CREATED.saturating_sub(self.created.len()));
    }

    /// How much is counted, and how much a set would add.
    pub(super) fn usage(&self, kind: LimitKind, set: &CountedSet) -> (usize, usize) {
        match kind {
            LimitKind::Deletes => (self.deleted, set.deleted),
            LimitKind::Rewrites => (self.rewritten.len(), set.rewritten.len()),
        }
    }

    pub(super) fn add(&mut self, set: &CountedSet, now: Timestamp) {
        if set.deleted > 0 {
            self.delete_window.started_at.get_or_insert(now);
            self.deleted += set.deleted;
        }
        if !set.rewritten.is_empty() || !set.created.is_empty() {
            self.rewrite_window.started_at.get_or_insert(now);
        }
        self.rewritten.extend(&set.rewritten);
        self.created.extend(&set.created);
    }

    /// Uncounts a set that was not made. A window that began with it has not begun.
    pub(super) fn remove(&mut self, set: &CountedSet) {
        self.deleted = self.deleted.saturating_sub(set.deleted);
        for page in &set.rewritten {
            self.rewritten.remove(page);
        }
        for page in &set.created {
            self.created.remove(page);
        }
        if self.deleted == 0 && !self.delete_window.is_announced {
            self.delete_window = LimitWindow::default();
        }
        if self.rewritten.is_empty() && self.created.is_empty() && !self.rewrite_window.is_announced {
            self.rewrite_window = LimitWindow::default();
        }
    }

    /// Whether reaching a limit was not announced in this window, which begins with a refusal at
    /// the latest.
    pub(super) fn announce(&mut self, kind: LimitKind, now: Timestamp) -> bool {
        let window = self.window_of(kind);
        window.started_at.get_or_insert(now);
        !std::mem::replace(&mut window.is_announced, true)
    }

    /// When a window ends; for one that has not begun, its length from now.
    pub(super) fn resets_at(&self, kind: LimitKind, now: Timestamp) -> Timestamp {
        let window = match kind {
            LimitKind::Deletes => &self.delete_window,
            LimitKind::Rewrites => &self.rewrite_window,
        };
        end(window.started_at.unwrap_or(now), kind)
    }

    const fn window_of(&mut self, kind: LimitKind) -> &mut LimitWindow {
        match kind {
            LimitKind::Deletes => &mut self.delete_window,
            LimitKind::Rewrites => &mut self.rewrite_window,
        }
    }
}
