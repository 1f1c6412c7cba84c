//! Commits somebody else made: a person's `git commit`, a pull, a checkout.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use encoding_rs::Encoding;
use git2::{Commit, ObjectType, Oid, Repository, Sort, Tree, TreeEntry};
use svcfs_base::{Actor, CommitId, ETag, FileKind, Timestamp, TreePath};

use super::read::if_there;
use super::{History, HistoryResult, commit_id, etag, flush, oid};
use crate::{DiffBase, StoreError};

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
    /// What the entries are the difference from.
    pub diff_base: DiffBase,
    /// What it changed, removals first, in path order.
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

/// How one head became another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeadMove {
    /// By these commits, oldest first.
    FastForward(Vec<CommitId>),
    /// The old head, given here, is no ancestor of the new one: a rebase, another branch.
    Diverged(CommitId),
}

/// How a head became another one that it is no ancestor of.
#[derive(Debug, Clone)]
pub struct DivergedMove {
    /// The whole difference between the two, under the name of the second.
    pub diff: ForeignCommit,
    /// Commits that the first has and the second has not.
    pub dropped: Vec<CommitId>,
    /// Those that the second has and the first has not, oldest first.
    pub added: Vec<CommitId>,
}

impl History {
    /// How one head became another.
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
            between(repository, from, to).map(HeadMove::FastForward)
        })
    }

    /// What commits changed, each against its first parent.
    ///
    /// # Errors
    /// `Git` when one of them is missing.
    pub fn external_commits(&self, commits: &[CommitId]) -> HistoryResult<Vec<ForeignCommit>> {
        self.reader(|repository| {
            let told = |commit: &CommitId| {
                let found = repository.find_commit(oid(*commit)?)?;
                let mut told = difference(repository, found.parent_ids().next().map(commit_id), &found)?;
                dropped(repository, &found, &mut told.entries)?;
                Ok(told)
            };
            commits.iter().map(told).collect()
        })
    }

    /// How a head became another one that it is no ancestor of.
    ///
    /// # Errors
    /// `Git` when the second is missing.
    pub fn diverged_move(&self, from: CommitId, to: CommitId) -> HistoryResult<DivergedMove> {
        self.reader(|repository| {
            let now = repository.find_commit(oid(to)?)?;
            let whole =
                ForeignCommit { diff_base: DiffBase::PreviousHead, ..difference(repository, Some(from), &now)? };
            if if_there(repository.find_commit(oid(from)?).map_err(Into::into))?.is_none() {
                return Ok(DivergedMove { diff: whole, dropped: Vec::new(), added: vec![to] });
            }
            let [left, come] = [(to, from), (from, to)].map(|(one, other)| between(repository, Some(one), other));
            Ok(DivergedMove { diff: whole, dropped: left?, added: come? })
        })
    }

    /// Whether git has all that others committed on the way to a head: commits, the directories on the way to what they changed, and its contents.
    /// What lies in packs was flushed; of what it writes one by one, git itself flushes nothing. True, too, when the first commit is not there any
    /// more: nothing leads from it to anywhere.
    ///
    /// # Errors
    /// `Git` when an object is there and cannot be read.
    pub fn has_all_objects(&self, from: Option<CommitId>, to: CommitId) -> HistoryResult<bool> {
        if let Some(from) = from
            && !self.has_commit(from)?
        {
            return Ok(true);
        }
        let looked_through = self.reader(|repository| {
            let stored = repository.odb()?;
            for commit in between(repository, from, to)? {
                let commit = repository.find_commit(oid(commit)?)?;
                if !flush::loose(repository, commit.id()).exists() {
                    continue;
                }
                let told = difference(repository, commit.parent_ids().next().map(commit_id), &commit)?;
                for blob in told.entries.into_iter().filter_map(|entry| entry.new) {
                    stored.read_header(Oid::from_bytes(blob.as_bytes())?)?;
                }
            }
            Ok(())
        });
        Ok(if_there(looked_through)?.is_some())
    }

    /// Whether git has a commit.
    ///
    /// # Errors
    /// `Git` when it is there and cannot be read.
    pub fn has_commit(&self, commit: CommitId) -> HistoryResult<bool> {
        Ok(if_there(self.reader(|repository| Ok(repository.find_commit(oid(commit)?)?.id())))?.is_some())
    }

    /// True when `ancestor` is `commit` or one of its ancestors.
    ///
    /// # Errors
    /// `Git` when one of them is missing.
    pub fn contains(&self, commit: CommitId, ancestor: CommitId) -> HistoryResult<bool> {
        self.reader(
            |repository| Ok(commit == ancestor || repository.graph_descendant_of(oid(commit)?, oid(ancestor)?)?),
        )
    }

    /// Those of some commits that are `commit` or its ancestors, and no ancestors of another one, found in one walk; one whose object is lost is
    /// nobody's ancestor.
    ///
    /// # Errors
    /// `Git` when history cannot be walked.
    pub fn ancestors_among(
        &self,
        (above, commit): (Option<CommitId>, CommitId),
        wanted: &HashSet<CommitId>,
    ) -> HistoryResult<HashSet<CommitId>> {
        let above =
            above.map(|above| Ok::<_, StoreError>(self.has_commit(above)?.then_some(above))).transpose()?.flatten();
        self.reader(|repository| {
            let mut walk = repository.revwalk()?;
            walk.push(oid(commit)?)?;
            if let Some(above) = above {
                walk.hide(oid(above)?)?;
            }
            let mut found = HashSet::with_capacity(wanted.len());
            for id in walk {
                if found.len() == wanted.len() {
                    break;
                }
                let id = commit_id(id?);
                if wanted.contains(&id) {
                    found.insert(id);
                }
            }
            Ok(found)
        })
    }
}

