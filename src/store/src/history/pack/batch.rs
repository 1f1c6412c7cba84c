//! The pack of one batch, made of what is in memory.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use git2::Oid;
use sha1::{Digest, Sha1};

use super::index::{FAR, write_head};
use super::pack_set::StoredPack;
use super::temp_pack::{TempPack, created};
use super::{CHECKSUM_BYTES, FileReuse, HistoryResult, KEEP, MARK, TEMPORARY};
use crate::{FailPoint, FailPoints, StoreError};

/// Writes a pack that git's housekeeping leaves alone; beside it the file that makes it so, none when there was one, which is
/// somebody's.
pub(super) fn kept(
    fail: &FailPoints,
    directory: &Path,
    reuse: FileReuse<'_>,
    objects: &[(Oid, &[u8])],
) -> HistoryResult<(StoredPack, Option<PathBuf>)> {
    let laid = PackLayout::out(directory, objects)?;
    let keep = laid.path.with_extension("keep");
    match fs::create_dir(directory) {
        // Where all objects are gone, none must begin in their place.
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let is_ours = match marked(directory, &keep) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error.into()),
    };
    match laid.stored(fail, reuse, objects) {
        Ok(pack) => Ok((pack, is_ours.then_some(keep))),
        Err(error) => {
            // The failure that matters is the first one; leftovers are swept at the next opening.
            if !laid.path.with_extension("idx").exists() {
                let _ = fs::remove_file(&laid.path);
            }
            if is_ours {
                let _ = fs::remove_file(&keep);
            }
            Err(error)
        }
    }
}

/// Makes a `.keep` file: a further name of one that stays, because a name comes and goes faster than a file. Where the disk knows no
/// further names, or no more of them, it is a file of its own.
fn marked(directory: &Path, keep: &Path) -> std::io::Result<()> {
    let all = directory.with_file_name(MARK);
    let linked = match fs::hard_link(&all, keep) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Flushed this once. What says whose a pack is after a power cut is that its file is this one, not what is in it.
            write_mark(&all)?.sync_all()?;
            fs::hard_link(&all, keep)
        }
        linked => linked,
    };
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => write_mark(keep).map(drop),
        linked => linked,
    }
}

fn write_mark(file: &Path) -> std::io::Result<File> {
    let mut file = created(file)?;
    file.write_all(KEEP.as_bytes())?;
    Ok(file)
}

/// An object in a pack.
struct PackedObject {
    id: Oid,
    crc: u32,
    start: u64,
}

/// A pack to be: everything but its objects.
struct PackLayout {
    /// The name git gives it.
    path: PathBuf,
    header: [u8; 12],
    /// In the order of their names.
    places: Vec<PackedObject>,
    checksum: [u8; CHECKSUM_BYTES],
    bytes: u64,
}

impl PackLayout {
    fn out(directory: &Path, objects: &[(Oid, &[u8])]) -> HistoryResult<Self> {
        let count =
            u32::try_from(objects.len()).map_err(|_| StoreError::Damaged("too many objects for a pack".to_owned()))?;
        let header = header(count);
        let mut hasher = Sha1::new();
        hasher.update(header);
        let mut places = Vec::with_capacity(objects.len());
        let mut end = header.len() as u64;
        for (id, bytes) in objects {
            places.push(PackedObject { id: *id, crc: crc32fast::hash(bytes), start: end });
            end += bytes.len() as u64;
            hasher.update(bytes);
        }
        places.sort_unstable_by_key(|place| place.id);
        let checksum: [u8; CHECKSUM_BYTES] = hasher.finalize().into();
        Ok(Self { path: path_of(directory, &checksum)?, header, places, checksum, bytes: end + CHECKSUM_BYTES as u64 })
    }

    /// Puts the pack and its index in place.
    fn stored(&self, fail: &FailPoints, reuse: FileReuse<'_>, objects: &[(Oid, &[u8])]) -> HistoryResult<StoredPack> {
        let bodies = objects.iter().map(|(_, bytes)| *bytes);
        let parts = std::iter::once(&self.header[..]).chain(bodies).chain([&self.checksum[..]]);
        put(fail, &self.path, reuse, parts)?;
        put(fail, &self.path.with_extension("idx"), reuse, std::iter::once(&*self.index()?))?;
        Ok(StoredPack { path: self.path.clone(), bytes: self.bytes, is_flushed: false })
    }

    fn index(&self) -> HistoryResult<Vec<u8>> {
        let mut counts = [0; 256];
        for place in &self.places {
            counts[usize::from(place.id.as_bytes()[0])] += 1;
        }
        let mut index = Vec::with_capacity(1032 + self.places.len() * 28 + 40);
        write_head(&mut index, &counts)?;
        for place in &self.places {
            index.extend_from_slice(place.id.as_bytes());
        }
        for place in &self.places {
            index.extend_from_slice(&place.crc.to_be_bytes());
        }
        let mut far = Vec::new();
        for place in &self.places {
            match u32::try_from(place.start).ok().filter(|offset| *offset < FAR) {
                Some(near) => index.extend_from_slice(&near.to_be_bytes()),
                None => {
                    let at = u32::try_from(far.len()).unwrap_or(u32::MAX) | FAR;
                    index.extend_from_slice(&at.to_be_bytes());
                    far.push(place.start);
                }
            }
        }
        for offset in far {
            index.extend_from_slice(&offset.to_be_bytes());
        }
        index.extend_from_slice(&self.checksum);
        let own = Sha1::digest(&index);
        index.extend_from_slice(&own);
        Ok(index)
    }
}

/// What a pack of so many objects begins with.
pub(super) fn header(count: u32) -> [u8; 12] {
    let mut header = *b"PACK\0\0\0\x02\0\0\0\0";
    header[8..].copy_from_slice(&count.to_be_bytes());
    header
}

/// The name that git gives to a pack.
pub(super) fn path_of(directory: &Path, checksum: &[u8; CHECKSUM_BYTES]) -> HistoryResult<PathBuf> {
    Ok(directory.join(format!("pack-{}.pack", Oid::from_bytes(checksum)?)))
}

fn put<'a>(
    fail: &FailPoints,
    path: &Path,
    reuse: FileReuse<'_>,
    parts: impl Iterator<Item = &'a [u8]>,
) -> HistoryResult<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    fail.check(FailPoint::PackWrite)?;
    let mut draft = TempPack::begin(path.with_file_name(format!("{TEMPORARY}{extension}")), Some(reuse))?;
    for part in parts {
        draft.write_all(part)?;
    }
    draft.finish()?;
    fail.check(FailPoint::PackRename)?;
    Ok(draft.place(path)?)
}
