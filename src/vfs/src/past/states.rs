//! The full tree at an earlier time.

use bytes::Bytes;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use svcfs_base::{CommitId, ETag, Fault, FileKind, PathComponent, Timestamp, TreePath};
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

/// A file of such a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastFile {
    /// Its content; of a symbolic link, the target.
    pub content: Bytes,
    /// Whether it is a symbolic link or executable.
    pub kind: FileKind,
    /// Its last change before that time; the time of the commit where the log does not have it.
    pub modified: Timestamp,
    /// The author of that change; empty where the log does not have it.
    pub author: String,
}

impl Vfs {
    /// Whether earlier trees can be read: the versions are in git.
    pub fn has_past_states(&self) -> bool {
        self.core.versions.git().is_some()
    }

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
            let leaf = leaf.map(|(blob, kind)| (self.past_content(state, path.join(&name), (blob, kind)), kind));
            PastName { name, leaf }
        };
        Ok(entries.map(|entries| entries.into_iter().map(named).collect()))
    }

    /// A file of such a tree; none when it had none at this path.
    ///
    /// # Errors
    /// `NotFound` when its content is no longer stored; `Internal` when log or git cannot be read.
    pub fn past_file(&self, state: &PastState, path: &TreePath) -> Result<Option<PastFile>, Fault> {
        let history = self.core.git()?;
        let Some((blob, kind)) = history.leaf(state.commit, path)? else { return Ok(None) };
        let content = self.stored_content(&self.past_content(state, path.clone(), (blob, kind)))?;
        let newest = match self.core.log.find_seq(&state.commit.to_string())? {
            Some(seq) => self.core.log.versions(path, seq.next(), 1)?.into_iter().next(),
            None => None,
        };
        let newest = newest.filter(|version| version.new.is_some());
        let modified = newest.as_ref().map_or(state.time, |version| version.time);
        let author = newest.map_or_else(String::new, |version| version.actor.to_string());
        Ok(Some(PastFile { content, kind, modified, author }))
    }

    /// The files of such a tree at or below a path, in path order, without symbolic links.
    ///
    /// # Errors
    /// `Internal` when git cannot be read.
    pub fn past_files(&self, state: &PastState, below: &TreePath) -> Result<Vec<(TreePath, StoredContent)>, Fault> {
        let leaves = self.core.git()?.leaves(state.commit, below)?.into_iter();
        let files = leaves.filter(|(_, _, kind)| *kind != FileKind::Symlink);
        Ok(files.map(|(path, blob, kind)| (path.clone(), self.past_content(state, path, (blob, kind)))).collect())
    }

    /// Where the content of a file of such a tree is stored.
    fn past_content(&self, state: &PastState, path: TreePath, (blob, kind): (ETag, FileKind)) -> StoredContent {
        match kind != FileKind::Symlink && self.core.versions.is_converted(&path) {
            true => StoredContent::Converted(path, state.commit),
            false => StoredContent::Blob(blob),
        }
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
