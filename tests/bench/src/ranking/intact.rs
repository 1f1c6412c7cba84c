//! How often a page is the first result for its own words, in trees as they are.
//!
//! The trials of the benchmark take the words of a question out of the tree. Here they stay: who
//! types a title or copies a sentence wants that page first. Questions are split in halves by a
//! hash of the path: the numbers of the score are tuned on one and reported for the other.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use svcfs_text::Page;
use svcfs_text::fold::fold_word;
use svcfs_text::links::{LinkTargets, links};

use super::questions::{Trial, question_of};
use super::rivals::Plain;
use super::{index, search};

/// Questions of one kind and half about one tree.
const MAX_QUESTIONS: usize = 400;

/// First words of headings that ask something.
const INTERROGATIVES: [&str; 9] = ["how", "what", "why", "when", "where", "which", "can", "should", "does"];

/// Which half of the pages is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Half {
    /// For tuning.
    Tuning,
    /// For figures.
    Report,
}

impl Half {
    /// The half of a path.
    fn of(path: &str) -> Self {
        // FNV-1a: stays the same on all machines.
        let hash = path
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        if (hash >> 32).is_multiple_of(2) { Self::Tuning } else { Self::Report }
    }
}

/// What the words are of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Its title.
    Title,
    /// Its first sentence.
    Sentence,
    /// The label of the links that lead to it.
    Label,
    /// A heading of it that is a question.
    Heading,
}

/// Share of the questions whose page came first, of svcfs and of plain FTS5 (the better of all
/// words and any word).
#[derive(Debug, Default, Clone, Copy)]
pub struct FirstHits {
    /// Questions.
    pub asked: usize,
    /// Of svcfs.
    pub ours: usize,
    all: usize,
    any: usize,
}

impl FirstHits {
    /// Share of svcfs.
    pub fn share(&self) -> f64 {
        self.ours as f64 / self.asked.max(1) as f64
    }
    /// Share of plain FTS5.
    pub fn share_of_plain(&self) -> f64 {
        self.all.max(self.any) as f64 / self.asked.max(1) as f64
    }
}

/// Asks about every page of an archive.
///
/// # Errors
/// When it cannot be read, or an engine fails.
pub fn measure(archive: (&Path, &str), scratch: &Path) -> Result<BTreeMap<(Source, Half), FirstHits>> {
    let pages = Trial::unpack(archive, scratch, 0)?.pages;
    let questions = questions(&pages);
    let trial = Trial { pages, questions: Vec::new() };
    let ours = index(&trial, &scratch.with_extension("db"))?;
    let plain = Plain::new(&trial.pages)?;
    let mut hits: BTreeMap<(Source, Half), FirstHits> = BTreeMap::new();
    for (source, q, answer) in questions {
        let entry = hits.entry((source, Half::of(&answer))).or_default();
        let Some(words) = question_of(&q, usize::MAX).filter(|_| entry.asked < MAX_QUESTIONS) else { continue };
        let is_first = |found: Vec<String>| usize::from(found.first().is_some_and(|path| *path == answer));
        entry.asked += 1;
        let found = search(&ours, &words)?;
        if std::env::var_os("SVCFS_MISSES").is_some() && found.first() != Some(&answer) {
            println!("{source:?} `{words}` of {answer}: {:?}", found.iter().take(2).collect::<Vec<_>>());
        }
        entry.ours += is_first(found);
        entry.all += is_first(plain.search(&words, " ", 1)?);
        entry.any += is_first(plain.search(&words, " OR ", 1)?);
    }
    Ok(hits)
}

/// The questions that one page answers: kind, words, path.
fn questions(pages: &[(String, String)]) -> Vec<(Source, String, String)> {
    let mut answers: BTreeMap<(Source, String), (String, Vec<String>)> = BTreeMap::new();
    let mut add = |source, q: &str, path: &str| {
        let words = question_of(q, usize::MAX).unwrap_or_default();
        let entry = answers.entry((source, fold_word(&words).into_owned()));
        entry.or_insert_with(|| (q.to_owned(), Vec::new())).1.push(path.to_owned());
    };
    let mut targets = LinkTargets::new();
    for (path, text) in pages {
        let page = Page::parse(path, text);
        targets.insert(path, Some(&page.title), &page.aliases);
        add(Source::Title, &page.title, path);
        let sentence = page.excerpt.split_inclusive(['.', '!', '?']).next().unwrap_or_default();
        if (4..=100).contains(&sentence.split_whitespace().count()) {
            add(Source::Sentence, sentence, path);
        }
        for heading in &page.headings {
            let first = heading.text.split_whitespace().next().unwrap_or_default().to_lowercase();
            if heading.text.ends_with('?') || INTERROGATIVES.contains(&first.as_str()) {
                add(Source::Heading, &heading.text, path);
            }
        }
    }
    for (path, text) in pages {
        for link in links(text) {
            let target = targets.resolve(path, &link).filter(|target| *target != path);
            if let (Some(label), Some(target)) = (&link.label, target) {
                add(Source::Label, label, target);
            }
        }
    }
    let single = answers.into_iter().filter_map(|((source, _), (q, mut paths))| {
        paths.dedup();
        (paths.len() == 1 && !q.trim().is_empty()).then(|| (source, q, paths.remove(0)))
    });
    single.collect()
}
