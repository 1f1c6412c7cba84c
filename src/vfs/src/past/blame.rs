//! Who last wrote each line of a page (contract 2.4).

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Actor, CommitId, ETag, Fault, Kind, Seq, Timestamp, TreePath, VersionId};
use svcfs_store::{DiffBase, FileVersion, History, PathVersion};

use super::MAX_VERSIONS;
use crate::Vfs;

/// How many removed files of a commit are looked at for the one that a new file was before.
const MAX_ORIGINS: usize = 64;

/// One line of a page and who last wrote it (contract 2.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BlameLine {
    /// Line number, from 1.
    pub line: usize,
    /// The line without its end.
    pub content: String,
    /// Commit hash.
    pub hash: CommitId,
    /// Who wrote it.
    pub author: Actor,
    /// When.
    pub timestamp: Timestamp,
}

impl Vfs {
    /// Who last wrote each line of a file. A renamed file's lines are followed to where they were written.
    ///
    /// # Errors
    /// `NotFound` when history does not have the path; `Disabled` where git does not keep it.
    pub fn blame(&self, path: &TreePath) -> Result<Vec<BlameLine>, Fault> {
        let history = self.core.memory.git().ok_or_else(|| {
            let text = "who wrote a line is known where git keeps versions, with `versioning.strategy = \"git\"`";
            Fault::new(Kind::Disabled, text)
        })?;
        self.wait_committed()?;
        let missing = || self.not_in_history(Fault::file_not_found(path));
        let head = history.head()?.ok_or_else(missing)?;
        let (blob, _) = history.leaf(head, path)?.ok_or_else(missing)?;
        let content = history.read_blob(blob)?.ok_or_else(missing)?;
        let hunks = match self.lineage(history, path, blob)? {
            Some(versions) => history.blame_versions(&versions)?,
            // Merges and other branches: only git knows which commit follows which.
            None => history.blame(path, head)?,
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

    /// Every version of a file back to the first, newest first, under the names it had; none when the log does not tell how each
    /// came out of the one before it.
    fn lineage(&self, history: &History, path: &TreePath, newest: ETag) -> Result<Option<Vec<FileVersion>>, Fault> {
        let (mut path, mut expected, mut before) = (path.clone(), newest, Seq(u64::MAX));
        // What was logged before the tree came from another branch need not lead to where it is now.
        let jump = self.core.log.last_branch_switch()?;
        let mut lineage = Vec::new();
        'names: loop {
            for version in self.core.log.versions(&path, before, MAX_VERSIONS)? {
                let PathVersion { seq, id, actor, time, old, new, diff_base: against, .. } = version;
                // Recorded while git kept no history: git knows the page as it was before and after.
                let VersionId::Commit(commit) = id else { return Ok(None) };
                if jump.is_some_and(|jump| seq <= jump) || new != Some(expected) || against == DiffBase::AfterSwitch {
                    return Ok(None);
                }
                if against != DiffBase::Parent {
                    // A merge that took a file as it was on the other side changed nothing: that side's version comes next.
                    continue;
                }
                lineage.push(FileVersion { path: path.clone(), commit, actor, time, blob: expected });
                match old {
                    Some(old) => expected = old,
                    None => match self.origin(history, seq, expected)? {
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

    /// What a new file was before, if the set that made it removed a file with the same content, or one much like it.
    fn origin(&self, history: &History, seq: Seq, blob: ETag) -> Result<Option<(TreePath, ETag)>, Fault> {
        let removed = self.core.log.removals(seq, MAX_ORIGINS)?;
        if let Some(same) = removed.iter().find(|(_, content)| *content == blob) {
            return Ok(Some(same.clone()));
        }
        for (path, content) in removed {
            if history.are_similar(content, blob)? {
                return Ok(Some((path, content)));
            }
        }
        Ok(None)
    }
}
