//! External commits: by `git commit`, a pull, a checkout.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use encoding_rs::Encoding;
use git2::{Commit, ObjectType, Oid, Repository, Sort, Tree, TreeEntry};
use svcfs_base::{Actor, CommitId, ETag, FileKind, Timestamp, TreePath};

use super::read::found_or_none;
use super::{History, HistoryResult, commit_id, etag, flush, oid};
use crate::{DiffBase, StoreError};

/// A commit that svcfs did not make, or not in this process.
#[derive(Debug, Clone)]
pub struct ForeignCommit {
    /// Its id.
    pub commit: CommitId,
    /// The name of its author.
    pub actor: Actor,
    /// Its full message.
    pub message: String,
    /// When it was authored.
    pub time: Timestamp,
    /// The base of the difference in `entries`.
    pub diff_base: DiffBase,
    /// The changed files, removals first, in path order.
    pub entries: Vec<ForeignEntry>,
}

/// One file of a [`ForeignCommit`].
#[derive(Debug, Clone)]
pub struct ForeignEntry {
    /// The path.
    pub path: TreePath,
    /// The content's hash before.
    pub old: Option<ETag>,
    /// The content's hash after.
    pub new: Option<ETag>,
    /// The kind of file after (before, when it was removed).
    pub kind: FileKind,
}

/// How HEAD moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadMove {
    /// Forward by these commits, oldest first.
    FastForward(Vec<CommitId>),
    /// The old head, given here, is not an ancestor of the new one: a rebase, another branch.
    Diverged(CommitId),
}

/// A move of HEAD to a commit that does not contain the old one.
#[derive(Debug, Clone)]
pub struct DivergedMove {
    /// The complete difference between the two, with the id of the second.
    pub diff: ForeignCommit,
    /// Commits of the first that the second does not contain.
    pub dropped: Vec<CommitId>,
    /// Commits of the second that the first does not contain, oldest first.
    pub added: Vec<CommitId>,
}

impl History {
    /// How HEAD moved from one commit to another.
    ///
    /// # Errors
    /// `Git` when a commit is missing.
    pub fn head_move(&self, from: Option<CommitId>, to: CommitId) -> HistoryResult<HeadMove> {
        if let Some(from) = from
            && !self.has_commit(from)?
        {
            return Ok(HeadMove::Diverged(from));
        }
        self.reader(|repository| {
            let target = oid(to)?;
            if let Some(from) = from {
                let base = oid(from)?;
                if !(base == target || repository.graph_descendant_of(target, base)?) {
                    return Ok(HeadMove::Diverged(from));
                }
            }
            commits_between(repository, from, to).map(HeadMove::FastForward)
        })
    }

    /// The changes of commits, each against its first parent.
    ///
    /// # Errors
    /// `Git` when one of them is missing.
    pub fn external_commits(&self, commits: &[CommitId]) -> HistoryResult<Vec<ForeignCommit>> {
        let changes = self.reader(|repository| {
            let change = |commit: &CommitId| {
                let commit_object = repository.find_commit(oid(*commit)?)?;
                let mut change =
                    difference(repository, commit_object.parent_ids().next().map(commit_id), &commit_object)?;
                add_dropped(repository, &commit_object, &mut change.entries)?;
                Ok(change)
            };
            commits.iter().map(change).collect::<HistoryResult<Vec<_>>>()
        })?;
        Ok(changes.into_iter().map(|change| self.with_tree_forms(change)).collect())
    }

    /// A change with the hashes of the contents in the tree.
    fn with_tree_forms(&self, mut change: ForeignCommit) -> ForeignCommit {
        for entry in &mut change.entries {
            let of_tree = |blob: Option<ETag>| blob.map(|blob| self.tree_form(&entry.path, blob, Some(entry.kind)));
            (entry.old, entry.new) = (of_tree(entry.old), of_tree(entry.new));
        }
        change
    }

