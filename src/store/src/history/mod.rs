//! git: what the tree was, commit by commit.
//!
//! One rule: a commit is built from its parent's tree in memory, without an index file and without a subprocess. Objects are
//! written loose and unflushed at first; a checkpoint packs them, and the log holds everything until then.

mod foreign;
mod index;
mod mend;
mod pack;
mod read;

use std::path::{Path, PathBuf};

use git2::build::TreeUpdateBuilder;
use git2::{ErrorClass, ErrorCode, FileMode, ObjectType, Oid, Repository, RepositoryInitOptions, Signature, Tree};
use parking_lot::Mutex;
use svcfs_base::{Actor, CommitId, ETag, FileKind, Timestamp, TreePath};

pub use foreign::{ForeignCommit, ForeignEntry};
pub use pack::Packed;
pub use read::BlameHunk;

use crate::StoreError;

/// The e-mail of every author: svcfs knows names, not addresses.
const EMAIL: &str = "svc@internal";
const INITIAL_BRANCH: &str = "main";

/// Who made a commit, when, and what it says.
#[derive(Debug, Clone)]
pub struct Author<'a> {
    /// Author and committer.
    pub actor: &'a Actor,
    /// When.
    pub time: Timestamp,
    /// The whole message.
    pub message: &'a str,
}

/// One file of a commit to be.
#[derive(Debug, Clone)]
pub enum Edit<'a> {
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
    Place {
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

impl Edit<'_> {
    const fn path(&self) -> &TreePath {
        match self {
            Edit::Write { path, .. } | Edit::Place { path, .. } | Edit::Remove { path } => path,
        }
    }
}

/// A commit whose objects exist, but which no reference shows yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staged {
    /// The commit; the parent itself when nothing differs.
    pub commit: CommitId,
    /// False when the tree is the parent's and no commit was made.
    pub is_new: bool,
}

type Outcome<T> = Result<T, StoreError>;

/// The git repository of a knowledge root.
pub struct History {
    root: PathBuf,
    writer: Mutex<Writer>,
    readers: Mutex<Vec<Repository>>,
}

struct Writer {
    repository: Repository,
    /// Objects written since the last pack, in the order written.
    loose: Vec<Oid>,
}

impl History {
    /// Opens the repository of a root, or makes one; true beside it when it was made now. A repository that is there is
    /// used as it is: branch, configuration and hooks stay. `unversioned` are globs of names that git is told to leave alone.
    ///
    /// # Errors
    /// `Git` when there is a repository that cannot be opened.
    pub fn open(root: &Path, unversioned: &[String]) -> Outcome<(Self, bool)> {
        trust_the_root();
        let (repository, is_new) = match Repository::open(root) {
            Ok(repository) => (repository, false),
            Err(error) if error.code() == ErrorCode::NotFound => (Self::init(root)?, true),
            Err(error) => return Err(error.into()),
        };
        index::exclude(&repository, unversioned)?;
        let writer = Mutex::new(Writer { repository, loose: Vec::new() });
        Ok((Self { root: root.to_owned(), writer, readers: Mutex::default() }, is_new))
    }

    fn init(root: &Path) -> Outcome<Repository> {
        let mut options = RepositoryInitOptions::new();
        options.initial_head(INITIAL_BRANCH).external_template(false);
        let repository = Repository::init_opts(root, &options)?;
        let mut config = repository.config()?;
        // Bytes are kept as written, whatever the platform's habit (gaps.md 4.4).
        config.set_bool("core.autocrlf", false)?;
        std::fs::create_dir_all(repository.path().join("info"))?;
        std::fs::write(repository.path().join("info/attributes"), "* -text\n")?;
        Ok(repository)
    }

    /// The commit the current branch stands at; none before the first.
    ///
    /// # Errors
    /// `Git`.
    pub fn head(&self) -> Outcome<Option<CommitId>> {
        head_of(&self.writer.lock().repository)
    }

