//! git: the history of the tree, commit by commit.
//!
//! Invariant: a commit is built in memory from its parent's tree, without an index file or a
//! subprocess. A batch of commits is published as one pack, unflushed; the log has everything until
//! a checkpoint flushes it.

mod blame;
mod branch;
mod commit;
mod deflate;
mod draft_branch;
mod exclude;
mod external_commits;
mod external_git;
mod flush;
mod forms;
mod index;
mod index_update;
mod init_repo;
mod inspection;
mod object;
mod owner;
mod pack;
mod past_tree;
mod read;
mod repair;
mod repo_lock;
mod tree;
mod uncommitted;

use std::fs::File;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, FileMode, Oid, Repository};
use parking_lot::Mutex;
use svcfs_base::{CommitId, ETag, FileKind, TreePath};
use tracing::warn;

pub use blame::{BlameHunk, FileVersion, are_similar_contents};
pub use commit::{CommitAuthor, FileEdit, StagedCommit};
pub use draft_branch::BranchPage;
pub(crate) use exclude::without_own_lines;
pub use external_commits::{DivergedMove, ForeignCommit, ForeignEntry, HeadMove, compare_entries, normalize_message};
pub use external_git::ExternalGit;
pub(crate) use inspection::set_aside;
pub use inspection::{
    BadObject, GitLock, LockHolder, ReachableObjects, RepoInspection, TreeState, UnknownCommits, repair_head,
};
pub(crate) use owner::{give_as_its_directory, give_below};
pub use past_tree::PastEntry;
pub use read::{changed_lines, unified_diff};
pub use uncommitted::{UncommittedChanges, UncommittedFile, UncommittedKind};

use crate::deferred_unlink::Reclaimer;
use crate::path_rules::PathRules;
use crate::recycled_files::RecyclePool;
use crate::{FailPoint, FailPoints, StoreError};

/// The e-mail address of svcfs, and of authors that it knows by name only.
pub const EMAIL: &str = "svc@internal";
/// Bytes of objects that libgit2 caches; its structures about double them.
const OBJECT_CACHE_BYTES: isize = 8 << 20;
/// Bytes of a pack that libgit2 maps per window, and of all packs together.
const PACK_WINDOW_BYTES: usize = 1 << 20;
const MAX_MAPPED_BYTES: usize = 12 << 20;

type HistoryResult<T> = Result<T, StoreError>;

/// The git repository of a knowledge root.
/// Methods fail with `StoreError::Git` unless they say otherwise.
pub struct History {
    root: PathBuf,
    /// The git directory; of a linked work tree, its own.
    git_dir: PathBuf,
    writer: Mutex<PackWriter>,
    readers: Mutex<Vec<Repository>>,
    /// Locked while `.git/index` is written.
    index_lock: Mutex<()>,
    /// The `.git/index` that svcfs last wrote or verified, to detect external writes.
    own_index: Mutex<Option<external_git::FileStamp>>,
    reclaimer: Reclaimer,
    /// Recycled pack files.
    recycled_packs: RecyclePool,
    /// Recycled branch files.
    recycled_refs: RecyclePool,
    merger: pack::Merger,
    /// The lock of the repository, while it is served.
    repo_lock: Mutex<Option<repo_lock::RepoLock>>,
    blame_cache: Mutex<blame::BlameCache>,
    /// Directories of the repository on other disks than the root.
    other_disks: Vec<File>,
    rules: PathRules,
    forms: Mutex<forms::KnownForms>,
    fail: FailPoints,
}

struct PackWriter {
    repository: Repository,
    objects: object::ObjectBuilder,
    /// Packs were removed whose objects were not written again yet.
    is_torn: bool,
}

