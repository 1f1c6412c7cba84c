//! Search by meaning and words (`/search/semantic`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Limit, TreePath};

use super::hybrid::{self, HybridPage, HybridQuery, SearchLeg};
use super::operations::{combine_notes, record_search};
use super::{result_text, vector_leg};
use crate::kernel::{FolderScope, MinSeq, Operation, OperationContext, Route, require_share};
use crate::usage::SearchType;
use crate::vectors::{self, PageVectors};

/// Search pages by meaning, best match first
///
/// Use it for questions in natural language, or when `search` finds nothing: pages need not have
/// the words of the question. Words count too (`mode`: `hybrid`); a query with quotes or operators
/// is searched by words only. Returns path, title, snippet, the similarity of the nearest passage
/// (0 to 1), and what found the page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchSemantic {
    /// Question or topic; at most 4,096 bytes
    #[schemars(example = "how do I reset my password")]
    #[schemars(regex(pattern = r"\S"))]
    pub query: String,
    /// Maximum number of pages
    #[serde(default)]
    pub limit: Limit<10, 200>,
    /// Number of best pages to skip
    #[serde(default)]
    pub offset: u32,
    /// `vector`: by meaning alone
    #[serde(default)]
    pub mode: SemanticMode,
    /// Only pages with a passage of at least this similarity
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: Option<f64>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
    /// Only pages with this `scope` in the frontmatter
    #[serde(default)]
    pub scope: Option<String>,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// What the rank of a page depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SemanticMode {
    /// Words and meaning.
    #[default]
    Hybrid,
    /// Meaning alone.
    Vector,
}

/// A page that answers a question.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SemanticResult {
    /// Path of the page
    pub path: TreePath,
    /// Title of the page
    pub title: String,
    /// The nearest passage, or the text around the words, as HTML. Agents get plain text
    pub snippet: String,
    /// Similarity of the nearest passage, 0 to 1; 0 if only words match
    pub similarity: f64,
    /// What found the page: `fts` (words), `vector` (meaning)
    pub sources: Vec<SearchLeg>,
    /// How the question was interpreted, and what could not be searched
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Operation for SearchSemantic {
    const NAME: &'static str = "search_semantic";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/search/semantic"), Route::post("/search/semantic").read_only()];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("q", "query"), ("topK", "limit")];
    const SHOWS_ALIASES: bool = false;
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[("limit", 5)];
    type Output = Vec<SemanticResult>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<SemanticResult>, Fault> {
        let question = hybrid::read_question(cx, "query", &self.query)?;
        require_share("threshold", self.threshold)?;
        let threshold = self.threshold.unwrap_or_default();
        vector_leg::require(cx.space)?;
        let offset = self.offset as usize;
        let query = HybridQuery {
            question,
            uses_words: self.mode == SemanticMode::Hybrid,
            uses_vectors: true,
            folder: self.path_prefix.as_ref(),
            scope: self.scope.as_deref(),
            min_similarity: threshold,
            limit: offset.saturating_add(self.limit.get()),
        };
        let index = cx.index_at_seq(self.at_least)?;
        let mut ranking = hybrid::rank(cx, index, &query)?;
        ranking.pages.drain(..offset.min(ranking.pages.len()));
        let snippets = snippets(cx, question, &ranking.pages)?;
        let note = (!ranking.notes.is_empty()).then(|| ranking.notes.join("; "));
        let note = combine_notes(cx, note, ranking.pages.is_empty());
        let is_unrestricted = self.path_prefix.is_none() && self.scope.is_none() && threshold == 0.0 && offset == 0;
        record_search(cx, (&self.query, SearchType::Semantic), !ranking.pages.is_empty(), is_unrestricted);
        let to_result = |(page, snippet): (HybridPage, String)| SemanticResult {
            path: page.path,
            title: page.properties.title,
            snippet,
            similarity: (page.similarity.clamp(0.0, 1.0) * 1e6).round() / 1e6,
            sources: page.sources,
            note: note.clone(),
        };
        Ok(ranking.pages.into_iter().zip(snippets).map(to_result).collect())
    }
    fn adapt_for_agents(results: &mut Vec<SemanticResult>) {
        for page in results {
            page.snippet = result_text::to_plain_text(&page.snippet);
            page.similarity = result_text::round(page.similarity);
        }
    }
    fn render_text(results: &Vec<SemanticResult>) -> Option<String> {
        Some(result_text::render_semantic(results))
    }
}

/// The snippets of pages: the nearest passage; without one, the text around the words.
pub(super) fn snippets(cx: &OperationContext<'_>, q: &str, pages: &[HybridPage]) -> Result<Vec<String>, Fault> {
    let passages: Vec<Option<String>> = pages.iter().map(|page| passage_snippet(cx, page)).collect();
    let without = pages.iter().zip(&passages).filter(|(_, passage)| passage.is_none());
    let without: Vec<TreePath> = without.map(|(page, _)| page.path.clone()).collect();
    let mut around_words =
        if without.is_empty() { Default::default() } else { cx.space.index.snippets(q, &without)? };
    let snippet = |(page, passage): (&HybridPage, Option<String>)| {
        passage.or_else(|| around_words.remove(&page.path)).unwrap_or_default()
    };
    Ok(pages.iter().zip(passages).map(snippet).collect())
}

/// The nearest passage of a page as HTML, apart from its title, which is beside it; none when the
/// page changed since.
fn passage_snippet(cx: &OperationContext<'_>, page: &HybridPage) -> Option<String> {
    let vectors = PageVectors::of_space(cx.space).ok()?;
    let passage = page.passages.iter().find(|passage| passage.ord > 0)?;
    let text = vectors::snippet(cx.space, &vectors.index, passage).ok()?;
    (!text.is_empty()).then(|| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}
