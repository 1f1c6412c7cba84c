//! Files that no version can hold, while they come.

use super::*;

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7) as u8).collect()
}

/// Bytes of files that are beside the tree.
fn beside(served: &Served) -> u64 {
    let files = std::fs::read_dir(served.folder.path().join("default/.svc/state/tmp")).unwrap();
    // One may be moved into the tree in this moment.
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

/// Shows: DAV-5
#[test]
fn a_long_file_streams_to_disk_and_leaves_nothing_when_aborted() {
    let served = Served::new();
    served.put("/a.bin", "old");
    let before = beside(&served);
    let mut stream = TcpStream::connect(served.address).unwrap();
    let length = MAX_FILE_BYTES + 1;
    write!(stream, "PUT /a.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n").unwrap();
    stream.write_all(&content(5 << 20)).unwrap();
    wait_until("all but the last block is on the disk", || beside(&served) >= before + (4 << 20));
    drop(stream);
    wait_until("nothing is left", || beside(&served) <= before);
    assert_eq!(served.text("a.bin").unwrap(), "old");
    let listed = served.send("PROPFIND", "/", &[("depth", "1")], "").text();
    assert!(!listed.contains("upload"), "{listed}");
}

/// Shows: DAV-5
#[test]
fn a_file_of_unknown_length_is_written_completely() {
    let served = Served::new();
    let all = content(MAX_FILE_BYTES + 3_000_001);
    let mut stream = TcpStream::connect(served.address).unwrap();
    write!(stream, "PUT /a.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    for chunk in all.chunks(1_000_000) {
        write!(stream, "{:x}\r\n", chunk.len()).unwrap();
        stream.write_all(chunk).unwrap();
        stream.write_all(b"\r\n").unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(served.get("/a.bin").body == all);
}

#[test]
fn a_long_file_with_another_length_than_announced_is_refused() {
    let served = Served::new();
    let announced = (MAX_FILE_BYTES + 1).to_string();
    for length in [0, 5, 100_000, 3 << 20] {
        let headers = [("x-expected-entity-length", &*announced), ("transfer-encoding", "chunked")];
        let reply = served.send("PUT", "/a.bin", &headers, content(length));
        assert_eq!(reply.status, 400, "{length}: {}", reply.text());
        assert_eq!(served.get("/a.bin").status, 404);
    }
    wait_until("nothing is left", || beside(&served) == 0);
}
