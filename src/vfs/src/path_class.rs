//! What kind of place a path is, and who may see it (gaps.md D4, D8).

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use svcfs_base::{Fault, Protocol, TreePath, is_case_insensitive};
use svcfs_store::SNAPSHOT_DIRECTORY;

/// Refused saves are kept below this directory (gaps.md D6).
pub(crate) const REJECTED_DIRECTORY: &str = ".svc/rejected";

/// What kind of place a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathClass {
    /// Not part of the tree for anybody: git's and our own state, and snapshots.
    Hidden,
    /// Stored and readable, never versioned, linted, indexed or announced.
    Scratch,
    /// Versioned, but knowledge about the knowledge: `.svc/**`.
    Control,
    /// Versioned, and passed through the gates.
    Content,
}

impl PathClass {
    /// True when changes here become commits.
    pub(crate) const fn is_versioned(self) -> bool {
        match self {
            Self::Control | Self::Content => true,
            Self::Hidden | Self::Scratch => false,
        }
    }
}

/// Tells places apart.
pub(crate) struct PathClassifier {
    scratch: GlobSet,
}

/// Whether a path is the server's own affair, which nobody else sees: [`Place::Hidden`].
fn is_hidden(path: &TreePath) -> bool {
    let mut parts = path.components();
    match (parts.next(), parts.next()) {
        // git takes `.git` in any case for its own directory.
        (Some(first), _) if first.eq_ignore_ascii_case(".git") => true,
        (Some(SNAPSHOT_DIRECTORY), _) | (Some(".svc"), Some("state" | "audit")) => true,
        _ => false,
    }
}

impl PathClassifier {
    /// With these globs for scratch names, each matched against single components, in any case where the glob allows it.
    pub(crate) fn new(scratch: &[String]) -> Result<Self, Fault> {
        let mut set = GlobSetBuilder::new();
        for pattern in scratch {
            let glob = GlobBuilder::new(pattern)
                .case_insensitive(is_case_insensitive(pattern))
                .build()
                .map_err(|error| Fault::invalid("files.scratch", format_args!("`{pattern}`: {error}")))?;
            set.add(glob);
        }
        let scratch = set.build().map_err(|error| Fault::invalid("files.scratch", error))?;
        Ok(Self { scratch })
    }

    /// What kind of place a path is.
    pub(crate) fn of(&self, path: &TreePath) -> PathClass {
        if is_hidden(path) {
            return PathClass::Hidden;
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

    /// Whether callers of a door may not move or remove a path: with the directory `.svc`, what no door may see would get a name that every
    /// door sees. What a person did behind the server is done.
    pub(crate) fn is_fixed(&self, protocol: Protocol, path: &TreePath) -> bool {
        path.as_str() == ".svc" && !matches!(protocol, Protocol::Direct | Protocol::Internal)
    }

    /// Whether callers of a door see a path at all.
    pub(crate) fn is_visible(&self, protocol: Protocol, path: &TreePath) -> bool {
        // Asked of every entry of a listing: no name is compared with the patterns of scratch names for it.
        if is_hidden(path) {
            return false;
        }
        match protocol {
            Protocol::Fuse | Protocol::Direct | Protocol::Internal | Protocol::Cli => true,
            Protocol::Http | Protocol::Mcp | Protocol::Nfs | Protocol::WebDav | Protocol::S3 => {
                // What the server itself is set up with, and which directories it serves.
                !matches!(path.as_str(), ".svc/config.toml" | ".svc/spaces.json")
            }
        }
    }
}
