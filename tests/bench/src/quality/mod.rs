//! How well questions in natural language are answered: by words, by meaning, and by both.
//!
//! The questions were written by hand after reading the pages: `questions/dev.tsv` for tuning,
//! `questions/test.tsv` for figures only. The titles of the pages are a set of their own, so that
//! search by meaning does not lose what search by words finds.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use svcfs_measure::http::{BenchClient, percent_encode};
use svcfs_measure::run::BenchRun;
use svcfs_measure::server::{ServerPlace, ServerProcess};
use svcfs_measure::table::{MarkdownTable, column, text};
use svcfs_text::Page;

use crate::plan::Extent;
use crate::ranking::Marks;
use crate::ranking::questions::{Trial, read_pages};

/// Trees of the repository, by name, with their folder from here.
const OWN_TREES: [(&str, &str); 3] =
    [("handbook", "../corpora/handbook"), ("vault", "../corpora/vault"), ("docs", "../../docs")];

/// Trees in the folder of corpora.
const ARCHIVES: [&str; 2] = ["rust-book", "owasp-cheatsheets"];

const DEV: &str = include_str!("questions/dev.tsv");
const TEST: &str = include_str!("questions/test.tsv");

/// A server that rests so long has embedded all pages.
const IDLE_TIME: Duration = Duration::from_millis(300);

/// Titles of one tree that are searched.
const MAX_TITLES: usize = 100;

/// A later page counts for nothing in the gain.
const GAIN_PAGES: usize = 10;

/// The rankings, as `/eval` calls them, and for people.
const RANKINGS: [(&str, &str); 3] = [("fts", "words"), ("semantic", "meaning"), ("hybrid", "both")];

/// A line of a file of questions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Question {
    tree: String,
    question: String,
    /// Ends of the paths of pages with the answer; empty when the tree has none.
    answers: Vec<String>,
}

/// Reads a file of questions.
fn questions(file: &str) -> impl Iterator<Item = Question> {
    file.lines().skip(1).filter_map(|line| {
        let [tree, question, answers] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        let answers = answers.split('|').filter(|answer| !answer.is_empty()).map(str::to_owned).collect();
        Some(Question { tree: tree.to_owned(), question: question.to_owned(), answers })
    })
}

/// Sums over the questions of a set, by one ranking.
#[derive(Debug, Default, Clone, Copy)]
struct QualitySums {
    marks: Marks,
    first: usize,
    gain: f64,
}

impl QualitySums {
    /// Adds an answer; its rank is 0 without an expected page.
    fn add(&mut self, rank: usize, gain: f64) {
        self.marks.add(rank.checked_sub(1));
        self.first += usize::from(rank == 1);
        self.gain += gain;
    }

    /// hit@1, hit@5, MRR and nDCG@10.
    fn shares(self) -> [f64; 4] {
        let count = self.marks.asked.max(1) as f64;
        [self.first as f64 / count, self.marks.hit_rate(), self.marks.mean_reciprocal(), self.gain / count]
    }
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Quality {
    /// By set and ranking.
    sums: BTreeMap<(String, usize), QualitySums>,
    trees: Vec<String>,
    /// Similarity of the first page by meaning: of questions with an answer, and without.
    similarities: [Vec<f64>; 2],
    /// Median times of each ranking in milliseconds, of each tree.
    times: [Vec<f64>; 3],
}

/// Asks all questions of a server for each tree.
///
/// # Errors
/// When a tree or the server fails.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Quality> {
    let mut quality = Quality::default();
    for (name, folder) in OWN_TREES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let pages = read_pages(&folder).with_context(|| format!("`{}` cannot be read", folder.display()))?;
        quality.ask(run, (name, &pages))?;
    }
    for name in ARCHIVES {
        let archive = extent.corpora.join(format!("{name}.tar.xz"));
        if archive.is_file() {
            let pages = Trial::unpack((&archive, ""), &run.path(&format!("{name}-unpacked")), 0)?.pages;
            quality.ask(run, (name, &pages))?;
        } else {
            run.report(&format!("`{}` is missing; its questions are left out", archive.display()));
        }
    }
    Ok(quality)
}

impl Quality {
    fn ask(&mut self, run: &BenchRun, (tree, pages): (&str, &[(String, String)])) -> Result<()> {
        run.report(&format!("questions about {tree}"));
        let root = run.path(&format!("quality-{tree}"));
        for (path, text) in pages {
            let file = root.join(path);
            file.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(file, text)?;
        }
        fs::create_dir_all(root.join(".svc"))?;
        fs::write(root.join(".svc/config.toml"), "[search.vector]\nenabled = true\n")?;
        let log = run.path(&format!("quality-{tree}.log"));
        let place = ServerPlace { root: &root, mountpoint: None, log: &log, idle_time: IDLE_TIME };
        let server = ServerProcess::start(run, place)?;
        server.wait_until_idle(run)?;
        let mut client = BenchClient::connect(server.address())?;
        let mut asked = 0;
        for (set, file) in [("dev", DEV), ("test", TEST)] {
            let (with, without): (Vec<Question>, Vec<Question>) = questions(file)
                .filter(|question| question.tree == tree)
                .partition(|question| !question.answers.is_empty());
            asked += with.len();
            let expected = with.iter().map(|question| Ok((question.question.clone(), expected(question, pages)?)));
            self.evaluate(&mut client, set, &expected.collect::<Result<Vec<_>>>()?)?;
            for (at, question) in [&with, &without]
                .into_iter()
                .enumerate()
                .flat_map(|(at, all)| all.iter().map(move |question| (at, question)))
            {
                self.similarities[at].extend(best_similarity(&mut client, &question.question)?);
            }
        }
        self.evaluate(&mut client, "titles", &titles(pages))?;
        self.trees.push(format!("{tree} ({} pages, {asked} questions)", pages.len()));
        server.stop()?;
        Ok(())
    }

