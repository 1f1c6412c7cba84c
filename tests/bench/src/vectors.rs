//! Search by meaning: embedding, recall, latency and memory.
//!
//! The vectors are those of real texts: the paragraphs of the corpora, and the glosses of WordNet
//! (`SVCFS_WORDNET` names the directory with its `data.*` files). Questions are parts of texts that
//! are not in the set.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use svcfs_measure::http::{BenchClient, percent_encode};
use svcfs_measure::machine;
use svcfs_measure::pages::PageTree;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundSeries, round_bound};
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};
use svcfs_vectors::{ChunkRules, EmbeddedModel, Embedder, NearVector, QuantizedVector, TextKind, VectorSet, chunks};

use crate::plan::Extent;

/// Questions for recall.
const QUESTIONS: usize = 250;
/// Vectors of an answer that are compared.
const SHOWN: usize = 10;
/// Vectors that the search by meaning takes.
const CANDIDATES: usize = 200;
/// Vectors for latency: real ones, then varied copies.
const LARGE_SET: usize = 400_000;
/// How often a changed page is searched.
const CHANGES: usize = 20;
const TIMEOUT: Duration = Duration::from_secs(10);
const SETTINGS: &str = "[search.vector]\nenabled = ";

/// All that is measured of the search by meaning.
pub struct Vectors {
    real: usize,
    embedding: Option<f64>,
    recall: f64,
    large: usize,
    scan: RoundSeries,
    server: ServedVectors,
}

/// What is measured of a server.
struct ServedVectors {
    pages: usize,
    /// Memory without and with vectors, in bytes.
    memory: (u64, u64),
    searches: RoundSeries,
    /// From the answer to a write until the page is found.
    changes: RoundSeries,
}

/// Measures the engine, then a server.
///
/// # Errors
/// When a text cannot be read, the server fails, or the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Vectors> {
    let is_full = extent.plan.corpus.is_some();
    let mut texts = real_texts(run, &extent.corpora)?;
    ensure!(texts.len() > 2 * QUESTIONS, "there are too few texts in `{}`", extent.corpora.display());
    if !is_full {
        texts.truncate(5_000);
    }
    run.report(&format!("embedding {} texts", texts.len()));
    // Spread over all texts, and not in the set.
    let step = texts.len() / QUESTIONS;
    let questions: Vec<String> = texts.iter().step_by(step).take(QUESTIONS).map(|text| first_half(text)).collect();
    let texts: Vec<&str> = texts.iter().enumerate().filter(|(at, _)| at % step != 0).map(|(_, text)| &**text).collect();
    let started = Instant::now();
    let vectors = embed(run, &texts)?;
    let embedding = Some(texts.len() as f64 / started.elapsed().as_secs_f64());
    let questions: Vec<Vec<f32>> = embed(run, &questions.iter().map(String::as_str).collect::<Vec<_>>())?;
    let mut set = VectorSet::new(StaticDimensions::GET);
    for (id, vector) in (0..).zip(&vectors) {
        set.insert(id, &QuantizedVector::of(vector));
    }
    run.report(&format!("recall in {} vectors", vectors.len()));
    let recall = recall(run, (&set, &vectors), &questions)?;
    let (real, large) = (vectors.len(), if is_full { LARGE_SET } else { 2 * vectors.len() });
    for id in real..large.max(real) {
        set.insert(id as i64, &QuantizedVector::of(&varied(&vectors, id)));
    }
    drop(vectors);
    run.report(&format!("searching {} vectors", set.len()));
    let mut scan = RoundSeries::default();
    scan.add(run.measure_round(round_bound(1_000, 30), |at| {
        let near = set.search(&questions[at % questions.len()], CANDIDATES, |_| true);
        ensure!(near.len() == CANDIDATES.min(set.len()), "a search found {} vectors", near.len());
        Ok(())
    })?);
    let large = set.len();
    drop(set);
    let pages = *extent.sizes.last().context("a size is missing")?;
    Ok(Vectors { real, embedding, recall, large, scan, server: serve(run, extent, pages)? })
}

/// The dimensions of the embedded model.
struct StaticDimensions;

impl StaticDimensions {
    const GET: std::num::NonZeroUsize = svcfs_vectors::StaticModel::EMBEDDED_DIMENSIONS;
}

/// The vectors of texts, computed by one thread; texts without a known word have none.
fn embed(run: &BenchRun, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
    let mut vectors = Vec::with_capacity(texts.len());
    for batch in texts.chunks(EmbeddedModel.max_batch().get()) {
        run.check_stop()?;
        vectors.extend(EmbeddedModel.embed(batch, TextKind::Page)?.into_iter().flatten());
    }
    Ok(vectors)
}

