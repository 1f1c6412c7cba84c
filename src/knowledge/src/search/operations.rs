//! The wire shapes of search.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Kind, Timestamp, TreePath};
use svcfs_config::SearchEngine;
use svcfs_index::{AnswerLimit, MetaCondition, MetaQuery, MetaRow, SearchHit, SearchQuery, SortKey};

use super::{evaluation, grep, result_text, suggest};
use crate::kernel::{FolderScope, MinSeq, Operation, OperationArea, OperationContext, OperationEntry, Route};
use crate::usage;

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Search",
    operations: &[
        OperationEntry::new::<SearchPages>(),
        OperationEntry::new::<SearchVerifiedPages>(),
        OperationEntry::new::<EvaluateSearch>(),
        OperationEntry::new::<QueryMetadata>(),
    ],
};

/// Find pages by their words, best first
///
/// All words must occur, in any form (`run` finds `running`); when few pages have all of three plain words or more, or none has all of two,
/// pages that have some of them are found behind those and say so in `note` (from six words on they are ranked as one list). Words in titles, names, headings and in the links that lead to a page weigh more, and so do words
/// that stand together. `AND`, `OR`, `NOT` in capitals, `"a phrase"`, `pre*` and parentheses work as expected, `title:`, `headings:` and
/// `body:` say where, `status:verified` or `tags:x` ask for a field of the frontmatter, `path:docs/` for a folder. A question with a
/// mistake is read as plain words, and says so. Pages whose frontmatter says `status: verified` or `source-of-truth: true` come a little
/// higher.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchPages {
    /// What to look for, such as `oauth AND "refresh token"`; at most 4,096 bytes
    #[schemars(example = "markdown AND frontmatter")]
    #[schemars(regex(pattern = r"\S"))]
    pub q: String,
    /// Pages in the answer
    #[serde(default)]
    pub limit: AnswerLimit,
    /// How many of the best pages to leave out
    #[serde(default)]
    pub offset: u32,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
    /// Only pages changed after this moment (RFC 3339)
    #[serde(default)]
    pub modified_after: Option<Timestamp>,
    /// `none` when the standing of a page shall not matter to its place
    #[serde(default)]
    pub boost: BoostMode,
    /// When nothing is found, search again for the known words most like the unknown ones: the least likeness, 0 to 1, such
    /// as 0.7. Pages found in this way carry `did_you_mean`
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub suggest_threshold: Option<f64>,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// Whether trusted pages come higher; nothing does with `search.engine = "grep"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BoostMode {
    /// A little.
    #[default]
    Trust,
    /// Not at all.
    #[serde(alias = "off")]
    None,
}

/// A page that was found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResult {
    /// Where it is
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// Words around the matches, each match in `<mark>`; `&`, `<` and `>` of the page are escaped. Agents get the words as they are in
    /// the page
    pub snippet: String,
    /// How well it fits; higher is better
    pub score: f64,
    /// The question this page answers, when the one asked found nothing
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
    /// How the question was read, when that is not how it was written: as plain words because of a mistake, or as some of its words
    /// because few pages or none have all of them; and what the index does not know yet. The same on every page of an answer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Operation for SearchPages {
    const NAME: &'static str = "search";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/search")];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("query", "q")];
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[("limit", 10)];
    type Output = Vec<SearchResult>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<SearchResult>, Fault> {
        if cx.settings().search.engine == SearchEngine::Grep {
            return self.grep(cx);
        }
        let (threshold, asked) = (suggest::threshold(self.suggest_threshold)?, self.q.clone());
        let is_whole = self.path_prefix.is_none() && self.modified_after.is_none() && self.offset == 0;
        let query = SearchQuery {
            q: question(self.q)?,
            limit: self.limit,
            offset: self.offset,
            folder: self.path_prefix,
            modified_after: self.modified_after,
            trust: match self.boost {
                BoostMode::Trust => svcfs_index::TrustBoost::Soft,
                BoostMode::None => svcfs_index::TrustBoost::Off,
            },
            allow_partial: true,
        };
        let suggest::SuggestedAnswer { hits, instead, note, is_partial } =
            suggest::search(cx.index_at_seq(self.at_least)?, query, threshold)?;
        let note = with_remarks(cx, note, hits.is_empty());
        let is_answered = !hits.is_empty() && instead.is_none() && !is_partial;
        count(cx, (&asked, "search"), is_answered, is_whole);
        let found = |hit: SearchHit| SearchResult {
            path: hit.path,
            title: hit.title,
            snippet: hit.snippet,
            score: hit.score,
            did_you_mean: instead.clone(),
            note: note.clone(),
        };
        Ok(hits.into_iter().map(found).collect())
    }
    fn adapt_for_agents(found: &mut Vec<SearchResult>) {
        found.iter_mut().for_each(|page| page.snippet = result_text::plain(&page.snippet));
    }
    fn render_text(found: &Vec<SearchResult>) -> Option<String> {
        Some(result_text::words(found))
    }
}

