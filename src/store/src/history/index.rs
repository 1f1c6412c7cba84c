//! `.git/index` and the work tree: what `git status` reports.

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

/// Object and mode of a commit at a path.
type IndexObject = Option<(Oid, i32)>;

impl History {
    /// The paths whose file on disk differs from HEAD, or may differ. Untracked files are included;
    /// ignored files, nested repositories and files excluded by `git sparse-checkout` are not.
    /// Where `.git/index` cannot be read, the files are compared with HEAD itself.
    pub fn differences(&self) -> HistoryResult<Vec<TreePath>> {
        let _guard = self.index_lock.lock();
        // Not from the pool of readers: it would keep the index of the whole tree in memory.
        let repository = Repository::open(&self.root)?;
        let update = match IndexUpdate::new(&repository) {
            // Only the refreshed stat data is not saved: an external git holds the lock, or a
            // killed one left it.
            Err(error) if error.is_locked() => None,
            Err(_) if repository.index().is_err() => None,
            outcome => Some(outcome?.0),
        };
        let has_no_index = update.is_none() && repository.index().is_err();
        if has_no_index {
            use_head_as_index(&repository)?;
        }
        let mut options = status_options();
        options.no_refresh(has_no_index).update_index(update.is_some());
        let statuses = match repository.statuses(Some(&mut options)) {
            // Then all files are compared by content. What a sparse checkout leaves out is known to
            // the index only.
            Err(error) if is_nested_too_deep(&error) && !is_sparse(&repository) => return Ok(vec![TreePath::root()]),
            statuses => statuses?,
        };
        if let Some(update) = update {
            self.install_index(&repository, &update)
                .or_else(|error| if error.is_locked() { Ok(()) } else { Err(error) })?;
        }
        let (index, is_sparse) = (repository.index()?, has_no_index && is_sparse(&repository));
        // Their commits still contain them.
        let is_left_out = |path: &TreePath| {
            let entry = index.get_path(Path::new(path.as_str()), 0);
            is_sparse || entry.is_some_and(|entry| extended_flags(&entry).is_skip_worktree())
        };
        Ok(statuses
            .iter()
            .filter(|entry| !entry.status().intersects(Status::IGNORED) && entry.status() != Status::CURRENT)
            .filter_map(|entry| Some((entry.status(), entry.path().ok().and_then(|path| TreePath::parse(path).ok())?)))
            .filter(|(status, path)| !(status.contains(Status::WT_DELETED) && is_left_out(path)))
            .map(|(_, path)| path)
            .collect())
    }

    /// Updates `.git/index` for paths whose file on disk matches HEAD. Entries that a person staged
    /// and unresolved merge conflicts stay: contents that `is_version` does not know as a version
    /// of the path, or that the file has now and HEAD has not. Entries whose object is missing are
    /// replaced. Returns the paths without an entry because their file does not exist now.
    ///
    /// # Errors
    /// `Git` when the index cannot be written; with code `Locked` while an external git holds it.
    pub fn refresh_index<'a>(
        &self,
        paths: impl Iterator<Item = &'a TreePath>,
        is_version: impl Fn(&TreePath, ETag) -> HistoryResult<bool>,
    ) -> HistoryResult<Vec<TreePath>> {
        let _guard = self.index_lock.lock();
        let paths: Vec<_> = paths.collect();
        let Some(head_objects) = self.head_objects(&paths)? else { return Ok(Vec::new()) };
        // A separate repository: writing the index of a large tree takes a while, and writers must
        // not wait. Not pooled: with 100,000 files the index takes 20 MB.
        let repository = Repository::open(&self.root)?;
        let (update, mut index) = IndexUpdate::new(&repository)?;
        let conflicts = unmerged(&index)?;
        let stored = repository.odb()?;
        // Not flushed and lost in a power failure: git refuses every commit while the index refers
        // to it.
        let is_missing_object = |entry: &IndexEntry| {
            // The commit of a submodule is in its own repository. Other read errors may be
            // temporary.
            entry.mode != u32::from(FileMode::Commit)
                && matches!(stored.read_header(entry.id), Err(error) if error.code() == ErrorCode::NotFound)
        };
        let (mut is_changed, mut missing) = (false, Vec::new());
        for (path, head_object) in paths.into_iter().zip(head_objects) {
            let present = index.get_path(Path::new(path.as_str()), 0);
            let hash = present.as_ref().map(|entry| entry.id);
            let is_staged = match &present {
                Some(entry) if Some(entry.id) == head_object.map(|(id, _)| id) || is_intent_to_add_only(entry) => false,
                Some(entry) => {
                    let content =
                        self.tree_form(path, etag(entry.id), FileKind::from_git_mode(entry.mode.cast_signed()));
                    (!(is_version(path, content)? || self.was_recorded(path, etag(entry.id))?)
                        || self.matches_file(path, entry)?)
                        && !is_missing_object(entry)
                }
                None => false,
            };
            if is_staged || conflicts.contains(path.as_str().as_bytes()) {
                continue;
            }
            match head_object {
                Some((id, mode)) => {
                    let entry = self.index_entry(path, id, mode)?;
                    if present.is_none() && std::fs::symlink_metadata(self.root.join(path.as_str())).is_err() {
                        missing.push(path.clone());
                    }
                    if let Some(entry) = entry.filter(|entry| !present.is_some_and(|present| is_same(&present, entry)))
                    {
                        // The path was a directory and is a file now, or vice versa; git treats an
                        // index with both as damaged.
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
        self.install_index(&repository, &update)?;
        Ok(missing)
    }

    /// The objects of HEAD at these paths; none before the first commit.
    fn head_objects(&self, paths: &[&TreePath]) -> HistoryResult<Option<Vec<IndexObject>>> {
        let Some(head) = self.head()? else { return Ok(None) };
        self.reader(|repository| {
            let mut present = TreeFinder::new(repository, repository.find_commit(oid(head)?)?.tree()?);
            paths.iter().map(|path| present.entry(path)).collect::<HistoryResult<_>>().map(Some)
        })
    }

    /// The paths whose file is unmodified since `.git/index` recorded it as the content of HEAD:
    /// size, times and inode number are equal. If the content differs, no program wrote it. Paths
    /// without index entry are not included; without a readable index, none is.
    ///
    /// # Errors
    /// `Git` where there is no repository.
    pub fn unmodified_paths<'p>(&self, paths: &[&'p TreePath]) -> HistoryResult<HashSet<&'p TreePath>> {
        let _guard = self.index_lock.lock();
        let repository = Repository::open(&self.root)?;
        let Ok(index) = repository.index() else { return Ok(HashSet::new()) };
        let is_unmodified = |path: &TreePath| {
            let entry = index.get_path(Path::new(path.as_str()), 0)?;
            let stat = std::fs::symlink_metadata(self.root.join(path.as_str())).ok()?;
            let now = to_entry(path, entry.id, i32::try_from(entry.mode).ok()?, &stat);
            // Device numbers may change at a restart. Staged changes of a person are left alone.
            let is_staged = self.matches_file(path, &entry).ok()?;
            Some(stat.is_file() && !is_staged && is_same(&IndexEntry { dev: now.dev, ..entry }, &now))
        };
        Ok(paths.iter().copied().filter(|path| is_unmodified(path).unwrap_or_default()).collect())
    }

    fn install_index(&self, repository: &Repository, update: &IndexUpdate) -> HistoryResult<()> {
        let stamp = update.install(repository)?;
        *self.own_index.lock() = stamp;
        Ok(())
    }

    /// Whether a file matches an index entry. An outdated entry describes an earlier file.
    fn matches_file(&self, path: &TreePath, entry: &IndexEntry) -> HistoryResult<bool> {
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
        // Edited or removed at this moment: adoption and `git status` will notice it.
        let Ok(content) = content else { return Ok(None) };
        let is_same = ETag::from_content(&content) == etag(blob)
            || FileKind::from_git_mode(mode).is_some_and(|kind| self.is_clean_form(path, (kind, &content), etag(blob)));
        Ok(is_same.then(|| to_entry(path, blob, mode, &stat)))
    }
}

