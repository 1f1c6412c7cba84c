//! Answers that are as long as the tree, and the memory of a server with a large one.
//!
//! Beside them stand the figures of the state before issue 34 (c6a0807), measured on 2026-11-26.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::Value;
use svcfs_measure::http::{BenchClient, percent_encode};
use svcfs_measure::pages::PageTree;
use svcfs_measure::run::BenchRun;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};

use crate::answers::{self, Judged};
use crate::links;
use crate::plan::Extent;

/// How long a search may take to be complete after the start.
const COMPLETE: Duration = Duration::from_secs(600);
/// How long a server may take to give back what its last answers needed.
const RESTED: Duration = Duration::from_secs(120);
/// Answers of each kind in the day of questions.
const ASKED: usize = 100;
const MIB: u64 = 1 << 20;
/// Most memory of a server at rest, and at any time.
const AT_REST: (u64, &str) = (60 * MIB, "61 MiB");
const AT_MOST: (u64, &str) = (100 * MIB, "130 MiB");

const GRAPH: &str = "/api/svc/graph";
const TREE: &str = "/api/svc/tree";

/// The first answers: what is asked, when, how long it may take in milliseconds, and how long it
/// took before.
const FIRST: [(&str, &str, f64, &str); 4] = [
    (GRAPH, "`/graph`, first after a start", 1000.0, "5.7 s"),
    (TREE, "`/tree`, first after a start", 300.0, "0.8 s"),
    (GRAPH, "`/graph`, first after a write", 1000.0, "–"),
    (TREE, "`/tree`, first after a write", 300.0, "–"),
];

/// What was measured of large trees.
pub struct LargeTrees {
    pages: usize,
    times: Vec<Duration>,
    corpus: String,
    at_rest: u64,
    most: u64,
}

/// Measures a tree with links, and the memory over the corpus.
///
/// # Errors
/// When the server fails or answers something wrong, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<LargeTrees> {
    let pages = extent.sizes.last().copied().unwrap_or(PageTree::new(1_000));
    let times = times(run, extent, pages)?;
    let (corpus, at_rest, most) = memory(run, extent)?;
    Ok(LargeTrees { pages: pages.count, times, corpus, at_rest, most })
}

fn times(run: &BenchRun, extent: &Extent, pages: PageTree) -> Result<Vec<Duration>> {
    run.report(&format!("answers as long as a tree of {} pages", pages.count));
    let root = run.path("large-tree");
    links::plant(run, &root, pages)?;
    run.flush_disk()?;
    let log = run.path("large-tree.log");
    let start = || -> Result<ServerProcess> {
        let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
        let server = ServerProcess::start(run, place)?;
        answers::until_complete(run, &server, (pages.count + 1, COMPLETE))?;
        server.wait_until_idle(run)?;
        Ok(server)
    };
    // The first start reads everything in; what is measured is a later one.
    start()?.stop()?;
    let server = start()?;
    let mut client = BenchClient::connect(server.address())?;
    let mut times = Vec::new();
    for (number, (target, name, ..)) in FIRST.into_iter().enumerate() {
        run.check_stop()?;
        if name.contains("write") {
            client.write(&pages.path(number), format!("# Written again\n\n[[hub]] {number}\n"))?;
        }
        let asked = Instant::now();
        let answer = client.get(target)?;
        times.push(asked.elapsed());
        let answer: Value = serde_json::from_slice(&answer)?;
        let found = answer["nodes"].as_array().map_or_else(|| files(&answer), Vec::len);
        ensure!(found == pages.count + 1, "{name}: {found} of {} pages", pages.count + 1);
    }
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(times)
}

/// How many files a tree has.
fn files(nodes: &Value) -> usize {
    let of_node = |node: &Value| if node["children"].is_array() { files(&node["children"]) } else { 1 };
    nodes.as_array().map_or(0, |nodes| nodes.iter().map(of_node).sum())
}