    /// The move of HEAD to a commit that does not contain the old one.
    ///
    /// # Errors
    /// `Git` when the second is missing.
    pub fn diverged_move(&self, from: CommitId, to: CommitId) -> HistoryResult<DivergedMove> {
        let moved = self.reader(|repository| {
            let target = repository.find_commit(oid(to)?)?;
            let diff =
                ForeignCommit { diff_base: DiffBase::PreviousHead, ..difference(repository, Some(from), &target)? };
            if found_or_none(repository.find_commit(oid(from)?).map_err(Into::into))?.is_none() {
                return Ok(DivergedMove { diff, dropped: Vec::new(), added: vec![to] });
            }
            let [dropped, added] = [(to, from), (from, to)].map(|(a, b)| commits_between(repository, Some(a), b));
            Ok(DivergedMove { diff, dropped: dropped?, added: added? })
        })?;
        Ok(DivergedMove { diff: self.with_tree_forms(moved.diff), ..moved })
    }

    /// Whether git has all objects of the commits on the way to a head: commits, directories above
    /// changed files, and contents. Packs were flushed; git itself does not flush loose objects.
    /// Also true when the first commit is missing, since no path starts there.
    ///
    /// # Errors
    /// `Git` when an object exists and cannot be read.
    pub fn has_all_objects(&self, from: Option<CommitId>, to: CommitId) -> HistoryResult<bool> {
        if let Some(from) = from
            && !self.has_commit(from)?
        {
            return Ok(true);
        }
        let checked = self.reader(|repository| {
            let stored = repository.odb()?;
            for commit in commits_between(repository, from, to)? {
                let commit = repository.find_commit(oid(commit)?)?;
                if !flush::loose_path(repository, commit.id()).exists() {
                    continue;
                }
                let change = difference(repository, commit.parent_ids().next().map(commit_id), &commit)?;
                for blob in change.entries.into_iter().filter_map(|entry| entry.new) {
                    stored.read_header(Oid::from_bytes(blob.as_bytes())?)?;
                }
            }
            Ok(())
        });
        Ok(found_or_none(checked)?.is_some())
    }

    /// Whether git has a commit.
    ///
    /// # Errors
    /// `Git` when it exists and cannot be read.
    pub fn has_commit(&self, commit: CommitId) -> HistoryResult<bool> {
        Ok(found_or_none(self.reader(|repository| Ok(repository.find_commit(oid(commit)?)?.id())))?.is_some())
    }

    /// Whether `ancestor` is `commit` or one of its ancestors.
    ///
    /// # Errors
    /// `Git` when one of them is missing.
    pub fn contains(&self, commit: CommitId, ancestor: CommitId) -> HistoryResult<bool> {
        self.reader(
            |repository| Ok(commit == ancestor || repository.graph_descendant_of(oid(commit)?, oid(ancestor)?)?),
        )
    }

    /// Those of `candidates` that are `commit` or its ancestors, but not ancestors of `above`, in
    /// one walk. Commits whose object is missing are not.
    ///
    /// # Errors
    /// `Git` when history cannot be walked.
    pub fn ancestors_among(
        &self,
        (above, commit): (Option<CommitId>, CommitId),
        candidates: &HashSet<CommitId>,
    ) -> HistoryResult<HashSet<CommitId>> {
        let above =
            above.map(|above| Ok::<_, StoreError>(self.has_commit(above)?.then_some(above))).transpose()?.flatten();
        self.reader(|repository| {
            let mut walk = repository.revwalk()?;
            walk.push(oid(commit)?)?;
            if let Some(above) = above {
                walk.hide(oid(above)?)?;
            }
            let mut ancestors = HashSet::with_capacity(candidates.len());
            for id in walk {
                if ancestors.len() == candidates.len() {
                    break;
                }
                let id = commit_id(id?);
                if candidates.contains(&id) {
                    ancestors.insert(id);
                }
            }
            Ok(ancestors)
        })
    }
}

