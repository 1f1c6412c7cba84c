//! Making one pack of many, from file to file.
//!
//! The objects are not deltas of each other, so their bodies are put one behind the other, whole packs at a time. Which objects two
//! packs have is known before: the names in their indices are in order, and are gone through side by side. What is kept in memory
//! is a byte for each object, and four more for those of one pack at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha1::{Digest, Sha1};

use super::batch::{header, path_of};
use super::index::{FAR, ID_BYTES, IndexTable, PackIndex, write_head};
use super::pack_set::StoredPack;
use super::temp_pack::TempPack;
use super::{CHECKSUM_BYTES, FileReuse, is_whole};
use crate::{FailPoint, FailPoints, StoreError};

/// Marks, in the order of all names, an object that an earlier pack has, too.
const AGAIN: u8 = 0x80;
/// Read at once, in bytes.
const BUFFER: u64 = 128 << 10;
/// So many bytes are copied between two looks at whether something else is more urgent.
const SLICE: u64 = 8 << 20;
const HEADER_BYTES: u32 = 12;
/// What git puts beside packs whose fate is not ours to decide.
const COMPANIONS: [&str; 5] = ["keep", "promisor", "bitmap", "rev", "mtimes"];

/// Why packs did not become one.
#[derive(Debug)]
pub(super) enum MergeFailure {
    /// One of them is not ours, or no longer there; or damaged, when there is something to be said about it.
    Unfit(PathBuf, Option<&'static str>),
    /// The server stops.
    Stopping,
    /// The disk refused.
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

/// A pack whose objects are copied.
struct SourcePack {
    path: PathBuf,
    data: File,
    bytes: u64,
    index: PackIndex,
    /// Objects that are left out: where they begin, and how many bytes are left out up to their end.
    left_out: Vec<(u32, u64)>,
    /// Where its objects begin in the new pack.
    start: u64,
}

/// One pack in the making.
pub(super) struct PackMerge<'a> {
    pub(super) fail: &'a FailPoints,
    pub(super) directory: &'a Path,
    /// What its files are called until they are whole, without an extension.
    pub(super) temporary: PathBuf,
    /// Whether it is on the disk for good when it is done.
    pub(super) is_flushed: bool,
    /// Files that may be used again for it.
    pub(super) reuse: Option<FileReuse<'a>>,
}

impl PackMerge<'_> {
    /// Makes one pack of the objects of many, each once. `between` is called between slices, and may end it.
    pub(super) fn run(
        &self,
        parts: &[StoredPack],
        between: &mut dyn FnMut() -> Result<(), MergeFailure>,
    ) -> Result<StoredPack, MergeFailure> {
        self.fail.check(FailPoint::PackMerge)?;
        let mut parts = parts.iter().map(|part| SourcePack::open(&part.path)).collect::<Result<Vec<_>, _>>()?;
        let (order, counts) = order_of(&parts)?;
        let begin = |extension| TempPack::begin(self.temporary.with_extension(extension), self.reuse);
        let output = |draft| MergeOutput { draft, hasher: Sha1::new() };
        let (data, index) = (output(begin("pack")?), output(begin("idx")?));
        let (data, checksum) = self.copied(data, &mut parts, (&order, &counts), between)?;
        let index = indexed(index, &parts, (&order, &counts), &checksum)?;
        let path = path_of(self.directory, &checksum)?;
        let bytes = data.draft.bytes();
        if self.is_flushed {
            self.fail.check(FailPoint::PackFlush)?;
            data.draft.sync()?;
            index.draft.sync()?;
        }
        self.fail.check(FailPoint::PackInstall)?;
        data.draft.place(&path)?;
        index.draft.place(&path.with_extension("idx"))?;
        if self.is_flushed {
            File::open(self.directory)?.sync_all()?;
        }
        self.fail.hit(FailPoint::PackMerged);
        Ok(StoredPack { path, bytes, is_flushed: self.is_flushed })
    }

