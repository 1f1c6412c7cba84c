//! Ranking by words and by meaning together.
//!
//! Scores of both are brought to 0 to 1 and added (a convex combination). Combining only the ranks
//! would ignore how sure each of them is; docs/benchmarks.md has the figures.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_index::{Index, MAX_QUERY_BYTES, MAX_QUERY_WORDS, PageProperties, SearchQuery, WordRanking};
use svcfs_vectors::NearChunk;

use super::vector_leg;
use crate::kernel::OperationContext;

/// Pages of the ranking by words that are combined.
const MAX_WORD_PAGES: usize = 200;

/// Pages and passages of each ranking where only pages with a `scope` count: the rankings do not
/// know it.
const MAX_SCOPED: usize = 5_000;

/// Share of the words in the combined score.
const WORD_SHARE: f64 = 0.5;

/// A page with this many times the worth of all words has the full score by words.
const FULL_WORTH: f64 = 2.0;

/// What a page titled like the question gains: more than any other can have.
const TITLE_SCORE: f64 = 1.0;

/// Passages less similar than this have nothing to do with the question: a page without its words
/// is not found by them.
const MIN_SIMILARITY: f32 = 0.05;

/// Passages of one page that are returned.
const MAX_PASSAGES: usize = 3;

/// Pages whose trust is read, as a multiple of the requested ones and at least.
const CANDIDATE_FACTOR: usize = 3;
const MIN_CANDIDATES: usize = 60;

/// A ranking that found a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchLeg {
    /// Full-text search
    Fts,
    /// Nearness of meaning
    Vector,
    /// Links from or to the best pages
    Graph,
}

impl SearchLeg {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fts => "fts",
            Self::Vector => "vector",
            Self::Graph => "graph",
        }
    }
}

/// A question to rank pages for.
#[derive(Debug, Clone)]
pub struct HybridQuery<'q> {
    /// The question.
    pub question: &'q str,
    /// Whether words count.
    pub uses_words: bool,
    /// Whether meaning counts. Quotes and operators ask for words only.
    pub uses_vectors: bool,
    /// Only pages at or below this path.
    pub folder: Option<&'q TreePath>,
    /// Only pages with this `scope` in the frontmatter.
    pub scope: Option<&'q str>,
    /// Only pages with a passage at least this similar.
    pub min_similarity: f64,
    /// Number of pages.
    pub limit: usize,
}

/// Checks a question, which is in this argument. Only its first words count; a note says so.
///
/// # Errors
/// `Invalid` for an empty or a long one.
pub fn read_question<'q>(cx: &OperationContext<'_>, field: &str, text: &'q str) -> Result<&'q str, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new(Kind::Invalid, format!("{field} is required")));
    }
    if text.len() > MAX_QUERY_BYTES {
        let message = format!("is {} bytes long; the limit is {MAX_QUERY_BYTES} bytes", text.len());
        return Err(Fault::invalid(field, message));
    }
    let mut words = text.split_whitespace();
    let last = words.by_ref().take(MAX_QUERY_WORDS).last().unwrap_or_default();
    if words.next().is_none() {
        return Ok(text);
    }
    cx.add_note(format!("only the first {MAX_QUERY_WORDS} words of the question are used"));
    let end = last.as_ptr() as usize + last.len() - text.as_ptr() as usize;
    Ok(text.get(..end).unwrap_or(text))
}

/// The pages, best first.
#[derive(Debug, Default)]
pub struct HybridRanking {
    /// The pages.
    pub pages: Vec<HybridPage>,
    /// How the question was interpreted, and what could not be searched.
    pub notes: Vec<String>,
}

/// A ranked page.
#[derive(Debug, Clone)]
pub struct HybridPage {
    /// Its path.
    pub path: TreePath,
    /// Its title and frontmatter.
    pub properties: PageProperties,
    /// Higher is better.
    pub score: f64,
    /// Cosine of the nearest passage; 0 without one.
    pub similarity: f64,
    /// What found it.
    pub sources: Vec<SearchLeg>,
    /// Its nearest passages, nearest first.
    pub passages: Vec<NearChunk>,
}

