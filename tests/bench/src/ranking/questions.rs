//! Questions whose answers are known, made from a tree.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use svcfs_measure::machine;
use svcfs_text::links::{LinkTargets, links};
use svcfs_text::{Page, frontmatter};
use unicode_normalization::char::is_combining_mark;

/// What a question is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The title of a page.
    Title,
    /// What a page says of itself first.
    Description,
    /// What another page calls it.
    Link,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Title, Self::Description, Self::Link];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Title => "titles",
            Self::Description => "descriptions",
            Self::Link => "link texts",
        }
    }
    /// For programs: hit rate and mean reciprocal rank.
    pub fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Title => ("title_hit_rate", "title_mrr"),
            Self::Description => ("description_hit_rate", "description_mrr"),
            Self::Link => ("link_hit_rate", "link_mrr"),
        }
    }
}

/// A question.
#[derive(Debug)]
pub struct Question {
    /// What it is made of.
    pub kind: Kind,
    /// Its words.
    pub q: String,
    /// The page that answers it.
    pub answer: String,
}

/// A tree without what the questions are made of.
#[derive(Debug, Default)]
pub struct Trial {
    /// Path and text of each page.
    pub pages: Vec<(String, String)>,
    /// What is asked.
    pub questions: Vec<Question>,
}

/// Words of a question, at most: who describes what he looks for does not write more.
const LONGEST: usize = 12;

impl Trial {
    /// Unpacks an archive into a new folder and makes at most so many questions of each kind about
    /// the pages below a place.
    ///
    /// # Errors
    /// When the archive cannot be unpacked or read.
    pub fn unpack((archive, below): (&Path, &str), folder: &Path, most: usize) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        machine::run(Command::new("tar").arg("xJf").arg(archive).arg("-C").arg(folder))?;
        let mut pages = read_pages(folder)?;
        // An archive has everything in one folder.
        let inside = |path: &str| {
            path.split_once('/').map_or(path, |(_, rest)| rest).starts_with(below) || path.starts_with(below)
        };
        pages.retain(|(path, _)| inside(path));
        Ok(Self::of(pages, most))
    }

    /// Makes questions about pages; each page is asked about in one way.
    pub fn of(pages: Vec<(String, String)>, most: usize) -> Self {
        let mut trial = Self { pages, questions: Vec::new() };
        trial.links(most);
        let asked: Vec<String> = trial.questions.iter().map(|question| question.answer.clone()).collect();
        let step = (trial.pages.len() / (2 * most).max(1)).max(1);
        for (turn, at) in (0..trial.pages.len()).step_by(step).enumerate() {
            let (path, text) = &trial.pages[at];
            if asked.contains(path) {
                continue;
            }
            let kind = if turn % 2 == 0 { Kind::Title } else { Kind::Description };
            let made = if kind == Kind::Title { title(path, text) } else { description(path, text) };
            if let Some((q, text)) = made {
                trial.questions.push(Question { kind, q, answer: path.clone() });
                trial.pages[at].1 = text;
            }
        }
        trial
    }

    /// Questions from links; the links become their labels.
    fn links(&mut self, most: usize) {
        let mut resolver = LinkTargets::new();
        for (path, text) in &self.pages {
            let page = Page::parse(path, text);
            resolver.insert(path, Some(&page.title), &page.aliases);
        }
        // For each page the labels that lead to it and to no other page.
        let mut called: HashMap<String, Vec<String>> = HashMap::new();
        for (path, text) in &self.pages {
            for link in links(text) {
                let Some(label) = link.label.as_deref().and_then(question) else { continue };
                if let Some(target) = resolver.resolve(path, &link).filter(|target| *target != path) {
                    called.entry(label.to_lowercase()).or_default().push(target.to_owned());
                }
            }
        }
        let mut labels: Vec<(String, String)> = called
            .into_iter()
            .filter(|(_, targets)| targets.iter().all(|target| *target == targets[0]))
            .map(|(label, mut targets)| (targets.remove(0), label))
            .collect();
        labels.sort();
        labels.dedup_by(|a, b| a.0 == b.0);
        let step = (labels.len() / most.max(1)).max(1);
        for (answer, q) in labels.into_iter().step_by(step) {
            if self.pages.iter().any(|(path, _)| *path == answer) {
                self.questions.push(Question { kind: Kind::Link, q, answer });
            }
        }
        let asked: Vec<&str> = self.questions.iter().map(|question| question.q.as_str()).collect();
        for (_, text) in &mut self.pages {
            for link in links(text).into_iter().rev() {
                let label = link.label.as_deref().and_then(question);
                if let Some(label) = label.filter(|label| asked.contains(&label.to_lowercase().as_str())) {
                    text.replace_range(link.full_range.clone(), &label);
                }
            }
        }
    }
}

/// Path and text of each page below a folder, by path.
///
/// # Errors
/// When the folder cannot be read.
pub fn read_pages(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    read(folder, folder, &mut pages)?;
    pages.sort();
    Ok(pages)
}

fn read(root: &Path, folder: &Path, pages: &mut Vec<(String, String)>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(root, &path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
            pages.push((name, String::from_utf8_lossy(&std::fs::read(&path)?).into_owned()));
        }
    }
    Ok(())
}

/// The title as a question, and the page without it.
fn title(path: &str, text: &str) -> Option<(String, String)> {
    let page = Page::parse(path, text);
    let q = question(&page.title)?;
    // A page may say it twice: in its frontmatter and as its first heading.
    let without_field = without_line(text, |line| line.trim().starts_with("title:"));
    let rest = without_field.as_deref().unwrap_or(text);
    let is_heading = |line: &str| line.starts_with('#') && line.trim().trim_start_matches('#').trim() == page.title;
    let without = without_line(rest, is_heading).or(without_field)?;
    Some((q, without))
}

/// The first sentence of a page as a question, and the page without it.
fn description(path: &str, text: &str) -> Option<(String, String)> {
    let split = frontmatter::split(text);
    let read = frontmatter::parse_split(&split);
    if let Some(description) = read.text("description") {
        let without = without_line(text, |line| line.starts_with("description:"))?;
        return Some((question(&description)?, without));
    }
    let page = Page::parse(path, text);
    let sentence = page.excerpt.split_inclusive(['.', '!', '?']).next()?.to_owned();
    let q = question(&sentence)?;
    // The line of the page that begins as its first sentence does.
    let start: String = sentence.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let without = without_line(text, |line| line.trim_start_matches(['>', ' ', '*', '_']).starts_with(&start))?;
    Some((q, without))
}

/// The text without the first line that fits, and without those that go on with its sentence; none
/// when no line fits.
fn without_line(text: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
    let at = text.lines().position(fits)?;
    Some(text.lines().enumerate().filter(|(line, _)| *line != at).map(|(_, line)| format!("{line}\n")).collect())
}

/// What a person would type of a text: its words, without signs of any query language; none when it
/// has fewer than two letters.
pub(super) fn question(text: &str) -> Option<String> {
    question_of(text, LONGEST)
}

/// The same of at most so many words.
pub(super) fn question_of(text: &str, longest: usize) -> Option<String> {
    // Vowels of Hindi and Thai are marks, and so are accents in NFD.
    let words: Vec<&str> = text
        .split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c) && c != '-' && c != '_')
        .filter(|word| word.chars().any(char::is_alphanumeric) && !matches!(*word, "AND" | "OR" | "NOT" | "NEAR"))
        .take(longest)
        .collect();
    let q = words.join(" ");
    (q.chars().filter(|c| c.is_alphabetic()).count() >= 2).then_some(q)
}