/// The commits that a head has and another one, if there is one, has not, oldest first.
fn between(repository: &Repository, from: Option<CommitId>, to: CommitId) -> HistoryResult<Vec<CommitId>> {
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
    entries.sort_by(|one, other| compare_entries((one.new, &one.path), (other.new, &other.path)));
    let (author, read) = (commit.author(), |bytes| decoded(commit, bytes));
    Ok(ForeignCommit {
        commit: commit_id(commit.id()),
        actor: Actor::new(&read(author.name_bytes())),
        message: normalize_message(&read(commit.message_raw_bytes())),
        time: Timestamp::from_second(author.when().seconds()).unwrap_or(Timestamp::UNIX_EPOCH),
        diff_base: if commit.parent_count() > 1 { DiffBase::FirstParent } else { DiffBase::Parent },
        entries,
    })
}

/// What a commit says, in the encoding it says it is in (`i18n.commitEncoding`); UTF-8 when it says nothing.
pub(super) fn decoded<'b>(commit: &Commit<'_>, bytes: &'b [u8]) -> Cow<'b, str> {
    let named = commit.message_encoding().ok().flatten().and_then(|name| Encoding::for_label(name.as_bytes()));
    named.unwrap_or(encoding_rs::UTF_8).decode_without_bom_handling(bytes).0
}

/// Adds what a merge let go of: files that commits of another parent's side changed, also if they changed them back, and that are as the first parent
/// has them. Those commits were told of before, and theirs would be the last word.
fn dropped(repository: &Repository, merge: &Commit<'_>, entries: &mut Vec<ForeignEntry>) -> HistoryResult<()> {
    let mut parents = merge.parent_ids().map(commit_id);
    let Some(first) = parents.next().filter(|_| merge.parent_count() > 1) else { return Ok(()) };
    for other in parents {
        // A shallow clone may have neither.
        let Some(theirs) = if_there(repository.find_commit(oid(other)?).map_err(Into::into))? else { continue };
        let mut differing = Vec::new();
        compare(repository, (Some(&theirs.tree()?), Some(&merge.tree()?)), "", &mut differing)?;
        let known: HashSet<TreePath> = entries.iter().map(|entry| entry.path.clone()).collect();
        differing.retain(|entry| !known.contains(&entry.path));
        if differing.is_empty() {
            continue;
        }
        let touched = touched(repository, &between(repository, Some(first), other)?)?;
        entries.extend(differing.into_iter().filter(|entry| touched.contains(&entry.path)));
    }
    entries.sort_by(|one, other| compare_entries((one.new, &one.path), (other.new, &other.path)));
    Ok(())
}

