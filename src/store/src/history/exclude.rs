//! `.git/info/exclude`: ignores files without changing a person's `.gitignore`.
//!
//! Invariant: the lines between two markers belong to svcfs; every other byte stays.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use git2::Repository;
use svcfs_base::expand_case;

use super::{HistoryResult, owner};
use crate::{AUDIT_DIRECTORY, SNAPSHOT_DIRECTORY, STATE_DIRECTORY};

const BEGIN_MARKER: &[u8] = b"# svcfs: begin of what is never versioned";
const END_MARKER: &[u8] = b"# svcfs: end";

/// Excludes the state of svcfs and unversioned names from `git status`.
///
/// # Errors
/// `State` with the system error; the file is unchanged then.
pub(super) fn exclude(repository: &Repository, names: &[String]) -> HistoryResult<()> {
    // In a linked work tree git reads the file of the main repository.
    let file = repository.commondir().join("info/exclude");
    let current = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let updated = with_own_lines(&current, names);
    if updated != current {
        // The file may be a symbolic link.
        replace(&fs::canonicalize(&file).unwrap_or(file), &updated)?;
    }
    Ok(())
}

fn with_own_lines(current: &[u8], names: &[String]) -> Vec<u8> {
    let (before, after) = match split_at(current, BEGIN_MARKER) {
        Some((before, rest)) => (before, split_at(rest, END_MARKER).map_or(&[][..], |(_, after)| after)),
        None => (current, &b"\n"[..]),
    };
    let mut updated = before.to_vec();
    if !before.is_empty() && !before.ends_with(b"\n") {
        updated.push(b'\n');
    }
    updated.extend_from_slice(BEGIN_MARKER);
    updated.push(b'\n');
    for directory in [STATE_DIRECTORY, AUDIT_DIRECTORY, SNAPSHOT_DIRECTORY, ".svc/rejected"] {
        updated.extend_from_slice(format!("/{directory}/\n").as_bytes());
    }
    for name in names {
        // A leading `#` or `!` has a special meaning in this file.
        let escape = if name.starts_with(['#', '!']) { "\\" } else { "" };
        updated.extend_from_slice(format!("{escape}{}\n", expand_case(name)).as_bytes());
    }
    updated.extend_from_slice(END_MARKER);
    updated.extend_from_slice(after);
    updated
}

/// A file without the lines that svcfs owns: these are not the rules of a person.
pub(crate) fn without_own_lines(text: &[u8]) -> Vec<u8> {
    match split_at(text, BEGIN_MARKER) {
        Some((before, rest)) => [before, split_at(rest, END_MARKER).map_or(&[][..], |(_, after)| after)].concat(),
        None => text.to_vec(),
    }
}

/// The bytes before and after a marker; the lines may be in any encoding.
fn split_at<'t>(text: &'t [u8], marker: &[u8]) -> Option<(&'t [u8], &'t [u8])> {
    let at = text.windows(marker.len()).position(|window| window == marker)?;
    Some((&text[..at], &text[at + marker.len()..]))
}

/// Writes a temporary file, flushes and renames it: after a power failure the old or the new lines
/// are complete.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(".svcfs");
    let temporary = Path::new(&temporary);
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let outcome = (|| {
        let mut new = File::create(temporary)?;
        new.write_all(content)?;
        if let Ok(old) = fs::metadata(file) {
            new.set_permissions(old.permissions())?;
        }
        owner::give_as_its_directory(temporary)?;
        new.sync_all()?;
        fs::rename(temporary, file)
    })();
    if outcome.is_err() {
        // The first error is the meaningful one.
        let _ = fs::remove_file(temporary);
    }
    outcome
}

#[cfg(test)]
mod tests;
