//! What search and indexing cost in trees of different sizes, beside plain FTS5 and `git grep`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use svcfs_base::{ETag, Seq, Timestamp, TreePath};
use svcfs_index::{AnswerLimit, Index, IndexEntry, SearchQuery};
use svcfs_measure::pages::PageTree;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{MeasuredRound, RoundSeries, round_bound};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};

use crate::plan::Extent;
use crate::ranking::rivals::Plain;

/// Pages in one transaction, as the indexer takes a whole tree.
const BATCH: usize = 500;

/// Pages of an answer.
const SHOWN: u32 = 10;

/// Words that one page in so many has.
const SHARES: [(usize, &str); 5] =
    [(1, "everywhere"), (10, "tenth"), (100, "hundredth"), (1_000, "thousandth"), (10_000, "once")];

/// What is asked, for svcfs and for `git grep -il`; the latter has no way to ask for two words but
/// one after the other.
const QUESTIONS: [(&str, &[&str]); 8] = [
    ("everywhere", &["everywhere"]),
    ("tenth", &["tenth"]),
    ("hundredth", &["hundredth"]),
    ("thousandth", &["thousandth"]),
    ("everywhere tenth hundredth", &["everywhere", "tenth", "hundredth"]),
    ("\"tide copper\"", &["tide copper"]),
    ("copp*", &["copp"]),
    ("tide OR copper", &["tide\\|copper"]),
];

/// All that is measured of searching in trees of different sizes.
pub struct Searching {
    sizes: Vec<Size>,
}

struct Size {
    pages: usize,
    /// The whole tree read in.
    first: Duration,
    /// One page changed.
    update: RoundSeries,
    /// Opened again, until the first answer.
    again: Duration,
    asked: Vec<Asked>,
}

#[derive(Default)]
struct Asked {
    question: &'static str,
    /// Each time after a change.
    svcfs: RoundSeries,
    /// Nothing changed.
    again: RoundSeries,
    plain: RoundSeries,
    grep: RoundSeries,
}

/// Measures one size after the other.
///
/// # Errors
/// When an engine fails, finds nothing, or the run is to end.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Searching> {
    let sizes = extent.sizes.iter().map(|pages| size(run, *pages)).collect::<Result<_>>()?;
    Ok(Searching { sizes })
}

fn size(run: &BenchRun, pages: PageTree) -> Result<Size> {
    run.report(&format!("searching in {} pages", pages.count));
    let file = run.path(&format!("searching-{}.db", pages.count));
    let index = Index::open(&file)?;
    let begun = Instant::now();
    let all: Vec<usize> = (0..pages.count).collect();
    let batches = all.chunks(BATCH).map(|batch| {
        run.check_stop()?;
        batch.iter().map(|page| entry(pages, *page, 0)).collect::<Result<Vec<IndexEntry>>>()
    });
    index.ingest_all(batches, Seq(1))?;
    let first = begun.elapsed();
    let mut update = RoundSeries::default();
    update.add(run.measure_round(round_bound(500, 3), |write| {
        Ok(index.ingest(&[entry(pages, pages.scattered_page(write), write + 1)?], Seq(2))?)
    })?);
    drop(index);
    let begun = Instant::now();
    let index = Index::open(&file)?;
    ensure!(!found(&index, QUESTIONS[3].0)?.is_empty(), "an index opened again finds nothing");
    let again = begun.elapsed();
    let texts: Vec<(String, String)> =
        (0..pages.count).map(|page| (pages.path(page), worded(pages, page, 0))).collect();
    let plain = Plain::new(&texts)?;
    let root = run.path(&format!("searching-{}", pages.count));
    for (path, text) in &texts {
        let path = root.join(path);
        path.parent().map(std::fs::create_dir_all).transpose()?;
        std::fs::write(path, text)?;
    }
    drop(texts);
    let mut asked = Vec::new();
    for (question, patterns) in QUESTIONS {
        let mut one = Asked { question, ..Asked::default() };
        ensure!(!found(&index, question)?.is_empty(), "search for `{question}` finds nothing");
        one.svcfs.add(asked_anew(run, &index, question)?);
        one.again.add(run.measure_round(round_bound(1_000, 1), |_| found(&index, question).map(drop))?);
        one.plain.add(run.measure_round(round_bound(100, 1), |_| plain.shown(question, SHOWN).map(drop))?);
        one.grep.add(run.measure_round(round_bound(3, 2), |_| {
            let mut command = Command::new("git");
            command.current_dir(&root).args(["grep", "--no-index", "-il", "--all-match"]).stdout(Stdio::null());
            for pattern in patterns {
                command.args(["-e", pattern]);
            }
            command.status()?;
            Ok(())
        })?);
        asked.push(one);
    }
    Ok(Size { pages: pages.count, first, update, again, asked })
}

