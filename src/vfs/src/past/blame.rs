//! Blame: the last author of each line of a page.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Actor, CommitId, ETag, Fault, Kind, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{DiffBase, FileCreation, FileVersion, PathVersion};

use super::{MAX_VERSIONS, PastState};
use crate::Vfs;

/// One line of a page and its last author.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlameLine {
    /// Line number, from 1.
    pub line: usize,
    /// The line without its line break.
    pub content: String,
    /// Commit hash.
    pub hash: CommitId,
    /// Author of the line.
    pub author: Actor,
    /// Time of that commit.
    pub timestamp: Timestamp,
}

impl Vfs {
    /// The last author of each line of a file, followed through renames.
    ///
    /// # Errors
    /// `NotFound` when history does not have the path; `Disabled` without git history.
    pub fn blame(&self, path: &TreePath) -> Result<Vec<BlameLine>, Fault> {
        let history = self.core.versions.git().ok_or_else(|| {
            let text = "blame needs git history: set `versioning.strategy = \"git\"`";
            Fault::new(Kind::Disabled, text)
        })?;
        self.wait_committed()?;
        let head = history.head()?.ok_or_else(|| self.not_in_history(Fault::file_not_found(path)))?;
        self.blame_commit(path, head, Some(Seq(u64::MAX)))
    }

    /// The last author of each line of a file in an earlier tree, followed through renames.
    ///
    /// # Errors
    /// As [`Vfs::blame`].
    pub fn blame_at(&self, path: &TreePath, state: &PastState) -> Result<Vec<BlameLine>, Fault> {
        let position = self.core.log.find_seq(&state.commit.to_string())?;
        self.blame_commit(path, state.commit, position.map(Seq::next))
    }

    /// Blames a file at a commit. The log has its versions before the position `end`; without one,
    /// only git has them.
    fn blame_commit(&self, path: &TreePath, commit: CommitId, end: Option<Seq>) -> Result<Vec<BlameLine>, Fault> {
        let history = self.core.git()?;
        let missing = || self.not_in_history(Fault::file_not_found(path));
        let (blob, _) = history.leaf(commit, path)?.ok_or_else(missing)?;
        let content = history.read_file(commit, path)?.ok_or_else(missing)?;
        // The log has the hashes of the contents in the tree, which git may convert.
        let end = end.filter(|_| !history.is_converted(path));
        let lineage = end.map_or(Ok(None), |end| self.lineage(path, blob, end))?;
        let hunks = match lineage {
            Some(versions) => history.blame_versions(&versions)?,
            // With merges and other branches, only git knows the order of commits.
            None => history.blame(path, commit)?,
        };
        let text = String::from_utf8_lossy(&content);
        let lines: Vec<&str> = text.lines().collect();
        let mut blamed = Vec::with_capacity(lines.len());
        for hunk in hunks {
            for number in hunk.first_line..hunk.first_line + hunk.lines {
                let Some(line) = number.checked_sub(1).and_then(|at| lines.get(at)) else {
                    continue;
                };
                blamed.push(BlameLine {
                    line: number,
                    content: (*line).to_owned(),
                    hash: hunk.commit,
                    author: hunk.actor.clone(),
                    timestamp: hunk.time,
                });
            }
        }
        Ok(blamed)
    }

    /// All versions of a file before the position `end`, newest first, under its former names; none
    /// if the log does not show each version's parent.
    fn lineage(&self, path: &TreePath, newest: ETag, end: Seq) -> Result<Option<Vec<FileVersion>>, Fault> {
        let (mut path, mut expected, mut before) = (path.clone(), newest, end);
        // Records before a branch switch need not be ancestors of the current version.
        let last_switch = self.core.log.last_branch_switch()?;
        let mut lineage = Vec::new();
        'names: loop {
            for version in self.core.log.versions(&path, before, MAX_VERSIONS)? {
                let PathVersion { seq, id, actor, time, old, new, diff_base, .. } = version;
                // Recorded without git history: git only knows the versions before and after.
                let VersionId::Commit(commit) = id else { return Ok(None) };
                if last_switch.is_some_and(|last_switch| seq <= last_switch)
                    || new != Some(expected)
                    || diff_base == DiffBase::AfterSwitch
                {
                    return Ok(None);
                }
                if diff_base != DiffBase::Parent {
                    // A merge that took the other side's file changed nothing: that side's version
                    // follows.
                    continue;
                }
                lineage.push(FileVersion { path: path.clone(), commit, actor, time, blob: expected });
                match old {
                    Some(old) => expected = old,
                    None => match self.origin(&path, FileCreation { seq, content: expected })? {
                        None => return Ok(Some(lineage)),
                        Some(origin) => {
                            (path, expected) = origin;
                            before = seq;
                            continue 'names;
                        }
                    },
                }
            }
            return Ok(None);
        }
    }
}
