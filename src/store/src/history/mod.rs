//! git: what the tree was, commit by commit.
//!
//! One rule: a commit is built from its parent's tree in memory, without an index file and without a subprocess. A batch of them
//! is published as one pack, unflushed; the log holds everything until a checkpoint flushes it.

mod blame;
mod branch;
mod deflate;
mod exclude;
mod external_commits;
mod external_git;
mod flush;
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

use std::fs::File;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, FileMode, Oid, Repository};
use parking_lot::Mutex;
use svcfs_base::{Actor, CommitId, ETag, FileKind, Timestamp, TreePath};
use tracing::warn;

pub use blame::{BlameHunk, FileVersion};
pub use external_commits::{DivergedMove, ForeignCommit, ForeignEntry, HeadMove, compare_entries, normalize_message};
pub use external_git::ExternalGit;
pub(crate) use inspection::set_aside;
pub use inspection::{
    BadObject, GitLock, LockHolder, ReachableObjects, RepoInspection, TreeState, UnknownCommits, repair_head,
};
pub(crate) use owner::{give_as_its_directory, give_below};
pub use past_tree::PastEntry;
pub use read::unified_diff;

use crate::deferred_unlink::Reclaimer;
use crate::recycled_files::RecyclePool;
use crate::{FailPoint, FailPoints, StoreError};

/// The e-mail of every author: svcfs knows names, not addresses.
const EMAIL: &str = "svc@internal";
/// How many bytes of objects libgit2 keeps in memory; with what it makes of them they take about twice as many.
const OBJECT_CACHE: isize = 8 << 20;
/// How many bytes of a pack libgit2 maps into memory at once, and of all packs together.
const PACK_WINDOW: usize = 1 << 20;
const MAX_PACK_WINDOWS: usize = 12 << 20;

/// Who made a commit, when, and what it says.
#[derive(Debug, Clone)]
pub struct CommitAuthor<'a> {
    /// Author and committer.
    pub actor: &'a Actor,
    /// When.
    pub time: Timestamp,
    /// The whole message.
    pub message: &'a str,
}

/// One file of a commit to be.
#[derive(Debug, Clone)]
pub enum FileEdit<'a> {
    /// New content.
    Write {
        /// Where.
        path: &'a TreePath,
        /// What kind of file.
        kind: FileKind,
        /// The whole content.
        content: &'a [u8],
    },
    /// Content git has already, such as that of a renamed file.
    Reuse {
        /// Where.
        path: &'a TreePath,
        /// What kind of file.
        kind: FileKind,
        /// Its blob.
        blob: ETag,
    },
    /// No file any more.
    Remove {
        /// Which.
        path: &'a TreePath,
    },
}

impl FileEdit<'_> {
    /// Which file.
    pub(crate) const fn path(&self) -> &TreePath {
        match self {
            FileEdit::Write { path, .. } | FileEdit::Reuse { path, .. } | FileEdit::Remove { path } => path,
        }
    }
}

/// A commit whose objects exist, but which no reference shows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedCommit {
    /// The commit; the parent itself when nothing differs.
    pub commit: CommitId,
    /// False when the tree is the parent's and no commit was made.
    pub is_new: bool,
}

type HistoryResult<T> = Result<T, StoreError>;

/// The git repository of a knowledge root.
pub struct History {
    root: PathBuf,
    /// git's folder; of a linked work tree, that work tree's own.
    folder: PathBuf,
    writer: Mutex<PackWriter>,
    readers: Mutex<Vec<Repository>>,
    /// Held by whoever writes `.git/index`.
    indexing: Mutex<()>,
    /// The `.git/index` that we wrote or found right last, to tell it from others'.
    own_index: Mutex<Option<external_git::FileStamp>>,
    disposal: Reclaimer,
    /// Files of packs that may be used again.
    spares: RecyclePool,
    /// Files that a branch was in.
    branches: RecyclePool,
    merger: pack::Merger,
    /// The lock of the repository, for whoever serves it.
    alone: Mutex<Option<repo_lock::RepoLock>>,
    blamed: Mutex<blame::BlameCache>,
    /// Folders of git on other disks than the root.
    elsewhere: Vec<File>,
    fail: FailPoints,
}