/// The share of the nearest vectors that the search finds, compared with all cosines.
fn recall(run: &BenchRun, (set, vectors): (&VectorSet, &[Vec<f32>]), questions: &[Vec<f32>]) -> Result<f64> {
    let (mut common, mut all) = (0, 0);
    for question in questions {
        run.check_stop()?;
        let cosine = |vector: &Vec<f32>| vector.iter().zip(question).map(|(a, b)| a * b).sum::<f32>();
        let mut exact: Vec<f32> = vectors.iter().map(cosine).collect();
        exact.select_nth_unstable_by(SHOWN - 1, |a, b| b.total_cmp(a));
        // Texts of the same words have the same vector: each of them is as near.
        let last = exact[SHOWN - 1] - 1e-6;
        let is_near = |near: &&NearVector| cosine(&vectors[near.id as usize]) >= last;
        common += set.search(question, SHOWN, |_| true).iter().filter(is_near).count();
        all += SHOWN;
    }
    Ok(common as f64 / all as f64)
}

/// A copy of a real vector, turned towards another one.
fn varied(vectors: &[Vec<f32>], id: usize) -> Vec<f32> {
    let (one, other) = (&vectors[id % vectors.len()], &vectors[(id * 7_919 + 1) % vectors.len()]);
    one.iter().zip(other).map(|(a, b)| a + 0.4 * b).collect()
}

/// The first half of the words of a text.
fn first_half(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words[..words.len().div_ceil(2)].join(" ")
}

