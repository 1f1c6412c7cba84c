//! The index of a pack (gitformat-pack(5), version 2): tables of the object ids in order, their
//! CRCs, and their offsets.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::CHECKSUM_BYTES;

const MAGIC: &[u8; 8] = b"\xfftOc\0\0\0\x02";
/// Magic and counts.
const HEADER_BYTES: u64 = 8 + 4 * 256;
pub(super) const ID_BYTES: usize = 20;
const ROW_BYTES: u64 = 20 + 4 + 4;
/// Set for an offset of more than 31 bits, which is in a fourth table.
pub(super) const LARGE_OFFSET: u32 = 1 << 31;
const BUFFER_BYTES: usize = 32 << 10;

/// A table with one row per object, in the order of ids.
#[derive(Debug, Clone, Copy)]
pub(super) enum IndexTable {
    /// 20 bytes each.
    Ids,
    /// 4 bytes each.
    Crcs,
    /// 4 bytes each.
    Offsets,
}

/// Writes the header from the number of ids per first byte.
pub(super) fn write_header(out: &mut impl Write, counts: &[u32; 256]) -> io::Result<()> {
    out.write_all(MAGIC)?;
    let mut total = 0_u32;
    for count in counts {
        total = total.saturating_add(*count);
        out.write_all(&total.to_be_bytes())?;
    }
    Ok(())
}

/// An index of a pack below 2 GiB.
pub(super) struct PackIndex {
    file: File,
    /// Number of objects.
    pub(super) count: u32,
    /// The checksum of the pack.
    pub(super) checksum: [u8; CHECKSUM_BYTES],
}

impl PackIndex {
    /// Opens an index; none for another version, a larger pack, or another file.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut header = [0; HEADER_BYTES as usize];
        if bytes < HEADER_BYTES + 2 * CHECKSUM_BYTES as u64 {
            return Ok(None);
        }
        file.read_exact(&mut header)?;
        let count = u32::from_be_bytes([header[1028], header[1029], header[1030], header[1031]]);
        let end = HEADER_BYTES + u64::from(count) * ROW_BYTES;
        if !header.starts_with(MAGIC) || bytes != end + 2 * CHECKSUM_BYTES as u64 {
            return Ok(None);
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        file.seek(SeekFrom::Start(end))?;
        file.read_exact(&mut checksum)?;
        Ok(Some(Self { file, count, checksum }))
    }

    /// The rows of a table. Only one table may be read at a time.
    pub(super) fn rows<const BYTES: usize>(&self, table: IndexTable) -> io::Result<TableRows<'_, BYTES>> {
        let count = u64::from(self.count);
        let start = match table {
            IndexTable::Ids => HEADER_BYTES,
            IndexTable::Crcs => HEADER_BYTES + count * 20,
            IndexTable::Offsets => HEADER_BYTES + count * 24,
        };
        (&self.file).seek(SeekFrom::Start(start))?;
        let buffer_bytes = (self.count as usize * BYTES).clamp(BYTES, BUFFER_BYTES);
        Ok(TableRows { reader: BufReader::with_capacity(buffer_bytes, &self.file), remaining: self.count })
    }
}

/// Rows of a table, in order.
pub(super) struct TableRows<'i, const BYTES: usize> {
    reader: BufReader<&'i File>,
    remaining: u32,
}

impl<const BYTES: usize> TableRows<'_, BYTES> {
    /// The next row; none after the last one.
    pub(super) fn next(&mut self) -> io::Result<Option<[u8; BYTES]>> {
        let Some(remaining) = self.remaining.checked_sub(1) else { return Ok(None) };
        self.remaining = remaining;
        let mut row = [0; BYTES];
        self.reader.read_exact(&mut row)?;
        Ok(Some(row))
    }
}
