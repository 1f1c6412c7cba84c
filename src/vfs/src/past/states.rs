//! The full tree at an earlier time.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use svcfs_base::{CommitId, Fault, FileKind, PathComponent, Timestamp, TreePath};
use svcfs_store::PastEntry;

use super::StoredContent;
use crate::Vfs;

/// The tree as it was at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PastState {
    /// The commit.
    pub commit: CommitId,
    /// Its time, to the second.
    pub time: Timestamp,
}

/// An entry of a directory of such a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastName {
    /// The name.
    pub name: PathComponent,
    /// Content and file kind; none for a directory.
    pub leaf: Option<(StoredContent, FileKind)>,
}

impl Vfs {
    /// The tree that `text` names: a time (RFC 3339; also without `-` and `:`, as in
    /// `20261122T101500Z`), a date or time without a zone (UTC, omitted parts are zero), a branch,
    /// a tag, or a commit hash or its prefix (4 digits or more). For a time, the tree of the branch
    /// at the end of that second. None for an unknown name, when the branch did not exist then, and
    /// without git history.
    ///
    /// # Errors
    /// `Internal` when log or git cannot be read.
    pub fn past_state(&self, text: &str) -> Result<Option<PastState>, Fault> {
        self.wait_committed()?;
        let Some(history) = self.core.versions.git() else { return Ok(None) };
        let commit = match parse_timestamp(text) {
            Some(timestamp) => {
                let second = timestamp.as_second();
                history.commit_at(second, self.core.log.first_commit_after(second)?)?
            }
            None => match history.resolve_ref(text)? {
                Some(commit) => Some(commit),
                None => history.find_commit(text)?,
            },
        };
        let state = |commit| Ok(PastState { commit, time: history.commit_time(commit)? });
        commit.map(state).transpose()
    }

    /// The entries of a directory of such a tree, in name order; none when it did not exist.
    ///
    /// # Errors
    /// `Internal` when git cannot be read.
    pub fn past_directory(&self, state: &PastState, path: &TreePath) -> Result<Option<Vec<PastName>>, Fault> {
        let entries = self.core.git()?.read_directory(state.commit, path)?;
        let named = |PastEntry { name, leaf }: PastEntry| {
            let at = path.join(&name);
            let content = |blob, kind| match kind != FileKind::Symlink && self.core.versions.is_converted(&at) {
                true => StoredContent::Converted(at.clone(), state.commit),
                false => StoredContent::Blob(blob),
            };
            let leaf = leaf.map(|(blob, kind)| (content(blob, kind), kind));
            PastName { name, leaf }
        };
        Ok(entries.map(|entries| entries.into_iter().map(named).collect()))
    }
}

/// The time that a text names, if any.
fn parse_timestamp(text: &str) -> Option<Timestamp> {
    if let Ok(timestamp) = text.parse() {
        return Some(timestamp);
    }
    let civil = if text.contains('T') {
        text.parse::<DateTime>().ok()?
    } else if text.contains('-') {
        text.parse::<Date>().ok()?.at(0, 0, 0, 0)
    } else {
        // Eight digits may be the prefix of a commit hash.
        return None;
    };
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::parse_timestamp;

    /// Shows: VIEW-4
    #[test]
    fn a_time_is_parsed_in_every_usual_format_and_nothing_else() {
        for (text, meant) in [
            ("2026-11-22T10:15:00Z", "2026-11-22T10:15:00Z"),
            ("20261122T101500Z", "2026-11-22T10:15:00Z"),
            ("2026-11-22T12:15:00+02:00", "2026-11-22T10:15:00Z"),
            ("2026-11-22T10:15:00", "2026-11-22T10:15:00Z"),
            ("2026-11-22T10:15", "2026-11-22T10:15:00Z"),
            ("2026-11-22", "2026-11-22T00:00:00Z"),
        ] {
            assert_eq!(parse_timestamp(text).map(|moment| moment.to_string()).as_deref(), Some(meant), "{text}");
        }
        for text in ["20261122", "main", "cafe", "2026-13-01", "2026-11", "now", "", "2026-11-22T25:00", "T", "-"] {
            assert_eq!(parse_timestamp(text), None, "{text}");
        }
    }
}
