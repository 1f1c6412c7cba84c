use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{CommitId, Fault, Kind, Timestamp, TreePath};
use svcfs_config::SearchEngine;
use svcfs_index::{AnswerLimit, MetaCondition, MetaQuery, MetaRow, SearchHit, SearchQuery, SortKey};

use super::evaluation::EvaluateSearch;
use super::semantic::SearchSemantic;
use super::{by_meaning, grep, past_search, result_text, suggest};
use crate::kernel::{
    AsOf, FolderScope, MinSeq, Operation, OperationArea, OperationContext, OperationEntry, Route, require_share,
};
use crate::usage::{self, SearchType};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Search",
    operations: &[
        OperationEntry::new::<SearchPages>(),
        OperationEntry::new::<SearchVerifiedPages>(),
        OperationEntry::new::<SearchSemantic>(),
        OperationEntry::new::<EvaluateSearch>(),
        OperationEntry::new::<QueryMetadata>(),
    ],
};

/// Search pages by words, best match first
///
/// Use it to find pages about a topic; to list pages by frontmatter fields use `query` or
/// `query_meta`. All words must occur, in any form (`run` finds `running`). If few pages have all
/// of three or more words, or none has all of two, pages with some of them follow, and `note` says
/// so (from six words on all are ranked together). In a question of three or more words, `how`,
/// `the` and similar words may be missing. If fewer than five pages are found, up to five follow by
/// meaning, with a note, where vector search is enabled. Words in titles, names, headings and link
/// texts count more, and so do words close to each other.
///
/// Syntax: `AND`, `OR`, `NOT` in capitals, `"a phrase"`, `pre*` and parentheses; `title:`,
/// `headings:` and `body:` select a part of the page, `status:verified` or `tags:x` a frontmatter
/// field, `path:docs/` a folder. An invalid query is searched as plain words, with a note. Pages
/// with `status: verified` or `source-of-truth: true` rank slightly higher. Returns path, title,
/// snippet and score.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchPages {
    /// Search query, such as `oauth AND "refresh token"`; at most 4,096 bytes
    #[schemars(example = "markdown AND frontmatter")]
    #[schemars(regex(pattern = r"\S"))]
    pub q: String,
    /// Maximum number of pages
    #[serde(default)]
    pub limit: AnswerLimit,
    /// Number of best pages to skip
    #[serde(default)]
    pub offset: u32,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
    /// Only pages changed after this time (RFC 3339)
    #[serde(default)]
    pub modified_after: Option<Timestamp>,
    /// `none`: do not boost verified pages
    #[serde(default)]
    pub boost: BoostMode,
    /// If nothing is found, search again with similar known words of at least this similarity, 0 to
    /// 1, such as 0.7. The results then have `did_you_mean`
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub suggest_threshold: Option<f64>,
    #[serde(default)]
    pub at_least: MinSeq,
    /// Search the tree as it was then: a time, a date, a commit hash, a branch or a tag. The pages
    /// are read one by one, for `dataview.query_timeout` at most; `partial` says if that was too
    /// short
    #[serde(default)]
    pub as_of: AsOf,
}

/// Boost of verified pages; without effect for `search.engine = "grep"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BoostMode {
    /// Slightly higher rank.
    #[default]
    Trust,
    /// No boost.
    #[serde(alias = "off")]
    None,
}

