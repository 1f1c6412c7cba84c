//! How one page is doing.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Fault, TreePath};

use super::findings::{Finding, FindingKind};
use super::{Review, disputes, survey};
use crate::kernel::Cx;

/// How one page is doing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageHealth {
    /// Which page
    pub path: TreePath,
    /// Words of its text, frontmatter left out
    pub word_count: usize,
    /// Links in it to pages and other files of the tree
    pub link_count: usize,
    /// Other pages that link to it
    pub backlink_count: usize,
    /// Whole days since it was changed last
    pub days_since_update: i64,
    /// What is wrong with it; empty when nothing is
    pub issues: Vec<PageIssue>,
}

/// Something wrong with a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageIssue {
    /// What it is
    #[serde(rename = "type")]
    pub kind: FindingKind,
    /// The same in words
    pub message: String,
}

/// Looks at one page.
///
/// # Errors
/// `NotFound` when there is no such page; those of the index.
pub fn page_health(cx: &Cx<'_>, path: TreePath) -> Result<PageHealth, Fault> {
    let index = cx.index();
    let page = index.page(&path)?.ok_or_else(|| Fault::file_not_found(&path))?;
    let metadata = Value::Object(page.frontmatter);
    let (links, backlinks) = (index.links_out(&path)?, index.backlinks(&path, usize::MAX)?);
    let mut findings = Vec::new();
    let mut find = |kind, message: String| findings.push(Finding::new(path.clone(), kind, message));
    let review = Review::at(cx.now(), cx.settings().janitor.stale_days);
    if let Some((due, days)) = review.overdue(&metadata) {
        find(FindingKind::Stale, format!("was to be looked at again by {due}, {days} days ago"));
    }
    for link in &links {
        if link.resolved.is_none() && !survey::leads_to_file(cx.space, &path, link)? {
            find(FindingKind::BrokenLink, survey::broken(&path, link).message);
        }
    }
    if backlinks.is_empty() && !survey::is_entrance(&path) {
        find(FindingKind::Orphan, "is linked to by no other page".to_owned());
    }
    if page.word_count == 0 {
        find(FindingKind::Empty, "has no text".to_owned());
    }
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        find(FindingKind::MissingFrontmatter, "has no frontmatter that can be read".to_owned());
    }
    for dispute in disputes(index)?.into_iter().filter(|dispute| dispute.pages.contains(&path)) {
        find(FindingKind::Contradiction, dispute.details);
    }
    let days = (cx.now().as_second() - page.modified.as_second()).max(0) / 86_400;
    Ok(PageHealth {
        word_count: page.word_count,
        link_count: links.len(),
        backlink_count: backlinks.len(),
        days_since_update: days,
        issues: findings.into_iter().map(|Finding { kind, message, .. }| PageIssue { kind, message }).collect(),
        path,
    })
}
