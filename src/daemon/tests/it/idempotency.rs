//! Requests that are sent again after the server was killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::harness::{Place, Running, exchange, head, request};

const TARGET: &str = "/api/svc/file/append?path=requests.md";

/// Sends an append with an id and returns its status; none without an answer.
fn append(url: &str, id: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(url.trim_start_matches("http://")).ok()?;
    let body = format!("line {id}");
    let head = head(url, "POST", TARGET, body.len());
    let head = head.replacen("\r\n", &format!("\r\nIdempotency-Key: \"{id}\"\r\n"), 1);
    write!(stream, "{head}{body}").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// Shows: HTTP-13
#[test]
fn a_request_repeated_after_kill_9_is_done_once() {
    let place = Place::new();
    let mut sent: Vec<String> = Vec::new();
    for round in 0..5 {
        let mut server = Running::serve(&place.at("kb"), &[]);
        // The last one of the round before has no answer; the others are repeats.
        for id in sent.iter().rev().take(3) {
            assert_eq!(append(server.url(), id), Some(200), "{id}");
        }
        let url = server.url().to_owned();
        let client = std::thread::Builder::new().name("client".to_owned()).spawn(move || {
            let mut ids = Vec::new();
            for number in 0.. {
                let id = format!("{round}-{number}");
                ids.push(id.clone());
                if append(&url, &id) != Some(200) {
                    break;
                }
            }
            ids
        });
        std::thread::park_timeout(Duration::from_millis(150 + 37 * round));
        server.child.kill().unwrap();
        server.ended();
        sent.extend(client.unwrap().join().unwrap());
    }
    let server = Running::serve(&place.at("kb"), &[]);
    for id in &sent {
        assert_eq!(append(server.url(), id), Some(200), "{id}");
    }
    let (_, text) = request(server.url(), "GET", "/api/svc/file?path=requests.md", "");
    let mut lines: Vec<&str> = text.lines().collect();
    let mut expected: Vec<String> = sent.iter().map(|id| format!("line {id}")).collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected, "each request is done once");
    server.stop();
    let commits = place.git("kb", &["log", "--format=%s", "--", "requests.md"]).lines().count();
    assert_eq!(commits, sent.len(), "each is one commit");
}

#[test]
fn a_repeat_says_that_it_is_one() {
    let place = Place::new();
    let server = Running::serve(&place.at("kb"), &[]);
    let send =
        |key: &str, body: &str| exchange(server.url(), "POST", TARGET, (&format!("Idempotency-Key: {key}\r\n"), body));
    let (status, first_head, first) = send("a", "one");
    assert_eq!((status, first_head.contains("idempotency-replayed")), (200, false), "{first}");
    let (status, head, again) = send("a", "one");
    assert!(status == 200 && head.contains("idempotency-replayed: true"), "{head}");
    assert_eq!(again, first);
    let (status, _, body) = send("a", "two");
    assert!(status == 422 && body.contains("use a new id"), "{status} {body}");
    let (status, _, body) = send(&"x".repeat(200), "two");
    assert!(status == 400 && body.contains("Idempotency-Key"), "{status} {body}");
    server.stop();
}
