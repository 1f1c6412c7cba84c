//! Start over a large tree, and search in it, compared with `grep -r`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::http::BenchClient;
use crate::machine::{self, ProcessMemory};
use crate::pages::RARE_WORD;
use crate::plan::RunPlan;
use crate::run::BenchRun;
use crate::series::RoundSeries;
use crate::server::{ServerPlace, ServerProcess};
use crate::table::{MarkdownTable, TableCell, column, factor, text};

/// Timeout until search is complete after a start.
const INDEXING_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of files per `grep` command.
const MAX_GREP_FILES: usize = 5_000;
/// Limit of a search for the rare word: the maximum of a search.
const RARE_WORD_LIMIT: usize = 500;
/// Limit of other searches.
const SEARCH_LIMIT: usize = 50;

/// Results of starts and searches.
pub struct ReadingResults {
    /// Description of the corpus.
    pub corpus: String,
    /// First start over a folder.
    pub first_start: ServerStart,
    /// Second start over the same, unchanged folder.
    pub restart: ServerStart,
    /// One entry per question.
    pub questions: Vec<MeasuredQuestion>,
}

/// One start.
pub struct ServerStart {
    /// From the start of the process until `/readyz` succeeds.
    pub ready_after: Duration,
    /// From the start of the process until a search finds what `grep` finds.
    pub indexed_after: Duration,
    /// Memory of the idle server.
    pub memory: ProcessMemory,
}

/// Results of one question.
pub struct MeasuredQuestion {
    /// The question.
    pub question: BenchQuestion,
    /// Number of pages that `grep` finds.
    pub pages: usize,
    /// svcfs.
    pub svcfs: RoundSeries,
    /// `grep -r`.
    pub grep: RoundSeries,
}

/// A search query.
#[derive(Debug, Clone, Copy)]
pub struct BenchQuestion {
    /// Its type.
    pub kind: &'static str,
    /// The query for svcfs.
    pub query: &'static str,
    /// The words for `grep`; later ones are searched in the matches of the first.
    pub grep: &'static [&'static str],
}

/// The rare word is first: it shows whether the index is complete.
const TLDR_QUESTIONS: [BenchQuestion; 4] = [
    BenchQuestion { kind: "rare word", query: "zpaq", grep: &["zpaq"] },
    BenchQuestion { kind: "two words", query: "btrfs snapshot", grep: &["btrfs", "snapshot"] },
    BenchQuestion { kind: "phrase", query: "\"public key\"", grep: &["public key"] },
    BenchQuestion { kind: "common word", query: "file", grep: &["file"] },
];
const GENERATED_QUESTIONS: [BenchQuestion; 4] = [
    BenchQuestion { kind: "rare word", query: RARE_WORD, grep: &[RARE_WORD] },
    BenchQuestion { kind: "two words", query: "tide copper", grep: &["tide", "copper"] },
    BenchQuestion { kind: "phrase", query: "\"tide copper\"", grep: &["tide copper"] },
    BenchQuestion { kind: "common word", query: "tide", grep: &["tide"] },
];

/// Measures starts and searches.
///
/// # Errors
/// When the server fails or does not find what `grep` finds, or when the run is stopped.
pub fn measure(run: &BenchRun, plan: &RunPlan) -> Result<ReadingResults> {
    let root = run.path("corpus");
    std::fs::create_dir(&root)?;
    let (name, questions) = unpack(run, plan, &root)?;
    let count = machine::run(Command::new("find").arg(&root).args(["-name", "*.md"]))?.lines().count();
    let size = machine::size_on_disk(&root)? as f64 / f64::from(1 << 20);
    let corpus = format!("{name}, {count} pages, {size:.0} MiB on the disk");
    let place = ServerPlace { root: &root, mountpoint: None, log: &run.path("corpus.log"), idle_time: plan.idle_time };
    let (rare, expected) = (questions[0], grep(&root, questions[0].grep)?);
    run.flush_disk()?;
    run.report(&format!("first start over {corpus}"));
    let (server, first) = start(run, place, rare, &expected)?;
    server.stop()?;
    run.flush_disk()?;
    run.report("start again, nothing changed");
    let (server, restart) = start(run, place, rare, &expected)?;
    let mut results = Vec::new();
    for question in questions {
        run.report(&format!("searching: {}", question.kind));
        let mut client = BenchClient::connect(server.address())?;
        let pages = grep(&root, question.grep)?.len();
        let (mut svcfs, mut grep_series) = (RoundSeries::default(), RoundSeries::default());
        svcfs.add(run.measure_round(plan.search_round, |_| {
            let matches = client.search(question.query, SEARCH_LIMIT)?;
            ensure!(!matches.is_empty() || pages == 0, "search for `{}` finds nothing", question.query);
            Ok(())
        })?);
        grep_series.add(run.measure_round(plan.grep_round, |_| grep(&root, question.grep).map(drop))?);
        results.push(MeasuredQuestion { question, pages, svcfs, grep: grep_series });
    }
    server.stop()?;
    Ok(ReadingResults { corpus, first_start: first, restart, questions: results })
}

