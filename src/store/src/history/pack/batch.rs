//! The pack of one batch of objects.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use git2::Oid;
use sha1::{Digest, Sha1};

use super::index::{LARGE_OFFSET, write_header};
use super::pack_set::StoredPack;
use super::temp_pack::{TempPack, create_read_only};
use super::{CHECKSUM_BYTES, FileReuse, HistoryResult, KEEP_SOURCE, KEEP_TEXT, TEMPORARY};
use crate::{FailPoint, FailPoints, StoreError};

/// Writes a pack with a `.keep` file, which protects it from `git gc`; returns the path of that
/// file, or none when it existed and belongs to someone else.
pub(super) fn write_pinned(
    fail: &FailPoints,
    directory: &Path,
    reuse: FileReuse<'_>,
    objects: &[(Oid, &[u8])],
) -> HistoryResult<(StoredPack, Option<PathBuf>)> {
    let layout = PackLayout::new(directory, objects)?;
    let keep = layout.path.with_extension("keep");
    match fs::create_dir(directory) {
        // The directory may be missing; a missing `objects` directory is an error.
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let is_ours = match create_keep(directory, &keep) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error.into()),
    };
    match layout.install(fail, reuse, objects) {
        Ok(pack) => Ok((pack, is_ours.then_some(keep))),
        Err(error) => {
            // The first error is the meaningful one; leftovers are removed by the sweep at the next
            // open.
            if !layout.path.with_extension("idx").exists() {
                let _ = fs::remove_file(&layout.path);
            }
            if is_ours {
                let _ = fs::remove_file(&keep);
            }
            Err(error)
        }
    }
}

/// Creates a `.keep` file as a hard link to a permanent file, because links are cheaper than files.
/// Where links are not supported, or too many, it is a separate file.
fn create_keep(directory: &Path, keep: &Path) -> std::io::Result<()> {
    let source = directory.with_file_name(KEEP_SOURCE);
    let linked = match fs::hard_link(&source, keep) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Flushed once. After a power failure, ownership of a pack is recognized by the inode,
            // not by the content.
            write_keep_file(&source)?.sync_all()?;
            fs::hard_link(&source, keep)
        }
        linked => linked,
    };
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => write_keep_file(keep).map(drop),
        linked => linked,
    }
}

fn write_keep_file(file: &Path) -> std::io::Result<File> {
    let mut file = create_read_only(file)?;
    file.write_all(KEEP_TEXT.as_bytes())?;
    Ok(file)
}

/// An object in a pack.
struct PackedObject {
    id: Oid,
    crc: u32,
    start: u64,
}

/// A pack to be written, except for its objects.
struct PackLayout {
    /// The final path.
    path: PathBuf,
    header: [u8; 12],
    /// Sorted by id.
    objects_by_id: Vec<PackedObject>,
    checksum: [u8; CHECKSUM_BYTES],
    bytes: u64,
}

impl PackLayout {
    fn new(directory: &Path, objects: &[(Oid, &[u8])]) -> HistoryResult<Self> {
        let count =
            u32::try_from(objects.len()).map_err(|_| StoreError::Damaged("too many objects for a pack".to_owned()))?;
        let header = header(count);
        let mut hasher = Sha1::new();
        hasher.update(header);
        let mut objects_by_id = Vec::with_capacity(objects.len());
        let mut end = header.len() as u64;
        for (id, bytes) in objects {
            objects_by_id.push(PackedObject { id: *id, crc: crc32fast::hash(bytes), start: end });
            end += bytes.len() as u64;
            hasher.update(bytes);
        }
        objects_by_id.sort_unstable_by_key(|object| object.id);
        let checksum: [u8; CHECKSUM_BYTES] = hasher.finalize().into();
        Ok(Self {
            path: pack_path(directory, &checksum)?,
            header,
            objects_by_id,
            checksum,
            bytes: end + CHECKSUM_BYTES as u64,
        })
    }

    /// Writes and installs pack and index.
    fn install(&self, fail: &FailPoints, reuse: FileReuse<'_>, objects: &[(Oid, &[u8])]) -> HistoryResult<StoredPack> {
        let bodies = objects.iter().map(|(_, bytes)| *bytes);
        let parts = std::iter::once(&self.header[..]).chain(bodies).chain([&self.checksum[..]]);
        write_file(fail, &self.path, reuse, parts)?;
        write_file(fail, &self.path.with_extension("idx"), reuse, std::iter::once(&*self.index()?))?;
        Ok(StoredPack { path: self.path.clone(), bytes: self.bytes, is_flushed: false })
    }

    fn index(&self) -> HistoryResult<Vec<u8>> {
        let mut counts = [0; 256];
        for object in &self.objects_by_id {
            counts[usize::from(object.id.as_bytes()[0])] += 1;
        }
        let mut index = Vec::with_capacity(1032 + self.objects_by_id.len() * 28 + 40);
        write_header(&mut index, &counts)?;
        for object in &self.objects_by_id {
            index.extend_from_slice(object.id.as_bytes());
        }
        for object in &self.objects_by_id {
            index.extend_from_slice(&object.crc.to_be_bytes());
        }
        let mut large_offsets = Vec::new();
        for object in &self.objects_by_id {
            match u32::try_from(object.start).ok().filter(|offset| *offset < LARGE_OFFSET) {
                Some(small_offset) => index.extend_from_slice(&small_offset.to_be_bytes()),
                None => {
                    let at = u32::try_from(large_offsets.len()).unwrap_or(u32::MAX) | LARGE_OFFSET;
                    index.extend_from_slice(&at.to_be_bytes());
                    large_offsets.push(object.start);
                }
            }
        }
        for offset in large_offsets {
            index.extend_from_slice(&offset.to_be_bytes());
        }
        index.extend_from_slice(&self.checksum);
        let index_checksum = Sha1::digest(&index);
        index.extend_from_slice(&index_checksum);
        Ok(index)
    }
}

/// The header of a pack.
pub(super) fn header(count: u32) -> [u8; 12] {
    let mut header = *b"PACK\0\0\0\x02\0\0\0\0";
    header[8..].copy_from_slice(&count.to_be_bytes());
    header
}

/// The path of a pack, with git's name.
pub(super) fn pack_path(directory: &Path, checksum: &[u8; CHECKSUM_BYTES]) -> HistoryResult<PathBuf> {
    Ok(directory.join(format!("pack-{}.pack", Oid::from_bytes(checksum)?)))
}

fn write_file<'a>(
    fail: &FailPoints,
    path: &Path,
    reuse: FileReuse<'_>,
    parts: impl Iterator<Item = &'a [u8]>,
) -> HistoryResult<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    fail.check(FailPoint::PackWrite)?;
    let mut temp_pack = TempPack::create(path.with_file_name(format!("{TEMPORARY}{extension}")), Some(reuse))?;
    for part in parts {
        temp_pack.write_all(part)?;
    }
    temp_pack.finish()?;
    fail.check(FailPoint::PackRename)?;
    Ok(temp_pack.install(path)?)
}
