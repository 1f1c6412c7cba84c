//! The refs of a repository that are backed up.

use std::collections::BTreeMap;

use crate::error::BackupError;
use crate::git::Git;

/// Names of refs with the ids of their objects.
pub(crate) type RefMap = BTreeMap<String, String>;

/// What is backed up: branches with those of drafts, tags, notes, and what svcfs keeps.
pub(crate) const BACKED_UP: [&str; 4] = ["refs/heads/", "refs/tags/", "refs/notes/", "refs/svcfs/"];

/// Files of the state directory that git does not have otherwise.
pub(crate) const STATE_REF: &str = "refs/svcfs/state";

/// Refs that only a running backup uses.
pub(crate) const SCRATCH_REFS: &str = "refs/svcfs-backup/";

/// The current branch and all refs of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalRefs {
    /// The current branch, such as `refs/heads/main`.
    pub head: String,
    pub refs: RefMap,
}

impl LocalRefs {
    /// Reads the refs; none while there is no commit.
    ///
    /// # Errors
    /// When git fails, or no branch is checked out.
    pub fn read(git: Git<'_>) -> Result<Option<Self>, BackupError> {
        let head = git.command(["symbolic-ref", "-q", "HEAD"]).run()?;
        if !head.is_success() {
            if !git.directory().join(".git").exists() {
                let root = git.directory().display();
                return Err(BackupError::refused(format!(
                    "`{root}` has no git repository; backups need `versioning.strategy = \"git\"`"
                )));
            }
            let error = if head.error.is_empty() {
                BackupError::refused("no branch is checked out; run `git switch BRANCH` in the root")
            } else {
                crate::git::failure("symbolic-ref", &head.error)
            };
            return Err(error);
        }
        let refs = read_refs(git)?;
        let head = head.text();
        Ok(refs.contains_key(&head).then_some(Self { head, refs }))
    }

    /// The newest commit.
    pub fn tip(&self) -> &str {
        self.refs.get(&self.head).map_or("", String::as_str)
    }
}

/// The refs of a repository that are backed up.
pub(crate) fn read_refs(git: Git<'_>) -> Result<RefMap, BackupError> {
    let names = BACKED_UP.map(|prefix| prefix.trim_end_matches('/'));
    let listed = git.command(["for-each-ref", "--format=%(objectname) %(refname)"].iter().chain(&names)).read()?;
    Ok(parse(&listed))
}

/// Parses lines of an id and a name.
pub(crate) fn parse(text: &str) -> RefMap {
    let line = |line: &str| {
        let (id, name) = line.split_once([' ', '\t'])?;
        let is_backed_up = BACKED_UP.iter().any(|prefix| name.starts_with(prefix)) && !name.ends_with("^{}");
        let is_id = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_backed_up && is_id).then(|| (name.to_owned(), id.to_owned()))
    };
    text.lines().filter_map(line).collect()
}
