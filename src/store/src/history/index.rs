//! `.git/index` and the work tree: what a person's `git status` sees.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::{
    ErrorCode, FileMode, Index, IndexEntry, IndexEntryExtendedFlag, IndexTime, Oid, Repository, Status, StatusOptions,
    StatusShow,
};
use svcfs_base::{ETag, FileKind, TreePath};

use super::index_update::IndexUpdate;
use super::read::TreeFinder;
use super::{History, HistoryResult, etag, head_of, oid};
use crate::FailPoint;

/// What a commit has at a path, and its mode.
type IndexObject = Option<(Oid, i32)>;

impl History {
    /// The paths whose file on disk differs from the newest commit, or may differ; untracked files are among them, ignored
    /// files and the inside of nested repositories are not, nor are files that a person had git take away (`git sparse-checkout`). Where
    /// `.git/index` cannot be read, the files are compared with the newest commit itself.
    ///
    /// # Errors
    /// `Git`.
    pub fn differences(&self) -> HistoryResult<Vec<TreePath>> {
        let _indexing = self.indexing.lock();
        // Not one that is kept: it would keep the index of the whole tree in memory.
        let repository = Repository::open(&self.root)?;
        let draft = match IndexUpdate::of(&repository) {
            // What is found is only not noted: somebody's git is at work, or a killed process left its lock.
            Err(error) if error.is_locked() => None,
            Err(_) if repository.index().is_err() => None,
            outcome => Some(outcome?.0),
        };
        let is_without_index = draft.is_none() && repository.index().is_err();
        if is_without_index {
            go_without_index(&repository)?;
        }
        let mut options = StatusOptions::new();
        options
            .show(StatusShow::IndexAndWorkdir)
            .include_untracked(true)
            .recurse_untracked_dirs(true)
            .include_unmodified(false)
            .exclude_submodules(true)
            .no_refresh(is_without_index)
            .update_index(draft.is_some());
        let statuses = repository.statuses(Some(&mut options))?;
        if let Some(draft) = draft {
            self.put_in_place(&repository, &draft)
                .or_else(|error| if error.is_locked() { Ok(()) } else { Err(error) })?;
        }
        let (index, is_sparse) = (repository.index()?, is_without_index && is_sparse(&repository));
        // Their commits have them still.
        let is_left_out = |path: &TreePath| {
            let noted = index.get_path(Path::new(path.as_str()), 0);
            is_sparse || noted.is_some_and(|entry| extended_flags(&entry).is_skip_worktree())
        };
        Ok(statuses
            .iter()
            .filter(|entry| !entry.status().intersects(Status::IGNORED) && entry.status() != Status::CURRENT)
            .filter_map(|entry| Some((entry.status(), entry.path().ok().and_then(|path| TreePath::parse(path).ok())?)))
            .filter(|(status, path)| !(status.contains(Status::WT_DELETED) && is_left_out(path)))
            .map(|(_, path)| path)
            .collect())
    }

    /// Whether a path that history does not have is one a person told git to leave alone (`.gitignore`).
    ///
    /// # Errors
    /// `Git`.
    pub fn is_ignored(&self, path: &TreePath) -> HistoryResult<bool> {
        self.reader(|repository| Ok(repository.is_path_ignored(Path::new(path.as_str()))?))
    }

