//! Contents that are read piece by piece while the file is written.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use svcfs_base::ETag;

use super::*;
use crate::FileContent;

/// More than is handed on from memory.
const LONG: usize = 1 << 20;

fn long(filled_with: u8) -> Bytes {
    vec![filled_with; LONG].into()
}

/// A space with one long file, open.
fn opened() -> (TestSpace, FileContent) {
    let space = TestSpace::new();
    space.vfs.apply(&ann(), Change::put(at("a.bin"), long(b'a'))).unwrap();
    let opened = space.vfs.open_content(Protocol::S3, &at("a.bin")).unwrap();
    assert_eq!((opened.etag, opened.attributes.size), (ETag::from_content(&long(b'a')), LONG as u64));
    assert!(
        matches!(opened.content, FileContent::OnDisk(_)),
        "it would stay in memory for as long as a client is slow"
    );
    (space, opened.content)
}

/// All of it that is left, as doors take it.
fn rest(content: &FileContent, from: usize) -> Result<Vec<u8>, Fault> {
    let mut all = Vec::new();
    loop {
        let at = (from + all.len()) as u64;
        let piece = content.try_read_cached(at, 300_000).map_or_else(|| content.read(at, 300_000), Ok)?;
        if piece.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&piece);
    }
}

/// Shows: VIS-6
#[test]
fn a_long_file_replaced_during_a_read_is_read_as_it_was() {
    let (space, content) = opened();
    assert_eq!(content.read(0, 3).unwrap(), "aaa");
    space.vfs.apply(&ann(), Change::put(at("a.bin"), long(b'b'))).unwrap();
    assert_eq!(rest(&content, 3).unwrap(), vec![b'a'; LONG - 3]);
    let second = space.vfs.open_content(Protocol::S3, &at("a.bin")).unwrap().content;
    space.vfs.apply(&ann(), Change::remove(at("a.bin"))).unwrap();
    assert_eq!(rest(&second, 0).unwrap(), long(b'b'));
    assert!(content.read(LONG as u64, 1).unwrap().is_empty());
}

/// Shows: VIS-6
#[test]
#[expect(clippy::disallowed_methods, reason = "as a disk does that takes nothing more")]
fn a_long_file_modified_during_a_read_reads_as_before_or_fails() {
    let (space, content) = opened();
    let file = space.directory.path().join("a.bin");
    let open = || OpenOptions::new().write(true).append(false).open(&file).unwrap();
    // What comes behind its end is none of it, and neither is another time.
    OpenOptions::new().append(true).open(&file).unwrap().write_all(b"more").unwrap();
    assert_eq!(rest(&content, 0).unwrap(), long(b'a'));
    let (second, then) = (space.vfs.open_content(Protocol::S3, &at("a.bin")).unwrap(), SystemTime::UNIX_EPOCH);
    open().set_modified(then + Duration::from_secs(1)).unwrap();
    // Nothing is copied for it: there is no room for that.
    std::fs::remove_dir_all(space.vfs.state_directory().join("tmp")).unwrap();
    assert_eq!(rest(&second.content, LONG).unwrap(), b"more");
    open().set_modified(then).unwrap();
    assert_eq!(second.content.try_read_cached(LONG as u64 - 1, 2), None);
    assert_eq!(second.content.read(LONG as u64 - 1, 2).unwrap(), "am");
    assert_eq!(second.content.try_read_cached(LONG as u64 - 1, 2).unwrap(), "am", "it was looked at once");
    open().write_all_at(b"b", 0).unwrap();
    open().set_modified(then + Duration::from_secs(2)).unwrap();
    for read in [&content, &second.content] {
        assert_eq!(read.try_read_cached(3, 3), None);
        assert_eq!(read.read(3, 3).unwrap_err().kind(), Kind::Unavailable);
    }
    open().write_all_at(b"a", 0).unwrap();
    assert_eq!(rest(&content, 0).unwrap(), long(b'a'), "it is as it was again");
    open().write_all_at(b"b", 0).unwrap();
    let third = space.vfs.open_content(Protocol::S3, &at("a.bin")).unwrap().content;
    assert_eq!(third.read(0, 3).unwrap(), "baa");
    open().write_all_at(b"c", 0).unwrap();
    open().set_modified(then + Duration::from_secs(3)).unwrap();
    assert_eq!(third.try_read_cached(3, 3), None);
    assert_eq!(third.read(3, 3).unwrap_err().kind(), Kind::Unavailable);
}

/// Bytes that this thread has read.
fn bytes_read() -> u64 {
    let told = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    told.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap().parse().unwrap()
}

/// Shows: VIS-6
#[test]
fn a_constantly_appended_file_is_read_in_time_of_its_length() {
    const LENGTH: usize = 8 * LONG;
    let space = TestSpace::new();
    let text: Vec<u8> = (0..LENGTH).map(|at| (at / 1000) as u8).collect();
    space.vfs.apply(&ann(), Change::put(at("a.log"), text.clone())).unwrap();
    let content = space.vfs.open_content(Protocol::S3, &at("a.log")).unwrap().content;
    let mut log = OpenOptions::new().append(true).open(space.directory.path().join("a.log")).unwrap();
    let before = bytes_read();
    let mut all = Vec::new();
    while all.len() < LENGTH {
        log.write_all(b"more\n").unwrap();
        log.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(all.len() as u64)).unwrap();
        all.extend_from_slice(&content.read(all.len() as u64, 100_000).unwrap());
    }
    assert!(all == text);
    let read = bytes_read() - before;
    assert!(read < 7 * LENGTH as u64, "{read} bytes were read for {LENGTH}");
}

/// Shows: VIS-6
#[test]
fn a_long_blob_without_a_file_is_read_from_a_temporary_file() {
    let space = TestSpace::new();
    let aside = space.vfs.spill_content(long(b'x')).unwrap();
    assert!(matches!(aside, FileContent::OnDisk(_)));
    assert_eq!(rest(&aside, 0).unwrap(), long(b'x'));
    assert!(matches!(space.vfs.spill_content(Bytes::from_static(b"x")).unwrap(), FileContent::InMemory(_)));
}