/// A matching page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResult {
    /// Path of the page
    pub path: TreePath,
    /// Title of the page
    pub title: String,
    /// Text around the matches, as HTML with matches in `<mark>`. Agents get plain text
    pub snippet: String,
    /// Relevance; higher is better
    pub score: f64,
    /// The corrected query that found this page, if the original one found nothing
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
    /// How the query was interpreted, if not as written: as plain words because of a syntax error,
    /// or as some of its words because few or no pages have all; and whether the index is behind.
    /// The same for all pages of an answer
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The commit that was searched, with `as_of`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<CommitId>,
    /// With `as_of`: true if not all pages with the words could be compared in time
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
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
        let (threshold, query_text) = (self.suggest_threshold, self.q.clone());
        require_share("suggest_threshold", threshold)?;
        let unindexed = [("modified_after", self.modified_after.is_some()), ("at_least", self.at_least.0.is_some())];
        let past = self.as_of.state_without(cx, &unindexed)?;
        let (limit, offset, folder) = (self.limit, self.offset, self.path_prefix.clone());
        let is_time_limited = self.modified_after.is_some() || past.is_some();
        let is_unrestricted = folder.is_none() && !is_time_limited && offset == 0;
        let query = SearchQuery {
            q: require_query(self.q)?,
            limit,
            offset,
            folder: self.path_prefix,
            modified_after: self.modified_after,
            trust: match self.boost {
                BoostMode::Trust => svcfs_index::TrustBoost::Soft,
                BoostMode::None => svcfs_index::TrustBoost::Off,
            },
            allow_partial: true,
            is_question: false,
        };
        let (answer, is_cut) = match &past {
            Some(state) => past_search::search(cx, state, query, threshold)?,
            None => (suggest::search(cx.index_at_seq(self.at_least)?, query, threshold)?, false),
        };
        let suggest::SuggestedAnswer { hits, corrected_query, note, is_partial } = answer;
        if is_cut && hits.is_empty() {
            cx.add_note("not all pages of the earlier tree could be compared: use fewer words, or `path_prefix`");
        }
        let is_answered = !hits.is_empty() && corrected_query.is_none() && !is_partial;
        record_search(cx, (&query_text, SearchType::Search), is_answered, is_unrestricted);
        let may_add = offset == 0 && !is_time_limited && corrected_query.is_none();
        let found_by_meaning = match may_add {
            true => by_meaning::search(cx, &query_text, (folder.as_ref(), limit.get()), &hits)?,
            false => Vec::new(),
        };
        let note = combine_notes(cx, note, hits.is_empty() && found_by_meaning.is_empty());
        let to_result = |hit: SearchHit| SearchResult {
            path: hit.path,
            title: hit.title,
            snippet: hit.snippet,
            score: hit.score,
            did_you_mean: corrected_query.clone(),
            note: note.clone(),
            as_of: past.map(|state| state.commit),
            partial: is_cut,
        };
        let results: Vec<SearchResult> = hits.into_iter().map(to_result).collect();
        Ok(by_meaning::append(results, found_by_meaning, note.as_deref()))
    }
    fn adapt_for_agents(results: &mut Vec<SearchResult>) {
        for page in results {
            page.snippet = result_text::to_plain_text(&page.snippet);
            page.score = result_text::round(page.score);
        }
    }
    fn render_text(results: &Vec<SearchResult>) -> Option<String> {
        Some(result_text::render_results(results))
    }
}

impl SearchPages {
    /// Search with `search.engine = "grep"`: same output, in path order, with the number of
    /// matching lines as score.
    fn grep(self, cx: &OperationContext<'_>) -> Result<Vec<SearchResult>, Fault> {
        for (option, is_used) in
            [("`suggest_threshold`", self.suggest_threshold.is_some()), ("`as_of`", self.as_of.0.is_some())]
        {
            if is_used {
                return Err(needs_index(option));
            }
        }
        let start = self.offset as usize;
        let query_text = self.q.clone();
        let is_unrestricted = self.path_prefix.is_none() && self.modified_after.is_none() && start == 0;
        let pattern = grep::GrepPattern {
            q: require_query(self.q)?,
            below: self.path_prefix,
            modified_after: self.modified_after,
            page_range: start..start.saturating_add(self.limit.get()),
        };
        let grep::GrepResult { pages, note } = grep::search(&cx.space.vfs, &pattern)?;
        let note = combine_notes(cx, note, pages.is_empty());
        record_search(cx, (&query_text, SearchType::Search), !pages.is_empty(), is_unrestricted);
        let to_result = |hit: grep::GrepMatch| SearchResult {
            path: hit.path,
            title: hit.title,
            snippet: hit.snippet,
            score: hit.lines as f64,
            did_you_mean: None,
            note: note.clone(),
            as_of: None,
            partial: false,
        };
        Ok(pages.into_iter().map(to_result).collect())
    }
}

/// The error for features that `search.engine = "grep"` does not have.
fn needs_index(what: &str) -> Fault {
    Fault::new(Kind::Disabled, format!("{what} needs the full-text index; set `search.engine` to \"sqlite\""))
}

/// Refuses a call with `search.engine = "grep"`.
///
/// # Errors
/// `Disabled`.
pub(crate) fn require_index(cx: &OperationContext<'_>, what: &str) -> Result<(), Fault> {
    if cx.settings().search.engine == SearchEngine::Grep { Err(needs_index(what)) } else { Ok(()) }
}