    /// Brings `.git/index` up to date for paths whose file on disk is what the newest commit has. Left alone is what a person put
    /// there, and what a merge left to a person to decide: a text that `is_version` knows for no version of its path, or one that the file
    /// has now and the newest commit has not; unless git has lost it. The answer are those of which there is no entry, as their file is not
    /// there at this moment.
    ///
    /// # Errors
    /// `Git` when the index cannot be written; with code `Locked` while a person's `git` is at it.
    pub fn refresh_index<'a>(
        &self,
        paths: impl Iterator<Item = &'a TreePath>,
        is_version: impl Fn(&TreePath, ETag) -> HistoryResult<bool>,
    ) -> HistoryResult<Vec<TreePath>> {
        let _indexing = self.indexing.lock();
        let paths: Vec<_> = paths.collect();
        let Some(newest) = self.newest(&paths)? else { return Ok(Vec::new()) };
        // A repository of its own: the index of a large tree takes a while to write, and writers do not wait for it. And not one that
        // stays: with 100,000 files the index takes 20 MB.
        let repository = Repository::open(&self.root)?;
        let (draft, mut index) = IndexUpdate::of(&repository)?;
        let conflicts = unmerged(&index)?;
        let stored = repository.odb()?;
        // Flushed by nobody, and lost with the power: git refuses to commit anything while it is noted.
        let is_lost = |entry: &IndexEntry| {
            // The commit of a submodule is in its own repository. What cannot be read for another reason may come back.
            entry.mode != u32::from(FileMode::Commit)
                && matches!(stored.read_header(entry.id), Err(error) if error.code() == ErrorCode::NotFound)
        };
        let (mut is_changed, mut away) = (false, Vec::new());
        for (path, newest) in paths.into_iter().zip(newest) {
            let present = index.get_path(Path::new(path.as_str()), 0);
            let hash = present.as_ref().map(|entry| entry.id);
            let is_staged = match &present {
                Some(entry) if Some(entry.id) == newest.map(|(id, _)| id) || is_announced_only(entry) => false,
                Some(entry) => (!is_version(path, etag(entry.id))? || self.has_now(path, entry)?) && !is_lost(entry),
                None => false,
            };
            if is_staged || conflicts.contains(path.as_str().as_bytes()) {
                continue;
            }
            match newest {
                Some((id, mode)) => {
                    let entry = self.index_entry(path, id, mode)?;
                    if present.is_none() && std::fs::symlink_metadata(self.root.join(path.as_str())).is_err() {
                        away.push(path.clone());
                    }
                    if let Some(entry) = entry.filter(|entry| !present.is_some_and(|present| is_same(&present, entry)))
                    {
                        // What was a directory is a file now, or the other way round; git takes both at once for damage.
                        index.remove_dir(Path::new(path.as_str()), 0)?;
                        for above in path.ancestors().filter(|above| !above.is_root()) {
                            index.remove_path(Path::new(above.as_str()))?;
                        }
                        index.add(&entry)?;
                        is_changed = true;
                    }
                }
                None => {
                    index.remove_path(Path::new(path.as_str()))?;
                    is_changed |= hash.is_some();
                }
            }
        }
        self.fail.check(FailPoint::CheckpointIndex)?;
        if is_changed {
            index.write()?;
        }
        self.put_in_place(&repository, &draft)?;
        Ok(away)
    }

    /// What the newest commit has at each of these paths, whatever it is; none before the first commit.
    fn newest(&self, paths: &[&TreePath]) -> HistoryResult<Option<Vec<IndexObject>>> {
        let Some(head) = self.head()? else { return Ok(None) };
        self.reader(|repository| {
            let mut present = TreeFinder::new(repository, repository.find_commit(oid(head)?)?.tree()?);
            paths.iter().map(|path| present.entry(path)).collect::<HistoryResult<_>>().map(Some)
        })
    }

    /// The files that nobody has touched since `.git/index` noted them as what history had: size, times and number are the same. What they have now
    /// that is something else, no program wrote. A path of which the index knows nothing is none of them; nor is any where it cannot be read.
    ///
    /// # Errors
    /// `Git` where there is no repository.
    pub fn unmodified_paths<'p>(&self, paths: &[&'p TreePath]) -> HistoryResult<HashSet<&'p TreePath>> {
        let _indexing = self.indexing.lock();
        let repository = Repository::open(&self.root)?;
        let Ok(index) = repository.index() else { return Ok(HashSet::new()) };
        let is_untouched = |path: &TreePath| {
            let entry = index.get_path(Path::new(path.as_str()), 0)?;
            let stat = std::fs::symlink_metadata(self.root.join(path.as_str())).ok()?;
            let now = to_entry(path, entry.id, i32::try_from(entry.mode).ok()?, &stat);
            // A disk may have another number after a restart. What a person put into the index is there as they left it.
            let is_what_is_noted = self.has_now(path, &entry).ok()?;
            Some(stat.is_file() && !is_what_is_noted && is_same(&IndexEntry { dev: now.dev, ..entry }, &now))
        };
        Ok(paths.iter().copied().filter(|path| is_untouched(path).unwrap_or_default()).collect())
    }

    fn put_in_place(&self, repository: &Repository, draft: &IndexUpdate) -> HistoryResult<()> {
        let written = draft.take(repository)?;
        *self.own_index.lock() = written;
        Ok(())
    }

    /// Whether a file is what an entry of the index says. An entry that is behind tells of a file that was there.
    fn has_now(&self, path: &TreePath, entry: &IndexEntry) -> HistoryResult<bool> {
        let Ok(mode) = i32::try_from(entry.mode) else { return Ok(false) };
        Ok(self.index_entry(path, entry.id, mode)?.is_some())
    }

    fn index_entry(&self, path: &TreePath, blob: Oid, mode: i32) -> HistoryResult<Option<IndexEntry>> {
        let file = self.root.join(path.as_str());
        let Ok(stat) = std::fs::symlink_metadata(&file) else {
            return Ok(None);
        };
        let content = match FileKind::from_git_mode(mode) {
            Some(FileKind::Symlink) => {
                std::fs::read_link(&file).map(|target| target.into_os_string().into_encoded_bytes())
            }
            Some(FileKind::Regular | FileKind::Executable) if stat.is_file() => std::fs::read(&file),
            Some(FileKind::Regular | FileKind::Executable) | None => return Ok(None),
        };
        // Edited or gone in this moment: adoption will see it, and so will `git status`.
        if content.is_ok_and(|content| ETag::from_content(&content) == etag(blob)) {
            Ok(Some(to_entry(path, blob, mode, &stat)))
        } else {
            Ok(None)
        }
    }
}