    /// The data file without its name, and its checksum.
    fn copied(
        &self,
        mut out: MergeOutput,
        parts: &mut [SourcePack],
        (order, counts): (&[u8], &[u32; 256]),
        between: &mut dyn FnMut() -> Result<(), MergeFailure>,
    ) -> Result<(MergeOutput, [u8; CHECKSUM_BYTES]), MergeFailure> {
        out.write_all(&header(counts.iter().sum()))?;
        self.fail.check(FailPoint::PackCopy)?;
        let mut slice_end = SLICE;
        for (number, part) in parts.iter_mut().enumerate() {
            part.start = out.draft.bytes();
            let objects = part.objects(number, order)?;
            let mut source = PackReader::of(part)?;
            for (at, object) in objects.iter().enumerate() {
                let end = objects.get(at + 1).map_or(source.end, |next| u64::from(next & !FAR));
                source.copy(end, (object & FAR == 0).then_some(&mut out))?;
                if out.draft.bytes() >= slice_end {
                    self.fail.check(FailPoint::PackCopy)?;
                    if self.is_flushed {
                        // A little at a time: who flushes the log meanwhile waits for a little only.
                        out.flush()?;
                        out.draft.sync()?;
                    }
                    between()?;
                    slice_end = out.draft.bytes() + SLICE;
                }
            }
            source.finish()?;
        }
        let checksum = out.finish()?;
        Ok((out, checksum))
    }
}

impl SourcePack {
    /// Opens a pack that may be merged.
    fn open(path: &Path) -> Result<Self, MergeFailure> {
        let unfit = |reason| MergeFailure::Unfit(path.to_owned(), reason);
        let if_there = |error: io::Error| match error.kind() {
            // Somebody's `git repack` took it away.
            ErrorKind::NotFound => unfit(None),
            _ => error.into(),
        };
        if COMPANIONS.iter().any(|companion| path.with_extension(companion).exists()) {
            return Err(unfit(None));
        }
        let index = PackIndex::open(&path.with_extension("idx")).map_err(if_there)?.ok_or_else(|| unfit(None))?;
        if !is_whole(&path.with_extension("idx"), SystemTime::UNIX_EPOCH)? {
            return Err(unfit(Some("has a damaged index")));
        }
        let mut data = File::open(path).map_err(if_there)?;
        let bytes = data.metadata()?.len();
        let mut start = [0; HEADER_BYTES as usize];
        let is_too_short = bytes < u64::from(HEADER_BYTES) + CHECKSUM_BYTES as u64;
        if is_too_short || data.read_exact(&mut start).is_err() || start != header(index.count) {
            return Err(unfit(Some("does not belong to its index")));
        }
        Ok(Self { path: path.to_owned(), data, bytes, index, left_out: Vec::new(), start: 0 })
    }

    /// Where its objects begin, in order, marked [`FAR`] where they are left out.
    fn objects(&mut self, number: usize, order: &[u8]) -> Result<Vec<u32>, MergeFailure> {
        let unfit = |reason| MergeFailure::Unfit(self.path.clone(), reason);
        let mut offsets = self.index.rows::<4>(IndexTable::Offsets)?;
        let mut objects = Vec::with_capacity(self.index.count as usize);
        for entry in order.iter().filter(|entry| usize::from(**entry & !AGAIN) == number) {
            let offset = offsets.next()?.map(u32::from_be_bytes).unwrap_or(FAR);
            if offset & FAR != 0 {
                return Err(unfit(None));
            }
            objects.push(if entry & AGAIN == 0 { offset } else { offset | FAR });
        }
        objects.sort_unstable_by_key(|object| object & !FAR);
        let end = self.bytes - CHECKSUM_BYTES as u64;
        let is_in_order = objects.windows(2).all(|pair| pair[0] & !FAR < pair[1] & !FAR);
        let is_from_the_start = objects.first().is_none_or(|first| first & !FAR == HEADER_BYTES);
        if !is_in_order || !is_from_the_start || objects.last().is_some_and(|last| u64::from(last & !FAR) >= end) {
            return Err(unfit(Some("does not belong to its index")));
        }
        let mut sum = 0;
        for (at, object) in objects.iter().enumerate().filter(|(_, object)| *object & FAR != 0) {
            let start = object & !FAR;
            sum += objects.get(at + 1).map_or(end, |next| u64::from(next & !FAR)) - u64::from(start);
            self.left_out.push((start, sum));
        }
        Ok(objects)
    }

    /// Where an object begins in the new pack.
    fn moved(&self, offset: u32) -> u64 {
        let before = self.left_out.partition_point(|(start, _)| *start < offset);
        let left_out = before.checked_sub(1).map_or(0, |at| self.left_out[at].1);
        self.start + u64::from(offset - HEADER_BYTES) - left_out
    }
}

/// The bytes of a part, read once from the first object to the last.
struct PackReader<'p> {
    path: &'p Path,
    reader: BufReader<&'p File>,
    hasher: Sha1,
    /// What its index says of it.
    checksum: [u8; CHECKSUM_BYTES],
    at: u64,
    end: u64,
}