/// The distinct texts of the corpora and of WordNet.
fn real_texts(run: &BenchRun, corpora: &Path) -> Result<Vec<String>> {
    let folder = run.path("vectors-corpora");
    std::fs::create_dir_all(&folder)?;
    for entry in std::fs::read_dir(corpora)? {
        let archive = entry?.path();
        if archive.to_string_lossy().ends_with(".tar.xz") {
            machine::run(Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(&folder))?;
        }
    }
    let (mut texts, mut seen) = (Vec::new(), HashSet::new());
    let mut add = |text: String| {
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    };
    let mut folders = vec![folder.clone()];
    while let Some(next) = folders.pop() {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(next)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        entries.sort();
        for path in entries {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let page = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                chunks(&name, &page, ChunkRules::Passages).into_iter().for_each(|chunk| add(chunk.text));
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;
    if let Some(wordnet) = std::env::var_os("SVCFS_WORDNET") {
        for kind in ["adj", "adv", "noun", "verb"] {
            let file = Path::new(&wordnet).join(format!("data.{kind}"));
            let data = std::fs::read_to_string(&file).with_context(|| format!("`{}`", file.display()))?;
            // The lines of the licence begin with a space.
            let lines = data.lines().filter(|line| !line.starts_with(' '));
            let glosses = lines.filter_map(|line| line.split_once(" | ").map(|(_, gloss)| gloss));
            glosses.flat_map(|gloss| gloss.split("; ")).for_each(|part| add(part.trim().to_owned()));
        }
    }
    Ok(texts)
}

/// Measures a server with a tree of this size.
fn serve(run: &BenchRun, extent: &Extent, pages: PageTree) -> Result<ServedVectors> {
    run.report(&format!("search by meaning in {} pages", pages.count));
    let (root, log) = (run.path("vectors"), run.path("vectors.log"));
    std::fs::create_dir_all(root.join(".svc"))?;
    pages.write_tree(run, &root)?;
    let start = |is_enabled: bool| -> Result<ServerProcess> {
        std::fs::write(root.join(".svc/config.toml"), format!("{SETTINGS}{is_enabled}\n"))?;
        let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: extent.plan.idle_time };
        let server = ServerProcess::start(run, place)?;
        server.wait_until_idle(run)?;
        Ok(server)
    };
    let question = |at: usize| {
        let question = first_half(&pages.text(at % pages.count, 0).replace(['#', '\n', '-'], " "));
        question.split_whitespace().skip(at % 7).take(12).collect::<Vec<_>>().join(" ")
    };
    // The first start indexes the tree; both are measured after a restart and the same questions,
    // because searches by words fill the caches of the index, too.
    start(true)?.stop()?;
    let without = start(false)?;
    let mut client = BenchClient::connect(without.address())?;
    run.measure_round(round_bound(1_000, 30), |at| {
        client.get(&format!("/api/svc/search?q={}", percent_encode(&question(at)))).map(drop)
    })?;
    let before = without.memory()?.resident;
    drop(client);
    without.stop()?;
    let server = start(true)?;
    let mut client = BenchClient::connect(server.address())?;
    let mut searches = RoundSeries::default();
    searches.add(run.measure_round(round_bound(1_000, 30), |at| found(&mut client, &question(at)).map(drop))?);
    let after = server.memory()?.resident;
    let mut latencies = Vec::new();
    for (at, word) in TOPICS.iter().cycle().take(CHANGES).enumerate() {
        server.wait_until_idle(run)?;
        let path = format!("changed/{at}.md");
        client.write(
            &path,
            format!("# Note {at}\n\nThe {word} is described in this paragraph, as it was seen in May.\n"),
        )?;
        let started = Instant::now();
        let question = format!("what was seen of the {word}");
        run.wait_until("a changed page is found", TIMEOUT, || Ok(found(&mut client, &question)?.contains(&path)))?;
        latencies.push(started.elapsed());
    }
    let mut changes = RoundSeries::default();
    changes.add(MeasuredRound { elapsed: latencies.iter().sum(), latencies });
    server.stop()?;
    std::fs::remove_dir_all(&root)?;
    Ok(ServedVectors { pages: pages.count, memory: (before, after), searches, changes })
}

/// Things that the generated pages do not have.
const TOPICS: [&str; 5] = ["orchestra", "giraffe", "parliament", "volcano", "bakery"];

/// The pages that the search by meaning finds.
fn found(client: &mut BenchClient, question: &str) -> Result<Vec<String>> {
    let answer = client.post("/api/svc/search/semantic", &json!({ "query": question, "mode": "vector" }))?;
    let pages: Value = serde_json::from_slice(&answer)?;
    let pages = pages.as_array().context("a search did not answer with a list")?;
    Ok(pages.iter().filter_map(|page| page["path"].as_str().map(str::to_owned)).collect())
}

impl Vectors {
    /// Goal, what is wanted, what was measured, and whether it is met.
    pub fn goals(&self) -> Vec<[TableCell; 4]> {
        let time = |what: String, wanted: Duration, measured: Option<Duration>| {
            let is_met = measured.map(|measured| measured <= wanted);
            let goal = format!("≤ {} ms", wanted.as_millis());
            [text(what), text(goal), TableCell::Time(measured), TableCell::Flag(is_met)]
        };
        let Self { server, scan, .. } = self;
        let added = server.memory.1.saturating_sub(server.memory.0);
        let scanned = format!("nearest of {} vectors ({} real)", self.large, self.real);
        let served = format!("`/search/semantic` in {} pages", server.pages);
        let ms = Duration::from_millis;
        vec![
            [
                text("embedding, one core, texts per second"),
                text("≥ 10,000"),
                TableCell::Rate(self.embedding),
                TableCell::Flag(self.embedding.map(|rate| rate >= 10_000.0)),
            ],
            [
                text(format!("recall@{SHOWN} of {} real vectors", self.real)),
                text("≥ 98 %"),
                TableCell::Share(Some(self.recall)),
                TableCell::Flag(Some(self.recall >= 0.98)),
            ],
            time(format!("{scanned}, p50"), ms(10), scan.percentile(0.5)),
            time(format!("{scanned}, p99"), ms(40), scan.percentile(0.99)),
            time(format!("{served}, p50"), ms(10), server.searches.percentile(0.5)),
            time(format!("{served}, p99"), ms(40), server.searches.percentile(0.99)),
            time("a changed page is found by meaning, the longest".to_owned(), ms(500), server.changes.longest()),
            [
                text(format!("memory for vectors of {} pages", server.pages)),
                text("≤ 150 MB"),
                TableCell::Bytes(added),
                TableCell::Flag(Some(added <= 150_000_000)),
            ],
        ]
    }

    /// The table.
    pub fn table(&self) -> MarkdownTable {
        let columns = vec![column("search by meaning", "what"), column("p50", "p50"), column("p99", "p99")];
        let mut table = MarkdownTable::new("vectors", columns);
        let rows = [
            (format!("the {CANDIDATES} nearest of {} vectors ({} real ones)", self.large, self.real), &self.scan),
            (format!("`/search/semantic` in {} pages", self.server.pages), &self.server.searches),
            ("a changed page until it is found".to_owned(), &self.server.changes),
        ];
        for (what, series) in rows {
            let times = [0.5, 0.99].map(|share| TableCell::Time(series.percentile(share)));
            table.add_row([text(what)].into_iter().chain(times));
        }
        table
    }
}
