//! Packs of our own (gitformat-pack(5)): one for each batch, merged as they grow in number.
//!
//! One rule: a pack appears whole. Its data file is in place before its index, by which git finds it.
//!
//! The objects are not deltas of each other, so that packs are merged by putting their bodies one behind the other. Packing
//! tightly is what `git gc` is for.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use git2::Oid;
use sha1::{Digest, Sha1};

use super::object::Deflated;
use super::{History, Outcome};
use crate::StoreError;

/// So many packs of a level become one of the next.
const FAN: usize = 12;
/// Objects after which packs are left as they are, and others begun.
const MAX_KNOWN_OBJECTS: usize = 500_000;
const HEADER_BYTES: u64 = 12;
const CHECKSUM_BYTES: usize = 20;

/// A pack this process wrote.
pub(super) struct Pack {
    path: PathBuf,
    objects: Vec<Place>,
    /// Bytes between header and checksum.
    body: u64,
}

struct Place {
    id: Oid,
    crc: u32,
    offset: u64,
}

/// The packs this process wrote, by how often they were merged.
#[derive(Default)]
pub(super) struct Packs {
    levels: Vec<Vec<Pack>>,
}

impl History {
    /// Writes what was staged as a pack, so that everybody who opens the repository has it. Nothing is flushed.
    ///
    /// # Errors
    /// `State` when it cannot be written; the objects are then kept for the next time.
    pub fn publish(&self) -> Outcome<()> {
        let mut writer = self.writer.lock();
        let fresh = writer.objects.take_fresh();
        if fresh.is_empty() {
            return Ok(());
        }
        let directory = writer.repository.commondir().join("objects/pack");
        match written(&directory, &fresh) {
            Ok(pack) => writer.packs.add(pack),
            Err(error) => {
                writer.objects.put_back(fresh);
                return Err(error);
            }
        }
        if writer.objects.count() > MAX_KNOWN_OBJECTS {
            writer.objects.forget_published();
            writer.packs = Packs::default();
        }
        writer.packs.merge(&directory)
    }

