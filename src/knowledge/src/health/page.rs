//! How one page is doing.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Fault, TreePath};
use svcfs_index::Surveyed;

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
    let page = Surveyed {
        title: page.title,
        metadata: Value::Object(page.frontmatter),
        word_count: page.word_count,
        modified: page.modified,
        links: index.links_out(&path)?,
        path,
    };
    let reach = &cx.caller.reach;
    let backlinks = index.sources(&page.path)?.iter().filter(|source| reach.covers(source)).count();
    let review = Review::at(cx.now(), cx.settings().janitor.stale_days);
    let mut findings = survey::of_text(cx.space, &review, &page, reach)?;
    if backlinks == 0 {
        findings.extend(survey::unlinked(&page.path));
    }
    for dispute in disputes(index, reach)?.into_iter().filter(|dispute| dispute.pages.contains(&page.path)) {
        findings.push(Finding::new(page.path.clone(), FindingKind::Contradiction, dispute.details));
    }
    findings.sort_by_key(|finding| finding.kind);
    let days = (cx.now().as_second() - page.modified.as_second()).max(0) / 86_400;
    Ok(PageHealth {
        word_count: page.word_count,
        link_count: page.links.len(),
        backlink_count: backlinks,
        days_since_update: days,
        issues: findings.into_iter().map(|Finding { kind, message, .. }| PageIssue { kind, message }).collect(),
        path: page.path,
    })
}
