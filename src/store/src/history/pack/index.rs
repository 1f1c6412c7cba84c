//! The index beside a pack (gitformat-pack(5), version 2): the names of its objects in order, then their CRCs, then where they
//! begin, each a table of its own.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::CHECKSUM_BYTES;

const MAGIC: &[u8; 8] = b"\xfftOc\0\0\0\x02";
/// Magic and counts.
const HEAD_BYTES: u64 = 8 + 4 * 256;
pub(super) const ID_BYTES: usize = 20;
const ROW_BYTES: u64 = 20 + 4 + 4;
/// Set where an offset does not fit into 31 bits, and stands in a fourth table.
pub(super) const FAR: u32 = 1 << 31;
const READ_AHEAD: usize = 32 << 10;

/// A table with one row for each object, in the order of their names.
#[derive(Debug, Clone, Copy)]
pub(super) enum IndexTable {
    /// 20 bytes each.
    Ids,
    /// 4 bytes each.
    Crcs,
    /// 4 bytes each.
    Offsets,
}

/// Writes what stands before the tables, from how many names begin with each byte.
pub(super) fn write_head(out: &mut impl Write, counts: &[u32; 256]) -> io::Result<()> {
    out.write_all(MAGIC)?;
    let mut upto = 0_u32;
    for count in counts {
        upto = upto.saturating_add(*count);
        out.write_all(&upto.to_be_bytes())?;
    }
    Ok(())
}

/// An index of a pack below 2 GiB.
pub(super) struct PackIndex {
    file: File,
    /// How many objects.
    pub(super) count: u32,
    /// The checksum of the pack.
    pub(super) checksum: [u8; CHECKSUM_BYTES],
}

impl PackIndex {
    /// Opens an index; none when it is not one, or of another version, or of a larger pack.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut head = [0; HEAD_BYTES as usize];
        if bytes < HEAD_BYTES + 2 * CHECKSUM_BYTES as u64 {
            return Ok(None);
        }
        file.read_exact(&mut head)?;
        let count = u32::from_be_bytes([head[1028], head[1029], head[1030], head[1031]]);
        let end = HEAD_BYTES + u64::from(count) * ROW_BYTES;
        if !head.starts_with(MAGIC) || bytes != end + 2 * CHECKSUM_BYTES as u64 {
            return Ok(None);
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        file.seek(SeekFrom::Start(end))?;
        file.read_exact(&mut checksum)?;
        Ok(Some(Self { file, count, checksum }))
    }

    /// The rows of a table, which takes the file for itself until its end.
    pub(super) fn rows<const BYTES: usize>(&self, table: IndexTable) -> io::Result<TableRows<'_, BYTES>> {
        let count = u64::from(self.count);
        let start = match table {
            IndexTable::Ids => HEAD_BYTES,
            IndexTable::Crcs => HEAD_BYTES + count * 20,
            IndexTable::Offsets => HEAD_BYTES + count * 24,
        };
        (&self.file).seek(SeekFrom::Start(start))?;
        let ahead = (self.count as usize * BYTES).clamp(BYTES, READ_AHEAD);
        Ok(TableRows { reader: BufReader::with_capacity(ahead, &self.file), left: self.count })
    }
}

/// Rows of a table, one after the other.
pub(super) struct TableRows<'i, const BYTES: usize> {
    reader: BufReader<&'i File>,
    left: u32,
}

impl<const BYTES: usize> TableRows<'_, BYTES> {
    /// The next row; none behind the last one.
    pub(super) fn next(&mut self) -> io::Result<Option<[u8; BYTES]>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        let mut row = [0; BYTES];
        self.reader.read_exact(&mut row)?;
        Ok(Some(row))
    }
}
