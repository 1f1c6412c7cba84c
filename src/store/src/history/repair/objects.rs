//! Loose objects after a power failure.
//!
//! Invariant: only objects that were read completely and do not match their id are removed.
//! Unreadable objects stay: they may be the only copy.

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::ZlibDecoder;
use git2::Oid;
use sha1::{Digest, Sha1};
use tracing::warn;

use crate::FailPoint;
use crate::history::inspection::set_aside_in_git;
use crate::history::{History, HistoryResult};

/// Read size, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// The state of an object's file.
#[derive(Debug, PartialEq, Eq)]
enum LooseObject {
    Complete,
    /// The content does not match the id.
    Torn,
    /// Empty, or only zeros.
    Blank,
}

impl History {
    /// Removes torn loose objects, so that they are written again: libgit2 assumes an existing
    /// object to be complete. Returns their number. Files with content go to `.git/damaged`.
    /// Unreadable objects stay and are logged.
    ///
    /// # Errors
    /// `State` when a directory cannot be read, or an object not be moved.
    pub fn remove_torn_objects(&self) -> HistoryResult<usize> {
        self.fail.check(FailPoint::OpenSweep)?;
        let writer = self.writer.lock();
        let git = writer.repository.commondir();
        let (mut removed, mut unreadable) = (0, None);
        for directory in fs::read_dir(git.join("objects"))? {
            let directory = directory?;
            let Some(prefix) = directory.file_name().to_str().filter(|name| name.len() == 2).map(str::to_owned) else {
                continue;
            };
            // libgit2 treats objects in an unreadable directory as missing, so recovery must not
            // continue.
            let objects = match fs::read_dir(directory.path()) {
                Ok(objects) => objects,
                // Removed by a concurrent `git gc`.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    warn!(directory = %directory.path().display(), %error, "git objects of this directory cannot be read; check its permissions and the disk");
                    return Err(error.into());
                }
            };
            for object in objects {
                let object = object?;
                let id = object.file_name().to_str().and_then(|rest| Oid::from_str(&format!("{prefix}{rest}")).ok());
                let Some(id) = id else { continue };
                match content(&object.path(), id) {
                    Ok(LooseObject::Complete) => continue,
                    Ok(LooseObject::Blank) => fs::remove_file(object.path())?,
                    Ok(LooseObject::Torn) => drop(set_aside_in_git(git, &object.path())?),
                    // Removed by a concurrent `git gc`.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => {
                        let (count, _) = unreadable.get_or_insert_with(|| (0, (object.path(), error)));
                        *count += 1;
                        continue;
                    }
                }
                removed += 1;
            }
        }
        if let Some((objects, (file, error))) = unreadable {
            warn!(objects, file = %file.display(), %error, "this object of git, and possibly others, cannot be read; they are left unchanged");
        }
        Ok(removed)
    }
}

/// Whether an object's file is torn; false when it does not exist.
pub(in super::super) fn is_torn(file: &Path, id: Oid) -> bool {
    content(file, id).is_ok_and(|content| content != LooseObject::Complete)
}

/// Reads an object's file. libgit2 reads truncated objects forever (1.9.7), and cannot read objects
/// larger than memory.
fn content(file: &Path, id: Oid) -> io::Result<LooseObject> {
    let mut source = ZlibDecoder::new(BufReader::with_capacity(BUFFER_BYTES, File::open(file)?));
    let (mut hasher, mut buffer) = (Sha1::new(), vec![0; BUFFER_BYTES]);
    loop {
        match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => hasher.update(&buffer[..count]),
            // System errors have a number; errors of the decoder have none.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(_) => break,
        }
    }
    if hasher.finalize()[..] == *id.as_bytes() {
        return Ok(LooseObject::Complete);
    }
    Ok(if is_blank(file)? { LooseObject::Blank } else { LooseObject::Torn })
}

fn is_blank(file: &Path) -> io::Result<bool> {
    let mut file = File::open(file)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(true),
            count if buffer[..count].iter().all(|byte| *byte == 0) => {}
            _ => return Ok(false),
        }
    }
}
