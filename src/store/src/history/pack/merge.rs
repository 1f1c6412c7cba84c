//! Merging packs.
//!
//! The objects are not deltas, so their bodies are concatenated, a pack at a time. Duplicates are
//! found by a parallel scan of the sorted indexes. Memory: a byte per object, and four more for the
//! objects of one pack at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha1::{Digest, Sha1};

use super::batch::{header, pack_path};
use super::index::{ID_BYTES, IndexTable, LARGE_OFFSET, PackIndex, write_header};
use super::pack_set::StoredPack;
use super::temp_pack::TempPack;
use super::{CHECKSUM_BYTES, FileReuse, is_complete};
use crate::{FailPoint, FailPoints, StoreError};

/// Marks an object that an earlier pack contains, too.
const DUPLICATE: u8 = 0x80;
/// Read size, in bytes.
const BUFFER_BYTES: u64 = 128 << 10;
/// Bytes copied between two calls of `between_slices`.
const SLICE_BYTES: u64 = 8 << 20;
const HEADER_BYTES: u32 = 12;
/// Companion files of packs that svcfs must not merge.
const COMPANIONS: [&str; 5] = ["keep", "promisor", "bitmap", "rev", "mtimes"];

/// Why a merge failed.
#[derive(Debug)]
pub(super) enum MergeFailure {
    /// A pack that is not mergeable or was removed; with a text if it is damaged.
    Unfit(PathBuf, Option<&'static str>),
    /// The server stops.
    Stopping,
    /// An I/O error.
    Store(StoreError),
}

impl From<io::Error> for MergeFailure {
    fn from(error: io::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<StoreError> for MergeFailure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A pack to be copied.
struct SourcePack {
    path: PathBuf,
    data: File,
    bytes: u64,
    index: PackIndex,
    /// Skipped objects: their start, and the total of skipped bytes up to their end.
    skipped: Vec<(u32, u64)>,
    /// Where its objects start in the new pack.
    start: u64,
}

/// A merge.
pub(super) struct PackMerge<'a> {
    pub(super) fail: &'a FailPoints,
    pub(super) directory: &'a Path,
    /// Temporary path of its files, without extension.
    pub(super) temporary: PathBuf,
    /// Whether the result is flushed.
    pub(super) is_flushed: bool,
    /// Recycled files for the result.
    pub(super) reuse: Option<FileReuse<'a>>,
}

impl PackMerge<'_> {
    /// Merges packs; each object is copied once. `between_slices` is called between slices, and may
    /// cancel.
    pub(super) fn run(
        &self,
        parts: &[StoredPack],
        between_slices: &mut dyn FnMut() -> Result<(), MergeFailure>,
    ) -> Result<StoredPack, MergeFailure> {
        self.fail.check(FailPoint::PackMerge)?;
        let mut parts = parts.iter().map(|part| SourcePack::open(&part.path)).collect::<Result<Vec<_>, _>>()?;
        let (order, counts) = merge_order(&parts)?;
        let create = |extension| TempPack::create(self.temporary.with_extension(extension), self.reuse);
        let output = |temp_pack| MergeOutput { temp_pack, hasher: Sha1::new() };
        let (data, index) = (output(create("pack")?), output(create("idx")?));
        let (data, checksum) = self.copy_objects(data, &mut parts, (&order, &counts), between_slices)?;
        let index = write_index(index, &parts, (&order, &counts), &checksum)?;
        let path = pack_path(self.directory, &checksum)?;
        let bytes = data.temp_pack.bytes();
        if self.is_flushed {
            self.fail.check(FailPoint::PackFlush)?;
            data.temp_pack.sync()?;
            index.temp_pack.sync()?;
        }
        self.fail.check(FailPoint::PackInstall)?;
        data.temp_pack.install(&path)?;
        index.temp_pack.install(&path.with_extension("idx"))?;
        if self.is_flushed {
            File::open(self.directory)?.sync_all()?;
        }
        self.fail.hit(FailPoint::PackMerged);
        Ok(StoredPack { path, bytes, is_flushed: self.is_flushed })
    }

