//! The cache file: 64-byte records, the newest of a path last. No record crosses a disk sector, so
//! each is complete or missing after a crash.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use super::{CachedETag, MAX_REMEMBERED, ObjectStamp, PathDigest};

/// Bytes of a record.
const RECORD_BYTES: usize = 64;
/// The first record.
const HEADER: &[u8; RECORD_BYTES] = b"svcfs: ETags of S3, by path. May be removed; is made again.    \n";
/// Records beyond twice the number of entries, before the file is rewritten.
const MAX_OUTDATED: usize = 4096;

fn record((key, CachedETag { stamp, md5, parts }): &(PathDigest, CachedETag)) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let mut rest = &mut record[..];
    let fields: [&[u8]; 6] = [
        key,
        &stamp.size.to_le_bytes(),
        &stamp.modified.to_le_bytes(),
        &stamp.changed.to_le_bytes(),
        md5,
        &parts.to_le_bytes(),
    ];
    for field in fields {
        let (target, tail) = rest.split_at_mut(field.len());
        target.copy_from_slice(field);
        rest = tail;
    }
    record
}

fn parse_record(record: &[u8; RECORD_BYTES]) -> (PathDigest, CachedETag) {
    fn field<const N: usize>(record: &[u8; RECORD_BYTES], at: usize) -> [u8; N] {
        std::array::from_fn(|byte| record[at + byte])
    }
    let stamp = ObjectStamp {
        size: u64::from_le_bytes(field(record, 20)),
        modified: i64::from_le_bytes(field(record, 28)),
        changed: i64::from_le_bytes(field(record, 36)),
    };
    (field(record, 0), CachedETag { stamp, md5: field(record, 44), parts: u32::from_le_bytes(field(record, 60)) })
}

/// Reads the records in file order; nothing when the file is not a cache file.
pub(super) fn read(path: &Path) -> Vec<(PathDigest, CachedETag)> {
    let read = || {
        let mut all = Vec::new();
        File::open(path)?.take(max_file_bytes() as u64).read_to_end(&mut all)?;
        io::Result::Ok(all)
    };
    let all = read().unwrap_or_default();
    let (lines, _torn) = all.as_chunks::<RECORD_BYTES>();
    match lines.split_first() {
        Some((HEADER, lines)) => lines.iter().map(parse_record).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Largest size of the file.
const fn max_file_bytes() -> usize {
    RECORD_BYTES * (1 + 2 * MAX_REMEMBERED + MAX_OUTDATED)
}

/// Appends records; rewrites the file when it has too many outdated ones, or is not a cache file.
#[expect(clippy::disallowed_methods, reason = "server state, hidden from all protocols")]
pub(super) fn add(
    path: &Path,
    new: &[(PathDigest, CachedETag)],
    (count, all): (usize, impl FnOnce() -> Vec<(PathDigest, CachedETag)>),
) -> io::Result<()> {
    let lines = |of: &[(PathDigest, CachedETag)]| of.iter().flat_map(record).collect::<Vec<u8>>();
    let length = path.metadata().map_or(0, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX));
    let is_full = length / RECORD_BYTES + new.len() > 1 + 2 * count + MAX_OUTDATED;
    if !is_full && length.is_multiple_of(RECORD_BYTES) && is_cache_file(path) {
        return OpenOptions::new().append(true).open(path)?.write_all(&lines(new));
    }
    let temp = path.with_extension("etags.new");
    let mut file = File::create(&temp)?;
    file.write_all(HEADER)?;
    file.write_all(&lines(&all()))?;
    std::fs::rename(&temp, path)
}

fn is_cache_file(path: &Path) -> bool {
    let mut head = [0; RECORD_BYTES];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *HEADER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_s3_error(of: std::ops::Range<u32>) -> Vec<(PathDigest, CachedETag)> {
        let stamp = |number: u32| ObjectStamp { size: u64::MAX - u64::from(number), modified: -1, changed: i64::MAX };
        let one = |number: u32| {
            let key = std::array::from_fn(|at| number.to_le_bytes()[at % 4] ^ at as u8);
            (key, CachedETag { stamp: stamp(number), md5: [number as u8; 16], parts: number })
        };
        of.map(one).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the server's own state, as it may be found")]
    fn cache_lines_read_back_in_order_and_torn_files_are_rebuilt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etags");
        let (first, second) = (to_s3_error(0..3), to_s3_error(3..5));
        let all = || [first.clone(), second.clone()].concat();
        add(&path, &first, (3, || first.clone())).unwrap();
        add(&path, &second, (5, || panic!("nothing is written anew"))).unwrap();
        assert_eq!(read(&path), all());
        for spoilt in
            [&b"something else"[..], &[0; 3 * RECORD_BYTES], &HEADER[..40], &[&HEADER[..], &[1; 100]].concat()]
        {
            std::fs::write(&path, spoilt).unwrap();
            assert!(read(&path).len() < 2, "{spoilt:?}");
            add(&path, &second, (5, all)).unwrap();
            assert_eq!(read(&path), all(), "{spoilt:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path), []);
    }

    #[test]
    fn repeated_updates_do_not_grow_the_cache_file_without_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etags");
        let lines = to_s3_error(0..1000);
        for _ in 0..20 {
            add(&path, &lines, (1000, || lines.clone())).unwrap();
            assert!(path.metadata().unwrap().len() <= (RECORD_BYTES * (1 + 2000 + MAX_OUTDATED)) as u64);
        }
        assert_eq!(read(&path)[..1000], lines);
    }
}
