//! Objects that no version can hold, while they come.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use svcfs_base::MAX_FILE_BYTES;

use super::*;

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7) as u8).collect()
}

/// Bytes of files in a folder of the server's state.
fn bytes_in(served: &Served, folder: &str) -> u64 {
    let files = std::fs::read_dir(served.folder.path().join("default/.svc/state").join(folder)).unwrap();
    // One may be moved away in this moment.
    files
        .filter_map(|file| file.unwrap().metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{what}: not within 20 s");
}

fn begin(served: &Served, target: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).unwrap();
    write!(stream, "PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n").unwrap();
    stream
}

/// Shows: DAV-5
#[test]
fn a_long_object_streams_to_disk_and_leaves_nothing_if_aborted() {
    let served = Served::new();
    served.put("a.bin", "old");
    let before = bytes_in(&served, "tmp");
    let mut stream = begin(&served, "/default/a.bin", MAX_FILE_BYTES + 1);
    stream.write_all(&content(5 << 20)).unwrap();
    wait_until("all but the last block is on the disk", || bytes_in(&served, "tmp") >= before + (4 << 20));
    drop(stream);
    wait_until("nothing is left", || bytes_in(&served, "tmp") <= before);
    assert_eq!(served.text("a.bin").as_deref(), Some("old"));
    assert_eq!(served.get("/default").all("Key"), ["a.bin"]);
}

#[test]
fn an_upload_part_streams_to_disk_and_leaves_nothing_if_aborted() {
    let served = Served::new();
    let id = served.begun("a.bin", &[]);
    let folder = format!("s3/{id}");
    let before = bytes_in(&served, &folder);
    let mut stream = begin(&served, &format!("/default/a.bin?partNumber=1&uploadId={id}"), 8 << 20);
    stream.write_all(&content(5 << 20)).unwrap();
    wait_until("all but the last block is on the disk", || bytes_in(&served, &folder) >= before + (4 << 20));
    drop(stream);
    wait_until("nothing is left", || bytes_in(&served, &folder) == before);
}

#[test]
fn an_object_of_unknown_length_is_hashed_and_written_completely() {
    let served = Served::new();
    let all = content(MAX_FILE_BYTES + 3_000_001);
    let mut stream = TcpStream::connect(served.address).unwrap();
    let head = "PUT /default/a.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                x-amz-sdk-checksum-algorithm: SHA256\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    for chunk in all.chunks(1_000_000) {
        write!(stream, "{:x}\r\n", chunk.len()).unwrap();
        stream.write_all(chunk).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(&etag_of(&all)), "{answer}");
    // The same object, whose length is known.
    let headers = [("x-amz-sdk-checksum-algorithm", "SHA256")];
    let known = served.send("PUT", "/default/b.bin", &headers, all.clone());
    assert!(answer.contains(known.header("x-amz-checksum-sha256")), "{answer}");
    for key in ["a.bin", "b.bin"] {
        assert!(served.get(&format!("/default/{key}")).body == all, "{key}");
    }
}

#[test]
fn a_long_object_whose_checksum_is_another_one_is_not_written() {
    let served = Served::new();
    let headers = [("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")];
    served.send("PUT", "/default/a.bin", &headers, vec![b'x'; MAX_FILE_BYTES + 1]).is(400, "BadDigest");
    served.get("/default/a.bin").is(404, "NoSuchKey");
    wait_until("nothing is left", || bytes_in(&served, "tmp") == 0);
}