    /// Writes the data file under its temporary name; returns its checksum.
    fn copy_objects(
        &self,
        mut out: MergeOutput,
        parts: &mut [SourcePack],
        (order, counts): (&[u8], &[u32; 256]),
        between_slices: &mut dyn FnMut() -> Result<(), MergeFailure>,
    ) -> Result<(MergeOutput, [u8; CHECKSUM_BYTES]), MergeFailure> {
        out.write_all(&header(counts.iter().sum()))?;
        self.fail.check(FailPoint::PackCopy)?;
        let mut slice_end = SLICE_BYTES;
        for (number, part) in parts.iter_mut().enumerate() {
            part.start = out.temp_pack.bytes();
            let objects = part.objects(number, order)?;
            let mut source = PackReader::new(part)?;
            for (at, object) in objects.iter().enumerate() {
                let end = objects.get(at + 1).map_or(source.end, |next| u64::from(next & !LARGE_OFFSET));
                source.copy(end, (object & LARGE_OFFSET == 0).then_some(&mut out))?;
                if out.temp_pack.bytes() >= slice_end {
                    self.fail.check(FailPoint::PackCopy)?;
                    if self.is_flushed {
                        // Flushed in small steps, so that a concurrent flush of the log waits for
                        // little data.
                        out.flush()?;
                        out.temp_pack.sync()?;
                    }
                    between_slices()?;
                    slice_end = out.temp_pack.bytes() + SLICE_BYTES;
                }
            }
            source.finish()?;
        }
        let checksum = out.finish()?;
        Ok((out, checksum))
    }
}

impl SourcePack {
    /// Opens a pack if it can be merged.
    fn open(path: &Path) -> Result<Self, MergeFailure> {
        let unfit = |reason| MergeFailure::Unfit(path.to_owned(), reason);
        let classify_error = |error: io::Error| match error.kind() {
            // Removed by a concurrent `git repack`.
            ErrorKind::NotFound => unfit(None),
            _ => error.into(),
        };
        if COMPANIONS.iter().any(|companion| path.with_extension(companion).exists()) {
            return Err(unfit(None));
        }
        let index = PackIndex::open(&path.with_extension("idx")).map_err(classify_error)?.ok_or_else(|| unfit(None))?;
        if !is_complete(&path.with_extension("idx"), SystemTime::UNIX_EPOCH)? {
            return Err(unfit(Some("has a damaged index")));
        }
        let mut data = File::open(path).map_err(classify_error)?;
        let bytes = data.metadata()?.len();
        let mut start = [0; HEADER_BYTES as usize];
        let is_too_short = bytes < u64::from(HEADER_BYTES) + CHECKSUM_BYTES as u64;
        if is_too_short || data.read_exact(&mut start).is_err() || start != header(index.count) {
            return Err(unfit(Some("does not belong to its index")));
        }
        Ok(Self { path: path.to_owned(), data, bytes, index, skipped: Vec::new(), start: 0 })
    }