struct PackWriter {
    repository: Repository,
    objects: object::ObjectBuilder,
    /// Packs were taken away whose objects nobody has made again yet.
    is_torn: bool,
}

impl History {
    /// Opens the repository of a root, or makes one; true beside it when it was made now. A repository that is there is
    /// used as it is: branch, configuration and hooks stay. `unversioned` are globs of names that git is told to leave alone.
    ///
    /// # Errors
    /// `Git` when there is a repository that cannot be opened.
    pub fn open(root: &Path, unversioned: &[String]) -> HistoryResult<(Self, bool)> {
        let (repository, is_new) = found_or_made(root)?;
        match repo_lock::RepoLock::take(&repository, root) {
            Ok(alone) => alone.sweep(&repository),
            // What looks left over is at work.
            Err(StoreError::AlreadyServed { .. }) => {}
            Err(error) => warn!(%error, "what a crash left in `.git` cannot be looked for"),
        }
        Ok((Self::of(repository, root, unversioned)?, is_new))
    }

    /// The same for the server of the root, which has the repository until [`History::close`].
    ///
    /// # Errors
    /// As [`History::open`]; `Served` when the server of another of its work trees has it.
    pub fn open_locked(root: &Path, unversioned: &[String]) -> HistoryResult<(Self, bool)> {
        let (repository, is_new) = found_or_made(root)?;
        let alone = repo_lock::RepoLock::take(&repository, root)?;
        alone.sweep(&repository);
        let history = Self::of(repository, root, unversioned)?;
        *history.alone.lock() = Some(alone);
        Ok((history, is_new))
    }

    fn of(repository: Repository, root: &Path, unversioned: &[String]) -> HistoryResult<Self> {
        let fail = FailPoints::new(root);
        exclude::exclude(&repository, unversioned)?;
        let folder = repository.path().to_owned();
        if let Err(error) = index_update::sweep(&folder) {
            warn!(%error, "what a crash left of `.git/index` cannot be removed");
        }
        let spares = repo_lock::directory(&repository);
        let elsewhere = flush::elsewhere(&repository, root)?;
        let merger = pack::Merger::of(repository.commondir().join("objects/pack"), fail.clone());
        let writer = Mutex::new(PackWriter { repository, objects: object::ObjectBuilder::default(), is_torn: false });
        Ok(Self {
            // As the kernel names it to those who look where a process works.
            root: root.canonicalize()?,
            folder,
            writer,
            readers: Mutex::default(),
            indexing: Mutex::default(),
            own_index: Mutex::default(),
            disposal: Reclaimer::default(),
            branches: RecyclePool::named(spares.join("branch-")),
            spares: RecyclePool::named(spares.join("pack-")),
            merger,
            alone: Mutex::default(),
            blamed: Mutex::default(),
            elsewhere,
            fail,
        })
    }

