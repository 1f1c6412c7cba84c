//! What the views ask of those who know what is in the pages.

use svcfs_base::{Caller, Fault, TreePath};

/// Says of one page after the other whether it is to be told of.
pub type PageFilter<'a> = &'a mut dyn FnMut(&TreePath) -> Result<bool, Fault>;

/// Who knows more of pages than where they are. The mount does not: whoever mounts a space hands it in. Every answer is the one
/// that the other doors give to the same question.
pub trait KnowledgeSource: Send + Sync {
    /// The pages that have these words, best first.
    ///
    /// # Errors
    /// What is wrong with the question, or why it cannot be answered.
    fn search(&self, caller: &Caller, words: &str) -> Result<Vec<PageHit>, Fault>;

    /// The pages that a query lists, or the saved view of that name, in its order.
    ///
    /// # Errors
    /// What is wrong with the query, or why it cannot be answered.
    fn query(&self, caller: &Caller, query: &str) -> Result<Vec<PageHit>, Fault>;

    /// The names of the saved views, in order.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn saved_queries(&self, caller: &Caller) -> Result<Vec<String>, Fault>;

    /// Every tag that a page has, each once, in order; of those pages only which are let through, where somebody says that.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn tags(&self, caller: &Caller, lets_through: Option<PageFilter<'_>>) -> Result<Vec<String>, Fault>;

    /// The pages that have a tag, in path order.
    ///
    /// # Errors
    /// What is wrong with the tag, or why it cannot be answered.
    fn pages_by_tag(&self, caller: &Caller, tag: &str) -> Result<Vec<PageHit>, Fault>;

    /// The pages that link to a page.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn backlinks(&self, caller: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault>;

    /// What is wrong with the text of a page, in line order.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn lint(&self, caller: &Caller, text: &str) -> Result<Vec<LintFinding>, Fault>;
}

/// A page that answers a question.
#[derive(Debug, Clone)]
pub struct PageHit {
    /// Where it is.
    pub path: TreePath,
    /// Its title.
    pub title: String,
}

/// One thing that is wrong with a page.
#[derive(Debug, Clone)]
pub struct LintFinding {
    /// Line, from 1.
    pub line: usize,
    /// Column in that line, from 1, in characters.
    pub column: usize,
    /// `error` for what refuses a save, `warning` for the rest.
    pub severity: String,
    /// What is wrong, in words.
    pub message: String,
}