impl History {
    /// Opens the repository of a root, or creates one; the flag is true for a new one. Branch,
    /// configuration and hooks of an existing repository stay. `unversioned` are globs of names
    /// that git should ignore.
    ///
    /// # Errors
    /// `Git` when an existing repository cannot be opened.
    pub fn open(root: &Path, unversioned: &[String]) -> HistoryResult<(Self, bool)> {
        let (repository, is_new) = open_or_init(root)?;
        match repo_lock::RepoLock::acquire(&repository, root) {
            Ok(lock) => lock.sweep(&repository),
            // Temporary files belong to the running server.
            Err(StoreError::AlreadyServed { .. }) => {}
            Err(error) => warn!(%error, "leftovers of a crash in `.git` could not be removed"),
        }
        Ok((Self::new(repository, root, unversioned)?, is_new))
    }

    /// As [`History::open`] for the server of the root, which owns the repository until
    /// [`History::close`].
    ///
    /// # Errors
    /// As [`History::open`]; `AlreadyServed` when another server owns it.
    pub fn open_locked(root: &Path, unversioned: &[String]) -> HistoryResult<(Self, bool)> {
        let (repository, is_new) = open_or_init(root)?;
        let lock = repo_lock::RepoLock::acquire(&repository, root)?;
        lock.sweep(&repository);
        let history = Self::new(repository, root, unversioned)?;
        *history.repo_lock.lock() = Some(lock);
        Ok((history, is_new))
    }

    fn new(repository: Repository, root: &Path, unversioned: &[String]) -> HistoryResult<Self> {
        let fail = FailPoints::new(root);
        exclude::exclude(&repository, unversioned)?;
        let git_dir = repository.path().to_owned();
        if let Err(error) = index_update::sweep(&git_dir) {
            warn!(%error, "leftovers of a crash beside `.git/index` could not be removed");
        }
        let recycled = repo_lock::directory(&repository);
        let other_disks = flush::other_disks(&repository, root)?;
        let merger = pack::Merger::new(repository.commondir().join("objects/pack"), fail.clone());
        let writer = Mutex::new(PackWriter { repository, objects: object::ObjectBuilder::default(), is_torn: false });
        Ok(Self {
            // In the form of `/proc/PID/cwd`, to find processes in the root.
            root: root.canonicalize()?,
            git_dir,
            writer,
            readers: Mutex::default(),
            index_lock: Mutex::default(),
            own_index: Mutex::default(),
            reclaimer: Reclaimer::default(),
            recycled_refs: RecyclePool::named(recycled.join("branch-")),
            recycled_packs: RecyclePool::named(recycled.join("pack-")),
            merger,
            repo_lock: Mutex::default(),
            blame_cache: Mutex::default(),
            other_disks,
            rules: PathRules::new(root),
            forms: Mutex::default(),
            fail,
        })
    }

