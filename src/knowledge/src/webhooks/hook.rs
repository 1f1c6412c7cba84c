//! A webhook in memory.

use globset::{GlobBuilder, GlobMatcher};
use svcfs_base::{TreePath, WebhookEvent};
use svcfs_store::{HookPosition, StoredHook};

/// A webhook with its compiled glob.
pub(super) struct Hook {
    pub stored: StoredHook,
    glob: Option<GlobMatcher>,
}

impl Hook {
    pub fn new(stored: StoredHook) -> Self {
        let glob = GlobBuilder::new(&stored.path_glob).literal_separator(true).build();
        Self { glob: glob.ok().map(|glob| glob.compile_matcher()), stored }
    }

    pub fn at(&self, position: HookPosition) -> Self {
        Self { stored: StoredHook { position, ..self.stored.clone() }, glob: self.glob.clone() }
    }

    pub fn is_enabled(&self) -> bool {
        self.stored.disabled.is_none()
    }

    pub fn wants(&self, event: WebhookEvent) -> bool {
        self.stored.events.is_empty() || self.stored.events.contains(&event)
    }

    pub fn matches(&self, path: &TreePath) -> bool {
        self.glob.as_ref().is_some_and(|glob| glob.is_match(path.as_str()))
    }
}
