//! `.git/info/exclude`: ignores files without changing a person's `.gitignore`.
//!
//! Invariant: the lines between two markers belong to svcfs; every other byte stays.

use std::fs;
use std::io::ErrorKind;

use git2::Repository;
use svcfs_base::expand_case;

use super::HistoryResult;
use crate::{AUDIT_DIRECTORY, FileRights, SNAPSHOT_DIRECTORY, STATE_DIRECTORY, replace_file};

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
        if let Some(directory) = file.parent() {
            fs::create_dir_all(directory)?;
        }
        replace_file(&file, &updated, FileRights::Preserve)?;
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

#[cfg(test)]
mod tests;
