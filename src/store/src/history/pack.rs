//! Packs of our own (gitformat-pack(5)): one for each batch, merged as they grow in number.
//!
//! One rule: a pack appears whole, and stays until a branch shows what is in it. Its data file is in place before its index, by
//! which git finds it; before both there is a `.keep` file, which keeps somebody's `git gc` from taking it for rubbish. A pack
//! that a checkpoint flushed goes only after the one that takes its place was flushed, too: the log does not have its objects.
//!
//! The objects are not deltas of each other, so that packs are merged by putting their bodies one behind the other. Packing
//! tightly is what `git gc` is for.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use git2::Oid;
use sha1::{Digest, Sha1};
use svcfs_base::Timestamp;
use tracing::warn;

use super::{History, Outcome, owner};
use crate::disposal::{Disposal, Held};
use crate::{FailPoint, FailPoints, StoreError};

/// So many packs of a level become one of the next.
const FAN: usize = 12;
/// Objects after which packs are left as they are, and others begun.
const MAX_KNOWN_OBJECTS: usize = 500_000;
/// Packs that would be larger together are left as they are.
const MAX_MERGED_BYTES: usize = 64 << 20;
const CHECKSUM_BYTES: usize = 20;
const LISTING: &str = "multi-pack-index";
/// `pack-<40 digits>.idx`.
const PACK_NAME_BYTES: usize = 49;
pub(super) const TEMPORARY: &str = ".svcfs_";
/// What our `.keep` files say.
const KEEP: &str = "svcfs: until a branch shows it\n";
/// How far the clock may have been wrong before a crash.
const MAX_CLOCK_ERROR: Duration = Duration::from_secs(86_400);

/// A pack this process wrote.
pub(super) struct Pack {
    path: PathBuf,
    objects: Vec<Place>,
    /// Whether it is on the disk for good.
    is_flushed: bool,
}

/// An object in a pack.
struct Place {
    id: Oid,
    crc: u32,
    range: Range<usize>,
}

/// The packs this process wrote, by how often they were merged.
#[derive(Default)]
pub(super) struct Packs {
    levels: Vec<Vec<Pack>>,
    /// Our `.keep` files, of packs that no branch shows yet.
    kept: Vec<PathBuf>,
    /// Packs on the disk for good, merged into others that are not.
    merged: Vec<PathBuf>,
    /// Those of them that were merged into packs which are being flushed.
    retiring: Vec<PathBuf>,
}

impl History {
    /// Writes what was staged as a pack, so that everybody who opens the repository has it. Nothing is flushed. `git gc`
    /// leaves it alone until [`History::advance`] or [`History::release`].
    ///
    /// # Errors
    /// `State` when it cannot be written; the objects are then kept for the next time.
    pub fn publish(&self) -> Outcome<()> {
        let mut writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        let fresh: Vec<_> = writer.objects.fresh().iter().map(|object| (object.id, &*object.bytes)).collect();
        if fresh.is_empty() {
            return Ok(());
        }
        let (pack, keep) = kept(&self.fail, &directory, &fresh)?;
        writer.objects.forget_fresh();
        writer.packs.kept.extend(keep);
        writer.packs.add(0, pack);
        self.fail.pass(FailPoint::PackDone);
        Ok(())
    }

    /// Says that a branch shows all that was published: git's housekeeping may have it, and small packs are merged.
    pub fn release(&self) {
        let mut writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        writer.packs.release();
        if let Err(error) = writer.packs.merge(&directory, &self.disposal, &self.fail) {
            warn!(%error, "packs of git could not be merged; they are whole, and `git gc` merges them too");
        }
    }

    /// Says that everything published so far is about to be flushed.
    pub fn flushing(&self) {
        self.writer.lock().packs.flushing();
    }

    /// Says that everything published before the last [`History::flushing`] is on the disk for good: packs that were merged
    /// into others of that time are taken away.
    pub fn flushed(&self) {
        let mut writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        if let Err(error) = writer.packs.flushed(&directory, &self.fail) {
            warn!(%error, "packs that were merged into others could not be removed");
        }
    }

