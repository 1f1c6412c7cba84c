//! Many spaces in one process.

use std::env;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::harness::{Place, Running, eventually, request};

/// What a process has beside the one thread of each space.
const THREADS: u64 = 48;
/// What a process may need for 200 spaces of 500 pages.
const MEMORY: u64 = 1_000_000_000;

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