impl SearchPages {
    /// The answer of `search.engine = "grep"`: the same shape, in path order, the number of lines as score.
    fn grep(self, cx: &OperationContext<'_>) -> Result<Vec<SearchResult>, Fault> {
        if self.suggest_threshold.is_some() {
            return Err(needs_index("`suggest_threshold`"));
        }
        let start = self.offset as usize;
        let asked = self.q.clone();
        let is_whole = self.path_prefix.is_none() && self.modified_after.is_none() && start == 0;
        let pattern = grep::GrepPattern {
            q: question(self.q)?,
            below: self.path_prefix,
            modified_after: self.modified_after,
            shown: start..start.saturating_add(self.limit.get()),
        };
        let grep::GrepResult { pages, note } = grep::search(&cx.space.vfs, &pattern)?;
        let note = with_remarks(cx, note, pages.is_empty());
        count(cx, (&asked, "search"), !pages.is_empty(), is_whole);
        let found = |line: grep::GrepMatch| SearchResult {
            path: line.path,
            title: line.title,
            snippet: line.snippet,
            score: line.lines as f64,
            did_you_mean: None,
            note: note.clone(),
        };
        Ok(pages.into_iter().map(found).collect())
    }
}

/// Refuses what `search.engine = "grep"` cannot do.
fn needs_index(what: &str) -> Fault {
    Fault::new(Kind::Disabled, format!("{what} needs the full-text index; set `search.engine` to \"sqlite\""))
}

/// Find pages by their words, trusted pages first
///
/// As `search`, but `status` and `source-of-truth` of the frontmatter weigh heavily: verified pages rise, outdated and
/// deprecated ones sink. No page is left out.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchVerifiedPages {
    /// What to look for, as in `search`; at most 4,096 bytes
    #[schemars(example = "markdown AND frontmatter")]
    #[schemars(regex(pattern = r"\S"))]
    pub q: String,
    /// Pages in the answer
    #[serde(default)]
    pub limit: AnswerLimit,
    /// How many of the best pages to leave out
    #[serde(default)]
    pub offset: u32,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// A page that was found, and why it may be trusted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerifiedResult {
    /// Where it is
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// Words around the matches, each match in `<mark>`; `&`, `<` and `>` of the page are escaped
    pub snippet: String,
    /// How well it fits, trust included; higher is better
    pub score: f64,
    /// What its frontmatter says of its standing
    pub trust: TrustSignals,
    /// How the question was read, when that is not how it was written, as in `search`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The standing of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TrustSignals {
    /// `status` of the frontmatter, as it stands there; null when absent
    pub status: Option<Value>,
    /// Whether the frontmatter says `source-of-truth: true`
    #[serde(rename = "source-of-truth")]
    pub source_of_truth: bool,
}

impl Operation for SearchVerifiedPages {
    const NAME: &'static str = "search_verified";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/search/verified")];
    const ALIASES: &'static [(&'static str, &'static str)] = &[("query", "q")];
    type Output = Vec<VerifiedResult>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<VerifiedResult>, Fault> {
        if cx.settings().search.engine == SearchEngine::Grep {
            return Err(needs_index("search by trust"));
        }
        let query = SearchQuery {
            q: question(self.q)?,
            limit: self.limit,
            offset: self.offset,
            folder: self.path_prefix,
            modified_after: None,
            trust: svcfs_index::TrustBoost::Hard,
            allow_partial: true,
        };
        let svcfs_index::SearchAnswer { hits, note, is_partial } = cx.index_at_seq(self.at_least)?.search(&query)?;
        let note = with_remarks(cx, note, hits.is_empty());
        let found = |hit: SearchHit| VerifiedResult {
            path: hit.path,
            title: hit.title,
            snippet: hit.snippet,
            score: hit.score,
            trust: TrustSignals { status: hit.status, source_of_truth: hit.source_of_truth },
            note: note.clone(),
        };
        let is_whole = query.folder.is_none() && query.offset == 0;
        count(cx, (&query.q, "verified"), !hits.is_empty() && !is_partial, is_whole);
        Ok(hits.into_iter().map(found).collect())
    }
}

/// A note with what is said beside the answer: a page that was found has a place for it, and many clients read nothing else. Where nothing was
/// found, that a question was not read as it was meant may be why, and is said beside the answer, too.
fn with_remarks(cx: &OperationContext<'_>, note: Option<String>, is_nothing_found: bool) -> Option<String> {
    if is_nothing_found {
        note.into_iter().for_each(|note| cx.add_note(note));
        return None;
    }
    let notes: Vec<String> = note.into_iter().chain(cx.response_meta().notes).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Counts a search. One that finds nothing in a part of the tree, or asks for no word, does not say that a page is missing.
fn count(cx: &OperationContext<'_>, (asked, kind): (&str, &'static str), is_answered: bool, is_whole: bool) {
    let has_words = asked.contains(char::is_alphanumeric);
    if is_answered || is_whole && has_words {
        usage::record_search(cx, asked, kind, is_answered);
    }
}

