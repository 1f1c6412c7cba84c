//! The lint errors of pages, for the survey of a tree.
//!
//! Invariant: a result is cached until the change feed names its page.

use std::collections::HashMap;

use svcfs_base::{Fault, Kind, Protocol, Seq, TreePath};
use svcfs_text::lint::{LintIssue, RuleSeverities, Severity, lint_with};
use svcfs_vfs::Vfs;

/// Limit of changes that are applied one by one; with more, the cache is dropped.
const MAX_EVENTS: usize = 10_000;

/// Cache of the lint errors of pages, as of one position of the feed.
pub struct LintedPages {
    at: Seq,
    severities: RuleSeverities,
    errors: HashMap<TreePath, Vec<LintIssue>>,
}

impl LintedPages {
    /// An empty cache.
    pub fn new(vfs: &Vfs, severities: RuleSeverities) -> Self {
        Self { at: vfs.feed().last_seq(), severities, errors: HashMap::new() }
    }

    /// Drops the pages that changed since the cached position, and checks those that are not cached.
    pub fn update<'p>(&mut self, vfs: &Vfs, pages: impl Iterator<Item = &'p TreePath>) -> Result<(), Fault> {
        let last = vfs.feed().last_seq();
        if last < self.at || last.0 - self.at.0 > MAX_EVENTS as u64 {
            self.errors.clear();
        } else if last > self.at {
            for event in vfs.feed().events_after(self.at, MAX_EVENTS)? {
                for change in &event.changes {
                    self.errors.remove(&change.path);
                }
            }
        }
        self.at = last;
        for page in pages {
            if !self.errors.contains_key(page) {
                self.errors.insert(page.clone(), lint_errors(vfs, page, &self.severities)?);
            }
        }
        Ok(())
    }

    /// The errors of a page in line order.
    pub fn errors(&self, page: &TreePath) -> &[LintIssue] {
        self.errors.get(page).map_or(&[], Vec::as_slice)
    }
}

/// The lint errors of a stored page in line order; none if it is gone or no text.
pub fn lint_errors(vfs: &Vfs, page: &TreePath, severities: &RuleSeverities) -> Result<Vec<LintIssue>, Fault> {
    let content = match vfs.read(Protocol::Internal, page) {
        Ok(file) => file.content,
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory | Kind::IsDirectory) => {
            return Ok(Vec::new());
        }
        Err(fault) => return Err(fault),
    };
    let Ok(text) = std::str::from_utf8(&content) else { return Ok(Vec::new()) };
    let mut issues = lint_with(text, severities);
    issues.retain(|issue| issue.severity == Severity::Error);
    Ok(issues)
}
