//! What search and indexing cost in trees of different sizes, beside plain FTS5 and `git grep`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use svcfs_base::{ETag, Seq, Timestamp, TreePath};
use svcfs_index::{AnswerLimit, Entry, Index, SearchQuery};
use svcfs_measure::pages::Pages;
use svcfs_measure::run::Run;
use svcfs_measure::series::{Series, bound};
use svcfs_measure::table::{Cell, Table, column, text};

use crate::plan::Extent;
use crate::ranking::rivals::Plain;

/// Pages in one transaction, as the indexer takes them.
const BATCH: usize = 100;

/// Pages of an answer.
const SHOWN: u32 = 10;

/// Words that one page in so many has.
const SHARES: [(usize, &str); 5] =
    [(1, "everywhere"), (10, "tenth"), (100, "hundredth"), (1_000, "thousandth"), (10_000, "once")];

/// What is asked, for svcfs and for `git grep -il`; the latter has no way to ask for two words but one after the other.
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
    update: Series,
    /// Opened again, until the first answer.
    again: Duration,
    asked: Vec<Asked>,
}

struct Asked {
    question: &'static str,
    svcfs: Series,
    plain: Series,
    grep: Series,
}

/// Measures one size after the other.
///
/// # Errors
/// When an engine fails, finds nothing, or the run is to end.
pub fn measure(run: &Run, extent: &Extent) -> Result<Searching> {
    let sizes = extent.sizes.iter().map(|pages| size(run, *pages)).collect::<Result<_>>()?;
    Ok(Searching { sizes })
}

fn size(run: &Run, pages: Pages) -> Result<Size> {
    run.tell(&format!("searching in {} pages", pages.count));
    let file = run.at(&format!("searching-{}.db", pages.count));
    let index = Index::open(&file)?;
    let mut first = Duration::ZERO;
    for batch in (0..pages.count).collect::<Vec<_>>().chunks(BATCH) {
        run.check()?;
        let entries: Vec<Entry> = batch.iter().map(|page| entry(pages, *page, 0)).collect::<Result<_>>()?;
        let begun = Instant::now();
        index.ingest(&entries, Seq(1))?;
        first += begun.elapsed();
    }
    let mut update = Series::default();
    update.add(run.timed(bound(500, 3), |write| {
        Ok(index.ingest(&[entry(pages, pages.scattered(write), write + 1)?], Seq(2))?)
    })?);
    drop(index);
    let begun = Instant::now();
    let index = Index::open(&file)?;
    ensure!(!found(&index, QUESTIONS[3].0)?.is_empty(), "an index opened again finds nothing");
    let again = begun.elapsed();
    let texts: Vec<(String, String)> =
        (0..pages.count).map(|page| (pages.path(page), worded(pages, page, 0))).collect();
    let plain = Plain::new(&texts)?;
    let root = run.at(&format!("searching-{}", pages.count));
    for (path, text) in &texts {
        let path = root.join(path);
        path.parent().map(std::fs::create_dir_all).transpose()?;
        std::fs::write(path, text)?;
    }
    drop(texts);
    let mut asked = Vec::new();
    for (question, patterns) in QUESTIONS {
        let mut one = Asked { question, svcfs: Series::default(), plain: Series::default(), grep: Series::default() };
        ensure!(!found(&index, question)?.is_empty(), "search for `{question}` finds nothing");
        one.svcfs.add(run.timed(bound(1_000, 2), |_| found(&index, question).map(drop))?);
        one.plain.add(run.timed(bound(100, 1), |_| plain.shown(question, SHOWN).map(drop))?);
        one.grep.add(run.timed(bound(3, 2), |_| {
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

fn found(index: &Index, q: &str) -> Result<Vec<svcfs_index::Hit>> {
    let limit: AnswerLimit = serde_json::from_value(SHOWN.into())?;
    Ok(index.search(&SearchQuery { limit, ..SearchQuery::new(q) })?.hits)
}

/// A page of the generated tree with words of known frequency.
fn worded(pages: Pages, page: usize, revision: usize) -> String {
    let mut text = pages.text(page, revision);
    for (share, word) in SHARES {
        if page.is_multiple_of(share) {
            text.push_str(&format!("\nIt has {word}.\n"));
        }
    }
    text
}

fn entry(pages: Pages, page: usize, revision: usize) -> Result<Entry> {
    let text = worded(pages, page, revision);
    let etag = ETag::of(text.as_bytes());
    Ok(Entry::Page { path: TreePath::parse(&pages.path(page))?, etag, text, modified: Timestamp::UNIX_EPOCH })
}

impl Searching {
    /// Questions, and what the index costs.
    pub fn tables(&self) -> [Table; 2] {
        [self.questions(), self.costs()]
    }

    fn questions(&self) -> Table {
        let columns = vec![
            column("the ten best pages with snippets", "question"),
            column("pages", "pages"),
            column("p50", "p50_us"),
            column("p99", "p99_us"),
            column("plain FTS5 p50", "plain_p50_us"),
            column("`git grep -il` p50", "grep_p50_us"),
        ];
        let mut table = Table::new("searching_sizes", columns);
        for size in &self.sizes {
            for Asked { question, svcfs, plain, grep } in &size.asked {
                table.row([
                    text(format!("`{question}`")),
                    Cell::Count(size.pages),
                    Cell::Time(svcfs.percentile(0.5)),
                    Cell::Time(svcfs.percentile(0.99)),
                    Cell::Time(plain.percentile(0.5)),
                    Cell::Time(grep.percentile(0.5)),
                ]);
            }
        }
        let words: Vec<String> = SHARES.iter().map(|(share, word)| format!("`{word}` one in {share}")).collect();
        table.notes.push(format!("Pages that have a word: {}.", words.join(", ")));
        table
    }

    fn costs(&self) -> Table {
        let columns = vec![
            column("what the index costs", "pages"),
            column("all pages read in, pages/s", "first_rate"),
            column("one page changed, p50", "update_p50_us"),
            column("p99", "update_p99_us"),
            column("opened again and asked", "again_us"),
        ];
        let mut table = Table::new("index_sizes", columns);
        for Size { pages, first, update, again, .. } in &self.sizes {
            table.row([
                text(format!("{pages} pages")),
                Cell::Rate(Some(*pages as f64 / first.as_secs_f64())),
                Cell::Time(update.percentile(0.5)),
                Cell::Time(update.percentile(0.99)),
                Cell::Time(Some(*again)),
            ]);
        }
        table
    }
}