/// Has a repository compare files with the newest commit, as if nobody had ever staged anything.
pub(super) fn go_without_index(repository: &Repository) -> HistoryResult<()> {
    let mut index = Index::new()?;
    if let Some(head) = head_of(repository)? {
        index.read_tree(&repository.find_commit(oid(head)?)?.tree()?)?;
    }
    Ok(repository.set_index(&mut index)?)
}

/// Whether a person had git take files away; which ones, `.git/index` says.
fn is_sparse(repository: &Repository) -> bool {
    let set = repository.config().and_then(|config| config.get_bool("core.sparseCheckout"));
    set.is_ok_and(|is_set| is_set)
}

/// Paths whose conflict nobody has settled yet.
fn unmerged(index: &Index) -> HistoryResult<HashSet<Vec<u8>>> {
    if !index.has_conflicts() {
        return Ok(HashSet::new());
    }
    let mut found = HashSet::new();
    for conflict in index.conflicts()? {
        let conflict = conflict?;
        let sides = [conflict.ancestor, conflict.our, conflict.their];
        found.extend(sides.into_iter().flatten().map(|side| side.path));
    }
    Ok(found)
}

/// Whether a person only said that they will add a file (`git add --intent-to-add`).
fn is_announced_only(entry: &IndexEntry) -> bool {
    extended_flags(entry).is_intent_to_add()
}

fn extended_flags(entry: &IndexEntry) -> IndexEntryExtendedFlag {
    IndexEntryExtendedFlag::from_bits_truncate(entry.flags_extended)
}

fn is_same(one: &IndexEntry, other: &IndexEntry) -> bool {
    let time = |time: IndexTime| (time.seconds(), time.nanoseconds());
    let told = |entry: &IndexEntry| {
        (entry.id, entry.mode, entry.dev, entry.ino, entry.file_size, time(entry.ctime), time(entry.mtime))
    };
    told(one) == told(other) && !is_announced_only(one)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "git's index keeps the low 32 bits of these"
)]
fn to_entry(path: &TreePath, blob: Oid, mode: i32, stat: &std::fs::Metadata) -> IndexEntry {
    IndexEntry {
        ctime: IndexTime::new(stat.ctime() as i32, stat.ctime_nsec() as u32),
        mtime: IndexTime::new(stat.mtime() as i32, stat.mtime_nsec() as u32),
        dev: stat.dev() as u32,
        ino: stat.ino() as u32,
        mode: mode as u32,
        uid: stat.uid(),
        gid: stat.gid(),
        file_size: stat.size() as u32,
        id: blob,
        flags: 0,
        flags_extended: 0,
        path: path.as_str().as_bytes().to_vec(),
    }
}