/// The corpus, and the memory of a server that reads it in and answers questions about it: at rest
/// and at most.
fn memory(run: &BenchRun, extent: &Extent) -> Result<(String, u64, u64)> {
    let root = run.path("memory");
    std::fs::create_dir(&root)?;
    let name = answers::plant_corpus(run, extent, &root)?;
    let pages = answers::pages(&root)?;
    let words = answers::words(&pages)?;
    run.report(&format!("memory over {name}"));
    let log = run.path("memory.log");
    let server = ServerProcess::start(
        run,
        ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time },
    )?;
    answers::until_complete(run, &server, (pages.len(), COMPLETE))?;
    let mut client = BenchClient::connect(server.address())?;
    for target in questions(&root, &pages, &words) {
        run.check_stop()?;
        let answer = client.get(&target)?;
        ensure!(answer.len() >= 2, "`{target}` has no answer");
    }
    // Memory that is not needed goes back some time after the last question.
    let rested = run.wait_until("the server gives memory back", RESTED, || Ok(server.memory()?.resident <= AT_REST.0));
    run.check_stop()?;
    let memory = server.memory()?;
    if rested.is_err() {
        run.report(&format!("{} MiB at rest", memory.resident / MIB));
    }
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok((format!("{name}, {} pages", pages.len()), memory.resident, memory.peak))
}

/// A day of questions, one after the other.
fn questions(root: &Path, pages: &[std::path::PathBuf], words: &[String]) -> Vec<String> {
    let word = |at: usize| &words[at % words.len()];
    let search = |at: usize| {
        format!("/api/svc/search?q={}", percent_encode(&format!("{} {}", word(at), word(at / words.len() + at + 1))))
    };
    let query = |at: usize| {
        let text = format!("TABLE title WHERE _word_count > {} SORT title LIMIT 100", at % 50);
        format!("/api/svc/query?q={}", percent_encode(&text))
    };
    let backlinks = |at: usize| {
        let page = &pages[at * 7919 % pages.len()];
        let path = page.strip_prefix(root).unwrap_or(page);
        format!("/api/svc/backlinks?path={}", percent_encode(&path.to_string_lossy()))
    };
    let whole = [
        GRAPH,
        TREE,
        "/api/svc/janitor",
        "/api/svc/analytics",
        "/api/svc/graph/analytics",
        "/api/svc/graph/communities",
    ];
    let small = (0..ASKED).flat_map(|at| [search(at), query(at), backlinks(at)]);
    small.chain(whole.map(str::to_owned)).collect()
}

impl LargeTrees {
    /// The goals of its times.
    pub fn judged(&self) -> impl Iterator<Item = Judged> {
        FIRST.iter().zip(&self.times).map(|((_, name, wanted, _), time)| Judged {
            what: format!("{name}, {} pages", self.pages),
            wanted: Duration::from_secs_f64(wanted / 1e3),
            measured: Some(*time),
        })
    }

    /// The goals of its memory: what, at most so many bytes, and how many there are.
    pub fn judged_memory(&self) -> [(String, u64, u64); 2] {
        [
            (format!("memory at rest after questions, {}", self.corpus), AT_REST.0, self.at_rest),
            (format!("most memory, first start included, {}", self.corpus), AT_MOST.0, self.most),
        ]
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![
            column("answers as long as the tree, and memory", "what"),
            column("measured", "measured"),
            column("c6a0807", "before"),
        ];
        let mut table = MarkdownTable::new("large_trees", columns);
        for (Judged { what, measured, .. }, (.., before)) in self.judged().zip(FIRST) {
            table.add_row([text(what), TableCell::Time(measured), text(before)]);
        }
        for ((what, _, bytes), (_, before)) in self.judged_memory().into_iter().zip([AT_REST, AT_MOST]) {
            table.add_row([text(what), TableCell::Bytes(bytes), text(before)]);
        }
        let note = "The last column was measured on 2026-11-26, on a quiet machine with two processors.";
        table.notes.push(note.to_owned());
        table
    }
}
