//! Moving the branch.
//!
//! One rule: the ordinary case is done here, by git's own protocol (a lock `NAME.lock` beside the file, then a rename); all else is
//! libgit2's. The ordinary case is a branch in a file of its own that stands where it should. Why not libgit2 for it? Its lock
//! gets its block when it is renamed over the branch, and ext4 then writes that block to the disk before it returns: as long
//! as everything else of a single write together.

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

/// Who moved the branch, in its log.
const MOVER: &str = "svcfs";

/// So much of the log of a reference is looked at, from its end, in bytes: more than a thousand moves. It grows for as long as the branch is moved.
const END_OF_LOG: u64 = 1 << 18;

/// What the log of a reference has of one move.
struct ReflogMove {
    from: CommitId,
    to: CommitId,
    is_ours: bool,
    /// Whether we put back a branch that was lost: it stood elsewhere before, and nobody moved it.
    is_mending: bool,
}

impl History {
    /// The last moves of HEAD that somebody else made, as git's own log has them: from where to where, the newest first.
    ///
    /// # Errors
    /// `State` when that log cannot be read.
    pub fn external_reflog_moves(&self) -> HistoryResult<Vec<(CommitId, CommitId)>> {
        let others = last_moves(&self.folder.join("logs/HEAD"))?.into_iter().filter(|step| !step.is_ours);
        Ok(others.map(|step| (step.from, step.to)).collect())
    }

    /// Where the current branch stood lately, as git's own log has it, the newest first.
    ///
    /// # Errors
    /// `Git` when there is no branch, `State` when that log cannot be read.
    pub fn reflog_targets(&self) -> HistoryResult<Vec<CommitId>> {
        let log = {
            let writer = self.writer.lock();
            log_of(&writer.repository, &current_reference(&writer.repository)?)
        };
        Ok(last_moves(&log)?.into_iter().flat_map(|step| [step.to, step.from]).collect())
    }
}

/// Where git writes down how a reference was moved.
pub(super) fn log_of(repository: &Repository, name: &str) -> PathBuf {
    let folder = if name == "HEAD" { repository.path() } else { repository.commondir() };
    folder.join("logs").join(name)
}

/// Where a reference stood since it stood at a commit, as the end of its log has it.
pub(super) fn stood_since(
    (repository, name): (&Repository, &str),
    since: Option<CommitId>,
) -> io::Result<impl Iterator<Item = CommitId>> {
    let moves = last_moves(&log_of(repository, name))?.into_iter();
    Ok(moves.take_while(move |step| step.is_mending || Some(step.to) != since).map(|step| step.to))
}

/// The last moves that a log has, the newest first; none where there is no log. libgit2 would read all of it, and make one.
fn last_moves(log: &Path) -> io::Result<Vec<ReflogMove>> {
    let mut log = match File::open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        log => log?,
    };
    let begin = log.metadata()?.len().saturating_sub(END_OF_LOG);
    log.seek(SeekFrom::Start(begin))?;
    let mut end = Vec::new();
    log.read_to_end(&mut end)?;
    // The first line may be cut in two: its first word is no hash then.
    Ok(end.rsplit(|byte| *byte == b'\n').filter_map(one_move).collect())
}

fn one_move(line: &[u8]) -> Option<ReflogMove> {
    let text = String::from_utf8_lossy(line);
    let (step, message) = text.split_once('\t').unwrap_or((&text, ""));
    let mut words = step.split(' ');
    let mut commit = || CommitId::from_hex(words.next()?);
    // We say more where a branch that was lost is put back.
    let (mover, more) = message.split_once(':').map_or((message, None), |(mover, more)| (mover, Some(more)));
    let is_ours = mover == MOVER;
    Some(ReflogMove { from: commit()?, to: commit()?, is_ours, is_mending: is_ours && more.is_some() })
}

/// Moves a branch from one commit to another, if it is in a file of its own and stands at the first; false, with nothing changed,
/// when that is not so or somebody else holds its lock.
pub(super) fn moved(
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
    let Some(mut held) = locked(history, lock)? else { return Ok(false) };
    let outcome = (|| {
        // Nobody moves it from here on.
        if !stands_at(&file, from)? {
            return Ok(false);
        }
        owner::give_as_its_directory(lock)?;
        let line = format!("{to}\n");
        let length = line.len() as u64;
        let before = held.metadata()?.len();
        if before < length {
            reserve(&held, line.len())?;
        }
        held.write_all(line.as_bytes())?;
        if before > length {
            held.set_len(length)?;
        }
        let seconds = Timestamp::now().as_second().max(0);
        let entry = format!("{from} {to} {MOVER} <{EMAIL}> {seconds} +0000\t{MOVER}\n");
        note(&log_of(repository, name), &entry)?;
        note(&log_of(repository, "HEAD"), &entry)?;
        history.fail.check(FailPoint::BranchRename)?;
        replace(history, lock, &file)?;
        Ok(true)
    })();
    if !matches!(outcome, Ok(true)) {
        // The failure that matters is the first one.
        let _ = fs::remove_file(lock);
    }
    outcome
}

/// Takes the lock of a branch: a file that a branch was in before, or a new one; none when somebody has it.
fn locked(history: &History, lock: &Path) -> io::Result<Option<File>> {
    let new = || OpenOptions::new().write(true).create_new(true).open(lock);
    let taken = match history.branches.take(&history.disposal) {
        Some((spare, file)) => match renameat_with(CWD, &spare, CWD, lock, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(file),
            Err(error) => {
                history.branches.keep(&spare, &history.disposal)?;
                // The disk may not know how to rename without replacing.
                if is_unsupported(error) { new() } else { Err(error.into()) }
            }
        },
        None => new(),
    };
    match taken {
        // Somebody has it; or the branch is in no file, and its directory is not there.
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => Ok(None),
        taken => taken.map(Some),
    }
}

/// Puts the lock in the branch's place. What the branch was in becomes the lock for a moment, and is kept for the next time.
fn replace(history: &History, lock: &Path, file: &Path) -> io::Result<()> {
    if renameat_with(CWD, lock, CWD, file, RenameFlags::EXCHANGE).is_ok() {
        // The branch has moved, whatever becomes of this; but nobody may find the lock.
        return history.branches.keep(lock, &history.disposal).or_else(|_| fs::remove_file(lock));
    }
    let replaced = OpenHandle::at(file);
    fs::rename(lock, file)?;
    history.disposal.of(replaced);
    Ok(())
}

/// Whether a branch is in a file of its own and stands at a commit. `git pack-refs` may take the file away at any moment.
fn stands_at(file: &Path, commit: Oid) -> io::Result<bool> {
    // One more than a hash and its line end: what is longer is something else.
    let mut text = [0; 42];
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let read = OpenOptions::new().read(true).custom_flags(flags).open(file).and_then(|mut file| file.read(&mut text));
    match read {
        Ok(length) => Ok(text[..length].trim_ascii_end() == commit.to_string().as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // A link, or a directory of branches whose names go on.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EISDIR)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Adds a line to the log of a reference that has one.
fn note(log: &Path, entry: &str) -> io::Result<()> {
    match OpenOptions::new().append(true).open(log) {
        Ok(mut log) => File::write_all(&mut log, entry.as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
