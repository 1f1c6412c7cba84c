//! Commits somebody else made: a person's `git commit`, a pull, a checkout.

use std::cmp::Ordering;

use git2::{Delta, DiffOptions, Repository, Sort};
use svcfs_base::{Actor, CommitId, ETag, FileKind, Timestamp, TreePath};

use super::{History, Outcome, commit_id, etag, oid};

/// One commit that did not come from svcfs, or not in this life.
#[derive(Debug, Clone)]
pub struct ForeignCommit {
    /// Which.
    pub commit: CommitId,
    /// Its author's name.
    pub actor: Actor,
    /// Its whole message.
    pub message: String,
    /// When it was authored.
    pub time: Timestamp,
    /// True when the entries are the difference from the head before, which is none of its ancestors.
    pub is_jump: bool,
    /// What it changed against its first parent, removals first, in path order.
    pub entries: Vec<ForeignEntry>,
}

/// One file of a [`ForeignCommit`].
#[derive(Debug, Clone)]
pub struct ForeignEntry {
    /// Which path.
    pub path: TreePath,
    /// The content's hash before.
    pub old: Option<ETag>,
    /// The content's hash after.
    pub new: Option<ETag>,
    /// Kind of file after (before, when it is gone).
    pub kind: FileKind,
}

impl History {
    /// The commits that lead from one head to another, oldest first. When the old head is no ancestor of the new one (a
    /// rebase, another branch), one entry holds the whole difference under the new head's name.
    ///
    /// # Errors
    /// `Git` when a commit is missing.
    pub fn between(&self, from: Option<CommitId>, to: CommitId) -> Outcome<Vec<ForeignCommit>> {
        self.reader(|repository| {
            let target = oid(to)?;
            if let Some(from) = from {
                let base = oid(from)?;
                if repository.find_commit(base).is_err()
                    || !(base == target || repository.graph_descendant_of(target, base)?)
                {
                    return Ok(vec![ForeignCommit { is_jump: true, ..difference(repository, Some(from), to)? }]);
                }
            }
            let mut walk = repository.revwalk()?;
            walk.set_sorting(Sort::TOPOLOGICAL | Sort::REVERSE)?;
            walk.push(target)?;
            if let Some(from) = from {
                walk.hide(oid(from)?)?;
            }
            walk.map(|id| {
                let commit = repository.find_commit(id?)?;
                let parent = commit.parent_ids().next().map(commit_id);
                difference(repository, parent, commit_id(commit.id()))
            })
            .collect()
        })
    }

    /// True when `ancestor` is `commit` or one of its ancestors.
    ///
    /// # Errors
    /// `Git` when one of them is missing.
    pub fn contains(&self, commit: CommitId, ancestor: CommitId) -> Outcome<bool> {
        self.reader(
            |repository| Ok(commit == ancestor || repository.graph_descendant_of(oid(commit)?, oid(ancestor)?)?),
        )
    }
}

fn difference(repository: &Repository, from: Option<CommitId>, to: CommitId) -> Outcome<ForeignCommit> {
    let commit = repository.find_commit(oid(to)?)?;
    let before = match from {
        Some(from) => repository.find_commit(oid(from)?).and_then(|commit| commit.tree()).ok(),
        None => None,
    };
    let mut options = DiffOptions::new();
    options.include_typechange(true).ignore_submodules(true);
    let diff = repository.diff_tree_to_tree(before.as_ref(), Some(&commit.tree()?), Some(&mut options))?;
    let mut entries = Vec::new();
    for delta in diff.deltas() {
        let (old, new) = (delta.old_file(), delta.new_file());
        let side = if delta.status() == Delta::Deleted { &old } else { &new };
        // Names that are no UTF-8, and submodules, are not part of the knowledge tree.
        let Some(path) = side.path().and_then(|path| path.to_str()).and_then(|path| TreePath::parse(path).ok()) else {
            continue;
        };
        let Some(kind) = FileKind::of_git_mode(i32::try_from(u32::from(side.mode())).unwrap_or(0)) else {
            continue;
        };
        let hash = |file: &git2::DiffFile<'_>| (!file.id().is_zero()).then(|| etag(file.id()));
        entries.push(ForeignEntry { path, old: hash(&old), new: hash(&new), kind });
    }
    entries.sort_by(|one, other| order_within((one.new, &one.path), (other.new, &other.path)));
    let author = commit.author();
    Ok(ForeignCommit {
        commit: to,
        actor: Actor::new(&String::from_utf8_lossy(author.name_bytes())),
        message: as_recorded(&String::from_utf8_lossy(commit.message_raw_bytes())),
        time: Timestamp::from_second(author.when().seconds()).unwrap_or(Timestamp::UNIX_EPOCH),
        is_jump: false,
        entries,
    })
}

/// The order of a commit's files in the log, by content after and path: removals first, so that a rename reads as `delete` and
/// `write`. git keeps none, so that it must not depend on the order in which a writer named them.
pub fn order_within(one: (Option<ETag>, &TreePath), other: (Option<ETag>, &TreePath)) -> Ordering {
    (one.0.is_some(), one.1).cmp(&(other.0.is_some(), other.1))
}

/// A message as it is recorded and told: what git itself would keep of it, so that a log that is made again from git tells the
/// same.
pub fn as_recorded(message: &str) -> String {
    message.replace('\0', "").trim().to_owned()
}