/// Search pages by words, trusted pages first
///
/// As `search`, but `status` and `source-of-truth` in the frontmatter count strongly: verified
/// pages rank higher, outdated and deprecated ones lower. No page is left out. Returns the trust
/// signals of each page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SearchVerifiedPages {
    /// Search query, as in `search`; at most 4,096 bytes
    #[schemars(example = "markdown AND frontmatter")]
    #[schemars(regex(pattern = r"\S"))]
    pub q: String,
    /// Maximum number of pages
    #[serde(default)]
    pub limit: AnswerLimit,
    /// Number of best pages to skip
    #[serde(default)]
    pub offset: u32,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// A matching page with its trust signals.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VerifiedResult {
    /// Path of the page
    pub path: TreePath,
    /// Title of the page
    pub title: String,
    /// Text around the matches, as HTML with matches in `<mark>`
    pub snippet: String,
    /// Relevance including trust; higher is better
    pub score: f64,
    /// Trust signals in its frontmatter
    pub trust: TrustSignals,
    /// How the query was interpreted, as in `search`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Trust signals of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TrustSignals {
    /// `status` in the frontmatter, unchanged; null if absent
    pub status: Option<Value>,
    /// Whether the frontmatter has `source-of-truth: true`
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
        require_index(cx, "search by trust")?;
        let query = SearchQuery {
            q: require_query(self.q)?,
            limit: self.limit,
            offset: self.offset,
            folder: self.path_prefix,
            modified_after: None,
            trust: svcfs_index::TrustBoost::Hard,
            allow_partial: true,
            is_question: false,
        };
        let svcfs_index::SearchAnswer { hits, note, is_partial } = cx.index_at_seq(self.at_least)?.search(&query)?;
        let note = combine_notes(cx, note, hits.is_empty());
        let to_result = |hit: SearchHit| VerifiedResult {
            path: hit.path,
            title: hit.title,
            snippet: hit.snippet,
            score: hit.score,
            trust: TrustSignals { status: hit.status, source_of_truth: hit.source_of_truth },
            note: note.clone(),
        };
        let is_unrestricted = query.folder.is_none() && query.offset == 0;
        record_search(cx, (&query.q, SearchType::Verified), !hits.is_empty() && !is_partial, is_unrestricted);
        Ok(hits.into_iter().map(to_result).collect())
    }
}

/// Combines a note with the notes of the response: each result has a field for it, which many
/// clients read instead. Without results the note goes to the response, because it may explain why.
pub(super) fn combine_notes(cx: &OperationContext<'_>, note: Option<String>, is_empty: bool) -> Option<String> {
    if is_empty {
        note.into_iter().for_each(|note| cx.add_note(note));
        return None;
    }
    let notes: Vec<String> = note.into_iter().chain(cx.response_meta().notes).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Records a search. Without results it counts only if it was over the full tree and has a word:
/// otherwise it does not mean that a page is missing.
pub(super) fn record_search(
    cx: &OperationContext<'_>,
    (query_text, kind): (&str, SearchType),
    is_answered: bool,
    is_unrestricted: bool,
) {
    let has_words = query_text.contains(char::is_alphanumeric);
    if is_answered || is_unrestricted && has_words {
        usage::record_search(cx, query_text, kind, is_answered);
    }
}

fn require_query(q: String) -> Result<String, Fault> {
    if q.is_empty() {
        return Err(Fault::new(Kind::Invalid, "q is required"));
    }
    Ok(q)
}

/// Find pages by conditions on their fields
///
/// Use it for simple filters; for columns, grouping and calculations use `query`. A condition is
/// `$.` and a field, one of `=`, `!=`, `<`, `<=`, `>`, `>=`, `like`, `not like` (with `%` for any
/// text), and a value without quotes; `[*]` means any item of a list. Numbers, booleans and dates
/// are compared by type. With `or`, all conditions in `where` and one in `or` must be true. Returns
/// path, title and fields: the frontmatter, inline fields, and all tags in `tags`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct QueryMetadata {
    /// Conditions that must all be true: one, or a list, such as `$.status=published`,
    /// `$.priority>=3`, `$.tags[*]=oauth` or `$.owner like %team%`. In a query string repeat the
    /// parameter
    #[serde(rename = "where")]
    #[schemars(example = "$.tags[*]=meta")]
    pub conditions: TextOrList,
    /// Conditions of which at least one must be true
    #[serde(default)]
    pub or: Option<TextOrList>,
    /// Field to sort by, such as `$.priority`; default: the path. Pages without the field come last
    #[serde(default)]
    pub sort: Option<String>,
    /// Sort direction
    #[serde(default)]
    pub order: SortDirection,
    /// Maximum number of pages
    #[serde(default)]
    pub limit: AnswerLimit,
    /// Number of pages to skip
    #[serde(default)]
    pub offset: u32,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// A sort direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SortDirection {
    /// Smallest first.
    #[default]
    Asc,
    /// Largest first.
    Desc,
}

/// One string or a list. Not a comma-separated list, because a condition may contain commas.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum TextOrList {
    /// One.
    One(String),
    /// Any number.
    Many(Vec<String>),
}

impl TextOrList {
    fn conditions(&self) -> Result<Vec<MetaCondition>, Fault> {
        let texts = match self {
            Self::One(text) => std::slice::from_ref(text),
            Self::Many(texts) => texts,
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
    /// Path of the page
    pub path: TreePath,
    /// Title of the page
    pub title: String,
    /// Full frontmatter, with the original order of keys
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
        let page_range = |MetaRow { path, title, metadata }| MetadataResult { path, title, metadata };
        Ok(cx.index_at_seq(self.at_least)?.query_metadata(&query)?.into_iter().map(page_range).collect())
    }
}
