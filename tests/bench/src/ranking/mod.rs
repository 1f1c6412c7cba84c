//! How often the page that answers a question is found, and how far up, beside what one would use
//! instead.
//!
//! The questions come from real trees: how a page is called, how it is described, how other pages
//! call it. What a question is made of is taken out of the tree before it is indexed, so that no
//! engine finds the question itself: a title leaves the page, a description leaves the page, and
//! every link with the label in question becomes its label.

#[cfg(test)]
mod intact;
pub mod questions;
pub mod rivals;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use svcfs_base::{ETag, Seq, Timestamp, TreePath};
use svcfs_index::{Index, IndexEntry, SearchQuery};
use svcfs_measure::run::BenchRun;
use svcfs_measure::table::{MarkdownTable, TableCell, column, quotient, text};

use crate::plan::Extent;
use questions::{Kind, Trial, read_pages};
use rivals::{Grep, Plain};

/// The trees, with the folder whose pages are asked about and its name for people.
const TREES: [(&str, &str); 5] = [
    ("foam-docs", ""),
    ("quartz-docs", ""),
    ("rust-book", ""),
    ("owasp-cheatsheets", ""),
    // Of forty languages one: most of the others are the same page once more.
    ("tldr", "pages/"),
];

/// Trees of the repository's own, in `tests/corpora`.
const OWN_TREES: [&str; 3] = ["handbook", "vault", "languages"];

/// A page that comes later is not seen.
const SEEN: usize = 5;
/// How far down an answer is looked for.
const LOOKED_AT: u32 = 50;

/// All that is measured of ranking.
#[derive(Default)]
pub struct Ranking {
    /// What was asked, and of what.
    pub trees: Vec<String>,
    /// By engine and kind of question.
    pub marks: BTreeMap<(Engine, Kind), Marks>,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// The index of svcfs.
    Svcfs,
    /// FTS5 over whole files in one column, ordered by `bm25()`: pages with all words.
    PlainAll,
    /// The same: pages with any of the words.
    PlainAny,
    /// `grep -ri`: pages ordered by how often they have the words.
    Grep,
}

impl Engine {
    const ALL: [Self; 4] = [Self::Svcfs, Self::PlainAll, Self::PlainAny, Self::Grep];

    fn name(self) -> &'static str {
        match self {
            Self::Svcfs => "svcfs",
            Self::PlainAll => "plain FTS5, all words",
            Self::PlainAny => "plain FTS5, any word",
            Self::Grep => "`grep -ri`, most matches first",
        }
    }
}

/// How well questions were answered.
#[derive(Debug, Default, Clone, Copy)]
pub struct Marks {
    /// Questions.
    pub asked: usize,
    seen: usize,
    reciprocals: f64,
}

impl Marks {
    /// Adds an answer with the place of the expected page, from 0.
    pub fn add(&mut self, place: Option<usize>) {
        self.asked += 1;
        self.seen += usize::from(place.is_some_and(|place| place < SEEN));
        self.reciprocals += place.map_or(0.0, |place| 1.0 / (place + 1) as f64);
    }
    fn join(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            seen: self.seen + other.seen,
            reciprocals: self.reciprocals + other.reciprocals,
        }
    }
    /// Part of the questions whose page was among the first five.
    pub fn hit_rate(&self) -> f64 {
        self.seen as f64 / self.asked.max(1) as f64
    }
    /// Mean of 1 / place.
    pub fn mean_reciprocal(&self) -> f64 {
        self.reciprocals / self.asked.max(1) as f64
    }
}

/// Asks of every tree in the folder of corpora; where it has none, of the repository's own.
///
/// # Errors
/// When a tree cannot be unpacked or read, or an engine fails.
pub fn measure(run: &BenchRun, extent: &Extent) -> Result<Ranking> {
    let mut ranking = Ranking::default();
    for (name, below) in TREES {
        let archive = extent.corpora.join(format!("{name}.tar.xz"));
        if archive.is_file() {
            run.report(&format!("questions about {name}"));
            let folder = run.path(name);
            let trial = Trial::unpack((&archive, below), &folder, extent.questions)?;
            ranking.ask(name, &trial, &folder)?;
        }
    }
    if ranking.trees.is_empty() {
        run.report(&format!("`{}` has no corpora; questions about tests/corpora", extent.corpora.display()));
        for name in OWN_TREES {
            ranking.ask(name, &own_trial(name, extent.questions)?, &run.path(name))?;
        }
    }
    Ok(ranking)
}