/// Unpacks the corpus; returns its name and questions.
fn unpack(run: &BenchRun, plan: &RunPlan, root: &Path) -> Result<(&'static str, [BenchQuestion; 4])> {
    match &plan.corpus {
        Some(archive) => {
            machine::run(Command::new("tar").arg("xJf").arg(archive).arg("-C").arg(root))?;
            Ok(("tldr-pages", TLDR_QUESTIONS))
        }
        None => {
            plan.pages.write_tree(run, root)?;
            Ok(("the generated tree", GENERATED_QUESTIONS))
        }
    }
}

fn start(
    run: &BenchRun,
    place: ServerPlace<'_>,
    rare: BenchQuestion,
    expected: &BTreeSet<PathBuf>,
) -> Result<(ServerProcess, ServerStart)> {
    let server = ServerProcess::start(run, place)?;
    let mut client = BenchClient::connect(server.address())?;
    // Polling without a pause would slow down the indexer.
    run.wait_until(
        &format!("search for `{}` finds what grep finds: {expected:?}", rare.query),
        INDEXING_TIMEOUT,
        || {
            let matches: BTreeSet<PathBuf> =
                client.search(rare.query, RARE_WORD_LIMIT)?.iter().map(|path| place.root.join(path)).collect();
            Ok(matches == *expected)
        },
    )?;
    let matches = server.started_at.elapsed();
    server.wait_until_idle(run)?;
    let memory = server.memory()?;
    let ready = server.ready_after;
    Ok((server, ServerStart { ready_after: ready, indexed_after: matches, memory }))
}

impl ReadingResults {
    /// Searching, and starting.
    pub fn tables(&self) -> [MarkdownTable; 2] {
        [self.searches(), self.starts()]
    }

    fn searches(&self) -> MarkdownTable {
        let columns = vec![
            column(format!("searching {}", self.corpus), "question"),
            column("pages with it", "pages"),
            column("p50", "p50_us"),
            column("p95", "p95_us"),
            column("p99", "p99_us"),
            column("`grep -r` p50", "grep_p50_us"),
            column("× `grep -r`", "times_grep"),
        ];
        let mut table = MarkdownTable::new("searching", columns);
        for MeasuredQuestion { question, pages, svcfs, grep } in &self.questions {
            table.add_row([
                text(format!("{}: `{}`", question.kind, question.query)),
                TableCell::Count(*pages),
                TableCell::Time(svcfs.percentile(0.5)),
                TableCell::Time(svcfs.percentile(0.95)),
                TableCell::Time(svcfs.percentile(0.99)),
                TableCell::Time(grep.percentile(0.5)),
                factor(svcfs.typical_rate(), grep.typical_rate()),
            ]);
        }
        let counts: Vec<String> = self.questions.iter().map(|results| results.svcfs.len().to_string()).collect();
        table.notes.push(format!("Searches per row: {}.", counts.join(", ")));
        table
    }

    fn starts(&self) -> MarkdownTable {
        let columns = vec![
            column(format!("starting over {}", self.corpus), "start"),
            column("`/readyz`", "ready_us"),
            column("search answers right", "found_us"),
            column("memory at rest", "resident_bytes"),
            column("most memory", "most_bytes"),
        ];
        let mut table = MarkdownTable::new("starting", columns);
        for (name, ServerStart { ready_after: ready, indexed_after: matches, memory }) in
            [("first: adopt, commit and index", &self.first_start), ("again: nothing changed", &self.restart)]
        {
            let times = [TableCell::Time(Some(*ready)), TableCell::Time(Some(*matches))];
            let memory = [TableCell::Bytes(memory.resident), TableCell::Bytes(memory.peak)];
            table.add_row([text(name)].into_iter().chain(times).chain(memory));
        }
        table
    }
}

/// The pages that contain all these words, ignoring case, from the page cache.
fn grep(root: &Path, words: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let (first, more_words) = words.split_first().context("nothing to look for")?;
    let mut command = Command::new("grep");
    // The words are ASCII; locale rules would make grep slower.
    command
        .env("LC_ALL", "C")
        .args(["-rliwF", "--null", "--include=*.md", "--exclude-dir=.git", "--exclude-dir=.svc", "-e", first])
        .arg(root);
    let mut matches = files(command)?;
    for word in more_words {
        let candidates = std::mem::take(&mut matches).into_iter().collect::<Vec<_>>();
        for part in candidates.chunks(MAX_GREP_FILES) {
            let mut command = Command::new("grep");
            command.env("LC_ALL", "C").args(["-liwF", "--null", "-e", word, "--"]).args(part);
            matches.extend(files(command)?);
        }
    }
    Ok(matches)
}

fn files(mut command: Command) -> Result<BTreeSet<PathBuf>> {
    let started = Instant::now();
    let output = command.stdin(Stdio::null()).output().context("cannot run grep")?;
    // Exit code 1: no matches.
    ensure!(output.status.code().is_some_and(|code| code < 2), "grep fails after {:?}", started.elapsed());
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect())
}
