//! Lock files of git, and who may hold them.
//!
//! git makes a lock, writes into it, and renames it over the file it is about; killed in between, it leaves the lock behind,
//! and every later git refuses to go on. A lock says nothing of who made it, so it is held against the processes there are.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::RepoInspection;

/// Younger locks are nobody's leftovers yet.
const YOUNG: Duration = Duration::from_secs(10);

/// A lock file of git.
#[derive(Debug, Clone)]
pub struct GitLock {
    /// Where.
    pub path: PathBuf,
    /// For how long it has been there.
    pub age: Duration,
    /// Who may hold it; none when no process that is alive can.
    pub holder: Option<LockHolder>,
}

/// A process that is at work in a repository.
#[derive(Debug, Clone)]
pub struct LockHolder {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub name: String,
}

impl GitLock {
    /// Whether its process is gone.
    pub fn is_stale(&self) -> bool {
        self.holder.is_none() && self.age >= YOUNG
    }
}

impl RepoInspection {
    /// Every lock file on `HEAD`, the branches, the index and the configuration.
    pub fn locks(&self) -> Vec<GitLock> {
        let (own, common) = (self.repository.path(), self.repository.commondir());
        let mut found: Vec<PathBuf> = ["index.lock", "HEAD.lock"].map(|name| own.join(name)).to_vec();
        found.extend(["config.lock", "packed-refs.lock", "shallow.lock"].map(|name| common.join(name)));
        below(&common.join("refs"), &mut found);
        let locks = found.into_iter().filter_map(|path| Some((fs::symlink_metadata(&path).ok()?, path)));
        locks
            .map(|(stat, path)| {
                let made = stat.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let age = made.elapsed().unwrap_or_default();
                GitLock { age, holder: holder(&path, &self.root), path }
            })
            .collect()
    }
}

fn below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            found.push(path);
        }
    }
}

/// A process that has the lock open, or a git that is at work in the root or may be: where others may not look, one of that
/// name is enough.
pub fn holder(lock: &Path, root: &Path) -> Option<LockHolder> {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))).find_map(
        |(pid, process): (u32, PathBuf)| {
            let name = fs::read_to_string(process.join("comm")).ok()?.trim().to_owned();
            let opened = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            let has_it_open = || opened.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|at| at == lock));
            let is_git = name == "git" || name.starts_with("git-");
            let works_here = || match fs::read_link(process.join("cwd")) {
                Ok(directory) => directory.starts_with(&root) || is_named(&process, &root),
                Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
            };
            (is_git && works_here() || has_it_open()).then_some(LockHolder { pid, name })
        },
    )
}

/// Whether the command line of a process names the root.
fn is_named(process: &Path, root: &Path) -> bool {
    let command = fs::read(process.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(&*root.to_string_lossy())
}