/// At most so many questions of each kind about a tree of the repository's own.
fn own_trial(name: &str, most: usize) -> Result<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpora").join(name);
    let pages = read_pages(&folder).with_context(|| format!("`{}` cannot be read", folder.display()))?;
    Ok(Trial::of(pages, most))
}

impl Ranking {
    /// Asks all questions of one tree; `scratch` is an empty folder beside which indexes are made.
    fn ask(&mut self, name: &str, trial: &Trial, scratch: &Path) -> Result<()> {
        let svcfs = index(trial, &scratch.with_extension("db"))?;
        let plain = Plain::new(&trial.pages)?;
        let grep = Grep::new(&trial.pages);
        for question in &trial.questions {
            for engine in Engine::ALL {
                let found = match engine {
                    Engine::Svcfs => search(&svcfs, &question.q)?,
                    Engine::PlainAll => plain.search(&question.q, " ", LOOKED_AT)?,
                    Engine::PlainAny => plain.search(&question.q, " OR ", LOOKED_AT)?,
                    Engine::Grep => grep.search(&question.q, LOOKED_AT as usize),
                };
                let place = found.iter().position(|path| *path == question.answer);
                self.marks.entry((engine, question.kind)).or_default().add(place);
            }
        }
        self.trees.push(format!("{name} ({} pages, {} questions)", trial.pages.len(), trial.questions.len()));
        Ok(())
    }

    /// How one engine did with all questions.
    pub fn overall(&self, engine: Engine) -> Marks {
        let of_engine = self.marks.iter().filter(|((one, _), _)| *one == engine);
        of_engine.fold(Marks::default(), |sum, (_, marks)| sum.join(*marks))
    }

    /// How many times the mean reciprocal rank of svcfs is that of another engine: with all
    /// questions, and with those of each kind, where one may lose what the others win. None where
    /// nothing was found or asked.
    pub fn advantage(&self, rival: Engine) -> (Option<f64>, [(&'static str, Option<f64>); 3]) {
        let times = |marks: &dyn Fn(Engine) -> Marks| {
            let [ours, theirs] = [Engine::Svcfs, rival].map(|engine| marks(engine).mean_reciprocal());
            quotient(Some(ours), Some(theirs).filter(|theirs| *theirs > 0.0))
        };
        let of_kind = |kind| move |engine| self.marks.get(&(engine, kind)).copied().unwrap_or_default();
        (times(&|engine| self.overall(engine)), Kind::ALL.map(|kind| (kind.name(), times(&of_kind(kind)))))
    }

    /// The table for people.
    pub fn table(&self) -> MarkdownTable {
        let mut columns = vec![column("finding the page that answers a question", "engine")];
        for kind in Kind::ALL {
            let asked = self.marks.get(&(Engine::Svcfs, kind)).map_or(0, |marks| marks.asked);
            columns.push(column(format!("{} ({asked}): hit rate at {SEEN}", kind.name()), kind.keys().0));
            columns.push(column("MRR", kind.keys().1));
        }
        columns.extend([column("all: hit rate", "hit_rate"), column("MRR", "mrr")]);
        let mut table = MarkdownTable::new("ranking", columns);
        for engine in Engine::ALL {
            let mut cells = vec![text(engine.name())];
            let by_kind = Kind::ALL.map(|kind| self.marks.get(&(engine, kind)).copied().unwrap_or_default());
            for marks in by_kind.into_iter().chain([self.overall(engine)]) {
                cells.push(TableCell::Share(Some(marks.hit_rate())));
                cells.push(text(format!("{:.3}", marks.mean_reciprocal())));
            }
            table.add_row(cells);
        }
        table.notes.push(format!("Asked of {}.", self.trees.join(", ")));
        table
    }
}

/// The index of svcfs over the pages of a trial.
fn index(trial: &Trial, file: &Path) -> Result<Index> {
    let index = Index::open(file)?;
    for batch in trial.pages.chunks(500) {
        let entries: Vec<IndexEntry> = batch
            .iter()
            .map(|(path, text)| {
                Ok(IndexEntry::Page {
                    path: TreePath::parse(path)?,
                    etag: ETag::from_content(text.as_bytes()),
                    text: text.clone(),
                    modified: Timestamp::UNIX_EPOCH,
                })
            })
            .collect::<Result<_>>()?;
        index.ingest(&entries, Seq(1))?;
    }
    Ok(index)
}

fn search(index: &Index, q: &str) -> Result<Vec<String>> {
    let query = SearchQuery { allow_partial: true, ..SearchQuery::new(q) };
    Ok(index.search(&query)?.hits.into_iter().map(|hit| hit.path.to_string()).collect())
}