fn question(q: String) -> Result<String, Fault> {
    if q.is_empty() {
        return Err(Fault::new(Kind::Invalid, "q is required"));
    }
    Ok(q)
}

/// Measure how well search answers questions of your own
///
/// Each question is asked as `search` asks it, and the place of the first page that was expected is noted. There is no vector search in
/// this server, so that everything under `semantic` is null, and so is every `semantic_rank`: nothing was measured, which is not
/// the same as nothing found.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct EvaluateSearch {
    /// Questions and the pages that answer them, 1 to 1,000
    #[schemars(example = [ExpectedAnswer::example()])]
    #[schemars(length(min = 1, max = 1000))]
    pub queries: Vec<ExpectedAnswer>,
}

/// A question, and the pages that answer it.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
pub struct ExpectedAnswer {
    /// As somebody would ask `search`
    #[schemars(regex(pattern = r"\S"))]
    pub question: String,
    /// Any of these is right; at least one
    #[schemars(length(min = 1, max = 1000))]
    pub expected_paths: Vec<TreePath>,
}

impl ExpectedAnswer {
    fn example() -> Value {
        serde_json::json!({ "question": "how do links work", "expected_paths": ["concepts/wikilinks.md"] })
    }
}

impl Operation for EvaluateSearch {
    const NAME: &'static str = "eval";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::post("/eval").read_only()];
    const TOOL: bool = true;
    const LANE: svcfs_work::Lane = svcfs_work::Lane::Slow;
    type Output = evaluation::SearchEvaluation;
    fn run(self, cx: &OperationContext<'_>) -> Result<evaluation::SearchEvaluation, Fault> {
        if cx.settings().search.engine == SearchEngine::Grep {
            return Err(needs_index("an evaluation"));
        }
        evaluation::evaluate(cx.index(), &self.queries, cx.caller.permissions.folder.as_ref())
    }
}

/// Find pages by their frontmatter
///
/// A condition is `$.` and a field, one of `=`, `!=`, `<`, `<=`, `>`, `>=`, `like`, `not like` (with `%` for any text), and a value
/// without quotes; `[*]` means any item of a list. Numbers, booleans and dates compare as what they are. With `or`, all conditions
/// and one of `or` must be true.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct QueryMetadata {
    /// What must be true, such as `$.status=published`, `$.priority>=3`, `$.tags[*]=oauth` or `$.owner like %team%`; one
    /// condition, or a list of them that must all be true. In a query string the parameter is repeated
    #[serde(rename = "where")]
    #[schemars(example = "$.tags[*]=meta")]
    pub conditions: TextOrList,
    /// Conditions of which one must be true
    #[serde(default)]
    pub or: Option<TextOrList>,
    /// Field to sort by, such as `$.priority`; by path when absent. Pages without it come last
    #[serde(default)]
    pub sort: Option<String>,
    /// Which way `sort` runs
    #[serde(default)]
    pub order: SortDirection,
    /// Pages in the answer
    #[serde(default)]
    pub limit: AnswerLimit,
    /// How many of the first pages to leave out
    #[serde(default)]
    pub offset: u32,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// Which way a list runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SortDirection {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first.
    Desc,
}

/// One text or a list of texts. Not a plain list, because a condition may hold the comma that would separate its items in a
/// query string.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum TextOrList {
    /// One.
    One(String),
    /// Any number.
    More(Vec<String>),
}

impl TextOrList {
    fn conditions(&self) -> Result<Vec<MetaCondition>, Fault> {
        let texts = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::More(texts) => texts,
        };
        texts.iter().map(|text| Ok(MetaCondition::parse(text)?)).collect()
    }
}

impl JsonSchema for TextOrList {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMore".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
    }
}

/// A page and its frontmatter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MetadataResult {
    /// Where it is
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// Its whole frontmatter, keys in the author's order
    pub metadata: Value,
}

impl Operation for QueryMetadata {
    const NAME: &'static str = "query_meta";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/meta")];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("filters", "where")];
    type Output = Vec<MetadataResult>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<MetadataResult>, Fault> {
        let query = MetaQuery {
            conditions: self.conditions.conditions()?,
            any_of: self.or.map_or(Ok(Vec::new()), |any| any.conditions())?,
            folder: cx.caller.permissions.folder.clone(),
            sort: self.sort.as_deref().map(SortKey::parse).transpose()?,
            order: match self.order {
                SortDirection::Asc => svcfs_index::SortOrder::Ascending,
                SortDirection::Desc => svcfs_index::SortOrder::Descending,
            },
            limit: self.limit,
            offset: self.offset,
        };
        let shown = |MetaRow { path, title, metadata }| MetadataResult { path, title, metadata };
        Ok(cx.index_at_seq(self.at_least)?.query_metadata(&query)?.into_iter().map(shown).collect())
    }
}
