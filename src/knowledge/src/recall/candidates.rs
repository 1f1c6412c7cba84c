//! The pages and sections that may answer a question.

use std::collections::HashMap;
use std::ops::Range;

use bytes::Bytes;
use svcfs_base::{ETag, Fault, Timestamp, TreePath};
use svcfs_index::{Index, QuestionWords};
use svcfs_vectors::NearChunk;
use svcfs_vfs::PastState;

use super::operations::Recall;
use super::sections::PageLines;
use super::trust::PageValidity;
use crate::kernel::OperationContext;
use crate::search::hybrid::{self, HybridPage, HybridQuery, SearchLeg};

/// Pages whose sections are compared.
const MAX_PAGES: usize = 30;

/// The same where only pages of some trust count: it is known only after a page was read.
const MAX_FILTERED_PAGES: usize = 120;

/// Sections of one page.
const MAX_SECTIONS: usize = 3;

/// Pages whose neighbours in the link graph are added, and what that adds to a score.
const GRAPH_SEEDS: usize = 5;
const GRAPH_BONUS: f64 = 0.1;

/// Neighbours of one page: a hub is near everything.
const MAX_NEIGHBOURS: usize = 20;

/// A section weaker than this share of the best of its page is not an answer.
const MIN_SECTION_SHARE: f64 = 0.6;

/// A page that may be cited.
pub struct CandidatePage {
    /// Its path.
    pub path: TreePath,
    /// Its text.
    pub content: Bytes,
    /// Hash of the text.
    pub etag: ETag,
    /// What its frontmatter says of its validity.
    pub validity: PageValidity,
    /// What found it.
    pub sources: Vec<SearchLeg>,
    /// The version that was read; none for the newest one.
    pub version: Option<CitedVersion>,
}

/// The version of a page that its excerpts cite.
#[derive(Debug, Clone)]
pub struct CitedVersion {
    /// A commit with this text; a timestamp where git keeps no history.
    pub commit: String,
    /// The author of the text.
    pub actor: String,
    /// When it was written.
    pub time: Timestamp,
}

/// A section that may be cited.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateSection {
    /// Index of its page.
    pub page: usize,
    /// Anchor of its heading.
    pub heading: Option<String>,
    /// Its lines, from 0.
    pub lines: Range<usize>,
    /// The line that answers best.
    pub anchor: usize,
    /// Higher is better.
    pub score: f64,
}

/// Pages and their sections, best first.
pub struct Candidates {
    /// The pages.
    pub pages: Vec<CandidatePage>,
    /// The sections.
    pub sections: Vec<CandidateSection>,
    /// The time at which validity and trust are determined: that of the earlier tree, else now.
    pub time: Timestamp,
}

/// Finds the candidates for a question; in an earlier tree, whose index this is then, by words.
///
/// # Errors
/// Those of the index and of git.
pub fn find(
    cx: &OperationContext<'_>,
    (index, past): (&Index, Option<&PastState>),
    recall: &Recall,
) -> Result<Candidates, Fault> {
    let max_pages = if recall.min_trust.is_some_and(|trust| trust > 0.0) { MAX_FILTERED_PAGES } else { MAX_PAGES };
    let query = HybridQuery {
        question: &recall.query,
        uses_words: recall.uses(SearchLeg::Fts),
        uses_vectors: recall.uses(SearchLeg::Vector) && past.is_none(),
        folder: recall.path_prefix.as_ref(),
        scope: recall.scope.as_deref(),
        min_similarity: 0.0,
        limit: max_pages,
    };
    let ranking = hybrid::rank(cx, index, &query)?;
    ranking.notes.into_iter().for_each(|note| cx.add_note(note));
    let mut pages = ranking.pages;
    if recall.uses(SearchLeg::Graph) && past.is_none() {
        add_neighbours(index, recall, &mut pages)?;
        hybrid::sort(&mut pages, |page| (page.score, &page.path));
        pages.truncate(max_pages);
    }
    let words = QuestionWords::of(&recall.query);
    let time = past.map_or_else(|| cx.now(), |state| state.time);
    let mut candidates = Candidates { pages: Vec::new(), sections: Vec::new(), time };
    for page in pages {
        if let Some(file) = read(cx, past, &page.path)? {
            candidates.add_page(page, file, &words);
        }
    }
    candidates.sort();
    Ok(candidates)
}

