//! Loose objects after a power cut.
//!
//! One rule: only what was read to its end, and is not what its name says, is taken away. What the system does not let us read may be all
//! there is of it.

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

/// Read at once, in bytes.
const PART: usize = 64 << 10;

/// What the file of an object is.
#[derive(Debug, PartialEq, Eq)]
enum LooseObject {
    Whole,
    /// Something else than its name says.
    Torn,
    /// Zeros, or nothing at all.
    Blank,
}

impl History {
    /// Takes away loose objects that are not whole, so that they are written anew; libgit2 takes a name for an object. How many. What has bytes
    /// is kept in `.git/damaged`. One that the system does not let us read stays, and is told.
    ///
    /// # Errors
    /// `State` when a directory of them cannot be read, or one of them not be moved.
    pub fn remove_torn_objects(&self) -> HistoryResult<usize> {
        self.fail.check(FailPoint::OpenSweep)?;
        let writer = self.writer.lock();
        let git = writer.repository.commondir();
        let (mut swept, mut unread) = (0, None);
        for directory in fs::read_dir(git.join("objects"))? {
            let directory = directory?;
            let Some(prefix) = directory.file_name().to_str().filter(|name| name.len() == 2).map(str::to_owned) else {
                continue;
            };
            // To libgit2, what is in a directory that cannot be read is not there: nothing is to be built on that.
            let objects = match fs::read_dir(directory.path()) {
                Ok(objects) => objects,
                // Somebody's `git gc` emptied it.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    warn!(directory = %directory.path().display(), %error, "objects of git cannot be read");
                    return Err(error.into());
                }
            };
            for object in objects {
                let object = object?;
                let id = object.file_name().to_str().and_then(|rest| Oid::from_str(&format!("{prefix}{rest}")).ok());
                let Some(id) = id else { continue };
                match content(&object.path(), id) {
                    Ok(LooseObject::Whole) => continue,
                    Ok(LooseObject::Blank) => fs::remove_file(object.path())?,
                    Ok(LooseObject::Torn) => drop(set_aside_in_git(git, &object.path())?),
                    // Somebody's `git gc` took it away.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => {
                        let (count, _) = unread.get_or_insert_with(|| (0, (object.path(), error)));
                        *count += 1;
                        continue;
                    }
                }
                swept += 1;
            }
        }
        if let Some((objects, (file, error))) = unread {
            warn!(objects, file = %file.display(), %error, "objects of git cannot be read, this one and perhaps others; they are left as they are");
        }
        Ok(swept)
    }
}

/// Whether the file of an object was read and is something else; false where there is none.
pub(in super::super) fn is_torn(file: &Path, id: Oid) -> bool {
    content(file, id).is_ok_and(|content| content != LooseObject::Whole)
}

/// Reads the file of an object. libgit2 is not asked: it reads one that was cut off for ever (1.9.7), and one that is too large for memory not at
/// all.
fn content(file: &Path, id: Oid) -> io::Result<LooseObject> {
    let mut source = ZlibDecoder::new(BufReader::with_capacity(PART, File::open(file)?));
    let (mut hasher, mut part) = (Sha1::new(), vec![0; PART]);
    loop {
        match source.read(&mut part) {
            Ok(0) => break,
            Ok(count) => hasher.update(&part[..count]),
            // What the system says has a number; what the decoder says of the bytes has none.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            Err(_) => break,
        }
    }
    if hasher.finalize()[..] == *id.as_bytes() {
        return Ok(LooseObject::Whole);
    }
    Ok(if is_blank(file)? { LooseObject::Blank } else { LooseObject::Torn })
}

fn is_blank(file: &Path) -> io::Result<bool> {
    let mut file = File::open(file)?;
    let mut part = vec![0; PART];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(true),
            count if part[..count].iter().all(|byte| *byte == 0) => {}
            _ => return Ok(false),
        }
    }
}
