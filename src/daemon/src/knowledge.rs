//! Views of the mount, answered by operations on behalf of the mount's caller.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use svcfs_base::{Caller, Fault, TreePath};
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::{OperationContext, ServerState, Space};
use svcfs_mount::{KnowledgeSource, LintFinding, PageFilter, PageHit};

/// Maximum links in a search folder: the limit of the operation.
const MAX_SEARCH_LINKS: usize = 200;
/// Maximum links in the folder of a tag.
const MAX_TAG_LINKS: usize = 10_000;

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

    fn pages(&self, caller: &Caller, name: &str, arguments: Value) -> Result<Vec<PageHit>, Fault> {
        let hits: Vec<PageResponse> = self.call(caller, name, arguments)?;
        Ok(hits.into_iter().map(|PageResponse { path, title }| PageHit { path, title }).collect())
    }
}

#[derive(Deserialize)]
struct PageResponse {
    path: TreePath,
    title: String,
}

#[derive(Deserialize)]
struct TableResponse {
    headers: Vec<String>,
    rows: Vec<Vec<Value>>,
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
    fn search(&self, caller: &Caller, words: &str) -> Result<Vec<PageHit>, Fault> {
        self.pages(caller, "search", json!({ "q": words, "limit": MAX_SEARCH_LINKS }))
    }

    fn query(&self, caller: &Caller, query: &str) -> Result<Vec<PageHit>, Fault> {
        let answer: TableResponse = if self.saved_queries(caller)?.iter().any(|name| name == query) {
            self.call(caller, "views_execute", json!({ "name": query }))?
        } else {
            self.call(caller, "query", json!({ "q": query }))?
        };
        if answer.headers.first().is_none_or(|header| header != "path") {
            let reason = "returns values, not pages; start it with LIST or TABLE, without GROUP BY";
            return Err(Fault::invalid("q", reason));
        }
        let context = OperationContext::new(&self.server, &self.space, caller);
        let paths = answer.rows.iter().filter_map(|row| row.first()?.as_str());
        let hit = |path: &str| {
            let path = TreePath::parse(path)?;
            let title = context.space.index.page(&path)?.map(|page| page.title).unwrap_or_default();
            Ok(PageHit { path, title })
        };
        paths.map(hit).collect()
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
        let mut hits = Vec::new();
        // The operation returns pages of results.
        while hits.len() < MAX_TAG_LINKS {
            let arguments =
                json!({ "where": format!("$.tags[*]={tag}"), "limit": MAX_SEARCH_LINKS, "offset": hits.len() });
            let more = self.pages(caller, "query_meta", arguments)?;
            let is_last = more.len() < MAX_SEARCH_LINKS;
            hits.extend(more);
            if is_last {
                break;
            }
        }
        Ok(hits)
    }

    fn backlinks(&self, caller: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault> {
        self.pages(caller, "backlinks", json!({ "path": page.as_str() }))
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
