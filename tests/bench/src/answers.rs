//! What the index answers over a large tree: nothing else running, by several clients, and while
//! others write.
//!
//! Beside it stand figures that were measured once: the state before issue 34 (c6a0807), and KiwiFS
//! 0.4.1, which cannot be installed by this script; both over the same tree on a quiet machine with
//! two processors, on 2026-11-26.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;
use svcfs_measure::http::{BenchClient, percent_encode};
use svcfs_measure::machine;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundBound, RoundSeries};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};

use crate::plan::Extent;

const HUB: &str = "bench-hub.md";
/// Pages that link to the hub, and have frontmatter.
const LINKING: usize = 1_500;
/// Fields of the same kind: each is asked for the first time once.
const FIELDS: usize = 20;
const WRITERS: usize = 8;
/// Words that questions are made of.
const WORDS: usize = 40;
const LATER_STARTS: usize = 3;
/// How long a search may take to be complete after the start.
const COMPLETE: Duration = Duration::from_secs(300);

/// All that is measured of answers.
pub struct Answers {
    corpus: String,
    starts: Starts,
    rows: Vec<Answered>,
}

/// How long a server needs until it answers.
struct Starts {
    /// The first start over the tree, until it is ready.
    first: Duration,
    /// The same, until search is complete.
    complete: Duration,
    /// A later start, until it is ready: the shortest of [`LATER_STARTS`].
    later: Duration,
}

/// One question.
struct Answered {
    question: Question,
    series: RoundSeries,
}

/// What is asked, what is wanted, and what others took, in milliseconds: p50 and p99.
#[derive(Debug, Clone, Copy)]
struct Question {
    name: &'static str,
    clients: usize,
    is_busy: bool,
    wanted: [Option<f64>; 2],
    before: &'static str,
    kiwifs: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Search,
    WordCount,
    Aggregate,
    Field,
    Backlinks(&'static str),
}

const QUESTIONS: [Question; 10] = {
    const fn question(name: &'static str, kind: Kind, clients: usize, wanted: [Option<f64>; 2]) -> Question {
        Question { name, clients, is_busy: false, wanted, before: "–", kiwifs: "–", kind }
    }
    const fn beside(question: Question, before: &'static str, kiwifs: &'static str) -> Question {
        Question { before, kiwifs, ..question }
    }
    const SEARCH: &str = "search, two words";
    const BACKLINKS: &str = "`/backlinks` of a page with 1,500 links";
    [
        beside(question(SEARCH, Kind::Search, 1, [Some(1.5), Some(6.0)]), "3.5 / 9.0", "0.95 / 8.4"),
        beside(question(SEARCH, Kind::Search, 4, [Some(3.0), None]), "7.7 / –", "2.3 / –"),
        beside(
            Question {
                is_busy: true,
                ..question("search, two words, while 8 clients write", Kind::Search, 1, [Some(8.0), Some(25.0)])
            },
            "123 / 299",
            "6.5 / 41",
        ),
        beside(
            question("`TABLE title WHERE _word_count > 40 LIMIT 20`", Kind::WordCount, 1, [Some(5.0), None]),
            "refused",
            "0.9 / –",
        ),
        beside(question("`/query/aggregate`, every page", Kind::Aggregate, 1, [Some(3.0), None]), "refused", "6.8 / –"),
        beside(
            question("a field of the frontmatter, first use included", Kind::Field, 1, [None, Some(10.0)]),
            "– / 37",
            "– / 69",
        ),
        beside(question(BACKLINKS, Kind::Backlinks(""), 1, [Some(1.5), None]), "14.9 / –", "4.2 / –"),
        beside(question(BACKLINKS, Kind::Backlinks(""), 4, [Some(4.0), None]), "42 / –", "7.9 / –"),
        question("the same with `limit=50`", Kind::Backlinks("&limit=50"), 1, [Some(1.5), None]),
        question("the same with `limit=50`", Kind::Backlinks("&limit=50"), 4, [Some(4.0), None]),
    ]
};

/// Measures all of them in one tree.
///
/// # Errors
/// When the server fails or answers something wrong, or when the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Answers> {
    let root = run.path("answers");
    std::fs::create_dir(&root)?;
    let name = plant_corpus(run, extent, &root)?;
    let pages = pages(&root)?;
    let words = words(&pages)?;
    plant(&root)?;
    run.flush_disk()?;
    let log = run.path("answers.log");
    let count = pages.len() + LINKING + 1;
    let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
    let (server, starts) = start(run, place, count)?;
    server.wait_until_idle(run)?;
    let mut rows = Vec::new();
    for question in QUESTIONS {
        run.report(&format!("{}, clients: {}", question.name, question.clients));
        let asked = Asked { server: &server, words: &words, bound: extent.plan.search_round };
        rows.push(Answered { question, series: asked.measured(run, question)? });
    }
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(Answers { corpus: format!("{name}, {count} pages"), starts, rows })
}

