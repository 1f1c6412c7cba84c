//! A server under load for a while: what it needs does not grow.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Place, Running, request};

/// Clients at once, each on pages of its own.
const CLIENTS: usize = 8;
/// Pages of each.
const PAGES: usize = 50;
/// How much more memory than after the first third is no growth: allocators breathe.
const BREATH: u64 = 24 << 20;
/// How many more threads than in the first third are no growth: a request has one for itself and
/// may have one it waits for, made when so many first come together.
const COMPANY: u64 = 2 * CLIENTS as u64;
/// What is kept of every change, in bytes: columns of the log that questions about history are
/// answered from.
const KEPT: u64 = 100;

/// One round of a client: write, read, search, ask for links and names.
fn round(url: &str, client: usize, turn: usize) {
    let page = format!("client-{client}/page-{}.md", turn % PAGES);
    let text = format!("# Page {turn}\n\nTurn {turn} of [[page-{}]], word{}.\n", (turn + 1) % PAGES, turn % 500);
    let asked = [
        ("PUT", format!("/api/svc/file?path={page}"), text.as_str()),
        ("GET", format!("/api/svc/file?path={page}"), ""),
        ("GET", format!("/api/svc/search?q=word{}&limit=5", turn % 500), ""),
        ("GET", format!("/api/svc/backlinks?path={page}"), ""),
        ("GET", format!("/api/svc/tree?path=client-{client}"), ""),
    ];
    for (method, target, body) in asked {
        let (status, answer) = request(url, method, &target, body);
        assert_eq!(status, 200, "{method} {target}: {answer}");
    }
}

/// Lets the clients end when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn memory_threads_and_files_do_not_grow_under_load() {
    let seconds = env::var("SVCFS_SOAK_SECONDS").map_or(15, |text| text.parse().expect("a number of seconds"));
    let load = Duration::from_secs(seconds);
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let is_over = AtomicBool::new(false);
    let turns = AtomicU64::new(0);
    // None when the machine is too busy for an answer within half a second.
    let process = || {
        let told: Value = serde_json::from_str(&request(server.url(), "GET", "/readyz", "").1).unwrap();
        let of = |name: &str| told["process"][name].as_u64();
        Some((of("memory_bytes")?, of("threads")?, of("open_files")?, turns.load(Ordering::Relaxed)))
    };
    let (early, late) = thread::scope(|scope| {
        let _ends_also_after_a_failure = Ends(&is_over);
        for client in 0..CLIENTS {
            let (url, is_over, turns) = (server.url(), &is_over, &turns);
            scope.spawn(move || {
                for turn in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    round(url, client, turn);
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let started = Instant::now();
        let most = |until: Duration| {
            let mut most = (0, 0, 0, 0);
            while started.elapsed() < until {
                if let Some(now) = process() {
                    most = (most.0.max(now.0), most.1.max(now.1), most.2.max(now.2), now.3);
                }
                // Between two looks at a machine that is busy enough.
                thread::park_timeout(Duration::from_millis(100));
            }
            most
        };
        let early = most(load / 3);
        let late = most(load);
        (early, late)
    });
    println!("after {} turns: {early:?}; after {}: {late:?}", early.3, late.3);
    assert!(late.3 > early.3, "nothing was done in the later part");
    let room = BREATH + (late.3 - early.3) * KEPT;
    assert!(late.0 < early.0 + room, "memory grew from {} to {} bytes", early.0, late.0);
    assert!(late.1 <= early.1 + COMPANY, "threads grew from {} to {}", early.1, late.1);
    assert!(late.2 <= early.2 + 64, "open files grew from {} to {}", early.2, late.2);
    server.stop();
}