    /// Builds a commit on `parent` with `edits`, and writes its objects. No reference moves.
    ///
    /// # Errors
    /// `Unrecordable` for a path git refuses; `Git` when an object cannot be written.
    pub fn stage(&self, parent: Option<CommitId>, edits: &[Edit<'_>], author: &Author<'_>) -> Outcome<Staged> {
        let mut writer = self.writer.lock();
        let (staged, written) = stage_in(&writer.repository, parent, edits, author)?;
        writer.loose.extend(written);
        Ok(staged)
    }

    /// Whether git can record a path at all; `git~1` is one it cannot.
    ///
    /// # Errors
    /// `Git`.
    pub fn can_record(&self, path: &TreePath) -> Outcome<bool> {
        is_name_of_git(&self.writer.lock().repository, path)
    }

    /// Moves the current branch from one commit to another, if it still stands at the first.
    ///
    /// # Errors
    /// `Git` with code `Modified` or `Locked` when somebody else moved or holds it.
    pub fn advance(&self, from: Option<CommitId>, to: CommitId) -> Outcome<()> {
        let writer = self.writer.lock();
        let repository = &writer.repository;
        let name = current_reference(repository)?;
        let subject = "svcfs";
        match from {
            Some(from) => repository.reference_matching(&name, oid(to)?, true, oid(from)?, subject)?,
            None => repository.reference(&name, oid(to)?, false, subject)?,
        };
        Ok(())
    }

    fn reader<T>(&self, question: impl FnOnce(&Repository) -> Outcome<T>) -> Outcome<T> {
        let idle = self.readers.lock().pop();
        let repository = match idle {
            Some(repository) => repository,
            None => Repository::open(&self.root)?,
        };
        let outcome = question(&repository);
        let mut readers = self.readers.lock();
        if readers.len() < 8 {
            readers.push(repository);
        }
        outcome
    }
}

/// git refuses repositories that belong to somebody else; a server running as root serves exactly those.
#[expect(
    unsafe_code,
    reason = "libgit2's only switch for this is process-wide and unsynchronised; it is set before any use"
)]
fn trust_the_root() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: called once, before this process opens its first repository. It fails only for unknown options.
        unsafe {
            let _ = git2::opts::set_verify_owner_validation(false);
        }
    });
}

fn stage_in(
    repository: &Repository,
    parent: Option<CommitId>,
    edits: &[Edit<'_>],
    author: &Author<'_>,
) -> Outcome<(Staged, Vec<Oid>)> {
    let parent = match parent {
        Some(id) => Some(repository.find_commit(oid(id)?)?),
        None => None,
    };
    let baseline = match &parent {
        Some(commit) => commit.tree()?,
        None => repository.find_tree(repository.treebuilder(None)?.write()?)?,
    };
    let mut written = Vec::with_capacity(edits.len() * 4);
    if parent.is_none() {
        written.push(baseline.id());
    }
    let tree = updated_tree(repository, &baseline, edits, &mut written)?;
    if let Some(parent) = parent.as_ref().filter(|_| tree.id() == baseline.id()) {
        return Ok((Staged { commit: commit_id(parent.id()), is_new: false }, written));
    }
    trees_on_the_way(&tree, edits, &mut written)?;
    let signature = Signature::new(author.actor.as_str(), EMAIL, &git2::Time::new(author.time.as_second(), 0))?;
    let parents: Vec<_> = parent.iter().collect();
    let commit = repository.commit(None, &signature, &signature, author.message, &tree, &parents)?;
    written.push(commit);
    Ok((Staged { commit: commit_id(commit), is_new: true }, written))
}

fn updated_tree<'r>(
    repository: &'r Repository,
    baseline: &Tree<'r>,
    edits: &[Edit<'_>],
    written: &mut Vec<Oid>,
) -> Outcome<Tree<'r>> {
    // Removals first: a file may give way to a directory of its name, which one update cannot express.
    let mut removals = TreeUpdateBuilder::new();
    let mut is_removing = false;
    for edit in edits {
        if let Edit::Remove { path } = edit
            && has_leaf(baseline, path)
        {
            removals.remove(path.as_str());
            is_removing = true;
        }
    }
    let kept = if is_removing {
        let id = removals.create_updated(repository, baseline).map_err(|error| refused(edits, None, error))?;
        let kept = repository.find_tree(id)?;
        trees_on_the_way(&kept, edits, written)?;
        kept
    } else {
        baseline.clone()
    };
    let mut updates = TreeUpdateBuilder::new();
    let mut wanted = Vec::with_capacity(edits.len());
    for edit in edits {
        let (path, kind, blob) = match edit {
            Edit::Write { path, kind, content } => {
                let blob = repository.blob(content)?;
                written.push(blob);
                (path, kind, blob)
            }
            Edit::Place { path, kind, blob } => (path, kind, Oid::from_bytes(blob.as_bytes())?),
            Edit::Remove { .. } => continue,
        };
        updates.upsert(path.as_str(), blob, file_mode(*kind));
        wanted.push(*path);
    }
    if wanted.is_empty() {
        return Ok(kept);
    }
    let id = updates.create_updated(repository, &kept).map_err(|error| {
        let is_culprit =
            |path: &&TreePath| is_in_the_way(&kept, path) || !is_name_of_git(repository, path).unwrap_or(true);
        refused(edits, wanted.into_iter().find(is_culprit), error)
    })?;
    Ok(repository.find_tree(id)?)
}

