//! Moving the branch.
//!
//! Invariant: the common case, a branch in its own file at the expected commit, is done here with
//! git's protocol (a lock file `NAME.lock`, then a rename); libgit2 does the rest. libgit2's lock
//! file gets its block on the rename over the branch, and ext4 writes that block out before it
//! returns: as long as the rest of a single write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use svcfs_base::{CommitId, Timestamp};

use super::{EMAIL, History, HistoryResult, current_reference, owner};
use crate::FailPoint;
use crate::deferred_unlink::OpenHandle;
use crate::rename::is_unsupported;
use crate::tree::reserve;

/// The author of branch moves in the reflog.
const REFLOG_AUTHOR: &str = "svcfs";

/// Bytes read from the end of a reflog: more than a thousand moves. Reflogs grow without limit.
const REFLOG_TAIL_BYTES: u64 = 1 << 18;

/// One entry of a reflog.
struct ReflogMove {
    from: CommitId,
    to: CommitId,
    is_ours: bool,
    /// Whether svcfs restored a lost branch: it was elsewhere before, and no one moved it.
    is_repair: bool,
}

impl History {
    /// The recent moves of HEAD by other programs, from git's reflog, as (from, to), newest first.
    ///
    /// # Errors
    /// `State` when the reflog cannot be read.
    pub fn external_reflog_moves(&self) -> HistoryResult<Vec<(CommitId, CommitId)>> {
        let external = read_moves(&self.git_dir.join("logs/HEAD"))?.into_iter().filter(|step| !step.is_ours);
        Ok(external.map(|step| (step.from, step.to)).collect())
    }

    /// The recent commits of the current branch, from git's reflog, newest first.
    ///
    /// # Errors
    /// `Git` when there is no branch, `State` when the reflog cannot be read.
    pub fn reflog_targets(&self) -> HistoryResult<Vec<CommitId>> {
        let log = {
            let writer = self.writer.lock();
            reflog_path(&writer.repository, &current_reference(&writer.repository)?)
        };
        Ok(read_moves(&log)?.into_iter().flat_map(|step| [step.to, step.from]).collect())
    }
}

/// The reflog of a reference.
pub(super) fn reflog_path(repository: &Repository, name: &str) -> PathBuf {
    let git_dir = if name == "HEAD" { repository.path() } else { repository.commondir() };
    git_dir.join("logs").join(name)
}

/// The commits of a reference since it was at `since`, from the end of its reflog.
pub(super) fn commits_since(
    (repository, name): (&Repository, &str),
    since: Option<CommitId>,
) -> io::Result<impl Iterator<Item = CommitId>> {
    let moves = read_moves(&reflog_path(repository, name))?.into_iter();
    Ok(moves.take_while(move |step| step.is_repair || Some(step.to) != since).map(|step| step.to))
}

/// The last entries of a reflog, newest first; none without a reflog. libgit2 would read all of it,
/// and create one.
fn read_moves(log: &Path) -> io::Result<Vec<ReflogMove>> {
    let mut log = match File::open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        log => log?,
    };
    let start = log.metadata()?.len().saturating_sub(REFLOG_TAIL_BYTES);
    log.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    log.read_to_end(&mut tail)?;
    // The first line may be cut: then its first word is no hash.
    Ok(tail.rsplit(|byte| *byte == b'\n').filter_map(parse_move).collect())
}

fn parse_move(line: &[u8]) -> Option<ReflogMove> {
    let text = String::from_utf8_lossy(line);
    let (step, message) = text.split_once('\t').unwrap_or((&text, ""));
    let mut fields = step.split(' ');
    let mut commit = || CommitId::from_hex(fields.next()?);
    // The message is longer where a lost branch was restored.
    let (author, detail) = message.split_once(':').map_or((message, None), |(author, detail)| (author, Some(detail)));
    let is_ours = author == REFLOG_AUTHOR;
    Some(ReflogMove { from: commit()?, to: commit()?, is_ours, is_repair: is_ours && detail.is_some() })
}

