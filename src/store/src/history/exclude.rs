//! `.git/info/exclude`: what git is told to leave alone without touching a file of a person's.
//!
//! One rule: lines between two marks are ours, every other byte is a person's and stays.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use git2::Repository;
use svcfs_base::expand_case;

use super::{HistoryResult, owner};
use crate::{AUDIT_DIRECTORY, SNAPSHOT_DIRECTORY, STATE_DIRECTORY};

const BEGIN: &[u8] = b"# svcfs: begin of what is never versioned";
const END: &[u8] = b"# svcfs: end";

/// Keeps our state, and names that are never versioned, out of a person's `git status`.
///
/// # Errors
/// `State` with what the disk said; the file is then as it was.
pub(super) fn exclude(repository: &Repository, names: &[String]) -> HistoryResult<()> {
    // Of a linked work tree git reads the one of its main repository.
    let file = repository.commondir().join("info/exclude");
    let present = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let wanted = with_ours(&present, names);
    if wanted != present {
        // A person may keep theirs elsewhere, behind a link.
        replace(&fs::canonicalize(&file).unwrap_or(file), &wanted)?;
    }
    Ok(())
}

fn with_ours(present: &[u8], names: &[String]) -> Vec<u8> {
    let (before, after) = match split_at(present, BEGIN) {
        Some((before, rest)) => (before, split_at(rest, END).map_or(&[][..], |(_, after)| after)),
        None => (present, &b"\n"[..]),
    };
    let mut wanted = before.to_vec();
    if !before.is_empty() && !before.ends_with(b"\n") {
        wanted.push(b'\n');
    }
    wanted.extend_from_slice(BEGIN);
    wanted.push(b'\n');
    for directory in [STATE_DIRECTORY, AUDIT_DIRECTORY, SNAPSHOT_DIRECTORY, ".svc/rejected"] {
        wanted.extend_from_slice(format!("/{directory}/\n").as_bytes());
    }
    for name in names {
        // A leading `#` or `!` means something else in this file.
        let escape = if name.starts_with(['#', '!']) { "\\" } else { "" };
        wanted.extend_from_slice(format!("{escape}{}\n", expand_case(name)).as_bytes());
    }
    wanted.extend_from_slice(END);
    wanted.extend_from_slice(after);
    wanted
}

/// What stands before and behind a text; its lines may be in any encoding.
fn split_at<'t>(text: &'t [u8], mark: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let at = text.windows(mark.len()).position(|window| window == mark)?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// Writes beside a file, flushes, and renames: a power cut leaves the old lines or the new ones, whole.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".svcfs");
    let beside = Path::new(&beside);
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let outcome = (|| {
        let mut new = File::create(beside)?;
        new.write_all(content)?;
        if let Ok(old) = fs::metadata(file) {
            new.set_permissions(old.permissions())?;
        }
        owner::give_as_its_directory(beside)?;
        new.sync_all()?;
        fs::rename(beside, file)
    })();
    if outcome.is_err() {
        // The failure that matters is the first one.
        let _ = fs::remove_file(beside);
    }
    outcome
}

#[cfg(test)]
mod tests;
