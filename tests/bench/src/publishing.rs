//! Pages as HTML: rendering, and published pages beside nginx that serves the same HTML from disk.

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};
use svcfs_measure::http::BenchClient;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::RoundSeries;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::MarkdownTable;

use crate::asked::{self, Asked, measured};
use crate::plan::Extent;
use crate::protocols::{Amount, nginx_alone};

/// Bytes of the page.
const PAGE_BYTES: usize = 12 << 10;
/// Clients that read published pages at the same time.
const CLIENTS: usize = 4;
/// Pages that the page links to.
const LINKED: usize = 40;

const UNCACHED: &str = "a page of 12 KiB, not cached: `POST /render`";
const CACHED: &str = "the same, cached: `GET /render`";
const PUBLISHED: &str = "the same at `/p`";

/// What was measured of rendered pages.
pub struct Publishing {
    asked: Vec<Asked>,
    /// Published pages a second, of svcfs and of nginx.
    rates: (RoundSeries, Option<RoundSeries>),
}

/// Measures rendering, and reading by several clients.
///
/// # Errors
/// When the server fails or answers something wrong, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Publishing> {
    run.report("published pages");
    let root = run.path("published");
    fs::create_dir_all(root.join("notes"))?;
    for number in 0..LINKED {
        fs::write(root.join(format!("notes/{number}.md")), format!("---\npublished: true\n---\n# Note {number}\n"))?;
    }
    let text = page();
    fs::write(root.join("page.md"), &text)?;
    let log = run.path("published.log");
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
    let server = ServerProcess::start(run, place)?;
    server.wait_until_idle(run)?;
    let mut client = BenchClient::connect(server.address())?;
    let mut render = |number: usize| -> Result<()> {
        let body = json!({ "path": "page.md", "content": format!("{text}\n{number}\n") });
        client.post("/api/svc/render", &body).map(drop)
    };
    let mut asked = vec![measured(run, UNCACHED, extent.plan.search_round, &mut render)?];
    for (name, target) in [(CACHED, "/api/svc/render?path=page.md"), (PUBLISHED, "/p/page.md")] {
        let mut read = |_: usize| -> Result<()> { client.get(target).map(drop) };
        asked.push(measured(run, name, extent.plan.search_round, &mut read)?);
    }
    let answer: Value = serde_json::from_slice(&client.get("/api/svc/render?path=page.md")?)?;
    ensure!(answer["links"].as_array().is_some_and(|links| links.len() == LINKED), "the page has other links");
    let html = client.get("/p/page.md")?;
    let rates = read_by_many(run, extent.protocols, (server.address(), &html))?;
    server.stop()?;
    fs::remove_dir_all(&root)?;
    Ok(Publishing { asked, rates })
}

/// A page with text, lists, a table, code and links.
fn page() -> String {
    let mut text = "---\npublished: true\ntitle: A long page\n---\n# A long page\n".to_owned();
    let mut number = 0;
    while text.len() < PAGE_BYTES {
        let (a, b) = (number % LINKED, (number * 7 + 3) % LINKED);
        text.push_str(&format!(
            "\n## Part {number}\n\nSome *words* about [[{a}]] and [another](notes/{b}.md), with `code` and **weight**, as people \
             write them in their notes.\n\n- one thing\n- [ ] another one\n\n| a | b |\n|---|---|\n| {a} | {b} |\n"
        ));
        if number.is_multiple_of(5) {
            text.push_str("\n```rust\nfn main() {\n    println!(\"{}\", 1 + 2); // three\n}\n```\n");
        }
        number += 1;
    }
    text
}

/// Pages a second for several clients, in turn from svcfs and from nginx with the same HTML.
fn read_by_many(
    run: &BenchRun,
    amount: Amount,
    (address, html): (SocketAddr, &[u8]),
) -> Result<(RoundSeries, Option<RoundSeries>)> {
    let nginx = nginx_alone(run, &[("page.html", html)])?;
    let (mut ours, mut theirs) = (RoundSeries::default(), nginx.is_some().then(RoundSeries::default));
    for _ in 0..3 {
        let (count, elapsed) = crowd(amount, address, "/p/page.md")?;
        ours.add_counted(count, elapsed);
        if let (Some(nginx), Some(theirs)) = (&nginx, &mut theirs) {
            let (count, elapsed) = crowd(amount, nginx.address(), "/page.html")?;
            theirs.add_counted(count, elapsed);
        }
        run.check_stop()?;
    }
    Ok((ours, theirs))
}

fn crowd(amount: Amount, address: SocketAddr, target: &str) -> Result<(usize, Duration)> {
    let (started, done) = (Instant::now(), AtomicUsize::new(0));
    let read = || -> Result<()> {
        let mut client = BenchClient::connect(address)?;
        while started.elapsed() < amount.reading.time {
            client.get(target)?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(read)).collect();
        clients.into_iter().try_for_each(|client| client.join().map_err(|_| anyhow!("a client panicked"))?)
    })?;
    Ok((done.into_inner(), started.elapsed()))
}

impl Publishing {
    /// The p50 of a page that is not cached, and of one that is.
    pub fn render_times(&self) -> [Option<Duration>; 2] {
        [UNCACHED, CACHED].map(|name| self.asked.iter().find(|asked| asked.name == name)?.later.percentile(0.5))
    }

    /// Published pages a second, of svcfs and of nginx.
    pub fn rates(&self) -> [Option<f64>; 2] {
        [self.rates.0.rate(), self.rates.1.as_ref().and_then(RoundSeries::rate)]
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        asked::table("publishing", "a page as HTML", &[(LINKED + 1, &self.asked)])
    }
}