    /// Adds the answers to questions with their pages.
    fn evaluate(&mut self, client: &mut BenchClient, set: &str, asked: &[(String, Vec<String>)]) -> Result<()> {
        let queries: Vec<Value> =
            asked.iter().map(|(question, paths)| json!({ "question": question, "expected_paths": paths })).collect();
        let answer = client.post("/api/svc/eval", &json!({ "queries": queries, "k": GAIN_PAGES }))?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let answers = answer["per_query"].as_array().context("no answers")?;
        ensure!(answers.len() == asked.len(), "{} answers to {} questions", answers.len(), asked.len());
        for (at, (ranking, _)) in RANKINGS.into_iter().enumerate() {
            self.times[at].extend(answer[ranking]["p50_ms"].as_f64());
            let sums = self.sums.entry((set.to_owned(), at)).or_default();
            for answer in answers {
                let rank = answer[format!("{ranking}_rank")].as_u64().context("vector search is disabled")?;
                sums.add(usize::try_from(rank)?, answer[format!("{ranking}_ndcg")].as_f64().unwrap_or_default());
            }
        }
        Ok(())
    }

    /// The table for people.
    pub fn table(&self) -> MarkdownTable {
        let headings = [("hit@1", "hit_1"), ("hit@5", "hit_5"), ("MRR", "mrr"), ("nDCG@10", "ndcg_10")];
        let columns = [column("questions", "set"), column("ranking", "ranking")].into_iter();
        let mut table =
            MarkdownTable::new("quality", columns.chain(headings.map(|(heading, key)| column(heading, key))).collect());
        for ((set, ranking), sums) in &self.sums {
            let set = match set.as_str() {
                "dev" => format!("natural, for tuning ({})", sums.marks.asked),
                "test" => format!("natural, for figures ({})", sums.marks.asked),
                other => format!("{other} ({})", sums.marks.asked),
            };
            let (_, ranking) = RANKINGS[*ranking];
            let cells = sums.shares().map(|share| text(format!("{share:.3}")));
            table.add_row([text(set), text(ranking)].into_iter().chain(cells));
        }
        table.notes.push(format!("Asked of {}.", self.trees.join(", ")));
        let [with, without] = &self.similarities;
        table.notes.push(format!(
            "Similarity of the first page by meaning: median {:.2} for {} questions with an answer, {:.2} for {} without; \
             a question with an answer has the higher one in {:.0} % of the pairs.",
            median(with),
            with.len(),
            median(without),
            without.len(),
            100.0 * separation(with, without)
        ));
        let times: Vec<String> = RANKINGS
            .iter()
            .zip(&self.times)
            .map(|((_, name), times)| format!("{name} {:.1} ms", median(times)))
            .collect();
        table.notes.push(format!("Median time of a question: {}.", times.join(", ")));
        table
    }
}

/// The pages with the answer to a question.
fn expected(question: &Question, pages: &[(String, String)]) -> Result<Vec<String>> {
    let find = |answer: &String| {
        let is_archive = ARCHIVES.contains(&question.tree.as_str());
        let is_answer = |path: &&String| *path == answer || is_archive && path.ends_with(&format!("/{answer}"));
        let path = pages.iter().map(|(path, _)| path).find(is_answer);
        path.cloned().with_context(|| format!("{} has no page `{answer}`", question.tree))
    };
    question.answers.iter().map(find).collect()
}

/// Titles with the pages that have them.
fn titles(pages: &[(String, String)]) -> Vec<(String, Vec<String>)> {
    let mut titled: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in pages {
        let title = Page::parse(path, text).title;
        if title.chars().filter(|character| character.is_alphabetic()).count() > 2 && !title.contains(['{', '`', '"']) {
            titled.entry(title).or_default().push(path.clone());
        }
    }
    let step = titled.len().div_ceil(MAX_TITLES).max(1);
    titled.into_iter().step_by(step).collect()
}

/// Similarity of the first page by meaning.
fn best_similarity(client: &mut BenchClient, question: &str) -> Result<Option<f64>> {
    let target = format!("/api/svc/search/semantic?mode=vector&limit=1&query={}", percent_encode(question));
    let answer: Value = serde_json::from_slice(&client.get(&target)?)?;
    Ok(answer[0]["similarity"].as_f64())
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Share of the pairs in which the first value is larger.
fn separation(larger: &[f64], smaller: &[f64]) -> f64 {
    let pairs = larger.iter().flat_map(|a| smaller.iter().map(move |b| a > b));
    let (above, all) =
        pairs.fold((0_usize, 0_usize), |(above, all), is_above| (above + usize::from(is_above), all + 1));
    above as f64 / all.max(1) as f64
}
