//! Moving the branch.
//!
//! One rule: the ordinary case is done here, by git's own protocol (a lock `NAME.lock` beside the file, then a rename); all else is
//! libgit2's. The ordinary case is a branch in a file of its own that stands where it should. Why not libgit2 for it? Its lock
//! gets its block when it is renamed over the branch, and ext4 then writes that block to the disk before it returns: as long
//! as everything else of a single write together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use git2::{Oid, ReflogEntry, Repository};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use svcfs_base::{CommitId, Timestamp};

use super::{EMAIL, History, Outcome, commit_id, owner};
use crate::FailPoint;
use crate::disposal::Held;
use crate::tree::reserve;

/// Who moved the branch, in its log.
const MOVER: &str = "svcfs";

impl History {
    /// The newest moves of HEAD that somebody else made one after the other, as git's own log has them: from where to where, the newest first.
    /// Ours on top of them are left out.
    ///
    /// # Errors
    /// `Git` when that log cannot be read.
    pub fn moves_of_others(&self) -> Outcome<Vec<(CommitId, CommitId)>> {
        self.reader(|repository| {
            let is_ours = |entry: &ReflogEntry<'_>| entry.message_bytes() == Some(MOVER.as_bytes());
            let log = repository.reflog("HEAD")?;
            let others = log.iter().skip_while(is_ours).take_while(|entry| !is_ours(entry));
            Ok(others.map(|entry| (commit_id(entry.id_old()), commit_id(entry.id_new()))).collect())
        })
    }
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
        note(&repository.commondir().join("logs").join(name), &entry)?;
        note(&repository.path().join("logs/HEAD"), &entry)?;
        history.fail.at(FailPoint::BranchRename)?;
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
                if error == Errno::INVAL { new() } else { Err(error.into()) }
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
    let replaced = Held::at(file);
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