    /// Takes away what a crash left of packs written at or after `since`, whose bytes may not have reached the disk; the log
    /// brings their objects again. How many. Older packs are not doubted: a checkpoint flushed them.
    ///
    /// # Errors
    /// `State` when one cannot be read or removed.
    pub fn sweep_torn_packs(&self, since: Timestamp) -> Outcome<usize> {
        let writer = self.writer.lock();
        let directory = writer.repository.commondir().join("objects/pack");
        let since = SystemTime::from(since).checked_sub(MAX_CLOCK_ERROR).unwrap_or(SystemTime::UNIX_EPOCH);
        let mut swept = 0;
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let file = entry?.path();
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_torn = if name.starts_with(TEMPORARY) {
                fs::remove_file(&file)?;
                false
            } else if name.ends_with(".keep") && fs::read(&file).is_ok_and(|text| text == KEEP.as_bytes()) {
                fs::remove_file(&file)?;
                !file.with_extension("idx").exists() && file.with_extension("pack").exists()
            } else {
                name.ends_with(".idx") && !(is_whole(&file, since)? && is_whole(&file.with_extension("pack"), since)?)
            };
            if is_torn {
                remove(&file.with_extension("idx"))?;
                swept += 1;
            }
        }
        Ok(swept)
    }
}

/// Whether a file ends in the checksum of what stands before it, as packs and their indexes do. Not read when it is older.
pub(super) fn is_whole(file: &Path, since: SystemTime) -> Outcome<bool> {
    match fs::metadata(file).and_then(|stat| stat.modified()) {
        Ok(modified) if modified < since => return Ok(true),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let bytes = fs::read(file)?;
    let Some(end) = bytes.len().checked_sub(CHECKSUM_BYTES) else { return Ok(false) };
    Ok(Sha1::digest(&bytes[..end])[..] == bytes[end..])
}

impl Packs {
    fn release(&mut self) {
        for keep in self.kept.drain(..) {
            match fs::remove_file(&keep) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    warn!(file = %keep.display(), %error, "a mark that keeps a pack from `git gc` could not be removed");
                }
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// From here on the log may let go of what these packs have, as soon as the flush is done.
    fn flushing(&mut self) {
        for pack in self.levels.iter_mut().flatten() {
            pack.is_flushed = true;
        }
        self.retiring.append(&mut self.merged);
    }

    fn flushed(&mut self, directory: &Path, fail: &FailPoints) -> Outcome<()> {
        let mut retiring = std::mem::take(&mut self.retiring);
        drop_listed(directory, &mut retiring, PathBuf::as_path)?;
        for path in &retiring {
            fail.at(FailPoint::PackDrop)?;
            remove(&path.with_extension("idx"))?;
        }
        drop_broken_listing(directory)
    }

    fn add(&mut self, level: usize, pack: Pack) {
        // The same objects again: the file was replaced by its equal.
        if self.levels.iter().flatten().any(|other| other.path == pack.path) {
            return;
        }
        if self.levels.iter().flatten().map(|pack| pack.objects.len()).sum::<usize>() > MAX_KNOWN_OBJECTS {
            self.levels.clear();
        }
        while self.levels.len() <= level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(pack);
    }

    /// What cannot be merged is left as it is, and no more thought of.
    fn merge(&mut self, directory: &Path, disposal: &Disposal, fail: &FailPoints) -> Outcome<()> {
        let mut level = 0;
        while self.levels.get(level).is_some_and(|packs| packs.len() >= FAN) {
            let mut parts = std::mem::take(&mut self.levels[level]);
            drop_listed(directory, &mut parts, |pack| &pack.path)?;
            let bytes = |pack: &Pack| pack.objects.iter().map(|place| place.range.len()).sum::<usize>();
            if parts.iter().map(bytes).sum::<usize>() > MAX_MERGED_BYTES {
                return Ok(());
            }
            let mut whole = Vec::with_capacity(parts.len());
            for part in parts {
                if let Some(bytes) = part.read()? {
                    whole.push((part, bytes));
                }
            }
            fail.at(FailPoint::PackMerge)?;
            if let Some(merged) = joined(fail, directory, &whole)? {
                fail.pass(FailPoint::PackMerged);
                for (part, _) in whole.into_iter().filter(|(part, _)| part.path != merged.path) {
                    if part.is_flushed {
                        self.merged.push(part.path);
                    } else {
                        // The log has what is in it.
                        let index = part.path.with_extension("idx");
                        let files = [Held::at(&index), Held::at(&part.path)];
                        remove(&index)?;
                        files.into_iter().for_each(|file| disposal.of(file));
                    }
                }
                self.add(level + 1, merged);
                drop_broken_listing(directory)?;
            }
            level += 1;
        }
        Ok(())
    }
}

impl Pack {
    /// Its bytes; none when somebody's `git repack` took it away, or something else is there now.
    fn read(&self) -> Outcome<Option<Vec<u8>>> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let is_whole =
            |place: &Place| bytes.get(place.range.clone()).is_some_and(|object| crc32fast::hash(object) == place.crc);
        if self.objects.iter().all(is_whole) {
            return Ok(Some(bytes));
        }
        warn!(file = %self.path.display(), "a pack of git is not what was written; run `git fsck`");
        Ok(None)
    }
}

/// The index over many packs (`git multi-pack-index`), if somebody made one.
fn listing(directory: &Path) -> Outcome<Option<Vec<u8>>> {
    match fs::read(directory.join(LISTING)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Leaves out packs that an index over many packs names: git looks for them where it says.
fn drop_listed<T>(directory: &Path, packs: &mut Vec<T>, path: impl Fn(&T) -> &Path) -> Outcome<()> {
    let Some(listing) = listing(directory)? else { return Ok(()) };
    packs.retain(|pack| {
        let index = path(pack).with_extension("idx");
        let name = index.file_name().unwrap_or_default().as_encoded_bytes();
        !listing.windows(name.len().max(1)).any(|window| window == name)
    });
    Ok(())
}

/// Takes away an index over many packs that names one which is gone: it was being made while we removed that, and git would look
/// for its objects nowhere else. Without it git looks into every pack.
fn drop_broken_listing(directory: &Path) -> Outcome<()> {
    let Some(listing) = listing(directory)? else { return Ok(()) };
    let names = listing.windows(PACK_NAME_BYTES).filter(|name| name.starts_with(b"pack-") && name.ends_with(b".idx"));
    let is_gone = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| !directory.join(name).exists());
    if names.into_iter().any(is_gone) {
        warn!("`git multi-pack-index` listed a pack while it was merged into another; the list is removed");
        match fs::remove_file(directory.join(LISTING)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
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

/// One pack of the objects of many, each once.
fn joined(fail: &FailPoints, directory: &Path, packs: &[(Pack, Vec<u8>)]) -> Outcome<Option<Pack>> {
    let mut seen = HashSet::new();
    let mut objects = Vec::new();
    for (pack, bytes) in packs {
        let mut places: Vec<_> = pack.objects.iter().filter(|place| seen.insert(place.id)).collect();
        places.sort_unstable_by_key(|place| place.range.start);
        objects.extend(places.into_iter().map(|place| (place.id, &bytes[place.range.clone()])));
    }
    if objects.is_empty() {
        return Ok(None);
    }
    stored(fail, &Laid::out(directory, &objects)?, &objects).map(Some)
}

/// A pack that git's housekeeping leaves alone, and the file that makes it; none when there was one, which is somebody's.
fn kept(fail: &FailPoints, directory: &Path, objects: &[(Oid, &[u8])]) -> Outcome<(Pack, Option<PathBuf>)> {
    let laid = Laid::out(directory, objects)?;
    let keep = laid.path.with_extension("keep");
    fs::create_dir_all(directory)?;
    let is_ours = match marked(directory, &keep) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error.into()),
    };
    match stored(fail, &laid, objects) {
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
    let all = directory.with_file_name("svcfs.keep");
    let linked = match fs::hard_link(&all, keep) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            write_mark(&all)?;
            fs::hard_link(&all, keep)
        }
        linked => linked,
    };
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => write_mark(keep),
        linked => linked,
    }
}

fn write_mark(file: &Path) -> std::io::Result<()> {
    created(file)?.write_all(KEEP.as_bytes())
}

/// A pack to be: everything but its objects.
struct Laid {
    /// The name git gives it.
    path: PathBuf,
    header: Vec<u8>,
    places: Vec<Place>,
    checksum: [u8; CHECKSUM_BYTES],
}

impl Laid {
    fn out(directory: &Path, objects: &[(Oid, &[u8])]) -> Outcome<Self> {
        let count =
            u32::try_from(objects.len()).map_err(|_| StoreError::Damaged("too many objects for a pack".to_owned()))?;
        let mut header = b"PACK".to_vec();
        header.extend_from_slice(&2_u32.to_be_bytes());
        header.extend_from_slice(&count.to_be_bytes());
        let mut hasher = Sha1::new();
        hasher.update(&header);
        let mut places = Vec::with_capacity(objects.len());
        let mut end = header.len();
        for (id, bytes) in objects {
            let start = end;
            end += bytes.len();
            places.push(Place { id: *id, crc: crc32fast::hash(bytes), range: start..end });
            hasher.update(bytes);
        }
        places.sort_unstable_by_key(|place| place.id);
        let checksum: [u8; CHECKSUM_BYTES] = hasher.finalize().into();
        let path = directory.join(format!("pack-{}.pack", Oid::from_bytes(&checksum)?));
        Ok(Self { path, header, places, checksum })
    }
}

/// Puts a pack and its index in place.
fn stored(fail: &FailPoints, laid: &Laid, objects: &[(Oid, &[u8])]) -> Outcome<Pack> {
    let bodies = objects.iter().map(|(_, bytes)| *bytes);
    let index = index_of(&laid.places, &laid.checksum);
    put(fail, &laid.path, std::iter::once(&*laid.header).chain(bodies).chain([&laid.checksum[..]]))?;
    put(fail, &laid.path.with_extension("idx"), std::iter::once(&*index))?;
    let objects = laid.places.iter().map(|place| Place { range: place.range.clone(), ..*place }).collect();
    Ok(Pack { path: laid.path.clone(), objects, is_flushed: false })
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
        match u32::try_from(place.range.start).ok().filter(|offset| *offset < 1 << 31) {
            Some(near) => index.extend_from_slice(&near.to_be_bytes()),
            None => {
                let at = u32::try_from(far.len()).unwrap_or(u32::MAX) | 1 << 31;
                index.extend_from_slice(&at.to_be_bytes());
                far.push(place.range.start as u64);
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

fn put<'a>(fail: &FailPoints, path: &Path, parts: impl Iterator<Item = &'a [u8]>) -> Outcome<()> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    // Not a name that begins with `tmp_`: `git prune` takes those away.
    let temporary = path.with_file_name(format!("{TEMPORARY}{extension}"));
    let outcome = (|| {
        fail.at(FailPoint::PackWrite)?;
        let mut file = std::io::BufWriter::new(created_anew(&temporary)?);
        for part in parts {
            file.write_all(part)?;
        }
        file.flush()?;
        fail.at(FailPoint::PackRename)?;
        fs::rename(&temporary, path)
    })();
    if outcome.is_err() {
        // The failure that matters is the first one; a leftover is swept at the next opening.
        let _ = fs::remove_file(&temporary);
    }
    Ok(outcome?)
}

fn created_anew(path: &Path) -> std::io::Result<fs::File> {
    match created(path) {
        // Of an attempt that failed.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            created(path)
        }
        outcome => outcome,
    }
}

/// A file nobody writes again, as git makes them: readable for whom the umask lets, and the repository owner's.
fn created(path: &Path) -> std::io::Result<fs::File> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o444).open(path)?;
    owner::give_as_its_directory(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
