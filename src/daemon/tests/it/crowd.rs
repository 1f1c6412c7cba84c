//! Many spaces in one process, and many clients.

use std::env;
use std::fmt::Write as _;
use std::io::{Read, Write as _};

use serde_json::{Value, json};

use crate::harness::{Place, Running, connect, eventually, head, request};

/// What a process has beside the one thread of each space.
const THREADS: u64 = 48;
/// What a process may need for 200 spaces of 500 pages.
const MEMORY: u64 = 1_000_000_000;

/// Bytes of a file that slow clients ask for, and what a process may need more for a hundred of
/// them.
const LONG: usize = 16 << 20;
const MORE: u64 = 160_000_000;

fn number(name: &str, usual: usize) -> usize {
    env::var(name).map_or(usual, |text| text.parse().expect("a number"))
}

fn bulk(space: usize, pages: usize) -> String {
    let text = |page: usize| {
        (0..150).fold(format!("# Page {page} of {space}\n\n"), |mut text, word| {
            let _ = write!(text, "word{} ", (page * 7 + word * 13 + space) % 3000);
            text
        })
    };
    let files: Vec<Value> = (0..pages)
        .map(|page| json!({"path": format!("folder-{}/page-{page}.md", page / 50), "content": text(page)}))
        .collect();
    json!({"files": files}).to_string()
}

#[test]
fn many_spaces_need_one_thread_each_and_little_memory() {
    let (spaces, pages) = (number("SVCFS_CROWD_SPACES", 40), number("SVCFS_CROWD_PAGES", 50));
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let ask = |method: &str, target: &str, body: &str| {
        let (status, answer) = request(server.url(), method, target, body);
        assert_eq!(status / 100, 2, "{method} {target}: {status} {answer}");
        serde_json::from_str::<Value>(&answer).unwrap_or_default()
    };
    for space in 0..spaces {
        ask("POST", "/api/spaces", &json!({"name": format!("space-{space}")}).to_string());
        ask("POST", &format!("/api/svc/space-{space}/bulk"), &bulk(space, pages));
    }
    for space in 0..spaces {
        let search = format!("/api/svc/space-{space}/search?q=word{space}&limit=1");
        eventually("every space is searched", || ask("GET", &search, "").to_string().contains("page-"));
    }
    let process = || ask("GET", "/readyz", "")["process"].clone();
    let threads = spaces as u64 + THREADS;
    eventually("threads end when there is nothing to do", || process()["threads"].as_u64().unwrap() <= threads);
    let told = process();
    println!("{spaces} spaces of {pages} pages: {told}");
    assert!(told["memory_bytes"].as_u64().unwrap() < MEMORY, "{told}");
    server.stop();
}

/// Shows: VIS-6
#[test]
fn many_slow_clients_of_a_long_file_need_little_memory() {
    let place = Place::with_root();
    let ports = ["--webdav", "--webdav-port", "0", "--s3", "--s3-port", "0"];
    let server = Running::serve(&place.at("kb"), &ports);
    let protocol = |name: &str| server.greeting.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap().trim();
    let (s3, webdav) = (protocol("s3").to_owned(), protocol("webdav").to_owned());
    assert_eq!(request(&s3, "PUT", "/default/long.txt", &"x".repeat(LONG)).0, 200);
    let memory = || {
        let told = request(server.url(), "GET", "/readyz", "").1;
        serde_json::from_str::<Value>(&told).unwrap()["process"]["memory_bytes"].as_u64().unwrap()
    };
    // What comes in takes room, too, and is let go of.
    eventually("the file is in its place", || request(&webdav, "HEAD", "/long.txt", "").0 == 200);
    let before = memory();
    let asked = [(s3.as_str(), "/default/long.txt"), (&webdav, "/long.txt"), (server.url(), "/raw/long.txt")];
    let slow: Vec<_> = (0..number("SVCFS_SLOW_READERS", 99))
        .map(|client| {
            let (url, target) = asked[client % asked.len()];
            let mut stream = connect(url);
            stream.write_all(head(url, "GET", target, 0).as_bytes()).unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).unwrap();
            assert_eq!(std::str::from_utf8(&first).unwrap(), "HTTP/1.1 200", "{target}");
            stream
        })
        .collect();
    let (after, clients) = (memory(), slow.len());
    println!("{clients} slow clients of {LONG} bytes: {before} bytes before, {after} with them");
    assert!(after < before + MORE, "{before} bytes before, {after} with {clients} slow clients");
    for mut stream in slow {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.ends_with(&[b'x'; 1024]) && all.len() > LONG && all.len() < LONG + 4096, "{}", all.len());
    }
    server.stop();
}

#[test]
fn many_slow_clients_of_long_answers_need_little_memory() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let half = LONG / 2;
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=long.txt", &"x".repeat(half)).0, 200);
    let memory = || {
        let told = request(server.url(), "GET", "/readyz", "").1;
        serde_json::from_str::<Value>(&told).unwrap()["process"]["memory_bytes"].as_u64().unwrap()
    };
    let before = memory();
    let slow: Vec<_> = (0..number("SVCFS_SLOW_READERS", 99))
        .map(|_| {
            let mut stream = connect(server.url());
            stream.write_all(head(server.url(), "GET", "/api/svc/file?path=long.txt", 0).as_bytes()).unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).unwrap();
            assert_eq!(std::str::from_utf8(&first).unwrap(), "HTTP/1.1 200");
            stream
        })
        .collect();
    let (after, clients) = (memory(), slow.len());
    println!("{clients} slow clients of answers of {half} bytes: {before} bytes before, {after} with them");
    assert!(after < before + MORE, "{before} bytes before, {after} with {clients} slow clients");
    for mut stream in slow {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.ends_with(&[b'x'; 1024]) && all.len() > half && all.len() < half + 4096, "{}", all.len());
    }
    server.stop();
}
