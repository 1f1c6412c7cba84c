//! The power goes right after S3 took an object with something said of it, or one that only the
//! disk has.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{Cache, Disk, Evidence, rest, seed};
use crate::crash::random::Random;
use crate::crash::server::{Binary, Server};
use crate::space::wait;

/// A byte more than any version has.
const LARGE: usize = svcfs_base::MAX_FILE_BYTES + 1;

/// Where a server answers S3.
fn address(server: &Server) -> String {
    let mut address = None;
    wait::until("S3 is served", || {
        let said = server.said();
        let told = said.lines().rev().find_map(|line| line.trim().strip_prefix("s3")?.trim().strip_prefix("http://"));
        address = told.map(str::to_owned);
        address.is_some()
    });
    address.unwrap()
}

/// The head of an answer, in small letters.
fn ask(address: &str, request: &str, headers: &str, body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n")
        .unwrap();
    write!(stream, "{headers}\r\n").unwrap();
    stream.write_all(body).unwrap();
    let mut told = Vec::new();
    stream.read_to_end(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told).to_lowercase();
    told.split_once("\r\n\r\n").map(|(head, _)| head.to_owned()).unwrap()
}

/// Shows: S3-7
#[test]
fn metadata_of_an_acked_object_survives_power_loss() {
    let Some(disk) = Disk::formatted("[s3]\nenabled = true\nport = 0\n") else { return };
    let (binary, mut random) = (Binary::build(), Random::new(seed()));
    // Nothing is written before somebody asks for it.
    disk.mount("commit=300").unwrap();
    let server = binary.serve(&disk.root(), None);
    let s3 = address(&server);
    assert!(ask(&s3, "PUT /default/b.txt", "x-amz-meta-mood: old\r\n", b"before").starts_with("http/1.1 200"));
    disk.record();
    let said = "x-amz-meta-mood: calm\r\nContent-Type: text/x-tide\r\nx-amz-tagging: a=1\r\n";
    let put = |request: &str, headers: &str, body: &[u8]| {
        let told = ask(&s3, request, headers, body);
        assert!(told.starts_with("http/1.1 200"), "{request}: {told}");
        disk.position()
    };
    let cuts = [
        put("PUT /default/a.txt", said, b"tide"),
        put("PUT /default/b.txt", "", b"after"),
        put("PUT /default/folder/", "", b""),
        put("PUT /default/large.bin", said, &vec![b'x'; LARGE]),
    ];
    server.stop();
    let record = disk.recorded();
    disk.unmount();
    drop(disk);
    rest();
    for (after, cut) in cuts.into_iter().enumerate() {
        let cache = Cache::Lost;
        let what = format!("after object {after}, cache {cache:?}");
        let left = Evidence(record.left(cut, cache, &mut random));
        let disk = Disk::holding(left.0.clone());
        disk.mount("").unwrap_or_else(|error| panic!("{what}: {error}"));
        let server = binary.rebooted().serve(&disk.root(), None);
        let s3 = address(&server);
        let head = |key: &str| ask(&s3, &format!("HEAD /default/{key}"), "", b"");
        let is_said = |key: &str| {
            let told = head(key);
            for part in ["http/1.1 200", "x-amz-meta-mood: calm", "content-type: text/x-tide"] {
                assert!(told.contains(part), "{what}: {part} is not told of {key}: {told}");
            }
        };
        is_said("a.txt");
        if after >= 1 {
            let told = head("b.txt");
            assert!(told.contains("content-length: 5") && !told.contains("x-amz-meta-mood"), "{what}: {told}");
        }
        if after >= 2 {
            assert!(head("folder/").starts_with("http/1.1 200"), "{what}");
        }
        if after >= 3 {
            is_said("large.bin");
        }
        server.stop();
        disk.unmount();
    }
}