/// Ranks pages. A vector store that does not answer is a note.
///
/// # Errors
/// Those of [`Index::rank_words`].
pub fn rank(cx: &OperationContext<'_>, index: &Index, query: &HybridQuery<'_>) -> Result<HybridRanking, Fault> {
    let mut notes = Vec::new();
    let (max_pages, max_passages) = match query.scope {
        Some(_) => (MAX_SCOPED, MAX_SCOPED),
        None => (MAX_WORD_PAGES, vector_leg::MAX_PASSAGES),
    };
    let words = if query.uses_words {
        let search = SearchQuery {
            folder: query.folder.cloned(),
            allow_partial: true,
            is_question: true,
            ..SearchQuery::new(query.question)
        };
        let mut words = index.rank_words(&search, max_pages)?;
        notes.extend(words.note.take());
        words
    } else {
        WordRanking::default()
    };
    let asks_for_words_only = query.uses_words && !words.is_plain && !words.pages.is_empty();
    let near = match query.uses_vectors && !asks_for_words_only {
        true => vector_leg::search(cx, query.question, max_passages, query.folder),
        false => None,
    };
    let near = near.and_then(|near| near.map_err(|reason| notes.push(reason)).ok());
    // Without vectors no page has a similarity, and none would be left.
    let is_similarity_known = near.is_some();
    if !is_similarity_known && query.min_similarity > 0.0 && !words.pages.is_empty() {
        notes.push("the similarity is not known: the threshold was not applied".to_owned());
    }
    let scored = combine(words, near);
    let pages = with_trust(index, query, (scored, is_similarity_known))?;
    Ok(HybridRanking { pages, notes })
}

/// A page before its trust is known.
#[derive(Debug, Default, PartialEq)]
struct ScoredPage {
    score: f64,
    similarity: f64,
    is_word_match: bool,
    passages: Vec<NearChunk>,
}

/// Adds the scores of both rankings. Without one of them the other counts alone.
fn combine(words: WordRanking, near: Option<Vec<NearChunk>>) -> Vec<(TreePath, ScoredPage)> {
    let word_share = if near.is_some() { WORD_SHARE } else { 1.0 };
    let full_score = (FULL_WORTH * words.worth).max(f64::MIN_POSITIVE);
    let mut pages: HashMap<TreePath, ScoredPage> = HashMap::with_capacity(words.pages.len());
    for page in words.pages {
        let title_score = if page.is_titled { TITLE_SCORE } else { 0.0 };
        let score = title_score + word_share * (page.score / full_score).min(1.0);
        pages.insert(page.path, ScoredPage { score, is_word_match: true, ..ScoredPage::default() });
    }
    for passage in near.into_iter().flatten().filter(|passage| passage.similarity >= MIN_SIMILARITY) {
        let page = pages.entry(passage.path.clone()).or_default();
        page.similarity = page.similarity.max(passage.similarity.into());
        if page.passages.len() < MAX_PASSAGES {
            page.passages.push(passage);
        }
    }
    let mut pages: Vec<(TreePath, ScoredPage)> = pages.into_iter().collect();
    pages.iter_mut().for_each(|(_, page)| page.score += (1.0 - word_share) * page.similarity.max(0.0));
    sort(&mut pages, |(path, page)| (page.score, path));
    pages
}

/// Best first; equal ones in path order.
pub fn sort<T>(pages: &mut [T], key: impl Fn(&T) -> (f64, &TreePath)) {
    pages.sort_by(|a, b| {
        let ((a_score, a_path), (b_score, b_path)) = (key(a), key(b));
        b_score.total_cmp(&a_score).then_with(|| a_path.cmp(b_path))
    });
}

