//! Views of the mount, answered by operations on behalf of the mount's caller.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use svcfs_base::{Caller, Fault, Kind, TreePath};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::{OperationContext, ServerState, Space};
use svcfs_knowledge::query::has_limit;
use svcfs_knowledge::workflows::{self, BoardCard};
use svcfs_mount::{KnowledgeSource, LintFinding, PageFilter, PageHit, PageHits};

/// Maximum links in a search folder: the limit of the operation.
const MAX_SEARCH_LINKS: usize = 200;
/// Maximum links to pages of similar meaning.
const MAX_SIMILAR_LINKS: usize = 20;
/// Maximum links in the folder of a query without LIMIT.
const MAX_QUERY_LINKS: usize = 2_000;

/// Runs operations for the mount.
pub struct MountOperations {
    /// The server of the operations.
    pub server: Arc<ServerState>,
    /// The mounted space.
    pub space: Arc<Space>,
}

impl MountOperations {
    fn call<T: DeserializeOwned>(&self, caller: &Caller, name: &str, arguments: Value) -> Result<T, Fault> {
        let mut entries = CATALOGUE.iter().flat_map(|area| area.operations);
        let entry = entries.find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| Fault::internal(format!("there is no operation `{name}`")))?;
        let answer = (entry.call)(arguments, &OperationContext::new(&self.server, &self.space, caller))?;
        serde_json::from_value(answer).map_err(Fault::internal)
    }

    /// The pages of a query or saved query as rows whose first cell is the path.
    fn rows(&self, caller: &Caller, query: &str) -> Result<(Vec<Vec<Value>>, Option<String>), Fault> {
        let is_saved = self.saved_queries(caller)?.iter().any(|name| name == query);
        let run = |limit: Option<usize>, offset: usize| -> Result<TableResponse, Fault> {
            let (name, key) = if is_saved { ("views_execute", "name") } else { ("query", "q") };
            let mut arguments = json!({ key: query, "offset": offset });
            if let Some(limit) = limit {
                arguments["limit"] = json!(limit);
            }
            let answer: TableResponse = self.call(caller, name, arguments)?;
            if answer.headers.first().is_none_or(|header| header != "path") {
                let reason = "returns values, not pages; start it with LIST or TABLE, without GROUP BY";
                return Err(Fault::invalid("q", reason));
            }
            Ok(answer)
        };
        // A limit of the query is respected.
        if is_saved || has_limit(query)? {
            let answer: TableResponse = run(None, 0)?;
            let missing = (is_saved && answer.has_more).then(|| more_rows(&answer, answer.rows.len()));
            return Ok((answer.rows, missing));
        }
        let mut rows = Vec::new();
        loop {
            let answer = run(Some(MAX_SEARCH_LINKS), rows.len())?;
            let is_last = !answer.has_more || answer.rows.is_empty();
            let missing = answer.has_more.then(|| more_rows(&answer, rows.len() + answer.rows.len()));
            rows.extend(answer.rows);
            if is_last || rows.len() >= MAX_QUERY_LINKS {
                return Ok((rows, missing));
            }
        }
    }
}

fn more_rows(answer: &TableResponse, listed: usize) -> String {
    let limit = if answer.truncated {
        "The query reached the limit `dataview.max_scan_rows`: narrow it with FROM, or raise the setting.\n"
    } else {
        ""
    };
    format!(
        "Only the first {listed} pages are listed. The others: add LIMIT and OFFSET to the query, or run\n\
         svcfs call query q='QUERY' limit={MAX_SEARCH_LINKS} offset={listed}\n{limit}"
    )
}

/// The pages that a caller may see.
fn visible_hits(caller: &Caller, pages: Vec<(TreePath, String)>) -> Vec<PageHit> {
    let pages = pages.into_iter().filter(|(path, _)| caller.permissions.covers(path));
    pages.map(|(path, title)| PageHit { path, title }).collect()
}

#[derive(Deserialize)]
struct PageResponse {
    path: TreePath,
    title: String,
}

#[derive(Deserialize)]
struct SuggestionList {
    suggestions: Vec<SuggestedPage>,
}

#[derive(Deserialize)]
struct SuggestedPage {
    target: TreePath,
}

#[derive(Deserialize)]
struct TableResponse {
    headers: Vec<String>,
    rows: Vec<Vec<Value>>,
    has_more: bool,
    #[serde(default)]
    truncated: bool,
}

#[derive(Deserialize)]
struct ViewList {
    views: Vec<ViewResponse>,
}

#[derive(Deserialize)]
struct ViewResponse {
    name: String,
}

#[derive(Deserialize)]
struct IssueList {
    issues: Vec<IssueResponse>,
}

#[derive(Deserialize)]
struct IssueResponse {
    rule: String,
    line: usize,
    column: usize,
    severity: String,
    message: String,
}