    /// Takes away packs whose bytes did not all reach the disk before a crash; the log brings their objects again. How many.
    ///
    /// # Errors
    /// `State` when one cannot be read or removed.
    pub fn sweep_torn_packs(&self) -> Outcome<usize> {
        let writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        let mut swept = 0;
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let index = entry?.path();
            let name = index.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(TEMPORARY) {
                fs::remove_file(&index)?;
            } else if name.ends_with(".idx") && !(is_whole(&index)? && is_whole(&index.with_extension("pack"))?) {
                remove(&index)?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}

/// Packs above this size were flushed by a checkpoint long before they grew to it, and are not read through.
const MAX_DOUBTED_BYTES: u64 = 256 << 20;

/// Whether a file ends in the checksum of what stands before it, as packs and their indexes do.
fn is_whole(file: &Path) -> Outcome<bool> {
    match fs::metadata(file) {
        Ok(stat) if stat.len() > MAX_DOUBTED_BYTES => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let bytes = fs::read(file)?;
    let Some(end) = bytes.len().checked_sub(CHECKSUM_BYTES) else { return Ok(false) };
    Ok(Sha1::digest(&bytes[..end])[..] == bytes[end..])
}

impl Packs {
    fn add(&mut self, pack: Pack) {
        if self.levels.is_empty() {
            self.levels.push(Vec::new());
        }
        self.levels[0].push(pack);
    }

    fn merge(&mut self, directory: &Path) -> Outcome<()> {
        let mut level = 0;
        while self.levels.get(level).is_some_and(|packs| packs.len() >= FAN) {
            let merged = joined(directory, &self.levels[level])?;
            let parts = std::mem::take(&mut self.levels[level]);
            if self.levels.len() == level + 1 {
                self.levels.push(Vec::new());
            }
            for part in parts.iter().filter(|part| part.path != merged.path) {
                remove(&part.path.with_extension("idx"))?;
            }
            self.levels[level + 1].push(merged);
            level += 1;
        }
        Ok(())
    }
}

/// Removes a pack, its index first: what has no index is no pack to anybody.
fn remove(index: &Path) -> Outcome<()> {
    for file in [index.to_owned(), index.with_extension("pack")] {
        match fs::remove_file(file) {
            Ok(()) => {}
            // Somebody's `git repack` was first.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn written(directory: &Path, objects: &[Deflated]) -> Outcome<Pack> {
    let mut body = Vec::with_capacity(objects.iter().map(|object| object.bytes.len()).sum());
    let mut places = Vec::with_capacity(objects.len());
    for object in objects {
        let offset = HEADER_BYTES + body.len() as u64;
        places.push(Place { id: object.id, crc: crc32fast::hash(&object.bytes), offset });
        body.extend_from_slice(&object.bytes);
    }
    stored(directory, places, &body)
}

fn joined(directory: &Path, packs: &[Pack]) -> Outcome<Pack> {
    let mut body = Vec::new();
    let mut places = Vec::with_capacity(packs.iter().map(|pack| pack.objects.len()).sum());
    for pack in packs {
        let shift = body.len() as u64;
        let bytes = fs::read(&pack.path)?;
        let part = usize::try_from(pack.body).ok().and_then(|length| bytes.get(12..12 + length));
        let part =
            part.ok_or_else(|| StoreError::Damaged(format!("`{}` is shorter than written", pack.path.display())))?;
        body.extend_from_slice(part);
        places.extend(pack.objects.iter().map(|place| Place { offset: place.offset + shift, ..*place }));
    }
    stored(directory, places, &body)
}

/// Puts a pack and its index in place, under the name git gives packs.
fn stored(directory: &Path, mut objects: Vec<Place>, body: &[u8]) -> Outcome<Pack> {
    let count =
        u32::try_from(objects.len()).map_err(|_| StoreError::Damaged("too many objects for a pack".to_owned()))?;
    let mut pack = Vec::with_capacity(body.len() + 32);
    pack.extend_from_slice(b"PACK");
    pack.extend_from_slice(&2_u32.to_be_bytes());
    pack.extend_from_slice(&count.to_be_bytes());
    pack.extend_from_slice(body);
    let checksum = Sha1::digest(&pack);
    pack.extend_from_slice(&checksum);
    objects.sort_unstable_by_key(|place| place.id);
    let index = index_of(&objects, &checksum);
    let name = Oid::from_bytes(&checksum)?;
    let path = directory.join(format!("pack-{name}.pack"));
    fs::create_dir_all(directory)?;
    put(&path, &pack)?;
    put(&path.with_extension("idx"), &index)?;
    Ok(Pack { path, objects, body: body.len() as u64 })
}

/// Version 2 of a pack's index.
fn index_of(objects: &[Place], checksum: &[u8]) -> Vec<u8> {
    let mut index = Vec::with_capacity(1032 + objects.len() * 28 + 40);
    index.extend_from_slice(b"\xfftOc");
    index.extend_from_slice(&2_u32.to_be_bytes());
    for first in 0..=255_u8 {
        let upto = objects.partition_point(|place| place.id.as_bytes()[0] <= first);
        index.extend_from_slice(&u32::try_from(upto).unwrap_or(u32::MAX).to_be_bytes());
    }
    for place in objects {
        index.extend_from_slice(place.id.as_bytes());
    }
    for place in objects {
        index.extend_from_slice(&place.crc.to_be_bytes());
    }
    let mut far = Vec::new();
    for place in objects {
        // Offsets above 2 GiB stand in a table of their own, to which the high bit points.
        match u32::try_from(place.offset).ok().filter(|offset| *offset < 1 << 31) {
            Some(near) => index.extend_from_slice(&near.to_be_bytes()),
            None => {
                let at = u32::try_from(far.len()).unwrap_or(u32::MAX) | 1 << 31;
                index.extend_from_slice(&at.to_be_bytes());
                far.push(place.offset);
            }
        }
    }
    for offset in far {
        index.extend_from_slice(&offset.to_be_bytes());
    }
    index.extend_from_slice(checksum);
    let own = Sha1::digest(&index);
    index.extend_from_slice(&own);
    index
}

const TEMPORARY: &str = "tmp_svcfs_";

fn put(path: &Path, bytes: &[u8]) -> Outcome<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let temporary = path.with_file_name(format!("{TEMPORARY}{extension}"));
    let outcome = (|| {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o444))?;
        fs::rename(&temporary, path)
    })();
    if outcome.is_err() {
        // The failure that matters is the first one; a leftover is swept at the next opening.
        let _ = fs::remove_file(&temporary);
    }
    Ok(outcome?)
}