/// Moves a branch from one commit to another, if it is in its own file and at the first commit;
/// otherwise, or when its lock is taken, returns false without a change.
pub(super) fn try_move(
    history: &History,
    repository: &Repository,
    name: &str,
    (from, to): (Oid, Oid),
) -> io::Result<bool> {
    let file = repository.commondir().join(name);
    if !name.starts_with("refs/heads/") {
        return Ok(false);
    }
    let mut lock = file.clone().into_os_string();
    lock.push(".lock");
    let lock = Path::new(&lock);
    let Some(mut lock_file) = try_lock(history, lock)? else { return Ok(false) };
    let outcome = (|| {
        // The lock excludes other moves from here on.
        if !is_at(&file, from)? {
            return Ok(false);
        }
        owner::give_as_its_directory(lock)?;
        let line = format!("{to}\n");
        let length = line.len() as u64;
        let before = lock_file.metadata()?.len();
        if before < length {
            reserve(&lock_file, line.len())?;
        }
        lock_file.write_all(line.as_bytes())?;
        if before > length {
            lock_file.set_len(length)?;
        }
        let seconds = Timestamp::now().as_second().max(0);
        let entry = format!("{from} {to} {REFLOG_AUTHOR} <{EMAIL}> {seconds} +0000\t{REFLOG_AUTHOR}\n");
        append_entry(&reflog_path(repository, name), &entry)?;
        append_entry(&reflog_path(repository, "HEAD"), &entry)?;
        history.fail.check(FailPoint::BranchRename)?;
        replace(history, lock, &file)?;
        Ok(true)
    })();
    if !matches!(outcome, Ok(true)) {
        // The first error is the meaningful one.
        let _ = fs::remove_file(lock);
    }
    outcome
}

/// Takes the lock of a branch with a recycled or new file; none when another process has it.
fn try_lock(history: &History, lock: &Path) -> io::Result<Option<File>> {
    let new = || OpenOptions::new().write(true).create_new(true).open(lock);
    let result = match history.recycled_refs.take(&history.reclaimer) {
        Some((recycled, file)) => match renameat_with(CWD, &recycled, CWD, lock, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(file),
            Err(error) => {
                history.recycled_refs.recycle(&recycled, &history.reclaimer)?;
                // The file system may not support RENAME_NOREPLACE.
                if is_unsupported(error) { new() } else { Err(error.into()) }
            }
        },
        None => new(),
    };
    match result {
        // The lock is taken; or the branch is packed, and its directory does not exist.
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(None),
        result => result.map(Some),
    }
}

/// Exchanges lock and branch. The old branch file has the lock's name for a moment, and is
/// recycled.
fn replace(history: &History, lock: &Path, file: &Path) -> io::Result<()> {
    if renameat_with(CWD, lock, CWD, file, RenameFlags::EXCHANGE).is_ok() {
        // The branch has moved in any case, but the lock must not remain.
        return history.recycled_refs.recycle(lock, &history.reclaimer).or_else(|_| fs::remove_file(lock));
    }
    let replaced = OpenHandle::at(file);
    fs::rename(lock, file)?;
    history.reclaimer.close(replaced);
    Ok(())
}

/// Whether a branch is in its own file and at a commit. `git pack-refs` may remove the file at any
/// time.
fn is_at(file: &Path, commit: Oid) -> io::Result<bool> {
    // A hash with its line end, plus one: longer files are something else.
    let mut text = [0; 42];
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let read = OpenOptions::new().read(true).custom_flags(flags).open(file).and_then(|mut file| file.read(&mut text));
    match read {
        Ok(length) => Ok(text[..length].trim_ascii_end() == commit.to_string().as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // A link, or a directory of branches.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EISDIR)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Appends to a reflog if it exists.
fn append_entry(log: &Path, entry: &str) -> io::Result<()> {
    match OpenOptions::new().append(true).open(log) {
        Ok(mut log) => File::write_all(&mut log, entry.as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