impl<'p> PackReader<'p> {
    fn of(part: &'p SourcePack) -> io::Result<Self> {
        (&part.data).seek(SeekFrom::Start(HEADER_BYTES.into()))?;
        let ahead = usize::try_from(part.bytes.min(BUFFER)).unwrap_or(0);
        let mut hasher = Sha1::new();
        hasher.update(header(part.index.count));
        Ok(Self {
            path: &part.path,
            reader: BufReader::with_capacity(ahead, &part.data),
            hasher,
            checksum: part.index.checksum,
            at: HEADER_BYTES.into(),
            end: part.bytes - CHECKSUM_BYTES as u64,
        })
    }

    /// Reads the object that ends at `end`, and writes it where it is wanted.
    fn copy(&mut self, end: u64, mut out: Option<&mut MergeOutput>) -> Result<(), MergeFailure> {
        let mut is_first = true;
        while self.at < end {
            let bytes = self.reader.fill_buf()?;
            let count = bytes.len().min(usize::try_from(end - self.at).unwrap_or(usize::MAX));
            if count == 0 {
                return Err(MergeFailure::Unfit(self.path.to_owned(), Some("was cut off")));
            }
            // Kinds 1 to 4 are objects of their own; what is made of deltas was packed by git, and stays as it is.
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

    /// Makes sure that what was read is what was written once.
    fn finish(mut self) -> Result<(), MergeFailure> {
        let mut checksum = [0; CHECKSUM_BYTES];
        let is_read = self.reader.read_exact(&mut checksum).is_ok();
        let is_same = checksum == self.checksum && self.hasher.finalize()[..] == checksum;
        if is_read && is_same {
            Ok(())
        } else {
            Err(MergeFailure::Unfit(self.path.to_owned(), Some("is not what was written")))
        }
    }
}

/// From which part each name comes, in the order of all names, and how many different ones begin with each byte.
fn order_of(parts: &[SourcePack]) -> Result<(Vec<u8>, [u32; 256]), MergeFailure> {
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
        let mark = u8::try_from(number).ok().filter(|mark| mark & AGAIN == 0);
        let mark = mark.ok_or_else(|| StoreError::Damaged("too many packs to be merged at once".to_owned()))?;
        if last.replace(id) == Some(id) {
            order.push(mark | AGAIN);
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
fn indexed(
    mut out: MergeOutput,
    parts: &[SourcePack],
    (order, counts): (&[u8], &[u32; 256]),
    checksum: &[u8; CHECKSUM_BYTES],
) -> Result<MergeOutput, MergeFailure> {
    write_head(&mut out, counts)?;
    rows::<ID_BYTES>(parts, order, IndexTable::Ids, |_, id| Ok(out.write_all(&id)?))?;
    rows::<4>(parts, order, IndexTable::Crcs, |_, crc| Ok(out.write_all(&crc)?))?;
    rows::<4>(parts, order, IndexTable::Offsets, |part, offset| {
        let offset = u32::try_from(part.moved(u32::from_be_bytes(offset))).ok().filter(|offset| offset & FAR == 0);
        let offset = offset.ok_or_else(|| StoreError::Damaged("a merged pack would be too large".to_owned()))?;
        Ok(out.write_all(&offset.to_be_bytes())?)
    })?;
    out.write_all(checksum)?;
    out.finish()?;
    Ok(out)
}

/// The rows of a table of all parts, of each object once, in the order of all names.
fn rows<const BYTES: usize>(
    parts: &[SourcePack],
    order: &[u8],
    table: IndexTable,
    mut each: impl FnMut(&SourcePack, [u8; BYTES]) -> Result<(), MergeFailure>,
) -> Result<(), MergeFailure> {
    let mut tables = parts.iter().map(|part| part.index.rows::<BYTES>(table)).collect::<io::Result<Vec<_>>>()?;
    for entry in order {
        let number = usize::from(entry & !AGAIN);
        match tables[number].next()? {
            Some(row) if entry & AGAIN == 0 => each(&parts[number], row)?,
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// A draft, and the checksum of what was written.
struct MergeOutput {
    draft: TempPack,
    hasher: Sha1,
}

impl MergeOutput {
    /// Writes the checksum of what was written.
    fn finish(&mut self) -> io::Result<[u8; CHECKSUM_BYTES]> {
        let checksum: [u8; CHECKSUM_BYTES] = std::mem::take(&mut self.hasher).finalize().into();
        self.write_all(&checksum)?;
        self.draft.finish()?;
        Ok(checksum)
    }
}

impl Write for MergeOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.draft.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.draft.flush()
    }
}
