//! Classes of paths, and their visibility.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use svcfs_base::{Fault, HiddenFiles, Protocol, TreePath, is_case_insensitive};
use svcfs_store::SNAPSHOT_DIRECTORY;

/// Rejected saves are stored below this directory.
pub(crate) const REJECTED_DIRECTORY: &str = ".svc/rejected";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathClass {
    /// Not visible to anyone: state of git and svcfs, and snapshots.
    State,
    /// Stored and readable, never versioned, linted, indexed or announced.
    Scratch,
    /// Versioned settings and instructions: `.svc/**`.
    Control,
    /// Versioned, and passed through the gates.
    Content,
}

impl PathClass {
    /// True when changes here become commits.
    pub(crate) const fn is_versioned(self) -> bool {
        match self {
            Self::Control | Self::Content => true,
            Self::State | Self::Scratch => false,
        }
    }
}

pub(crate) struct PathClassifier {
    scratch: GlobSet,
    hidden_files: HiddenFiles,
}

/// Whether a path is server state: [`PathClass::State`].
fn is_state(path: &TreePath) -> bool {
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        // git accepts `.git` in any case as its directory.
        (Some(first), _) if first.eq_ignore_ascii_case(".git") => true,
        (Some(SNAPSHOT_DIRECTORY), _) | (Some(".svc"), Some("state" | "audit")) => true,
        _ => false,
    }
}

impl PathClassifier {
    /// Creates a classifier with these globs for scratch names, matched against single components,
    /// ignoring case where the glob allows it.
    pub(crate) fn new(scratch: &[String], hidden_files: HiddenFiles) -> Result<Self, Fault> {
        let mut set = GlobSetBuilder::new();
        for pattern in scratch {
            let glob = GlobBuilder::new(pattern)
                .case_insensitive(is_case_insensitive(pattern))
                .build()
                .map_err(|error| Fault::invalid("files.scratch", format_args!("`{pattern}`: {error}")))?;
            set.add(glob);
        }
        let scratch = set.build().map_err(|error| Fault::invalid("files.scratch", error))?;
        Ok(Self { scratch, hidden_files })
    }

    pub(crate) fn classify(&self, path: &TreePath) -> PathClass {
        if is_state(path) {
            return PathClass::State;
        }
        if path.components().take(2).eq([".svc", "rejected"]) {
            return PathClass::Scratch;
        }
        // A repository cloned into the tree: its files are versioned, its own `.git` cannot be.
        let is_scratch = |part: &str| part.eq_ignore_ascii_case(".git") || self.scratch.is_match(part);
        if path.components().any(is_scratch) {
            PathClass::Scratch
        } else if path.components().next() == Some(".svc") {
            PathClass::Control
        } else {
            PathClass::Content
        }
    }

    /// Whether callers of a protocol may not move or remove a path: renaming `.svc` would make
    /// hidden files visible. External processes and the server itself may.
    pub(crate) fn is_fixed(&self, protocol: Protocol, path: &TreePath) -> bool {
        path.as_str() == ".svc" && !matches!(protocol, Protocol::Direct | Protocol::Internal)
    }

    /// The rules for hidden files.
    pub(crate) const fn hidden_files(&self) -> &HiddenFiles {
        &self.hidden_files
    }

    pub(crate) fn is_visible(&self, protocol: Protocol, path: &TreePath) -> bool {
        // Called for each entry of a listing: no scratch patterns are matched here.
        if is_state(path) || protocol.serves_knowledge_only() && self.hidden_files.hides(path) {
            return false;
        }
        match protocol {
            Protocol::Fuse | Protocol::Direct | Protocol::Internal | Protocol::Cli => true,
            Protocol::Http | Protocol::Mcp | Protocol::Remote | Protocol::Nfs | Protocol::WebDav | Protocol::S3 => {
                // The server's configuration and its list of spaces.
                !matches!(path.as_str(), ".svc/config.toml" | ".svc/spaces.json")
            }
        }
    }
}