/// What commits changed, each against its first parent.
fn touched(repository: &Repository, commits: &[CommitId]) -> HistoryResult<HashSet<TreePath>> {
    let mut changed = Vec::new();
    for commit in commits {
        let commit = repository.find_commit(oid(*commit)?)?;
        // What lies beyond the end of a shallow clone is as nothing, as it is where the commit itself is told of.
        let before = commit.parent(0).and_then(|parent| parent.tree()).ok();
        compare(repository, (before.as_ref(), Some(&commit.tree()?)), "", &mut changed)?;
    }
    Ok(changed.into_iter().map(|entry| entry.path).collect())
}

/// Gathers the files in which two trees differ, looking only into directories that do.
///
/// Why not libgit2's diff? Because it walks both trees whole: 10,000 files for each commit of one page, 15 minutes for 100,000
/// commits instead of half a minute.
fn compare(
    repository: &Repository,
    (old, new): (Option<&Tree<'_>>, Option<&Tree<'_>>),
    prefix: &str,
    found: &mut Vec<ForeignEntry>,
) -> HistoryResult<()> {
    let mut old = old.into_iter().flatten().peekable();
    let mut new = new.into_iter().flatten().peekable();
    loop {
        let (before, after) = match (old.peek(), new.peek()) {
            (None, None) => return Ok(()),
            (Some(one), Some(other)) => match in_tree(one).cmp(in_tree(other)) {
                Ordering::Less => (old.next(), None),
                Ordering::Equal => (old.next(), new.next()),
                Ordering::Greater => (None, new.next()),
            },
            (Some(_), None) => (old.next(), None),
            (None, Some(_)) => (None, new.next()),
        };
        let state = |entry: &Option<TreeEntry<'_>>| entry.as_ref().map(|entry| (entry.id(), entry.filemode()));
        if state(&before) == state(&after) {
            continue;
        }
        // Names that are no UTF-8 are not part of the knowledge tree.
        let Some(name) = before.as_ref().or(after.as_ref()).and_then(|entry| entry.name().ok()) else { continue };
        let path = format!("{prefix}{name}");
        let directory = |entry: &Option<TreeEntry<'_>>| {
            let id = entry.as_ref().filter(|entry| entry.kind() == Some(ObjectType::Tree)).map(TreeEntry::id);
            id.map(|id| repository.find_tree(id)).transpose()
        };
        let (above, below) = (directory(&before)?, directory(&after)?);
        if above.is_some() || below.is_some() {
            compare(repository, (above.as_ref(), below.as_ref()), &format!("{path}/"), found)?;
            continue;
        }
        // Neither are submodules, which have no kind of file.
        let leaf = |entry: &Option<TreeEntry<'_>>| {
            entry.as_ref().and_then(|entry| Some((etag(entry.id()), FileKind::from_git_mode(entry.filemode())?)))
        };
        let (before, after) = (leaf(&before), leaf(&after));
        if let (Some((_, kind)), Ok(path)) = (after.or(before), TreePath::parse(&path)) {
            let hash = |leaf: Option<(ETag, FileKind)>| leaf.map(|(hash, _)| hash);
            found.push(ForeignEntry { path, old: hash(before), new: hash(after), kind });
        }
    }
}

/// A name as git orders it in a tree: a directory as if a `/` were its last letter.
fn in_tree<'e>(entry: &'e TreeEntry<'_>) -> impl Iterator<Item = &'e u8> {
    let end: &[u8] = if entry.kind() == Some(ObjectType::Tree) { b"/" } else { b"" };
    entry.name_bytes().iter().chain(end)
}

/// The order of a commit's files in the log, by content after and path: removals first, so that a rename reads as `delete` and
/// `write`. git keeps none, so that it must not depend on the order in which a writer named them.
pub fn compare_entries(one: (Option<ETag>, &TreePath), other: (Option<ETag>, &TreePath)) -> Ordering {
    (one.0.is_some(), one.1).cmp(&(other.0.is_some(), other.1))
}

/// A message as it is recorded and told: what git itself would keep of it, so that a log that is made again from git tells the
/// same.
pub fn normalize_message(message: &str) -> String {
    message.replace('\0', "").trim().to_owned()
}

#[cfg(test)]
mod tests;