impl KnowledgeSource for MountOperations {
    fn search(&self, caller: &Caller, words: &str) -> Result<PageHits, Fault> {
        let arguments = json!({ "q": words, "limit": MAX_SEARCH_LINKS });
        let hits: Vec<PageResponse> = self.call(caller, "search", arguments)?;
        let missing = (hits.len() == MAX_SEARCH_LINKS).then(|| {
            format!(
                "Only the {MAX_SEARCH_LINKS} best pages are listed. The others: use more words, or run\n\
                 svcfs call search q='WORDS' limit={MAX_SEARCH_LINKS} offset={MAX_SEARCH_LINKS}\n"
            )
        });
        Ok(PageHits {
            pages: hits.into_iter().map(|PageResponse { path, title }| PageHit { path, title }).collect(),
            missing,
        })
    }

    fn query(&self, caller: &Caller, query: &str) -> Result<PageHits, Fault> {
        let (rows, missing) = self.rows(caller, query)?;
        let paths = rows.iter().filter_map(|row| row.first()?.as_str()).map(TreePath::parse);
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let titles = self.space.index.titles(&paths)?;
        // A page may have several rows.
        let title = |path: &TreePath| titles.get(path).cloned().unwrap_or_default();
        Ok(PageHits { pages: paths.into_iter().map(|path| PageHit { title: title(&path), path }).collect(), missing })
    }

    fn saved_queries(&self, caller: &Caller) -> Result<Vec<String>, Fault> {
        let saved: ViewList = self.call(caller, "views_list", json!({}))?;
        Ok(saved.views.into_iter().map(|view| view.name).collect())
    }

    fn tags(&self, caller: &Caller, filter: Option<PageFilter<'_>>) -> Result<Vec<String>, Fault> {
        let context = OperationContext::new(&self.server, &self.space, caller);
        let Some(filter) = filter else { return Ok(context.index().tags()?) };
        let mut tags = BTreeSet::new();
        for (page, of_page) in context.index().tags_by_page()? {
            if filter(&page)? {
                tags.extend(of_page);
            }
        }
        Ok(tags.into_iter().collect())
    }

    fn pages_by_tag(&self, caller: &Caller, tag: &str) -> Result<Vec<PageHit>, Fault> {
        let context = OperationContext::new(&self.server, &self.space, caller);
        Ok(visible_hits(caller, context.index().pages_with_tag(tag)?))
    }

    fn backlinks(&self, caller: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault> {
        let context = OperationContext::new(&self.server, &self.space, caller);
        Ok(visible_hits(caller, context.index().linking_titles(page)?))
    }

    fn similar(&self, caller: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault> {
        let arguments = json!({ "path": page, "limit": MAX_SIMILAR_LINKS });
        let similar: Result<SuggestionList, Fault> = self.call(caller, "suggestions", arguments);
        let similar = similar.map_err(|fault| match fault.kind() {
            // Disabled, or not embedded yet: the folder says so.
            Kind::Unavailable => Fault::new(Kind::Conflict, fault.message()),
            _ => fault,
        })?;
        let paths: Vec<TreePath> = similar.suggestions.into_iter().map(|page| page.target).collect();
        let titles = self.space.index.titles(&paths)?;
        let title = |path: &TreePath| titles.get(path).cloned().unwrap_or_default();
        Ok(paths.into_iter().map(|path| PageHit { title: title(&path), path }).collect())
    }

    fn workflows(&self, caller: &Caller) -> Result<Vec<String>, Fault> {
        workflows::names(&OperationContext::new(&self.server, &self.space, caller))
    }

    fn board(&self, caller: &Caller, workflow: &str) -> Result<Vec<(String, Vec<TreePath>)>, Fault> {
        let context = OperationContext::new(&self.server, &self.space, caller);
        let columns = workflows::read_board(&context, workflow, None)?.board.0;
        let paths = |cards: Vec<BoardCard>| cards.into_iter().map(|card| card.path).collect();
        Ok(columns.into_iter().map(|(state, cards)| (state, paths(cards))).collect())
    }

    fn advance(&self, caller: &Caller, page: &TreePath, state: &str) -> Result<(), Fault> {
        let arguments = json!({ "path": page, "target_state": state });
        self.call::<Value>(caller, "workflow_advance", arguments).map(drop)
    }

    fn lint(&self, caller: &Caller, text: &str) -> Result<Vec<LintFinding>, Fault> {
        let hits: IssueList = self.call(caller, "lint", json!({ "content": text }))?;
        let finding = |IssueResponse { rule, line, column, severity, message }| LintFinding {
            rule,
            line,
            column,
            severity,
            message,
        };
        Ok(hits.issues.into_iter().map(finding).collect())
    }
}