/// Puts the corpus into a root, or a generated tree where there is none; what it is called.
pub fn plant_corpus(run: &BenchRun, extent: &Extent, root: &Path) -> Result<&'static str> {
    let Some(archive) = &extent.plan.corpus else {
        extent.plan.pages.write_tree(run, root)?;
        return Ok("the generated tree");
    };
    machine::run(Command::new("tar").arg("xJf").arg(archive).arg("-C").arg(root))?;
    Ok("tldr-pages")
}

/// Waits until search knows every page, and checks that it knows so many.
pub fn until_complete(run: &BenchRun, server: &ServerProcess, (count, timeout): (usize, Duration)) -> Result<()> {
    let mut client = BenchClient::connect(server.address())?;
    run.wait_until("search is complete", timeout, || {
        let answer: Value = serde_json::from_slice(&client.get("/readyz")?)?;
        Ok(answer["index"]["complete"] == true)
    })?;
    let answer: Value = serde_json::from_slice(&client.get("/api/svc/query?q=COUNT")?)?;
    ensure!(answer["count"] == count, "search knows {} of {count} pages", answer["count"]);
    Ok(())
}

/// Starts a server over a tree of so many pages for the first time, and again.
fn start(run: &BenchRun, place: ServerPlace<'_>, count: usize) -> Result<(ServerProcess, Starts)> {
    run.report("first start");
    let mut server = ServerProcess::start(run, place)?;
    until_complete(run, &server, (count, COMPLETE))?;
    let (first, complete) = (server.ready_after, server.started_at.elapsed());
    let mut later = COMPLETE;
    for _ in 0..LATER_STARTS {
        server.wait_until_idle(run)?;
        server.stop()?;
        run.flush_disk()?;
        server = ServerProcess::start(run, place)?;
        later = later.min(server.ready_after);
    }
    Ok((server, Starts { first, complete, later }))
}

struct Asked<'a> {
    server: &'a ServerProcess,
    words: &'a [String],
    bound: RoundBound,
}

impl Asked<'_> {
    fn measured(&self, run: &BenchRun, question: Question) -> Result<RoundSeries> {
        let (is_over, stop) = (AtomicBool::new(false), run.stop_token());
        let round = thread::scope(|scope| {
            let writers: Vec<_> = (0..if question.is_busy { WRITERS } else { 0 })
                .map(|writer| {
                    scope.spawn({
                        let is_over = &is_over;
                        move || self.write(writer, is_over)
                    })
                })
                .collect();
            let begun = Instant::now();
            let clients: Vec<_> = (0..question.clients)
                .map(|client| scope.spawn(move || self.ask(stop, question.kind, client)))
                .collect();
            let mut latencies = Vec::new();
            let mut outcome = Ok(());
            for client in clients {
                match client.join().map_err(|_| anyhow!("a client panicked")).flatten() {
                    Ok(of_client) => latencies.extend(of_client),
                    Err(error) => outcome = Err(error),
                }
            }
            let elapsed = begun.elapsed();
            is_over.store(true, Ordering::Relaxed);
            for writer in writers {
                writer.join().map_err(|_| anyhow!("a writer panicked")).flatten()?;
            }
            outcome.map(|()| MeasuredRound { latencies, elapsed })
        })?;
        run.check_stop()?;
        let mut series = RoundSeries::default();
        series.add(round);
        Ok(series)
    }

    fn write(&self, writer: usize, is_over: &AtomicBool) -> Result<()> {
        let mut client = BenchClient::connect(self.server.address())?;
        let mut number = 0;
        while !is_over.load(Ordering::Relaxed) {
            let word = |at: usize| self.words[(writer * 7 + number * 13 + at) % self.words.len()].as_str();
            let body: Vec<&str> = (0..60).map(word).collect();
            let path =
                format!("/api/svc/file?path={}", percent_encode(&format!("bench/w{writer}/p{}.md", number % 200)));
            client.put(&path, format!("# Page {number}\n\n{}\n", body.join(" ")))?;
            number += 1;
        }
        Ok(())
    }

    fn ask(&self, stop: &svcfs_work::StopToken, kind: Kind, client: usize) -> Result<Vec<Duration>> {
        let mut connection = BenchClient::connect(self.server.address())?;
        let (begun, mut latencies) = (Instant::now(), Vec::new());
        while latencies.len() < self.bound.count && begun.elapsed() < self.bound.time && !stop.is_requested() {
            let target = self.target(kind, latencies.len() * 31 + client * 17);
            let asked = Instant::now();
            let body = connection.get(&target)?;
            latencies.push(asked.elapsed());
            ensure!(body.len() > 2, "`{target}` finds nothing");
        }
        Ok(latencies)
    }

    /// What is asked the so-manieth time; answers that were given before are of little use for
    /// most.
    fn target(&self, kind: Kind, number: usize) -> String {
        let query = |q: &str| format!("/api/svc/query?q={}", percent_encode(q));
        match kind {
            Kind::Search => {
                let (first, second) =
                    (number % self.words.len(), number / self.words.len() % (self.words.len() - 1) + 1);
                let second = (first + second) % self.words.len();
                format!(
                    "/api/svc/search?q={}",
                    percent_encode(&format!("{} {}", self.words[first], self.words[second]))
                )
            }
            Kind::WordCount => query(&format!("TABLE title WHERE _word_count > {} LIMIT 20", 30 + number % 20)),
            Kind::Aggregate => "/api/svc/query/aggregate?group=kind-0&calc=count".to_owned(),
            Kind::Field => query(&format!("TABLE title WHERE kind-{} = {}", number % FIELDS, number % 7)),
            Kind::Backlinks(more) => format!("/api/svc/backlinks?path={}{more}", percent_encode(HUB)),
        }
    }
}