/// Whether git takes a path at all, whatever else is in the tree: asked of a tree that has nothing else.
fn is_name_of_git(repository: &Repository, path: &TreePath) -> Outcome<bool> {
    let empty = repository.find_tree(repository.treebuilder(None)?.write()?)?;
    let mut update = TreeUpdateBuilder::new();
    // A tree is checked to have what it names: the one object that is certainly there is the empty tree itself.
    update.upsert(path.as_str(), empty.id(), FileMode::Tree);
    Ok(update.create_updated(repository, &empty).is_ok())
}

/// Whether a tree has a file above a path, or a directory at it.
fn is_in_the_way(tree: &Tree<'_>, path: &TreePath) -> bool {
    let at = |path: &TreePath| tree.get_path(Path::new(path.as_str())).ok().and_then(|entry| entry.kind());
    at(path) == Some(ObjectType::Tree)
        || path
            .ancestors()
            .filter(|above| !above.is_root())
            .any(|above| at(&above).is_some_and(|kind| kind != ObjectType::Tree))
}

/// Says which path git cannot record; the first one where none of them is to blame alone.
fn refused(edits: &[Edit<'_>], culprit: Option<&TreePath>, error: git2::Error) -> StoreError {
    if error.class() != ErrorClass::Tree {
        // The disk refused, not the name.
        return error.into();
    }
    let path = culprit.or(edits.first().map(Edit::path)).cloned().unwrap_or_else(TreePath::root);
    StoreError::Unrecordable { path, reason: error.message().to_owned() }
}

fn has_leaf(tree: &Tree<'_>, path: &TreePath) -> bool {
    tree.get_path(Path::new(path.as_str())).is_ok_and(|entry| entry.kind() != Some(ObjectType::Tree))
}

/// The trees an update may have written: those from the root down to each edited path.
fn trees_on_the_way(tree: &Tree<'_>, edits: &[Edit<'_>], written: &mut Vec<Oid>) -> Outcome<()> {
    written.push(tree.id());
    let mut seen = std::collections::BTreeSet::new();
    for edit in edits {
        for directory in edit.path().ancestors().filter(|directory| !directory.is_root()) {
            if !seen.insert(directory.clone()) {
                break;
            }
            match tree.get_path(Path::new(directory.as_str())) {
                Ok(entry) => written.push(entry.id()),
                // The last file below it was removed, and git keeps no empty directories.
                Err(error) if error.code() == ErrorCode::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn head_of(repository: &Repository) -> Outcome<Option<CommitId>> {
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
fn current_reference(repository: &Repository) -> Outcome<String> {
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

fn oid(commit: CommitId) -> Outcome<Oid> {
    Ok(Oid::from_bytes(commit.as_bytes())?)
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
