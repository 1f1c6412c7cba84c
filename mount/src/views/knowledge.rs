//! What the views need to know about the content of pages.

use svcfs_base::{Caller, Fault, TreePath};

/// Whether a page may be considered.
pub type PageFilter<'a> = &'a mut dyn FnMut(&TreePath) -> Result<bool, Fault>;

/// Source of search results, tags, links and lint findings. The program that mounts a space
/// provides it. Answers are the same as through other protocols.
pub trait KnowledgeSource: Send + Sync {
    /// Pages with these words, best first.
    ///
    /// # Errors
    /// `Invalid` for a malformed search; those of the index.
    fn search(&self, caller: &Caller, words: &str) -> Result<PageHits, Fault>;

    /// Pages listed by a query, or by the saved query of that name, in its order.
    ///
    /// # Errors
    /// `Invalid` for a malformed query; those of the index.
    fn query(&self, caller: &Caller, query: &str) -> Result<PageHits, Fault>;

    /// Names of the saved queries, in order.
    ///
    /// # Errors
    /// Those of the index.
    fn saved_queries(&self, caller: &Caller) -> Result<Vec<String>, Fault>;

    /// All tags, sorted and unique; only of pages that the filter accepts, if there is one.
    ///
    /// # Errors
    /// Those of the index or the filter.
    fn tags(&self, caller: &Caller, filter: Option<PageFilter<'_>>) -> Result<Vec<String>, Fault>;

    /// All pages with a tag, in any case, in path order.
    ///
    /// # Errors
    /// `Invalid` for a malformed tag; those of the index.
    fn pages_by_tag(&self, caller: &Caller, tag: &str) -> Result<Vec<PageHit>, Fault>;

    /// All pages that link to a page or another file.
    ///
    /// # Errors
    /// Those of the index.
    fn backlinks(&self, caller: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault>;

    /// Pages of similar meaning without a link to or from a page, the most similar first.
    ///
    /// # Errors
    /// Those of the index. A fault that the user should read is below 500: without search by
    /// meaning, or while the page is not embedded yet.
    fn similar(&self, caller: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault>;

    /// Names of the workflows, in order.
    ///
    /// # Errors
    /// Those of reading the definitions.
    fn workflows(&self, caller: &Caller) -> Result<Vec<String>, Fault>;

    /// The states of a workflow, each with the pages in it.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for a workflow that cannot be used; those of the index.
    fn board(&self, caller: &Caller, workflow: &str) -> Result<Vec<(String, Vec<TreePath>)>, Fault>;

    /// Moves a page to another state of its workflow.
    ///
    /// # Errors
    /// `NotAllowed` with the reason; those of writing the page.
    fn advance(&self, caller: &Caller, page: &TreePath, state: &str) -> Result<(), Fault>;

    /// Lint findings in the text of a page, in line order.
    ///
    /// # Errors
    /// When the rules cannot be loaded.
    fn lint(&self, caller: &Caller, text: &str) -> Result<Vec<LintFinding>, Fault>;
}

/// The pages that match a search or query.
#[derive(Debug, Clone, Default)]
pub struct PageHits {
    /// The pages, in order.
    pub pages: Vec<PageHit>,
    /// What is missing and how to get it, as text for the user; none if nothing is.
    pub missing: Option<String>,
}

impl From<Vec<PageHit>> for PageHits {
    fn from(pages: Vec<PageHit>) -> Self {
        Self { pages, missing: None }
    }
}

/// A page that matches a search or query.
#[derive(Debug, Clone)]
pub struct PageHit {
    /// Its path.
    pub path: TreePath,
    /// Its title.
    pub title: String,
}

/// A lint finding.
#[derive(Debug, Clone)]
pub struct LintFinding {
    /// The name of the violated rule.
    pub rule: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in that line, from 1, in characters.
    pub column: usize,
    /// `error` if it rejects a save, else `warning`.
    pub severity: String,
    /// Description.
    pub message: String,
}