/// Asks again and again, each time after a change, so that no answer given before will do.
fn asked_anew(run: &BenchRun, index: &Index, question: &str) -> Result<MeasuredRound> {
    let begun = Instant::now();
    let mut latencies = Vec::new();
    while latencies.len() < 500 && begun.elapsed() < Duration::from_secs(3) {
        run.check_stop()?;
        index.ingest(&[], Seq(3))?;
        let asked = Instant::now();
        found(index, question)?;
        latencies.push(asked.elapsed());
    }
    Ok(MeasuredRound { latencies, elapsed: begun.elapsed() })
}

fn found(index: &Index, q: &str) -> Result<Vec<svcfs_index::SearchHit>> {
    let limit: AnswerLimit = serde_json::from_value(SHOWN.into())?;
    Ok(index.search(&SearchQuery { limit, ..SearchQuery::new(q) })?.hits)
}

/// A page of the generated tree with words of known frequency.
fn worded(pages: PageTree, page: usize, revision: usize) -> String {
    let mut text = pages.text(page, revision);
    for (share, word) in SHARES {
        if page.is_multiple_of(share) {
            text.push_str(&format!("\nIt has {word}.\n"));
        }
    }
    text
}

fn entry(pages: PageTree, page: usize, revision: usize) -> Result<IndexEntry> {
    let text = worded(pages, page, revision);
    let etag = ETag::from_content(text.as_bytes());
    Ok(IndexEntry::Page { path: TreePath::parse(&pages.path(page))?, etag, text, modified: Timestamp::UNIX_EPOCH })
}

/// What the largest tree is judged by.
pub struct Judged {
    /// Pages.
    pub pages: usize,
    /// Pages read in, a second.
    pub rate: f64,
    /// One page changed, p50.
    pub update: Option<Duration>,
    /// Opened again and asked.
    pub again: Duration,
    /// The slowest question, p50 and p99.
    pub slowest: (Option<Duration>, Option<Duration>),
}

impl Searching {
    /// What is asked of the largest tree; none without a tree.
    pub fn judged(&self) -> Option<Judged> {
        let Size { pages, first, update, again, asked } = self.sizes.last()?;
        let slowest = |share| asked.iter().filter_map(|asked| asked.svcfs.percentile(share)).max();
        Some(Judged {
            pages: *pages,
            rate: *pages as f64 / first.as_secs_f64(),
            update: update.percentile(0.5),
            again: *again,
            slowest: (slowest(0.5), slowest(0.99)),
        })
    }

    /// Questions, and what the index costs.
    pub fn tables(&self) -> [MarkdownTable; 2] {
        [self.questions(), self.costs()]
    }

    fn questions(&self) -> MarkdownTable {
        let columns = vec![
            column("the ten best pages with snippets", "question"),
            column("pages", "pages"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
            column("asked again p50", "again_p50_us"),
            column("plain FTS5 p50", "plain_p50_us"),
            column("`git grep -il` p50", "grep_p50_us"),
        ];
        let mut table = MarkdownTable::new("searching_sizes", columns);
        for size in &self.sizes {
            for Asked { question, svcfs, again, plain, grep } in &size.asked {
                table.add_row([
                    text(format!("`{question}`")),
                    TableCell::Count(size.pages),
                    TableCell::Time(svcfs.percentile(0.5)),
                    TableCell::Time(svcfs.percentile(0.99)),
                    TableCell::Time(again.percentile(0.5)),
                    TableCell::Time(plain.percentile(0.5)),
                    TableCell::Time(grep.percentile(0.5)),
                ]);
            }
        }
        let words: Vec<String> = SHARES.iter().map(|(share, word)| format!("`{word}` one in {share}")).collect();
        table.notes.push(format!("Pages that have a word: {}.", words.join(", ")));
        table
    }

    fn costs(&self) -> MarkdownTable {
        let columns = vec![
            column("what the index costs", "pages"),
            column("all pages read in, pages/s", "first_rate"),
            column("one page changed, p50", "update_p50_us"),
            column("p99", "update_p99_us"),
            column("opened again and asked", "again_us"),
        ];
        let mut table = MarkdownTable::new("index_sizes", columns);
        for Size { pages, first, update, again, .. } in &self.sizes {
            table.add_row([
                text(format!("{pages} pages")),
                TableCell::Rate(Some(*pages as f64 / first.as_secs_f64())),
                TableCell::Time(update.percentile(0.5)),
                TableCell::Time(update.percentile(0.99)),
                TableCell::Time(Some(*again)),
            ]);
        }
        table
    }
}
