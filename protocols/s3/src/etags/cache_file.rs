//! The file that they are kept in: one line of 64 bytes for each, the newest of a path last. No line crosses a sector, so that each is there or not.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use super::{CachedETag, MAX_REMEMBERED, ObjectStamp, PathDigest};

/// Bytes of a line.
const LINE: usize = 64;
/// The first line.
const HEAD: &[u8; LINE] = b"svcfs: ETags of S3, by path. May be removed; is made again.    \n";
/// Lines beyond twice as many as there are paths, before the file is written anew.
const SPARE: usize = 4096;

fn line((key, CachedETag { look, md5, parts }): &(PathDigest, CachedETag)) -> [u8; LINE] {
    let mut line = [0; LINE];
    let mut rest = &mut line[..];
    let fields: [&[u8]; 6] = [
        key,
        &look.size.to_le_bytes(),
        &look.modified.to_le_bytes(),
        &look.changed.to_le_bytes(),
        md5,
        &parts.to_le_bytes(),
    ];
    for field in fields {
        let (here, behind) = rest.split_at_mut(field.len());
        here.copy_from_slice(field);
        rest = behind;
    }
    line
}

fn of_line(line: &[u8; LINE]) -> (PathDigest, CachedETag) {
    fn field<const N: usize>(line: &[u8; LINE], at: usize) -> [u8; N] {
        std::array::from_fn(|byte| line[at + byte])
    }
    let look = ObjectStamp {
        size: u64::from_le_bytes(field(line, 20)),
        modified: i64::from_le_bytes(field(line, 28)),
        changed: i64::from_le_bytes(field(line, 36)),
    };
    (field(line, 0), CachedETag { look, md5: field(line, 44), parts: u32::from_le_bytes(field(line, 60)) })
}

/// What a file has, in its order; nothing where it is none of ours.
pub(super) fn read(path: &Path) -> Vec<(PathDigest, CachedETag)> {
    let read = || {
        let mut all = Vec::new();
        File::open(path)?.take(most() as u64).read_to_end(&mut all)?;
        io::Result::Ok(all)
    };
    let all = read().unwrap_or_default();
    let (lines, _torn) = all.as_chunks::<LINE>();
    match lines.split_first() {
        Some((HEAD, lines)) => lines.iter().map(of_line).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Bytes of a file, at most.
const fn most() -> usize {
    LINE * (1 + 2 * MAX_REMEMBERED + SPARE)
}

/// Adds lines; where there are too many of paths that are told anew, or the file is none of ours, all are written anew.
///
/// # Errors
/// Those of the disk.
#[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
pub(super) fn add(
    path: &Path,
    new: &[(PathDigest, CachedETag)],
    (count, all): (usize, impl FnOnce() -> Vec<(PathDigest, CachedETag)>),
) -> io::Result<()> {
    let lines = |of: &[(PathDigest, CachedETag)]| of.iter().flat_map(line).collect::<Vec<u8>>();
    let length = path.metadata().map_or(0, |there| usize::try_from(there.len()).unwrap_or(usize::MAX));
    let is_full = length / LINE + new.len() > 1 + 2 * count + SPARE;
    if !is_full && length.is_multiple_of(LINE) && is_ours(path) {
        return OpenOptions::new().append(true).open(path)?.write_all(&lines(new));
    }
    let beside = path.with_extension("etags.new");
    let mut file = File::create(&beside)?;
    file.write_all(HEAD)?;
    file.write_all(&lines(&all()))?;
    std::fs::rename(&beside, path)
}

fn is_ours(path: &Path) -> bool {
    let mut head = [0; LINE];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *HEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(of: std::ops::Range<u32>) -> Vec<(PathDigest, CachedETag)> {
        let look = |number: u32| ObjectStamp { size: u64::MAX - u64::from(number), modified: -1, changed: i64::MAX };
        let one = |number: u32| {
            let key = std::array::from_fn(|at| number.to_le_bytes()[at % 4] ^ at as u8);
            (key, CachedETag { look: look(number), md5: [number as u8; 16], parts: number })
        };
        of.map(one).collect()
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the server's own state, as it may be found")]
    fn lines_are_read_as_they_were_added_and_what_is_torn_or_foreign_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etags");
        let (first, second) = (told(0..3), told(3..5));
        let all = || [first.clone(), second.clone()].concat();
        add(&path, &first, (3, || first.clone())).unwrap();
        add(&path, &second, (5, || panic!("nothing is written anew"))).unwrap();
        assert_eq!(read(&path), all());
        for spoilt in [&b"something else"[..], &[0; 3 * LINE], &HEAD[..40], &[&HEAD[..], &[1; 100]].concat()] {
            std::fs::write(&path, spoilt).unwrap();
            assert!(read(&path).len() < 2, "{spoilt:?}");
            add(&path, &second, (5, all)).unwrap();
            assert_eq!(read(&path), all(), "{spoilt:?}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&path), []);
    }

    #[test]
    fn what_is_told_anew_again_and_again_does_not_make_the_file_longer_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("etags");
        let lines = told(0..1000);
        for _ in 0..20 {
            add(&path, &lines, (1000, || lines.clone())).unwrap();
            assert!(path.metadata().unwrap().len() <= (LINE * (1 + 2000 + SPARE)) as u64);
        }
        assert_eq!(read(&path)[..1000], lines);
    }
}