/// The text of a page, with its version in an earlier tree; `None` for a page that is gone since.
fn read(
    cx: &OperationContext<'_>,
    past: Option<&PastState>,
    path: &TreePath,
) -> Result<Option<(Bytes, Option<CitedVersion>)>, Fault> {
    let Some(state) = past else {
        return Ok(cx.space.vfs.read(cx.caller.protocol, path).ok().map(|file| (file.content, None)));
    };
    let file = cx.space.vfs.past_file(state, path)?;
    Ok(file.map(|file| {
        let version = CitedVersion { commit: state.commit.to_string(), actor: file.author, time: file.modified };
        (file.content, Some(version))
    }))
}

/// Raises the pages that the best pages link to, or that link to them, and adds further ones.
fn add_neighbours(index: &Index, recall: &Recall, pages: &mut Vec<HybridPage>) -> Result<(), Fault> {
    let graph = index.graph()?;
    let mut neighbours: Vec<TreePath> = Vec::new();
    for seed in pages.iter().take(GRAPH_SEEDS) {
        let Some(node) = graph.node(&seed.path) else { continue };
        let linked = graph.links_out(node).iter().chain(graph.links_in(node)).take(MAX_NEIGHBOURS);
        for path in linked.map(|node| &graph.page(*node).path) {
            if !neighbours.contains(path) && recall.path_prefix.as_ref().is_none_or(|folder| path.is_under(folder)) {
                neighbours.push(path.clone());
            }
        }
    }
    let mut known: HashMap<TreePath, usize> =
        pages.iter().enumerate().map(|(at, page)| (page.path.clone(), at)).collect();
    let new: Vec<TreePath> = neighbours.iter().filter(|path| !known.contains_key(*path)).cloned().collect();
    for (path, properties) in index.page_properties(&new)? {
        if recall.scope.as_deref().is_none_or(|scope| hybrid::has_scope(&properties, scope)) {
            known.insert(path.clone(), pages.len());
            let (sources, passages) = (Vec::new(), Vec::new());
            pages.push(HybridPage { path, properties, score: 0.0, similarity: 0.0, sources, passages });
        }
    }
    for page in neighbours.iter().filter_map(|path| known.get(path)) {
        if let Some(page) = pages.get_mut(*page) {
            page.score += GRAPH_BONUS * page.properties.trust_factor();
            page.sources.push(SearchLeg::Graph);
        }
    }
    Ok(())
}

impl Candidates {
    /// Sorts the sections, best first.
    fn sort(&mut self) {
        let Self { pages, sections, .. } = self;
        sections.sort_by(|a, b| {
            let order = b.score.total_cmp(&a.score).then_with(|| pages[a.page].path.cmp(&pages[b.page].path));
            order.then_with(|| a.lines.start.cmp(&b.lines.start))
        });
    }

    /// Adds a page with its best sections. One that is no text is left out.
    fn add_page(&mut self, page: HybridPage, (content, version): (Bytes, Option<CitedVersion>), words: &QuestionWords) {
        let Ok(text) = std::str::from_utf8(&content) else { return };
        let lines = PageLines::of(text);
        let sections = lines.sections(text);
        let texts: Vec<String> = sections.iter().map(|section| lines.text(section.lines.clone())).collect();
        let coverage = words.coverage(texts.iter().map(String::as_str));
        let best_similarity = page.similarity.max(f64::MIN_POSITIVE);
        let index = self.pages.len();
        let rate = |(section, coverage): (super::sections::PageSection, f64)| {
            let first_line = |passage: &NearChunk| (passage.lines.0 as usize).saturating_sub(1);
            let passage = page.passages.iter().find(|passage| section.lines.contains(&first_line(passage)));
            let nearness = passage.map_or(0.0, |passage| (f64::from(passage.similarity) / best_similarity).max(0.0));
            let anchor = passage.map_or(section.lines.start, first_line);
            let share = if page.passages.is_empty() { coverage } else { f64::midpoint(coverage, nearness) };
            CandidateSection { page: index, heading: section.heading, lines: section.lines, anchor, score: share }
        };
        let mut rated: Vec<CandidateSection> = sections.into_iter().zip(coverage).map(rate).collect();
        rated.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.lines.start.cmp(&b.lines.start)));
        let Some(best) = rated.first().map(|section| section.score) else { return };
        rated.retain(|section| section.score >= best * MIN_SECTION_SHARE);
        // Nothing in the page has a word of the question: its start says what it is about.
        rated.truncate(if best > 0.0 { MAX_SECTIONS } else { 1 });
        for section in &mut rated {
            let share = if best > 0.0 { section.score / best } else { 1.0 };
            section.score = page.score * share;
        }
        self.sections.extend(rated);
        self.pages.push(CandidatePage {
            validity: PageValidity::of(&page.properties.frontmatter, self.time),
            path: page.path,
            etag: ETag::from_content(&content),
            content,
            sources: page.sources,
            version,
        });
    }
}
