//! git's lock files, and the processes that may hold them.
//!
//! git creates a lock, writes into it, and renames it over the target file. When it is killed in
//! between, the lock remains and blocks every later git. A lock does not name its process, so
//! running processes are checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::RepoInspection;

/// Younger locks are not considered stale.
const MIN_STALE_AGE: Duration = Duration::from_secs(10);

/// A lock file of git.
#[derive(Debug, Clone)]
pub struct GitLock {
    /// The lock file.
    pub path: PathBuf,
    /// Its age.
    pub age: Duration,
    /// A process that may hold it; none when no running process can.
    pub holder: Option<LockHolder>,
}

/// A process that works in a repository.
#[derive(Debug, Clone)]
pub struct LockHolder {
    /// The process id.
    pub pid: u32,
    /// The program name.
    pub name: String,
}

impl GitLock {
    /// Whether no process holds it any more.
    pub fn is_stale(&self) -> bool {
        self.holder.is_none() && self.age >= MIN_STALE_AGE
    }
}

impl RepoInspection {
    /// All lock files on `HEAD`, the branches, the index and the configuration.
    pub fn locks(&self) -> Vec<GitLock> {
        let (own, common) = (self.repository.path(), self.repository.commondir());
        let mut paths: Vec<PathBuf> = ["index.lock", "HEAD.lock"].map(|name| own.join(name)).to_vec();
        paths.extend(["config.lock", "packed-refs.lock", "shallow.lock"].map(|name| common.join(name)));
        find_locks(&common.join("refs"), &mut paths);
        let locks = paths.into_iter().filter_map(|path| Some((fs::symlink_metadata(&path).ok()?, path)));
        locks
            .map(|(stat, path)| {
                let created = stat.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let age = created.elapsed().unwrap_or_default();
                GitLock { age, holder: lock_holder(&path, &self.root), path }
            })
            .collect()
    }
}

fn find_locks(directory: &Path, locks: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_locks(&path, locks);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            locks.push(path);
        }
    }
}

/// A process that has the lock open, or a git process that works in the root. Where the working
/// directory is not readable, the name suffices.
pub fn lock_holder(lock: &Path, root: &Path) -> Option<LockHolder> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))).find_map(
        |(pid, process): (u32, PathBuf)| {
            let name = fs::read_to_string(process.join("comm")).ok()?.trim().to_owned();
            let descriptors = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            let has_lock_open =
                || descriptors.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|at| at == lock));
            let is_git = name == "git" || name.starts_with("git-");
            let works_in_root = || match fs::read_link(process.join("cwd")) {
                Ok(directory) => directory.starts_with(&root) || names_root(&process, &root),
                Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
            };
            (is_git && works_in_root() || has_lock_open()).then_some(LockHolder { pid, name })
        },
    )
}

/// Whether the command line of a process contains the root.
fn names_root(process: &Path, root: &Path) -> bool {
    let command = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(&*root.to_string_lossy())
}