/// What differs from HEAD in the index and on the disk, with each untracked file.
pub(super) fn status_options() -> StatusOptions {
    let mut options = StatusOptions::new();
    options
        .show(StatusShow::IndexAndWorkdir)
        .include_untracked(true)
        .recurse_untracked_dirs(true)
        .include_unmodified(false)
        .exclude_submodules(true)
        .update_index(false);
    options
}

/// Whether libgit2 could not walk the work tree: it refuses more than 100 levels of directories.
pub(super) fn is_nested_too_deep(error: &git2::Error) -> bool {
    error.message().contains("nesting too deep")
}

/// Makes a repository compare files with HEAD, as if nothing was staged.
pub(super) fn use_head_as_index(repository: &Repository) -> HistoryResult<()> {
    let mut index = Index::new()?;
    if let Some(head) = head_of(repository)? {
        index.read_tree(&repository.find_commit(oid(head)?)?.tree()?)?;
    }
    Ok(repository.set_index(&mut index)?)
}

/// Whether `git sparse-checkout` is in use; the excluded files are known to `.git/index` only.
fn is_sparse(repository: &Repository) -> bool {
    let setting = repository.config().and_then(|config| config.get_bool("core.sparseCheckout"));
    setting.is_ok_and(|is_set| is_set)
}

/// Paths with an unresolved conflict.
fn unmerged(index: &Index) -> HistoryResult<HashSet<Vec<u8>>> {
    if !index.has_conflicts() {
        return Ok(HashSet::new());
    }
    let mut paths = HashSet::new();
    for conflict in index.conflicts()? {
        let conflict = conflict?;
        let sides = [conflict.ancestor, conflict.our, conflict.their];
        paths.extend(sides.into_iter().flatten().map(|side| side.path));
    }
    Ok(paths)
}

/// Whether the entry is only an intent to add (`git add --intent-to-add`).
pub(super) fn is_intent_to_add_only(entry: &IndexEntry) -> bool {
    extended_flags(entry).is_intent_to_add()
}

fn extended_flags(entry: &IndexEntry) -> IndexEntryExtendedFlag {
    IndexEntryExtendedFlag::from_bits_truncate(entry.flags_extended)
}

fn is_same(a: &IndexEntry, b: &IndexEntry) -> bool {
    let time = |time: IndexTime| (time.seconds(), time.nanoseconds());
    let fields = |entry: &IndexEntry| {
        (entry.id, entry.mode, entry.dev, entry.ino, entry.file_size, time(entry.ctime), time(entry.mtime))
    };
    fields(a) == fields(b) && !is_intent_to_add_only(a)
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