    /// Checks that a root which had a repository still has one.
    ///
    /// # Errors
    /// `Repository`, with what to do, when it is missing or damaged.
    pub fn check_repository(root: &Path) -> HistoryResult<()> {
        configure_libgit2();
        let at = root.display();
        match Repository::open(root) {
            Err(error) if error.code() == ErrorCode::NotFound && root.join(".git").exists() => {
                Err(StoreError::Repository(format!(
                    "`.git` of root `{at}` is damaged, git does not recognize it as a repository: run `svcfs doctor`, or restore it \
                     from a backup or a clone"
                )))
            }
            Err(error) if error.code() == ErrorCode::NotFound => Err(StoreError::Repository(format!(
                "`.git` of root `{at}`, the history of its pages, is missing: restore it from a backup or a clone; if there is \
                 none, remove `.svc/state` to start a new history with the current pages"
            ))),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The commit of the current branch; none before the first.
    pub fn head(&self) -> HistoryResult<Option<CommitId>> {
        head_of(&self.writer.lock().repository)
    }

    /// Builds a commit on `parent`. Its objects are in memory until [`History::publish`]; no
    /// reference moves.
    ///
    /// # Errors
    /// `Unrecordable` for a path git refuses; `Git` when the parent cannot be read.
    pub fn stage(
        &self,
        parent: Option<CommitId>,
        edits: &[FileEdit<'_>],
        author: &CommitAuthor<'_>,
    ) -> HistoryResult<StagedCommit> {
        self.stage_with(parent, (edits, author), false)
    }

    /// As [`History::stage`] for a commit that a branch had before a crash: existing complete
    /// objects are reused.
    ///
    /// # Errors
    /// As [`History::stage`].
    pub fn restage(
        &self,
        parent: Option<CommitId>,
        edits: &[FileEdit<'_>],
        author: &CommitAuthor<'_>,
    ) -> HistoryResult<StagedCommit> {
        self.stage_with(parent, (edits, author), true)
    }

    fn stage_with(
        &self,
        parent: Option<CommitId>,
        (edits, author): (&[FileEdit<'_>], &CommitAuthor<'_>),
        reuse_existing: bool,
    ) -> HistoryResult<StagedCommit> {
        self.fail.check(FailPoint::StageCommit)?;
        // Programs may convert the contents: no lock is acquired before they have run.
        let contents = self.clean_edits(edits)?;
        let mut writer = self.writer.lock();
        let PackWriter { repository, objects, .. } = &mut *writer;
        objects.reuse_existing = reuse_existing;
        let count = objects.count();
        let staged = commit::build_commit(objects, repository, oid_of(parent)?, (edits, &contents), author);
        if !matches!(staged, Ok(StagedCommit { is_new: true, .. })) {
            objects.truncate(count);
        }
        staged
    }

    /// Discards staged, unpublished objects: their sets were refused.
    pub fn discard(&self) {
        self.writer.lock().objects.clear();
    }

    /// The files of a commit, staged or published, at these paths; nothing before the first commit.
    ///
    /// # Errors
    /// `Git` when the commit or a tree of it cannot be read.
    pub fn staged_leaves(
        &self,
        commit: Option<CommitId>,
        paths: &[&TreePath],
    ) -> HistoryResult<Vec<Option<(ETag, FileKind)>>> {
        let Some(commit) = commit else { return Ok(vec![None; paths.len()]) };
        let mut writer = self.writer.lock();
        let PackWriter { repository, objects, .. } = &mut *writer;
        let tree = objects.tree_of(repository, oid(commit)?)?;
        let leaves = tree::leaves(objects, repository, tree, paths)?;
        Ok(leaves.into_iter().map(|leaf| leaf.map(|(id, kind)| (etag(id), kind))).collect())
    }

    /// The files of a commit, staged or published, that conflict with a file at a path: a file
    /// where a directory above it must be, or all files below it.
    ///
    /// # Errors
    /// `Git` when the commit or a tree of it cannot be read.
    pub fn type_conflicts(&self, commit: Option<CommitId>, path: &TreePath) -> HistoryResult<Vec<TreePath>> {
        let Some(commit) = commit else { return Ok(Vec::new()) };
        let mut writer = self.writer.lock();
        let PackWriter { repository, objects, .. } = &mut *writer;
        let tree = objects.tree_of(repository, oid(commit)?)?;
        tree::type_conflicts(objects, repository, tree, path)
    }

    /// Publishes what was staged, then moves the current branch from one commit to another, if it
    /// is still at the first. [`History::unpin_packs`] follows later.
    ///
    /// # Errors
    /// `Git` with code `Modified` or `Locked` when another process moved or locked it.
    pub fn advance(&self, from: Option<CommitId>, to: CommitId) -> HistoryResult<()> {
        self.publish().map_err(StoreError::in_git)?;
        self.fail.check(FailPoint::BranchMove)?;
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let name = current_reference(repository)?;
        let is_moved = match from {
            Some(from) => branch::try_move(self, repository, &name, (oid(from)?, oid(to)?))?,
            None => false,
        };
        if !is_moved {
            let subject = "svcfs";
            match from {
                Some(from) => repository.reference_matching(&name, oid(to)?, true, oid(from)?, subject)?,
                None => repository.reference(&name, oid(to)?, false, subject)?,
            };
            // The branch has moved; later errors do not undo that.
            if let Err(error) = owner::give_branch(repository, &name) {
                warn!(%error, "the owner of the branch's files could not be set to the owner of the repository");
            }
        }
        self.fail.hit(FailPoint::BranchMoved);
        Ok(())
    }

    fn reader<T>(&self, query: impl Fn(&Repository) -> HistoryResult<T>) -> HistoryResult<T> {
        let idle = self.readers.lock().pop();
        if let Some(repository) = idle {
            match query(&repository) {
                // Its packs may have been compacted: retry with a new repository handle.
                Err(StoreError::Git(_)) => {}
                outcome => {
                    self.return_reader(repository);
                    return outcome;
                }
            }
        }
        let repository = Repository::open(&self.root)?;
        let outcome = query(&repository);
        self.return_reader(repository);
        outcome
    }

    fn return_reader(&self, repository: Repository) {
        let mut readers = self.readers.lock();
        if readers.len() < 8 {
            readers.push(repository);
        }
    }
}

/// Opens the repository of a root, or creates it (then true).
fn open_or_init(root: &Path) -> HistoryResult<(Repository, bool)> {
    FailPoints::new(root).check(FailPoint::OpenHistory)?;
    configure_libgit2();
    match Repository::open(root) {
        Ok(repository) => Ok((repository, false)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok((init_repo::create(root)?, true)),
        Err(error) => Err(error.into()),
    }
}

/// git refuses repositories of other users; a server running as root serves exactly those.
#[expect(
    unsafe_code,
    reason = "libgit2's switches for this are process-wide and unsynchronised; they are set before any use"
)]
fn configure_libgit2() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: called once, before this process opens its first repository. The calls fail for
        // unknown options only.
        unsafe {
            let _ = git2::opts::set_verify_owner_validation(false);
            // For all repositories; libgit2's own limit of 256 MiB is reached by reading one long
            // history.
            let _ = git2::opts::set_cache_max_size(OBJECT_CACHE_BYTES);
            // By default, all packs of a long history stay mapped.
            let _ = git2::opts::set_mwindow_size(PACK_WINDOW_BYTES);
            let _ = git2::opts::set_mwindow_mapped_limit(MAX_MAPPED_BYTES);
        }
        // Trees are built before their objects are written.
        git2::opts::strict_object_creation(false);
    });
}

fn head_of(repository: &Repository) -> HistoryResult<Option<CommitId>> {
    match repository.head() {
        // Not peeled if possible: after a power failure the commit may be missing until it is
        // replayed.
        Ok(reference) => match reference.target() {
            Some(target) => Ok(Some(commit_id(target))),
            None => Ok(Some(commit_id(reference.peel_to_commit()?.id()))),
        },
        Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The reference of new commits: the branch of HEAD, or a detached HEAD itself.
fn current_reference(repository: &Repository) -> HistoryResult<String> {
    let head = repository.find_reference("HEAD")?;
    Ok(head.symbolic_target().ok().flatten().unwrap_or("HEAD").to_owned())
}

const fn file_mode(kind: FileKind) -> FileMode {
    match kind {
        FileKind::Regular => FileMode::Blob,
        FileKind::Executable => FileMode::BlobExecutable,
        FileKind::Symlink => FileMode::Link,
    }
}

fn oid(commit: CommitId) -> HistoryResult<Oid> {
    Ok(Oid::from_bytes(commit.as_bytes())?)
}

fn oid_of(commit: Option<CommitId>) -> HistoryResult<Option<Oid>> {
    commit.map(oid).transpose()
}

fn commit_id(oid: Oid) -> CommitId {
    let mut bytes = [0; 20];
    bytes.copy_from_slice(oid.as_bytes());
    CommitId::from_bytes(bytes)
}

fn etag(oid: Oid) -> ETag {
    ETag::from_bytes(*commit_id(oid).as_bytes())
}

#[cfg(test)]
mod tests;
