//! Pages by meaning behind few results of a search by words.

use std::collections::HashSet;

use svcfs_base::{Fault, TreePath};
use svcfs_index::SearchHit;

use super::hybrid::{self, HybridPage, HybridQuery};
use super::operations::SearchResult;
use super::{semantic, vector_leg};
use crate::kernel::OperationContext;

/// Pages by meaning are added to fewer results than this …
const FEW_RESULTS: usize = 5;

/// … and at most so many.
const MAX_ADDED: usize = 5;

/// Less similar pages are rather noise than an answer.
const MIN_SIMILARITY: f64 = 0.35;

const NOTE: &str = "found by meaning: the page does not have the words";

/// A page to add, with its snippet.
pub type AddedPage = (HybridPage, String);

/// The pages to add to these results; none with quotes, operators or fields, which ask for words.
///
/// # Errors
/// Those of the index.
pub fn search(
    cx: &OperationContext<'_>,
    q: &str,
    (folder, limit): (Option<&TreePath>, usize),
    hits: &[SearchHit],
) -> Result<Vec<AddedPage>, Fault> {
    let max = MAX_ADDED.min(limit.saturating_sub(hits.len()));
    let has_syntax = || q.contains(['"', '(', ')', '*', ':']) || q.split_whitespace().any(is_operator);
    if hits.len() >= FEW_RESULTS || max == 0 || !vector_leg::is_enabled(cx.space) || has_syntax() {
        return Ok(Vec::new());
    }
    let query = HybridQuery {
        question: q,
        uses_words: false,
        uses_vectors: true,
        folder,
        scope: None,
        min_similarity: MIN_SIMILARITY,
        limit: max + hits.len(),
    };
    // A search by words is complete without the pages that are not embedded yet: no note of them.
    let ranking = hybrid::rank(&cx.in_space(cx.space), &cx.space.index, &query)?;
    ranking.notes.into_iter().for_each(|note| cx.add_note(note));
    let known: HashSet<&TreePath> = hits.iter().map(|hit| &hit.path).collect();
    let mut pages = ranking.pages;
    pages.retain(|page| !known.contains(&page.path));
    pages.truncate(max);
    let snippets = semantic::snippets(cx, q, &pages)?;
    Ok(pages.into_iter().zip(snippets).collect())
}

fn is_operator(word: &str) -> bool {
    matches!(word, "AND" | "OR" | "NOT" | "NEAR")
}

/// Appends pages by meaning. Their scores are below those of the other results.
pub fn append(mut results: Vec<SearchResult>, added: Vec<AddedPage>, note: Option<&str>) -> Vec<SearchResult> {
    let lowest = results.iter().map(|result| result.score).fold(1.0, f64::min).max(0.0);
    let note: String = note.into_iter().chain([NOTE]).collect::<Vec<_>>().join("; ");
    results.extend(added.into_iter().map(|(page, snippet)| SearchResult {
        path: page.path,
        title: page.properties.title,
        snippet,
        score: lowest * page.similarity.clamp(0.0, 1.0),
        did_you_mean: None,
        note: Some(note.clone()),
        as_of: None,
        partial: false,
    }));
    results
}