/// Multiplies the scores of the best pages by their trust, and drops what the query excludes.
fn with_trust(
    index: &Index,
    query: &HybridQuery<'_>,
    (scored, is_similarity_known): (Vec<(TreePath, ScoredPage)>, bool),
) -> Result<Vec<HybridPage>, Fault> {
    let max = match query.scope {
        Some(_) => usize::MAX,
        None => query.limit.saturating_mul(CANDIDATE_FACTOR).max(MIN_CANDIDATES),
    };
    let min_similarity = if is_similarity_known { query.min_similarity } else { 0.0 };
    let is_similar = |page: &ScoredPage| min_similarity <= 0.0 || page.similarity >= min_similarity;
    let wanted: Vec<(TreePath, ScoredPage)> =
        scored.into_iter().filter(|(_, page)| is_similar(page)).take(max).collect();
    let paths: Vec<TreePath> = wanted.iter().map(|(path, _)| path.clone()).collect();
    let mut properties = index.page_properties(&paths)?;
    let mut pages: Vec<HybridPage> = Vec::with_capacity(wanted.len());
    for (path, page) in wanted {
        // A page without properties was removed since its vectors were read.
        let Some(properties) = properties.remove(&path) else { continue };
        if query.scope.is_some_and(|scope| !has_scope(&properties, scope)) {
            continue;
        }
        let score = page.score * properties.trust_factor();
        let sources = [(page.is_word_match, SearchLeg::Fts), (!page.passages.is_empty(), SearchLeg::Vector)];
        let sources = sources.into_iter().filter(|(found, _)| *found).map(|(_, leg)| leg).collect();
        let ScoredPage { similarity, passages, .. } = page;
        pages.push(HybridPage { path, properties, score, similarity, sources, passages });
    }
    sort(&mut pages, |page| (page.score, &page.path));
    pages.truncate(query.limit);
    Ok(pages)
}

/// Whether the frontmatter of a page has this `scope`, as a text or in a list.
pub fn has_scope(properties: &PageProperties, scope: &str) -> bool {
    match properties.frontmatter.get("scope") {
        Some(Value::String(text)) => text == scope,
        Some(Value::Array(items)) => items.iter().any(|item| item == scope),
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use svcfs_index::RankedPage;

    use super::*;

    fn path(name: &str) -> TreePath {
        TreePath::parse(name).unwrap()
    }

    fn near(name: &str, similarity: f32) -> NearChunk {
        NearChunk { path: path(name), ord: 0, lines: (1, 1), heading: None, similarity }
    }

    fn words(pages: &[(&str, f64)]) -> WordRanking {
        let page =
            |(name, score): &(&str, f64)| RankedPage { path: path(name), score: *score, is_titled: *name == "t.md" };
        WordRanking { pages: pages.iter().map(page).collect(), worth: 2.0, is_plain: true, note: None }
    }

    fn order(pages: &[(TreePath, ScoredPage)]) -> Vec<(&str, f64)> {
        pages.iter().map(|(path, page)| (path.as_str(), (page.score * 1_000.0).round() / 1_000.0)).collect()
    }

    #[test]
    fn both_rankings_are_added_and_either_counts_alone() {
        let found = [("a.md", 6.0), ("b.md", 2.0), ("c.md", 2.0)];
        let nearest = vec![near("d.md", 0.9), near("b.md", 0.8), near("b.md", 0.5), near("a.md", -0.1)];
        let both = combine(words(&found), Some(nearest.clone()));
        assert_eq!(order(&both), [("b.md", 0.65), ("a.md", 0.5), ("d.md", 0.45), ("c.md", 0.25)]);
        assert_eq!((both[0].1.passages.len(), both[0].1.similarity), (2, f64::from(0.8_f32)));
        assert_eq!(order(&combine(words(&found), None)), [("a.md", 1.0), ("b.md", 0.5), ("c.md", 0.5)]);
        let alone = combine(WordRanking::default(), Some(nearest));
        assert_eq!(order(&alone), [("d.md", 0.45), ("b.md", 0.4)]);
        assert!(combine(WordRanking::default(), None).is_empty());
        let titled = combine(words(&[("a.md", 4.0), ("t.md", 1.0)]), Some(vec![near("a.md", 1.0)]));
        assert_eq!(order(&titled), [("t.md", 1.125), ("a.md", 1.0)]);
    }
}