    /// The start of its objects in order, marked with [`LARGE_OFFSET`] if skipped.
    fn objects(&mut self, number: usize, order: &[u8]) -> Result<Vec<u32>, MergeFailure> {
        let unfit = |reason| MergeFailure::Unfit(self.path.clone(), reason);
        let mut offsets = self.index.rows::<4>(IndexTable::Offsets)?;
        let mut objects = Vec::with_capacity(self.index.count as usize);
        for entry in order.iter().filter(|entry| usize::from(**entry & !DUPLICATE) == number) {
            let offset = offsets.next()?.map(u32::from_be_bytes).unwrap_or(LARGE_OFFSET);
            if offset & LARGE_OFFSET != 0 {
                return Err(unfit(None));
            }
            objects.push(if entry & DUPLICATE == 0 { offset } else { offset | LARGE_OFFSET });
        }
        objects.sort_unstable_by_key(|object| object & !LARGE_OFFSET);
        let end = self.bytes - CHECKSUM_BYTES as u64;
        let is_in_order = objects.windows(2).all(|pair| pair[0] & !LARGE_OFFSET < pair[1] & !LARGE_OFFSET);
        let is_from_the_start = objects.first().is_none_or(|first| first & !LARGE_OFFSET == HEADER_BYTES);
        if !is_in_order
            || !is_from_the_start
            || objects.last().is_some_and(|last| u64::from(last & !LARGE_OFFSET) >= end)
        {
            return Err(unfit(Some("does not belong to its index")));
        }
        let mut sum = 0;
        for (at, object) in objects.iter().enumerate().filter(|(_, object)| *object & LARGE_OFFSET != 0) {
            let start = object & !LARGE_OFFSET;
            sum += objects.get(at + 1).map_or(end, |next| u64::from(next & !LARGE_OFFSET)) - u64::from(start);
            self.skipped.push((start, sum));
        }
        Ok(objects)
    }

    /// The offset of an object in the new pack.
    fn new_offset(&self, offset: u32) -> u64 {
        let before = self.skipped.partition_point(|(start, _)| *start < offset);
        let skipped = before.checked_sub(1).map_or(0, |at| self.skipped[at].1);
        self.start + u64::from(offset - HEADER_BYTES) - skipped
    }
}

/// Reads a pack once from the first object to the last.
struct PackReader<'p> {
    path: &'p Path,
    reader: BufReader<&'p File>,
    hasher: Sha1,
    /// The checksum in its index.
    checksum: [u8; CHECKSUM_BYTES],
    at: u64,
    end: u64,
}

impl<'p> PackReader<'p> {
    fn new(part: &'p SourcePack) -> io::Result<Self> {
        (&part.data).seek(SeekFrom::Start(HEADER_BYTES.into()))?;
        let buffer_bytes = usize::try_from(part.bytes.min(BUFFER_BYTES)).unwrap_or(0);
        let mut hasher = Sha1::new();
        hasher.update(header(part.index.count));
        Ok(Self {
            path: &part.path,
            reader: BufReader::with_capacity(buffer_bytes, &part.data),
            hasher,
            checksum: part.index.checksum,
            at: HEADER_BYTES.into(),
            end: part.bytes - CHECKSUM_BYTES as u64,
        })
    }

    /// Reads the object that ends at `end`, and copies it to `out` if given.
    fn copy(&mut self, end: u64, mut out: Option<&mut MergeOutput>) -> Result<(), MergeFailure> {
        let mut is_first = true;
        while self.at < end {
            let bytes = self.reader.fill_buf()?;
            let count = bytes.len().min(usize::try_from(end - self.at).unwrap_or(usize::MAX));
            if count == 0 {
                return Err(MergeFailure::Unfit(self.path.to_owned(), Some("was cut off")));
            }
            // Types 1 to 4 are complete objects. Packs with deltas were made by git and stay.
            if std::mem::take(&mut is_first) && !(1..=4).contains(&(bytes[0] >> 4 & 7)) {
                return Err(MergeFailure::Unfit(self.path.to_owned(), None));
            }
            self.hasher.update(&bytes[..count]);
            if let Some(out) = &mut out {
                out.write_all(&bytes[..count])?;
            }
            self.reader.consume(count);
            self.at += count as u64;
        }
        Ok(())
    }

    /// Verifies that the pack was read without errors.
    fn finish(mut self) -> Result<(), MergeFailure> {
        let mut checksum = [0; CHECKSUM_BYTES];
        let has_checksum = self.reader.read_exact(&mut checksum).is_ok();
        let is_same = checksum == self.checksum && self.hasher.finalize()[..] == checksum;
        if has_checksum && is_same {
            Ok(())
        } else {
            Err(MergeFailure::Unfit(self.path.to_owned(), Some("is not what was written")))
        }
    }
}