    /// Whether a root that had a repository still has one.
    ///
    /// # Errors
    /// `Repository`, with what to do, when it has none, or one that git does not take for one.
    pub fn check_repository(root: &Path) -> HistoryResult<()> {
        trust_the_root();
        let at = root.display();
        match Repository::open(root) {
            Err(error) if error.code() == ErrorCode::NotFound && root.join(".git").exists() => {
                Err(StoreError::Repository(format!(
                    "`.git` of root `{at}` is damaged, git does not take it for a repository: run `svcfs doctor`, or put it \
                     back from a backup or a clone"
                )))
            }
            Err(error) if error.code() == ErrorCode::NotFound => Err(StoreError::Repository(format!(
                "`.git` of root `{at}`, the history of its pages, is gone: put it back from a backup or a clone; if there is \
                 none, remove `.svc/state`, and a new history begins with the pages as they are"
            ))),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// The commit the current branch stands at; none before the first.
    ///
    /// # Errors
    /// `Git`.
    pub fn head(&self) -> HistoryResult<Option<CommitId>> {
        head_of(&self.writer.lock().repository)
    }

    /// Builds a commit on `parent` with `edits`. Its objects are in memory until [`History::publish`]; no reference moves.
    ///
    /// # Errors
    /// `Unrecordable` for a path git refuses; `Git` when the parent cannot be read.
    pub fn stage(
        &self,
        parent: Option<CommitId>,
        edits: &[FileEdit<'_>],
        author: &CommitAuthor<'_>,
    ) -> HistoryResult<StagedCommit> {
        self.staged(parent, (edits, author), false)
    }

    /// The same for a commit that a branch showed before a crash: objects that git has, and they are whole, are not made again.
    ///
    /// # Errors
    /// As [`History::stage`].
    pub fn restage(
        &self,
        parent: Option<CommitId>,
        edits: &[FileEdit<'_>],
        author: &CommitAuthor<'_>,
    ) -> HistoryResult<StagedCommit> {
        self.staged(parent, (edits, author), true)
    }

    fn staged(
        &self,
        parent: Option<CommitId>,
        (edits, author): (&[FileEdit<'_>], &CommitAuthor<'_>),
        is_shown: bool,
    ) -> HistoryResult<StagedCommit> {
        self.fail.check(FailPoint::StageCommit)?;
        let mut writer = self.writer.lock();
        let PackWriter { repository, objects, .. } = &mut *writer;
        objects.is_shown = is_shown;
        let count = objects.count();
        let staged = staged(objects, repository, oid_of(parent)?, (edits, author));
        if !matches!(staged, Ok(StagedCommit { is_new: true, .. })) {
            objects.forget_after(count);
        }
        staged
    }

    /// Lets go of what was staged and not published: its sets were refused.
    pub fn discard(&self) {
        self.writer.lock().objects.forget_fresh();
    }

    /// What a commit has at each of these paths, also one that is staged and not published; nothing before the first commit.
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
        let found = tree::leaves(objects, repository, tree, paths)?;
        Ok(found.into_iter().map(|leaf| leaf.map(|(id, kind)| (etag(id), kind))).collect())
    }

    /// The files of a commit, also one that is staged and not published, that keep it from having a file at a path: one that stands
    /// where a directory above it must be, or all those below it.
    ///
    /// # Errors
    /// `Git` when the commit or a tree of it cannot be read.
    pub fn type_conflicts(&self, commit: Option<CommitId>, path: &TreePath) -> HistoryResult<Vec<TreePath>> {
        let Some(commit) = commit else { return Ok(Vec::new()) };
        let mut writer = self.writer.lock();
        let PackWriter { repository, objects, .. } = &mut *writer;
        let tree = objects.tree_of(repository, oid(commit)?)?;
        tree::in_the_way(objects, repository, tree, path)
    }

    /// Whether git can record a path at all; `git~1` is one it cannot.
    ///
    /// # Errors
    /// `Git`.
    pub fn can_record(&self, path: &TreePath) -> HistoryResult<bool> {
        let writer = self.writer.lock();
        for name in path.components() {
            if tree::refusal_of(&writer.repository, name)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes what was staged, then moves the current branch from one commit to another, if it still stands at the first.
    /// [`History::release`] follows, once nobody waits.
    ///
    /// # Errors
    /// `Git` with code `Modified` or `Locked` when somebody else moved or holds it.
    pub fn advance(&self, from: Option<CommitId>, to: CommitId) -> HistoryResult<()> {
        self.publish()?;
        self.fail.check(FailPoint::BranchMove)?;
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let name = current_reference(repository)?;
        let is_moved = match from {
            Some(from) => branch::moved(self, repository, &name, (oid(from)?, oid(to)?))?,
            None => false,
        };
        if !is_moved {
            let subject = "svcfs";
            match from {
                Some(from) => repository.reference_matching(&name, oid(to)?, true, oid(from)?, subject)?,
                None => repository.reference(&name, oid(to)?, false, subject)?,
            };
            // The branch has moved: what fails from here on does not take that back.
            if let Err(error) = owner::give_branch(repository, &name) {
                warn!(%error, "files of the branch could not be given to the owner of the repository");
            }
        }
        self.fail.hit(FailPoint::BranchMoved);
        Ok(())
    }

    fn reader<T>(&self, question: impl Fn(&Repository) -> HistoryResult<T>) -> HistoryResult<T> {
        let idle = self.readers.lock().pop();
        if let Some(repository) = idle {
            match question(&repository) {
                // A pack it knew may have been merged into another at this moment: asked again with fresh eyes.
                Err(StoreError::Git(_)) => {}
                outcome => {
                    self.keep_reader(repository);
                    return outcome;
                }
            }
        }
        let repository = Repository::open(&self.root)?;
        let outcome = question(&repository);
        self.keep_reader(repository);
        outcome
    }

    fn keep_reader(&self, repository: Repository) {
        let mut readers = self.readers.lock();
        if readers.len() < 8 {
            readers.push(repository);
        }
    }
}

/// The repository of a root, and whether it was made now.
fn found_or_made(root: &Path) -> HistoryResult<(Repository, bool)> {
    FailPoints::new(root).check(FailPoint::OpenHistory)?;
    trust_the_root();
    match Repository::open(root) {
        Ok(repository) => Ok((repository, false)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok((init_repo::repository(root)?, true)),
        Err(error) => Err(error.into()),
    }
}

/// Builds a commit of edits on a parent.
fn staged(
    objects: &mut object::ObjectBuilder,
    repository: &Repository,
    parent: Option<Oid>,
    (edits, author): (&[FileEdit<'_>], &CommitAuthor<'_>),
) -> HistoryResult<StagedCommit> {
    let mut branch = tree::TreeChange::default();
    for edit in edits {
        let blob = match edit {
            FileEdit::Write { kind, content, .. } => Some((*kind, objects.blob(repository, content)?)),
            FileEdit::Reuse { kind, blob, .. } => Some((*kind, Oid::from_bytes(blob.as_bytes())?)),
            FileEdit::Remove { .. } => None,
        };
        branch.set(edit.path(), blob);
    }
    let parent_tree = match parent {
        Some(parent) => Some(objects.tree_of(repository, parent)?),
        None => None,
    };
    let tree = match tree::grown(objects, repository, parent_tree, &branch)? {
        Some(tree) => tree,
        None => objects.tree(repository, Vec::new())?,
    };
    if let Some(parent) = parent.filter(|_| Some(tree) == parent_tree) {
        return Ok(StagedCommit { commit: commit_id(parent), is_new: false });
    }
    let commit = objects.commit(repository, tree, commit_text(tree, parent, author).as_bytes())?;
    Ok(StagedCommit { commit: commit_id(commit), is_new: true })
}

/// git refuses repositories that belong to somebody else; a server running as root serves exactly those.
#[expect(
    unsafe_code,
    reason = "libgit2's switches for this are process-wide and unsynchronised; they are set before any use"
)]
fn trust_the_root() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: called once, before this process opens its first repository. They fail only for unknown options.
        unsafe {
            let _ = git2::opts::set_verify_owner_validation(false);
            // Of all repositories together; libgit2's own limit of 256 MiB is reached by reading a long history once.
            let _ = git2::opts::set_cache_max_size(OBJECT_CACHE);
            // Packs are looked at through windows; by default those of a long history stay in memory whole.
            let _ = git2::opts::set_mwindow_size(PACK_WINDOW);
            let _ = git2::opts::set_mwindow_mapped_limit(MAX_PACK_WINDOWS);
        }
        // Names are checked in trees whose objects are not written yet.
        git2::opts::strict_object_creation(false);
    });
}

fn commit_text(tree: Oid, parent: Option<Oid>, author: &CommitAuthor<'_>) -> String {
    use std::fmt::Write;
    let mut text = format!("tree {tree}\n");
    // Writing to a string cannot fail.
    if let Some(parent) = parent {
        let _ = writeln!(text, "parent {parent}");
    }
    let seconds = author.time.as_second().max(0);
    for role in ["author", "committer"] {
        let _ = writeln!(text, "{role} {} <{EMAIL}> {seconds} +0000", author.actor);
    }
    let _ = write!(text, "\n{}", author.message.replace('\0', ""));
    text
}

fn head_of(repository: &Repository) -> HistoryResult<Option<CommitId>> {
    match repository.head() {
        // Not peeled where it need not be: after a power cut the commit may be missing, and be made again.
        Ok(reference) => match reference.target() {
            Some(target) => Ok(Some(commit_id(target))),
            None => Ok(Some(commit_id(reference.peel_to_commit()?.id()))),
        },
        Err(error) if matches!(error.code(), ErrorCode::UnbornBranch | ErrorCode::NotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The reference commits go to: the branch HEAD names, or HEAD itself when it is detached.
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