/// The pages of a tree.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let found = machine::run(Command::new("find").arg(root).args(["-name", "*.md"]))?;
    let mut pages: Vec<PathBuf> = found.lines().map(PathBuf::from).collect();
    pages.sort_unstable();
    Ok(pages)
}

/// Words that many pages have, none of which is in nearly all of them.
pub fn words(pages: &[PathBuf]) -> Result<Vec<String>> {
    let mut counted: HashMap<String, usize> = HashMap::new();
    let english =
        |page: &&PathBuf| !page.components().any(|part| part.as_os_str().to_string_lossy().contains("pages."));
    for page in pages.iter().filter(english).step_by(7).take(1_000) {
        let text = String::from_utf8_lossy(&std::fs::read(page)?).to_lowercase();
        let words = text.split(|character: char| !character.is_ascii_lowercase()).filter(|word| word.len() >= 4);
        let words: std::collections::BTreeSet<&str> = words.collect();
        words.into_iter().for_each(|word| *counted.entry(word.to_owned()).or_default() += 1);
    }
    let mut counted: Vec<(usize, String)> = counted.into_iter().map(|(word, count)| (count, word)).collect();
    counted.sort_unstable_by(|one, other| other.cmp(one));
    let words: Vec<String> = counted.into_iter().skip(10).take(WORDS).map(|(_, word)| word).collect();
    ensure!(words.len() >= 4, "the tree has too few words");
    Ok(words)
}

fn plant(root: &Path) -> Result<()> {
    std::fs::create_dir_all(root.join("bench-linking")).context("no folder for linking pages")?;
    std::fs::write(root.join(HUB), "# Hub\n")?;
    for page in 0..LINKING {
        let fields: String = (0..FIELDS).map(|field| format!("kind-{field}: {}\n", (page + field) % 7)).collect();
        let text =
            format!("---\ntitle: Linking {page}\n{fields}---\n\nThis page leads to [[bench-hub]] and nowhere else.\n");
        std::fs::write(root.join(format!("bench-linking/{page}.md")), text)?;
    }
    Ok(())
}

/// A goal, and what was measured of it.
pub struct Judged {
    /// What is asked for.
    pub what: String,
    /// The most it may take.
    pub wanted: Duration,
    /// What it takes.
    pub measured: Option<Duration>,
}

impl Answers {
    /// Every goal.
    pub fn judged(&self) -> impl Iterator<Item = Judged> {
        let shares = [("p50", 0.5), ("p99", 0.99)];
        let Starts { first, complete, later } = self.starts;
        let start = |what: &str, wanted, measured| Judged { what: what.to_owned(), wanted, measured: Some(measured) };
        let starts = [
            start("first start until ready", Duration::from_millis(1_900), first),
            start("first start until search is complete", Duration::from_millis(6_300), complete),
            start("later start until ready", Duration::from_millis(300), later),
        ];
        let answers = self.rows.iter().flat_map(move |Answered { question, series }| {
            let goals = question.wanted.into_iter().zip(shares);
            goals.filter_map(move |(wanted, (name, share))| {
                let what = format!("{}, clients: {}, {name}", question.name, question.clients);
                let wanted = Duration::from_secs_f64(wanted? / 1e3);
                Some(Judged { what, wanted, measured: series.percentile(share) })
            })
        });
        starts.into_iter().chain(answers)
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![
            column(format!("answers over {}", self.corpus), "question"),
            column("clients", "clients"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
            column("c6a0807, p50 / p99 in ms", "before"),
            column("KiwiFS 0.4.1, p50 / p99 in ms", "kiwifs"),
        ];
        let mut table = MarkdownTable::new("answers", columns);
        for Answered { question, series } in &self.rows {
            table.add_row([
                text(question.name),
                TableCell::Count(question.clients),
                TableCell::Time(series.percentile(0.5)),
                TableCell::Time(series.percentile(0.99)),
                text(question.before),
                text(question.kiwifs),
            ]);
        }
        let [first, complete, later] =
            [self.starts.first, self.starts.complete, self.starts.later].map(|time| TableCell::Time(Some(time)));
        table.notes.push(format!(
            "The first start was ready after {first}, and search was complete after {complete} (c6a0807: 1.9 s and 6.3 s; KiwiFS: ready after \
             26 s); a later start was ready after {later} (c6a0807: 0.67 s, KiwiFS: 0.28 s)."
        ));
        table.notes.push(
            "The last two columns were measured on 2026-11-26 over tldr-pages alone, on a quiet machine with two processors."
                .to_owned(),
        );
        table
    }
}