/// The pack of each id, in the order of all ids, and the number of different ids per first byte.
fn merge_order(parts: &[SourcePack]) -> Result<(Vec<u8>, [u32; 256]), MergeFailure> {
    let mut order = Vec::with_capacity(parts.iter().map(|part| part.index.count as usize).sum());
    let mut counts = [0; 256];
    let mut tables = Vec::with_capacity(parts.len());
    let mut next = BinaryHeap::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        let mut table = part.index.rows::<ID_BYTES>(IndexTable::Ids)?;
        next.extend(table.next()?.map(|id| Reverse((id, number))));
        tables.push(table);
    }
    let mut last = None;
    while let Some(Reverse((id, number))) = next.pop() {
        let mark = u8::try_from(number).ok().filter(|mark| mark & DUPLICATE == 0);
        let mark = mark.ok_or_else(|| StoreError::Damaged("too many packs to merge".to_owned()))?;
        if last.replace(id) == Some(id) {
            order.push(mark | DUPLICATE);
        } else {
            order.push(mark);
            counts[usize::from(id[0])] += 1;
        }
        if let Some(after) = tables[number].next()? {
            if after <= id {
                return Err(MergeFailure::Unfit(parts[number].path.clone(), Some("has an index that is out of order")));
            }
            next.push(Reverse((after, number)));
        }
    }
    Ok((order, counts))
}

/// Writes the index of the new pack.
fn write_index(
    mut out: MergeOutput,
    parts: &[SourcePack],
    (order, counts): (&[u8], &[u32; 256]),
    checksum: &[u8; CHECKSUM_BYTES],
) -> Result<MergeOutput, MergeFailure> {
    write_header(&mut out, counts)?;
    rows::<ID_BYTES>(parts, order, IndexTable::Ids, |_, id| Ok(out.write_all(&id)?))?;
    rows::<4>(parts, order, IndexTable::Crcs, |_, crc| Ok(out.write_all(&crc)?))?;
    rows::<4>(parts, order, IndexTable::Offsets, |part, offset| {
        let offset =
            u32::try_from(part.new_offset(u32::from_be_bytes(offset))).ok().filter(|offset| offset & LARGE_OFFSET == 0);
        let offset = offset.ok_or_else(|| StoreError::Damaged("a merged pack would be too large".to_owned()))?;
        Ok(out.write_all(&offset.to_be_bytes())?)
    })?;
    out.write_all(checksum)?;
    out.finish()?;
    Ok(out)
}

/// The rows of a table of all packs, each object once, in the order of ids.
fn rows<const BYTES: usize>(
    parts: &[SourcePack],
    order: &[u8],
    table: IndexTable,
    mut each: impl FnMut(&SourcePack, [u8; BYTES]) -> Result<(), MergeFailure>,
) -> Result<(), MergeFailure> {
    let mut tables = parts.iter().map(|part| part.index.rows::<BYTES>(table)).collect::<io::Result<Vec<_>>>()?;
    for entry in order {
        let number = usize::from(entry & !DUPLICATE);
        match tables[number].next()? {
            Some(row) if entry & DUPLICATE == 0 => each(&parts[number], row)?,
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// A temporary file, and the checksum of its content.
struct MergeOutput {
    temp_pack: TempPack,
    hasher: Sha1,
}

impl MergeOutput {
    /// Appends the checksum.
    fn finish(&mut self) -> io::Result<[u8; CHECKSUM_BYTES]> {
        let checksum: [u8; CHECKSUM_BYTES] = std::mem::take(&mut self.hasher).finalize().into();
        self.write_all(&checksum)?;
        self.temp_pack.finish()?;
        Ok(checksum)
    }
}

impl Write for MergeOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.temp_pack.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temp_pack.flush()
    }
}
