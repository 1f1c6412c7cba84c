//! `.git/index` and the work tree: what a person's `git status` sees.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use git2::{ErrorCode, IndexEntry, IndexTime, Oid, Repository, Status, StatusOptions, StatusShow};
use svcfs_base::{ETag, FileKind, TreePath};

use super::{History, Outcome, etag, head_of, oid, owner};
use crate::FailPoint;

impl History {
    /// The paths whose file on disk differs from the newest commit, or may differ; untracked files are among them, ignored
    /// files and the inside of nested repositories are not.
    ///
    /// # Errors
    /// `Git`.
    pub fn differences(&self) -> Outcome<Vec<TreePath>> {
        // Not one that is kept: it would keep the index of the whole tree in memory.
        let repository = Repository::open(&self.root)?;
        let mut options = StatusOptions::new();
        options
            .show(StatusShow::IndexAndWorkdir)
            .include_untracked(true)
            .recurse_untracked_dirs(true)
            .include_unmodified(false)
            .exclude_submodules(true)
            .update_index(true);
        let statuses = match repository.statuses(Some(&mut options)) {
            // What was found is only not noted: somebody's git is at work, or a killed process left its lock.
            Err(error) if error.code() == ErrorCode::Locked => {
                repository.statuses(Some(options.update_index(false)))?
            }
            outcome => outcome?,
        };
        Ok(statuses
            .iter()
            .filter(|entry| !entry.status().intersects(Status::IGNORED) && entry.status() != Status::CURRENT)
            .filter_map(|entry| entry.path().ok().and_then(|path| TreePath::parse(path).ok()))
            .collect())
    }

    /// Whether a path that history does not have is one a person told git to leave alone (`.gitignore`).
    ///
    /// # Errors
    /// `Git`.
    pub fn is_ignored(&self, path: &TreePath) -> Outcome<bool> {
        self.reader(|repository| Ok(repository.is_path_ignored(Path::new(path.as_str()))?))
    }

    /// Brings `.git/index` up to date for paths whose file on disk is what the newest commit has.
    ///
    /// # Errors
    /// `Git` when the index cannot be written, such as while a person's `git` holds its lock.
    pub fn refresh_index<'a>(&self, paths: impl Iterator<Item = &'a TreePath>) -> Outcome<()> {
        // A repository of its own: the index of a large tree takes a while to write, and writers do not wait for it. And not one that
        // stays: with 100,000 files the index takes 20 MB.
        let _indexing = self.indexing.lock();
        let repository = &Repository::open(&self.root)?;
        let Some(head) = head_of(repository)? else {
            return Ok(());
        };
        let tree = repository.find_commit(oid(head)?)?.tree()?;
        let mut index = repository.index()?;
        index.read(false)?;
        let mut present = super::read::Finder::new(repository, tree);
        for path in paths {
            match present.entry(path)? {
                Some((id, mode)) => {
                    if let Some(entry) = self.index_entry(path, id, mode)? {
                        // What was a directory is a file now, or the other way round; git takes both at once for damage.
                        index.remove_dir(Path::new(path.as_str()), 0)?;
                        for above in path.ancestors().filter(|above| !above.is_root()) {
                            index.remove_path(Path::new(above.as_str()))?;
                        }
                        index.add(&entry)?;
                    }
                }
                None => index.remove_path(Path::new(path.as_str()))?,
            }
        }
        self.fail.at(FailPoint::CheckpointIndex)?;
        index.write()?;
        owner::give_as_its_directory(&repository.path().join("index"))?;
        Ok(())
    }

    fn index_entry(&self, path: &TreePath, blob: Oid, mode: i32) -> Outcome<Option<IndexEntry>> {
        let file = self.root.join(path.as_str());
        let Ok(stat) = std::fs::symlink_metadata(&file) else {
            return Ok(None);
        };
        let content = match FileKind::of_git_mode(mode) {
            Some(FileKind::Symlink) => {
                std::fs::read_link(&file).map(|target| target.into_os_string().into_encoded_bytes())
            }
            Some(FileKind::Regular | FileKind::Executable) if stat.is_file() => std::fs::read(&file),
            Some(FileKind::Regular | FileKind::Executable) | None => return Ok(None),
        };
        // Edited or gone in this moment: adoption will see it, and so will `git status`.
        if content.is_ok_and(|content| ETag::of(&content) == etag(blob)) {
            Ok(Some(to_entry(path, blob, mode, &stat)))
        } else {
            Ok(None)
        }
    }
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