/// The commits that `to` contains and `from` does not, oldest first.
fn commits_between(repository: &Repository, from: Option<CommitId>, to: CommitId) -> HistoryResult<Vec<CommitId>> {
    let mut walk = repository.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::REVERSE)?;
    walk.push(oid(to)?)?;
    if let Some(from) = from {
        walk.hide(oid(from)?)?;
    }
    walk.map(|id| Ok(commit_id(id?))).collect()
}

fn difference(repository: &Repository, from: Option<CommitId>, commit: &Commit<'_>) -> HistoryResult<ForeignCommit> {
    let before = match from {
        Some(from) => repository.find_commit(oid(from)?).and_then(|commit| commit.tree()).ok(),
        None => None,
    };
    let mut entries = Vec::new();
    compare(repository, (before.as_ref(), Some(&commit.tree()?)), "", &mut entries)?;
    entries.sort_by(|a, b| compare_entries((a.new, &a.path), (b.new, &b.path)));
    let (author, read) = (commit.author(), |bytes| decode(commit, bytes));
    Ok(ForeignCommit {
        commit: commit_id(commit.id()),
        actor: Actor::new(&read(author.name_bytes())),
        message: normalize_message(&read(commit.message_raw_bytes())),
        time: Timestamp::from_second(author.when().seconds()).unwrap_or(Timestamp::UNIX_EPOCH),
        diff_base: if commit.parent_count() > 1 { DiffBase::FirstParent } else { DiffBase::Parent },
        entries,
    })
}

/// Decodes a text of a commit with its declared encoding (`i18n.commitEncoding`), or UTF-8.
pub(super) fn decode<'b>(commit: &Commit<'_>, bytes: &'b [u8]) -> Cow<'b, str> {
    let encoding = commit.message_encoding().ok().flatten().and_then(|name| Encoding::for_label(name.as_bytes()));
    encoding.unwrap_or(encoding_rs::UTF_8).decode_without_bom_handling(bytes).0
}

/// Adds the files whose change a merge dropped: changed, or changed and reverted, on another
/// parent's side, but equal to the first parent in the merge. The other side's commits are recorded
/// earlier, so their contents would otherwise count as newest.
fn add_dropped(repository: &Repository, merge: &Commit<'_>, entries: &mut Vec<ForeignEntry>) -> HistoryResult<()> {
    let mut parents = merge.parent_ids().map(commit_id);
    let Some(first) = parents.next().filter(|_| merge.parent_count() > 1) else { return Ok(()) };
    for parent in parents {
        // A shallow clone may have neither.
        let Some(merged) = found_or_none(repository.find_commit(oid(parent)?).map_err(Into::into))? else { continue };
        let mut differing = Vec::new();
        compare(repository, (Some(&merged.tree()?), Some(&merge.tree()?)), "", &mut differing)?;
        let listed: HashSet<TreePath> = entries.iter().map(|entry| entry.path.clone()).collect();
        differing.retain(|entry| !listed.contains(&entry.path));
        if differing.is_empty() {
            continue;
        }
        let touched = touched_paths(repository, &commits_between(repository, Some(first), parent)?)?;
        entries.extend(differing.into_iter().filter(|entry| touched.contains(&entry.path)));
    }
    entries.sort_by(|a, parent| compare_entries((a.new, &a.path), (parent.new, &parent.path)));
    Ok(())
}

/// The paths that commits changed, each against its first parent.
fn touched_paths(repository: &Repository, commits: &[CommitId]) -> HistoryResult<HashSet<TreePath>> {
    let mut changed = Vec::new();
    for commit in commits {
        let commit = repository.find_commit(oid(*commit)?)?;
        // The parent of the oldest commit of a shallow clone counts as empty, as for the commit
        // itself.
        let before = commit.parent(0).and_then(|parent| parent.tree()).ok();
        compare(repository, (before.as_ref(), Some(&commit.tree()?)), "", &mut changed)?;
    }
    Ok(changed.into_iter().map(|entry| entry.path).collect())
}

/// Collects the files in which two trees differ; equal directories are skipped.
///
/// libgit2's diff walks both trees completely: 10,000 files for each commit of one page, 15 minutes
/// for 100,000 commits instead of half a minute.
fn compare(
    repository: &Repository,
    trees: (Option<&Tree<'_>>, Option<&Tree<'_>>),
    prefix: &str,
    entries: &mut Vec<ForeignEntry>,
) -> HistoryResult<()> {
    let mut pending = vec![(trees.0.cloned(), trees.1.cloned(), prefix.to_owned())];
    // Without recursion: a path may have 2,000 levels.
    while let Some((old, new, prefix)) = pending.pop() {
        for (before, after) in differing_entries(old.as_ref(), new.as_ref()) {
            // Names that are not UTF-8 are not part of the knowledge tree.
            let Some(name) = before.as_ref().or(after.as_ref()).and_then(|entry| entry.name().ok()) else { continue };
            let path = format!("{prefix}{name}");
            let directory = |entry: &Option<TreeEntry<'_>>| {
                let id = entry.as_ref().filter(|entry| entry.kind() == Some(ObjectType::Tree)).map(TreeEntry::id);
                id.map(|id| repository.find_tree(id)).transpose()
            };
            let (above, below) = (directory(&before)?, directory(&after)?);
            if above.is_some() || below.is_some() {
                pending.push((above, below, format!("{path}/")));
                continue;
            }
            // Submodules have no file kind and are skipped.
            let leaf = |entry: &Option<TreeEntry<'_>>| {
                entry.as_ref().and_then(|entry| Some((etag(entry.id()), FileKind::from_git_mode(entry.filemode())?)))
            };
            let (before, after) = (leaf(&before), leaf(&after));
            if let (Some((_, kind)), Ok(path)) = (after.or(before), TreePath::parse(&path)) {
                let hash = |leaf: Option<(ETag, FileKind)>| leaf.map(|(hash, _)| hash);
                entries.push(ForeignEntry { path, old: hash(before), new: hash(after), kind });
            }
        }
    }
    Ok(())
}

/// The names in which two directories differ: before and after.
fn differing_entries<'t>(
    old: Option<&'t Tree<'_>>,
    new: Option<&'t Tree<'_>>,
) -> Vec<(Option<TreeEntry<'t>>, Option<TreeEntry<'t>>)> {
    let mut old = old.into_iter().flat_map(Tree::iter).peekable();
    let mut new = new.into_iter().flat_map(Tree::iter).peekable();
    let mut differing = Vec::new();
    loop {
        let (before, after) = match (old.peek(), new.peek()) {
            (None, None) => return differing,
            (Some(a), Some(b)) => match sort_key(a).cmp(sort_key(b)) {
                Ordering::Less => (old.next(), None),
                Ordering::Equal => (old.next(), new.next()),
                Ordering::Greater => (None, new.next()),
            },
            (Some(_), None) => (old.next(), None),
            (None, Some(_)) => (None, new.next()),
        };
        let state = |entry: &Option<TreeEntry<'_>>| entry.as_ref().map(|entry| (entry.id(), entry.filemode()));
        if state(&before) != state(&after) {
            differing.push((before, after));
        }
    }
}

/// A name in git's sort order: a directory sorts as if its name ended in `/`.
fn sort_key<'e>(entry: &'e TreeEntry<'_>) -> impl Iterator<Item = &'e u8> {
    let end: &[u8] = if entry.kind() == Some(ObjectType::Tree) { b"/" } else { b"" };
    entry.name_bytes().iter().chain(end)
}

/// The order of a commit's files in the log, by content after and path: removals first, so that a
/// rename reads as `delete` and `write`. git does not store an order, so it must not depend on the
/// writer's.
pub fn compare_entries(a: (Option<ETag>, &TreePath), b: (Option<ETag>, &TreePath)) -> Ordering {
    (a.0.is_some(), a.1).cmp(&(b.0.is_some(), b.1))
}

/// A message in the form that is recorded: what git keeps of it, so that a log rebuilt from git is
/// identical.
pub fn normalize_message(message: &str) -> String {
    message.replace('\0', "").trim().to_owned()
}

#[cfg(test)]
mod tests;
